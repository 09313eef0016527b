//! The open turn of a run: the calls of one model answer, until each has its result.

use std::sync::Arc;

use toolnexus_core::{Answer, Request, ToolResult};

use super::event::{Args, ModelCall};

/// Where a call stands.
#[derive(Clone, PartialEq)]
pub(super) enum Phase {
    /// To be started: for the first time, or again with an answer.
    Planned,
    /// Taken up by the driver.
    Running,
    /// Waiting for an answer to its request.
    Suspended {
        /// What the transcript says meanwhile.
        output: String,
    },
    /// Over.
    Finished(Arc<ToolResult>),
}

/// One call of the turn.
#[derive(Clone, PartialEq)]
pub(super) struct OpenCall {
    pub(super) call: ModelCall,
    /// The arguments it runs with: the model's, or what replaced them when it was started.
    pub(super) args: Args,
    pub(super) phase: Phase,
    /// Whether it was ever started.
    pub(super) started: bool,
    /// Whether the tool makes media.
    pub(super) of_media: bool,
    /// What it asked, from its first suspension on.
    pub(super) request: Option<Request>,
    /// What came back.
    pub(super) answer: Option<Answer>,
    /// The open question whether to run it again, after its process ended while it ran.
    pub(super) doubt: Option<Request>,
    /// Whether that question was declined.
    pub(super) stays_interrupted: bool,
}

/// What the model reads of a call whose process ended while it ran.
pub(super) const INTERRUPTED: &str =
    "interrupted: the process stopped while this tool ran; its effect is unknown";

impl OpenCall {
    pub(super) fn new(call: ModelCall) -> Self {
        let args = Arc::clone(&call.args);
        OpenCall {
            call,
            args,
            phase: Phase::Planned,
            started: false,
            of_media: false,
            request: None,
            answer: None,
            doubt: None,
            stays_interrupted: false,
        }
    }

    pub(super) fn result(&self) -> Option<&Arc<ToolResult>> {
        match &self.phase {
            Phase::Finished(result) => Some(result),
            _ => None,
        }
    }

    /// The result of a call that must not be executed: it was refused, its arguments were
    /// unreadable, or its request was declined.
    pub(super) fn fixed_result(&self) -> Option<ToolResult> {
        if let Some(text) = &self.call.rejected {
            return Some(ToolResult::failure(text));
        }
        if self.stays_interrupted {
            return Some(ToolResult::failure(INTERRUPTED));
        }
        if let Some(reason) = &self.call.invalid {
            return Some(ToolResult::failure(format!(
                "invalid arguments for tool \"{}\": {reason}",
                self.call.name
            )));
        }
        let answer = self.answer.as_ref().filter(|answer| !answer.ok)?;
        let mut declined = serde_json::Map::new();
        declined.insert("ok".into(), false.into());
        if let Some(reason) = &answer.reason {
            declined.insert("reason".into(), reason.clone().into());
        }
        let mut metadata = serde_json::Map::new();
        metadata.insert("answer".into(), declined.into());
        Some(ToolResult::failure(format!("declined/expired: {}", self.asked())).with_metadata(metadata))
    }

    /// The request it waits for.
    pub(super) fn open_request(&self) -> Option<&Request> {
        match self.phase {
            Phase::Suspended { .. } => self.doubt.as_ref().or(self.request.as_ref()),
            _ => None,
        }
    }

    /// Whether it waits for an answer to the request of this id.
    pub(super) fn asks(&self, request_id: &str) -> bool {
        self.open_request().is_some_and(|request| request.id == request_id)
    }

    /// The prompt of the call's first request.
    pub(super) fn asked(&self) -> &str {
        self.request.as_ref().map(|request| request.prompt.as_str()).unwrap_or_default()
    }
}
