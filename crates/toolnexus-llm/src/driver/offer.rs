//! What the model is offered: which model it is, and which tools it may ask for.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use toolnexus_core::{Style, Toolkit, adapters};

use crate::run::Run;
use crate::tiers::TierPlan;
use crate::translate::with_properties;

/// The offer of a run. Hooks may change it for the rest of the run.
pub(super) struct Offer {
    pub(super) model: String,
    /// The tools array as a request carries it; `None` without tools.
    pub(super) tools: Option<Bytes>,
    /// The same as hooks see it, made when the first hook looks.
    declared: Option<Arc<Vec<Value>>>,
    style: Style,
    toolkit: Toolkit,
}

impl Offer {
    /// The toolkit's tools as they are now, or as the tiers show them; for a run that goes on, those of
    /// them that it was left with.
    pub(super) fn of(run: &Run, toolkit: &Toolkit, model: &str, tiers: Option<&TierPlan>) -> Self {
        let style = run.style();
        let (tools, declared) = match tiers {
            Some(plan) => {
                let tools = plan.tools_json();
                let declared: Vec<Value> = serde_json::from_slice(&tools).unwrap_or_default();
                (Some(tools), Some(Arc::new(declared)))
            }
            None => (toolkit.snapshot().request_json(style), None),
        };
        let mut offer = Offer { model: model.to_owned(), tools, declared, style, toolkit: toolkit.clone() };
        if let Some(names) = run.tool_names() {
            let mut left = (*offer.declared()).clone();
            keep_named(style, &mut left, names);
            offer.replace_tools(left);
        }
        offer
    }

    /// The tools as the style's adapter declares them.
    pub(super) fn declared(&mut self) -> Arc<Vec<Value>> {
        let declare = || {
            Arc::new(match self.style {
                Style::OpenAI => self.toolkit.to_openai(),
                Style::Anthropic => self.toolkit.to_anthropic(),
                Style::Gemini => self.toolkit.to_gemini(),
            })
        };
        Arc::clone(self.declared.get_or_insert_with(declare))
    }

    /// Takes a hook's list in place of the toolkit's; gives the names in it.
    pub(super) fn replace_tools(&mut self, tools: Vec<Value>) -> Vec<String> {
        let names = tools.iter().flat_map(|tool| names_of(self.style, tool)).map(str::to_owned).collect();
        self.tools = on_the_wire(self.style, &tools);
        self.declared = Some(Arc::new(tools));
        names
    }
}

/// The names that an entry of a tools array declares.
fn names_of(style: Style, tool: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match style {
        Style::OpenAI => Box::new(tool.pointer("/function/name").and_then(Value::as_str).into_iter()),
        Style::Anthropic => Box::new(tool.get("name").and_then(Value::as_str).into_iter()),
        Style::Gemini => {
            let declarations = tool.get("functionDeclarations").and_then(Value::as_array);
            let names = declarations.into_iter().flatten();
            Box::new(names.filter_map(|declaration| declaration.get("name").and_then(Value::as_str)))
        }
    }
}

/// Leaves the tools of these names in an adapter's list.
fn keep_named(style: Style, tools: &mut Vec<Value>, names: &[String]) {
    let known = |name: &str| names.iter().any(|known| known == name);
    if style != Style::Gemini {
        return tools.retain(|tool| names_of(style, tool).any(known));
    }
    // One entry declares them all.
    for declarations in
        tools.iter_mut().filter_map(|tool| tool.get_mut("functionDeclarations")?.as_array_mut())
    {
        declarations.retain(|declaration| declaration.get("name").and_then(Value::as_str).is_some_and(known));
    }
}

/// A hook's tools as the API accepts them; `None` when they declare nothing.
fn on_the_wire(style: Style, tools: &[Value]) -> Option<Bytes> {
    let sent: Vec<Value> = match style {
        Style::OpenAI => tools.iter().cloned().map(with_properties).collect(),
        Style::Anthropic => tools.to_vec(),
        Style::Gemini => tools.iter().filter_map(gemini_entry).collect(),
    };
    (!sent.is_empty()).then(|| Value::Array(sent).to_string().into())
}

/// An entry with its parameters in Gemini's words; `None` for one that declares nothing.
fn gemini_entry(entry: &Value) -> Option<Value> {
    let mut entry = entry.clone();
    let Some(declarations) = entry.get_mut("functionDeclarations").and_then(Value::as_array_mut) else {
        // A tool of the provider's own, such as a search.
        return Some(entry);
    };
    if declarations.is_empty() {
        return None;
    }
    for declaration in declarations.iter_mut().filter_map(Value::as_object_mut) {
        let cleaned = declaration.get("parameters").and_then(adapters::gemini_parameters);
        match cleaned {
            Some(parameters) => drop(declaration.insert("parameters".into(), parameters)),
            None => drop(declaration.shift_remove("parameters")),
        }
    }
    Some(entry)
}
