//! What stands between the run and the model: a place to keep text from the model, or to give it
//! other text.
//!
//! A [`ModelBoundary`] opens one [`BoundarySession`] for each run, stream, resume or translation.
//! Everything on its way to the wire is encoded on a copy; everything that comes back is decoded before
//! hooks, events, transcripts, stores and tools see it. What the session does with the text is its own
//! affair: this crate knows nothing of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use toolnexus_core::{Snapshot, Style, ToolResult, ToolSource};

use crate::Transcript;
use crate::run::{ModelAnswer, ModelCall};

/// Opens a session for each execution.
pub trait ModelBoundary: Send + Sync {
    /// A session for one run, stream, resume or translation in this style.
    fn open(&self, style: Style) -> Box<dyn BoundarySession>;
}

/// The boundary of one execution. Its methods are called one at a time, in the order of the run.
pub trait BoundarySession: Send {
    /// Takes note of the tools there are, and of where each comes from. Called before the tools array is
    /// encoded, whenever that is.
    fn note_tools(&mut self, tools: &Snapshot) {
        let _ = tools;
    }

    /// The tools array as the model shall see it. Called whenever the array changes, before the messages
    /// of that request are encoded.
    fn encode_tools(&mut self, tools: Vec<Value>) -> Vec<Value>;

    /// The system text (empty where the style keeps it in the transcript) and the transcript as the
    /// model shall see them. Messages that need no change are best given back as they are: their
    /// bytes are then not written again.
    fn encode_messages(&mut self, system: &str, messages: &Transcript) -> (String, Transcript);

    /// The model's turn as the host shall see it: message, text, and the calls' names and arguments. A
    /// call whose [`rejected`](ModelCall::rejected) is set does not run; the model reads that text.
    fn decode(&mut self, answer: ModelAnswer) -> ModelAnswer;

    /// A piece of streamed text as the host shall see it. What cannot be decided yet is held back; an
    /// empty text is no event.
    fn decode_text(&mut self, piece: &str) -> String;

    /// What was held back, at the end of a streamed turn.
    fn flush_text(&mut self) -> String;

    /// Takes note of a call's final result, and of where its tool came from. The call has the arguments
    /// that its tool ran with. Calls of one turn come in the order in which they end.
    fn note_result(&mut self, call: &ModelCall, source: Option<ToolSource>, result: &Arc<ToolResult>);
}

/// The session of a run, which the parts of the run use in turn.
pub(crate) struct Boundary(Mutex<Open>);

struct Open {
    session: Box<dyn BoundarySession>,
    /// The serialised tools array that was encoded last, and what it became.
    tools: Option<(Bytes, Option<Bytes>)>,
}

impl Boundary {
    pub(crate) fn new(session: Box<dyn BoundarySession>) -> Self {
        Boundary(Mutex::new(Open { session, tools: None }))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn encode_messages(&self, system: &str, messages: &Transcript) -> (String, Transcript) {
        self.open().session.encode_messages(system, messages)
    }

    /// The serialised tools array, encoded once as long as it stays the same; `None` when nothing is left
    /// of it.
    pub(crate) fn encode_tools(&self, tools: &Bytes, snapshot: &Snapshot) -> Option<Bytes> {
        let open = &mut *self.open();
        if let Some((plain, encoded)) = &open.tools
            && plain == tools
        {
            return encoded.clone();
        }
        // The array is the client's own JSON.
        let list: Vec<Value> = serde_json::from_slice(tools).unwrap_or_default();
        open.session.note_tools(snapshot);
        let list = open.session.encode_tools(list);
        let encoded = (!list.is_empty()).then(|| Bytes::from(Value::Array(list).to_string()));
        open.tools = Some((tools.clone(), encoded.clone()));
        encoded
    }

    pub(crate) fn decode(&self, answer: ModelAnswer) -> ModelAnswer {
        self.open().session.decode(answer)
    }

    pub(crate) fn decode_text(&self, piece: &str) -> String {
        self.open().session.decode_text(piece)
    }

    pub(crate) fn flush_text(&self) -> String {
        self.open().session.flush_text()
    }

    pub(crate) fn note_result(&self, call: &ModelCall, source: Option<ToolSource>, result: &Arc<ToolResult>) {
        self.open().session.note_result(call, source, result);
    }
}

impl std::fmt::Debug for Boundary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Boundary").finish_non_exhaustive()
    }
}
