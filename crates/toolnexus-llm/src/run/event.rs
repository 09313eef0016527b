//! What can happen to a run.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use toolnexus_core::{Answer, Request, Style, ToolResult};

use crate::{FinishReason, Message, Prompt, RunStatus, Transcript, Usage};

/// The arguments of a call, shared between events, the run and the tool.
pub type Args = Arc<Map<String, Value>>;

/// One tool call as the model asked for it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The model's id for the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; empty where the model's could not be read.
    pub args: Args,
    /// Why the arguments could not be read. Such a call is answered with an error and never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// Why a model boundary refuses the call: the text that the model reads instead of a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// The tool that the model called to make this call, when it did not call the tool by its own
    /// name. The provider knows the call under that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

impl ModelCall {
    /// The name under which the provider knows the call.
    pub(crate) fn name_on_the_wire(&self) -> &str {
        self.via.as_deref().unwrap_or(&self.name)
    }
}

/// What a run starts from.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run's id; empty for a run that nobody records.
    #[serde(default)]
    pub run_id: String,
    /// The dialect of its transcript.
    pub style: Style,
    /// The model, as configured.
    pub model: String,
    /// The system text; empty for none.
    #[serde(default)]
    pub system: String,
    /// The transcript it continues; empty for a new conversation.
    #[serde(default)]
    pub history: Transcript,
    /// What is asked.
    pub prompt: Prompt,
    /// The most model calls it may make.
    pub max_turns: u32,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
}

/// One thing that happened to a run. A run is the fold of these.
///
/// As JSON each event is an object tagged by `type` with the format version `v`. No event holds a
/// key, header, URL or environment value.
///
/// ```
/// use toolnexus_llm::run::RunEvent;
/// let json = serde_json::to_string(&RunEvent::Resumed { model: None }).unwrap();
/// assert_eq!(json, r#"{"v":1,"type":"resumed"}"#);
/// assert_eq!(serde_json::from_str::<RunEvent>(&json).unwrap(), RunEvent::Resumed { model: None });
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", remote = "Self")]
pub enum RunEvent {
    /// The run began. Always the first event, and only the first.
    Started(RunStarted),
    /// A hook replaced the working transcript.
    MessagesReplaced {
        /// The new transcript.
        messages: Transcript,
    },
    /// A hook replaced the tools that the model is told of.
    ToolsReplaced {
        /// Their names.
        names: Vec<String>,
    },
    /// The model answered.
    ModelAnswered(ModelAnswer),
    /// Calls were taken up: about to run, or about to be answered without running.
    ToolStarted {
        /// Which calls of the turn.
        indices: Vec<usize>,
        /// The arguments that each of them runs with, in the same order.
        args: Vec<Args>,
        /// Those of them whose tool makes media (its source is `media`): of the parts of such a
        /// result only images enter the transcript.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<usize>,
    },
    /// A call ended.
    ToolFinished {
        /// Which call of the turn.
        index: usize,
        /// Its result.
        result: Arc<ToolResult>,
    },
    /// A call asks somebody outside.
    Suspended {
        /// Which call of the turn.
        index: usize,
        /// What it asks.
        request: Request,
        /// What the transcript says while the request is open.
        #[serde(default)]
        output: String,
        /// Whether the question is not the tool's own, but whether to run it again: its process
        /// ended while it ran.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_doubt: bool,
    },
    /// An open request was answered.
    Answered {
        /// The id of the request.
        request_id: String,
        /// The answer.
        answer: Answer,
    },
    /// The run is over.
    Finished {
        /// How it ended.
        status: RunStatus,
        /// The limit that stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<String>,
        /// The final text, where the limit's own explanation is the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A driver gave up (a provider error, a cancel, a deadline). The run itself can go on.
    Failed {
        /// What went wrong.
        error: String,
    },
    /// A driver took the run up again.
    Resumed {
        /// The model from here on, where it is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

/// One turn of the model.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// The assistant's message for the transcript, verbatim; `None` when it is empty in a way
    /// that providers refuse to read back.
    #[serde(default)]
    pub message: Option<Message>,
    /// Its text.
    #[serde(default)]
    pub text: String,
    /// The calls it asks for, in order.
    #[serde(default)]
    pub calls: Vec<ModelCall>,
    /// The tokens of this call.
    #[serde(default)]
    pub usage: Usage,
    /// How the turn ended.
    pub finish_reason: FinishReason,
}

impl RunEvent {
    /// The `type` of the event.
    pub const fn kind(&self) -> &'static str {
        match self {
            RunEvent::Started(_) => "started",
            RunEvent::MessagesReplaced { .. } => "messages_replaced",
            RunEvent::ToolsReplaced { .. } => "tools_replaced",
            RunEvent::ModelAnswered(_) => "model_answered",
            RunEvent::ToolStarted { .. } => "tool_started",
            RunEvent::ToolFinished { .. } => "tool_finished",
            RunEvent::Suspended { .. } => "suspended",
            RunEvent::Answered { .. } => "answered",
            RunEvent::Finished { .. } => "finished",
            RunEvent::Failed { .. } => "failed",
            RunEvent::Resumed { .. } => "resumed",
        }
    }
}

/// The version that this build writes, and the newest it reads.
pub(crate) const VERSION: u64 = 1;

// The derives above write and read an event without its version (`remote = "Self"` makes them
// plain functions); these two put the version around it.

impl Serialize for RunEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Bare<'a>(&'a RunEvent);
        impl Serialize for Bare<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                RunEvent::serialize(self.0, serializer)
            }
        }
        #[derive(Serialize)]
        struct Versioned<'a> {
            v: u64,
            #[serde(flatten)]
            event: Bare<'a>,
        }
        Versioned { v: VERSION, event: Bare(self) }.serialize(serializer)
    }
}

/// How the refusal of a newer event begins; [`super::RunError`] knows it by this.
pub(crate) const NEWER: &str = "run event of format version ";

impl<'de> Deserialize<'de> for RunEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let value = Value::deserialize(deserializer)?;
        let version = match value.get("v") {
            None => VERSION,
            Some(version) => version
                .as_u64()
                .ok_or_else(|| D::Error::custom(format!("\"v\" is {version}, not a format version")))?,
        };
        if version > VERSION {
            return Err(D::Error::custom(format!("{NEWER}{version}, this build reads up to {VERSION}")));
        }
        RunEvent::deserialize(value).map_err(D::Error::custom)
    }
}
