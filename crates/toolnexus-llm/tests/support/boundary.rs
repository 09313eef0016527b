//! A model boundary with two fixed handles, which notes what it is asked.

use std::sync::Arc;

use serde_json::Value;
use toolnexus_core::{ToolResult, ToolSource};
use toolnexus_llm::run::{ModelAnswer, ModelCall};
use toolnexus_llm::{BoundarySession, Message, ModelBoundary, Style, Transcript};

use super::hooks::Seen;

/// What the host says, and what the model says instead.
const HANDLES: [(&str, &str); 2] = [("https://real/1", "h#1;"), ("lookup", "fn_1")];

/// A call whose arguments hold this is rejected.
pub(crate) const FORGED: &str = "h#9;";

/// What the model reads of such a call.
pub(crate) const REJECTION: &str = "there is no such handle";

pub(crate) fn encoded(text: &str) -> String {
    HANDLES.iter().fold(text.to_owned(), |text, (plain, handle)| text.replace(plain, handle))
}

pub(crate) fn decoded(text: &str) -> String {
    HANDLES.iter().fold(text.to_owned(), |text, (plain, handle)| text.replace(handle, plain))
}

/// Whether a text holds something that only the host may read, or only the model.
pub(crate) fn is_plain(text: &str) -> bool {
    HANDLES.iter().all(|(_, handle)| !text.contains(handle))
}

pub(crate) fn is_encoded(text: &str) -> bool {
    HANDLES.iter().all(|(plain, _)| !text.contains(plain))
}

/// Changes every text in a value.
fn each_text(value: &Value, change: fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(list) => list.iter().map(|value| each_text(value, change)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), each_text(value, change))).collect())
        }
        other => other.clone(),
    }
}

/// The boundary. Sessions note their calls in `log`, and what they are asked about in the other lists.
#[derive(Clone)]
pub(crate) struct Handles {
    pub(crate) log: Seen<&'static str>,
    pub(crate) opened: Seen<Style>,
    pub(crate) systems: Seen<String>,
    /// Names and outputs of the results that were noted.
    pub(crate) results: Seen<(String, String)>,
}

impl Handles {
    pub(crate) fn new() -> Arc<Self> {
        Handles::logging_to(Seen::new())
    }

    pub(crate) fn logging_to(log: Seen<&'static str>) -> Arc<Self> {
        Arc::new(Handles { log, opened: Seen::new(), systems: Seen::new(), results: Seen::new() })
    }
}

impl ModelBoundary for Handles {
    fn open(&self, style: Style) -> Box<dyn BoundarySession> {
        self.opened.push(style);
        Box::new(Session { of: self.clone(), held: String::new() })
    }
}

struct Session {
    of: Handles,
    /// The end of the streamed text that may be the beginning of a handle.
    held: String,
}

impl BoundarySession for Session {
    fn encode_tools(&mut self, tools: Vec<Value>) -> Vec<Value> {
        self.of.log.push("encode_tools");
        tools.iter().map(|tool| each_text(tool, encoded)).collect()
    }

    fn encode_messages(&mut self, system: &str, messages: &Transcript) -> (String, Transcript) {
        self.of.log.push("encode_messages");
        self.of.systems.push(system.to_owned());
        let messages = messages.iter().map(|message| Message::from(each_text(message, encoded)));
        (encoded(system), messages.collect())
    }

    fn decode(&mut self, mut answer: ModelAnswer) -> ModelAnswer {
        self.of.log.push("decode");
        answer.message = answer.message.map(|message| Message::from(each_text(&message, decoded)));
        answer.text = decoded(&answer.text);
        for call in &mut answer.calls {
            let args = each_text(&Value::Object((*call.args).clone()), decoded);
            if args.to_string().contains(FORGED) {
                call.rejected = Some(REJECTION.into());
            }
            call.name = decoded(&call.name);
            call.args = Arc::new(args.as_object().unwrap().clone());
        }
        answer
    }

    fn decode_text(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let open = (0..self.held.len()).find(|at| {
            self.held.get(*at..).is_some_and(|end| {
                HANDLES.iter().any(|(_, handle)| handle.len() > end.len() && handle.starts_with(end))
            })
        });
        let rest = self.held.split_off(open.unwrap_or(self.held.len()));
        decoded(&std::mem::replace(&mut self.held, rest))
    }

    fn flush_text(&mut self) -> String {
        decoded(&std::mem::take(&mut self.held))
    }

    fn note_result(&mut self, call: &ModelCall, _source: Option<ToolSource>, result: &Arc<ToolResult>) {
        self.of.log.push("note_result");
        self.of.results.push((call.name.clone(), result.output.clone()));
    }
}
