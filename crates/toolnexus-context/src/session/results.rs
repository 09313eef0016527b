//! What the tools of this run returned, as the model sees it.
//!
//! Results come in the order in which calls end; their views are made when the transcript asks for
//! them, message by message, so that numbers do not depend on which of two calls was faster.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use toolnexus_core::{ToolResult, ToolSource};
use toolnexus_llm::run::{Args, ModelCall};

use crate::Registry;
use crate::encode::Views;

/// The results of this run.
#[derive(Default)]
pub(super) struct Results {
    /// In the order of the calls, as far as it is known.
    calls: Vec<Noted>,
}

/// A call, and its result once there is one.
struct Noted {
    id: String,
    name: String,
    /// The tool that the model called to make the call.
    via: Option<String>,
    result: Option<Returned>,
}

struct Returned {
    source: Option<ToolSource>,
    /// What the tool ran with.
    args: Args,
    result: Arc<ToolResult>,
    view: OnceCell<String>,
    /// Whether a message of the present encoding has it.
    is_shown: Cell<bool>,
    /// Whether its evidence is registered.
    is_evident: bool,
}

impl Results {
    /// These calls come next, in this order.
    pub(super) fn expect(&mut self, calls: &[ModelCall]) {
        self.calls.extend(calls.iter().map(Noted::of));
    }

    /// A call has its final result.
    pub(super) fn note(&mut self, call: &ModelCall, source: Option<ToolSource>, result: &Arc<ToolResult>) {
        let returned = Returned {
            source,
            args: Arc::clone(&call.args),
            result: Arc::clone(result),
            view: OnceCell::new(),
            is_shown: Cell::new(false),
            is_evident: false,
        };
        let expected = |noted: &&mut Noted| noted.result.is_none() && noted.is_of(call);
        match self.calls.iter_mut().rev().find(expected) {
            Some(noted) => noted.result = Some(returned),
            // A call that another process heard of.
            None => self.calls.push(Noted { result: Some(returned), ..Noted::of(call) }),
        }
    }

    /// The transcript is encoded from its beginning: every result may be shown again.
    pub(super) fn begin_anew(&self) {
        self.returned().for_each(|(_, returned)| returned.is_shown.set(false));
    }

    /// What the calls that succeeded were about was retrieved.
    pub(super) fn register_evidence(&mut self, registry: &Registry) {
        for noted in &mut self.calls {
            let Some(returned) = noted.result.as_mut().filter(|returned| !returned.is_evident) else {
                continue;
            };
            returned.is_evident = true;
            if !returned.result.is_error
                && let Ok(args) = serde_json::to_string(&*returned.args)
            {
                registry.register_evidence(&noted.name, &args);
            }
        }
    }

    /// The views, made in `registry`.
    pub(super) fn views<'r>(&'r self, registry: &'r Registry) -> ResultViews<'r> {
        ResultViews { results: self, registry }
    }

    fn returned(&self) -> impl DoubleEndedIterator<Item = (&Noted, &Returned)> {
        self.calls.iter().filter_map(|noted| Some((noted, noted.result.as_ref()?)))
    }
}

impl Noted {
    fn of(call: &ModelCall) -> Self {
        Noted { id: call.id.clone(), name: call.name.clone(), via: call.via.clone(), result: None }
    }

    fn is_of(&self, call: &ModelCall) -> bool {
        self.id == call.id && self.name == call.name
    }

    /// Whether a message that names this call and tool may hold the result. Gemini's calls may lack an
    /// id, and the transcript knows a call under the name that the model called.
    fn may_be(&self, call_id: &str, tool: &str) -> bool {
        if call_id.is_empty() {
            self.name == tool || self.via.as_deref() == Some(tool)
        } else {
            self.id == call_id
        }
    }
}

/// The views of the results of this run.
pub(super) struct ResultViews<'r> {
    results: &'r Results,
    registry: &'r Registry,
}

impl Views for ResultViews<'_> {
    fn view(&self, call_id: &str, tool: &str, output: &str) -> Option<String> {
        let is_it = |(noted, returned): &(&Noted, &Returned)| {
            noted.may_be(call_id, tool) && returned.result.output == output
        };
        // Ids may come again in another turn, with the same text: each message has its own result.
        let fits = || self.results.returned().filter(is_it);
        let (noted, returned) =
            fits().find(|(_, returned)| !returned.is_shown.get()).or_else(|| fits().next_back())?;
        returned.is_shown.set(true);
        let view = || self.registry.tool_result_view(&noted.name, returned.source, &returned.result);
        Some(returned.view.get_or_init(view).clone())
    }
}
