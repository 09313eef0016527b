//! What a run gives back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolnexus_core::{ContentPart, PartKind, Request, ToolResult};

use crate::{FinishReason, Transcript, Usage};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The model answered without asking for tools.
    Done,
    /// A tool waits for an answer from outside and nobody here can give it.
    Pending,
    /// A limit stopped the run; see [`RunResult::limit`].
    Incomplete,
}

impl RunStatus {
    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunStatus::Done => "done",
            RunStatus::Pending => "pending",
            RunStatus::Incomplete => "incomplete",
        }
    }
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The limits that make a run `incomplete`, as [`RunResult::limit`] spells them.
pub mod limits {
    /// As many model calls as `max_turns` allows were made, and the last still asked for tools.
    pub const MAX_TURNS: &str = "maxTurns";
    /// A part of the prompt cannot be sent to this provider.
    pub const CONTENT_PART: &str = "contentPart";
    /// A deadline passed.
    pub const TIMEOUT: &str = "timeout";
}

/// One tool call of a run, as it was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRecord {
    /// The tool that ran.
    pub name: String,
    /// The arguments it ran with.
    pub args: Map<String, Value>,
    /// The text the model read.
    pub output: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// What the tool told the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The parts of the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentPart>,
    /// The tool through which the call came, when it was not called by its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

impl ToolCallRecord {
    pub(crate) fn new(name: String, args: Map<String, Value>, result: ToolResult) -> Self {
        ToolCallRecord {
            name,
            args,
            output: result.output,
            is_error: result.is_error,
            metadata: result.metadata,
            parts: result.parts,
            via: None,
        }
    }
}

/// A file that a tool of the run produced. Exactly one of `url` and `data` is set.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFile {
    /// Image, file or audio.
    #[serde(rename = "type")]
    pub kind: PartKind,
    /// The mime type.
    pub mime_type: String,
    /// Where it can be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The tool that produced it.
    pub from: String,
    /// The id of the call that produced it.
    pub call_id: String,
}

/// Shows the size and never the data.
impl std::fmt::Debug for RunFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunFile")
            .field("kind", &self.kind)
            .field("mime_type", &self.mime_type)
            .field("url", &self.url)
            .field("data_chars", &self.data.as_ref().map(String::len))
            .field("from", &self.from)
            .field("call_id", &self.call_id)
            .finish()
    }
}

impl RunFile {
    pub(crate) fn of_parts<'a>(
        parts: &'a [ContentPart],
        from: &'a str,
        call_id: &'a str,
    ) -> impl Iterator<Item = RunFile> + 'a {
        parts.iter().filter_map(move |part| {
            Some(RunFile {
                kind: part.kind(),
                mime_type: part.mime_type()?.to_owned(),
                url: part.url().map(str::to_owned),
                data: part.data().map(str::to_owned),
                from: from.to_owned(),
                call_id: call_id.to_owned(),
            })
        })
    }
}

/// The result of a run that ended without an error.
///
/// Its JSON is in camelCase; what is unset or empty is left out where the type says `Option`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// The model's final text. With status `pending`, what the open request asks.
    pub text: String,
    /// The whole transcript in the provider's shape; valid as the history of another run.
    pub messages: Transcript,
    /// Every tool call, in call order.
    pub tool_calls: Vec<ToolCallRecord>,
    /// `tool_calls.len()`.
    pub tool_call_count: usize,
    /// Model calls made.
    pub turns: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// The model, as configured.
    pub model: String,
    /// How the run ended.
    pub status: RunStatus,
    /// Which limit stopped the run; set exactly when `status` is incomplete. See [`limits`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How the last model turn ended: a `done` answer with `length` was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// The open request; set exactly when `status` is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Request>,
    /// Every open request of a durable run, in call order: each can be answered by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_requests: Vec<Request>,
    /// The id of a durable run in its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Files that tools produced, in call order.
    #[serde(default)]
    pub files: Vec<RunFile>,
}
