//! What the tools of this run returned, as the model sees it.
//!
//! Results come in the order in which calls end; their views are made when the transcript asks for
//! them, message by message, so that numbers do not depend on which of two calls was faster.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
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
    /// The calls of each id that have no result yet.
    expected: HashMap<String, Vec<usize>>,
    /// The calls whose results look alike, sorted: of one call id, or of one tool where calls have no ids,
    /// with one text.
    alike: HashMap<u64, Vec<usize>>,
    hashing: RandomState,
    /// The calls whose evidence is not registered.
    unregistered: Vec<usize>,
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
}

/// What a message says of the call whose result it holds.
#[derive(Hash, Clone, Copy)]
enum Label<'l> {
    Id(&'l str),
    /// Gemini's calls may lack an id. The transcript knows a call by the name that the model called.
    Tool(&'l str),
}

impl<'l> Label<'l> {
    fn of(call_id: &'l str, tool: &'l str) -> Self {
        if call_id.is_empty() { Label::Tool(tool) } else { Label::Id(call_id) }
    }
}

impl Results {
    /// These calls come next, in this order.
    pub(super) fn expect(&mut self, calls: &[ModelCall]) {
        for call in calls {
            self.expected.entry(call.id.clone()).or_default().push(self.calls.len());
            self.calls.push(Noted::of(call));
        }
    }

    /// A call has its final result.
    pub(super) fn note(&mut self, call: &ModelCall, source: Option<ToolSource>, result: &Arc<ToolResult>) {
        let at = self.place_of(call);
        let labels = [Label::Id(&call.id), Label::Tool(&call.name)];
        for label in labels.into_iter().chain(call.via.as_deref().map(Label::Tool)) {
            let alike = self.alike.entry(self.look_of(label, &result.output)).or_default();
            let before = alike.partition_point(|other| *other < at);
            alike.insert(before, at);
        }
        self.unregistered.push(at);
        if let Some(noted) = self.calls.get_mut(at) {
            noted.result = Some(Returned {
                source,
                args: Arc::clone(&call.args),
                result: Arc::clone(result),
                view: OnceCell::new(),
            });
        }
    }

    /// Where the call stands; at the end if another process heard of it.
    fn place_of(&mut self, call: &ModelCall) -> usize {
        let expected = self.expected.get_mut(&call.id).and_then(|calls| {
            let is_it = |at: &usize| self.calls.get(*at).is_some_and(|noted| noted.name == call.name);
            let position = calls.iter().position(is_it)?;
            Some(calls.remove(position))
        });
        expected.unwrap_or_else(|| {
            self.calls.push(Noted::of(call));
            self.calls.len() - 1
        })
    }

    fn look_of(&self, label: Label<'_>, output: &str) -> u64 {
        self.hashing.hash_one((label, output))
    }

    /// What the calls that succeeded were about was retrieved.
    pub(super) fn register_evidence(&mut self, registry: &Registry) {
        let mut unregistered = std::mem::take(&mut self.unregistered);
        unregistered.sort_unstable();
        for noted in unregistered.into_iter().filter_map(|at| self.calls.get(at)) {
            if let Some(returned) = noted.result.as_ref().filter(|returned| !returned.result.is_error)
                && let Ok(args) = serde_json::to_string(&*returned.args)
            {
                registry.register_evidence(&noted.name, &args);
            }
        }
    }

    /// The views, made in `registry`, for one encoding.
    pub(super) fn views<'r>(&'r self, registry: &'r Registry) -> ResultViews<'r> {
        ResultViews { results: self, registry, ahead: RefCell::default() }
    }
}

impl Noted {
    fn of(call: &ModelCall) -> Self {
        Noted { id: call.id.clone(), name: call.name.clone(), via: call.via.clone(), result: None }
    }

    fn is_of(&self, label: Label<'_>) -> bool {
        match label {
            Label::Id(id) => self.id == id,
            Label::Tool(tool) => self.name == tool || self.via.as_deref() == Some(tool),
        }
    }
}

/// The views of the results of this run.
///
/// Results may look alike: providers give ids again, and tools say the same again. What is encoded always
/// ends where the transcript does. So messages and calls are matched from their ends: what stands before
/// the first call of this run is of an earlier one, and calls whose messages were summarised are skipped.
pub(super) struct ResultViews<'r> {
    results: &'r Results,
    registry: &'r Registry,
    /// How many results of one look are to be asked for.
    ahead: RefCell<HashMap<u64, usize>>,
}

impl ResultViews<'_> {
    /// How many results of this look are to be asked for, the one that is asked for now among them.
    fn take_ahead(&self, look: u64) -> usize {
        let mut ahead = self.ahead.borrow_mut();
        let ahead = ahead.entry(look).or_default();
        let taken = *ahead;
        *ahead = taken.saturating_sub(1);
        taken.max(1)
    }
}

impl Views for ResultViews<'_> {
    fn announce(&self, call_id: &str, tool: &str, output: &str) {
        let look = self.results.look_of(Label::of(call_id, tool), output);
        if self.results.alike.contains_key(&look) {
            *self.ahead.borrow_mut().entry(look).or_default() += 1;
        }
    }

    fn view(&self, call_id: &str, tool: &str, output: &str) -> Option<String> {
        let label = Label::of(call_id, tool);
        let look = self.results.look_of(label, output);
        let alike = self.results.alike.get(&look)?;
        let at = alike.get(alike.len().checked_sub(self.take_ahead(look))?)?;
        let noted = self.results.calls.get(*at).filter(|noted| noted.is_of(label))?;
        let returned = noted.result.as_ref().filter(|returned| returned.result.output == output)?;
        let view = || self.registry.tool_result_view(&noted.name, returned.source, &returned.result);
        Some(returned.view.get_or_init(view).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str) -> ModelCall {
        ModelCall { id: id.into(), name: name.into(), ..Default::default() }
    }

    fn noted(results: &mut Results, call: &ModelCall, output: &str) {
        results.note(call, None, &Arc::new(ToolResult::success(output)));
    }

    // CTX-103: a view belongs to a call and to the text that is stored for it
    #[test]
    fn a_view_is_found_by_call_and_text() {
        let registry = Registry::new(true);
        let mut results = Results::default();
        let (first, second) =
            (call("1", "look"), ModelCall { via: Some("call_tool".into()), ..call("2", "look") });
        results.expect(&[first.clone(), second.clone()]);
        noted(&mut results, &second, "b");
        noted(&mut results, &first, "a");
        let views = results.views(&registry);
        assert_eq!(views.view("1", "look", "a").as_deref(), Some("a"));
        assert_eq!(views.view("1", "look", "b"), None);
        assert_eq!(views.view("", "look", "b").as_deref(), Some("b"));
        assert_eq!(views.view("", "call_tool", "b").as_deref(), Some("b"));
        assert_eq!(views.view("", "other", "b"), None);
        assert_eq!(views.view("3", "look", "a"), None);
    }

    // CTX-103: many results of one turn are found in a time that grows with their number
    #[test]
    fn ten_thousand_results_of_one_id_and_text() {
        let registry = Registry::new(true);
        let mut results = Results::default();
        let calls: Vec<ModelCall> = (0..10_000).map(|at| call(&at.to_string(), "look")).collect();
        results.expect(&calls);
        calls.iter().rev().for_each(|call| noted(&mut results, call, "same"));
        let views = results.views(&registry);
        for id in calls.iter().map(|call| call.id.as_str()) {
            views.announce(id, "look", "same");
            views.announce("", "look", "same");
        }
        assert!(calls.iter().all(|call| views.view(&call.id, "look", "same").is_some()));
        assert!(calls.iter().all(|_| views.view("", "look", "same").is_some()));
    }
}
