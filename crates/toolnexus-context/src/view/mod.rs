//! What the model sees of a tool's result. The result itself stays durable: people, logs, events and
//! stores keep it.
//!
//! ```text
//! metadata.context ── renderer ──► tags and texts ──┐
//!                       (none: the plain output)    ├─► each text shortened ─► links listed ─► view
//! output, error ── labels, citations, private ids ──┘
//! ```
//!
//! * `renderer`: what a [`Renderer`] is, and the [`ResultView`] that it writes.
//! * `fields`: reading the loosely typed rows of structured results.
//! * `knowledge`, `documents`, `web`, `database`: the renderers of the crate.
//! * `labelled`: ids that a plain result labels as such.
//! * `private`: ids that JSON results hold under keys of private spaces.
//! * `images`: notes that name the sources of images.
//! * `sidecar`: the links of a result from outside.
//!
//! Everything is registered before any text is shortened. So the view of a result is the same when it is
//! made again. Each text is shortened before it is escaped and put between tags, and never again: in what
//! is written then, a tag or an entity could pass for a part of a reference.

mod database;
mod documents;
mod fields;
mod images;
mod knowledge;
mod labelled;
mod private;
mod renderer;
mod sidecar;
mod web;

use std::borrow::Cow;

use serde_json::{Map, Value};
use toolnexus_core::{Tool, ToolResult, ToolSource};

use crate::json_text::rewrite_strings;
use crate::settings::{Policy, Settings};
use crate::{Evidence, Registry};

pub use renderer::{Renderer, ResultView, Tag};

/// The one `display_type` that is rendered for failed results too: its pages fail one by one.
const WEB_FETCH: &str = "web_fetch_results";

impl Registry {
    /// What the model sees of a result of a tool without a name: rendered, and known sources shortened.
    /// Text in it is taken for the application's own, so give it none of others.
    pub fn model_tool_result(&self, result: &ToolResult) -> String {
        let treatment = Treatment { render: true, compact: true, ..Treatment::default() };
        self.result_view(treatment, result)
    }

    /// What the model sees of a result of the tool of that name, as the tool's policy has it: private ids,
    /// resources and durable URIs as handles, structured data rendered, known sources shortened, and the
    /// links of a result from outside listed below. What a successful result shows can be cited. The same
    /// result gives the same text again.
    ///
    /// ```
    /// use toolnexus_context::{Registry, RegistryConfig, ToolPolicy};
    /// use toolnexus_core::ToolResult;
    /// let config = RegistryConfig::default().policy("read_page", ToolPolicy::default().rendered());
    /// let registry = Registry::with_config(config).unwrap();
    /// let result = ToolResult::success(r#"<chunk chunk_id="36283d3d" knowledge_title="Plan">Go.</chunk>"#);
    /// let view = registry.model_tool_result_for_tool("read_page", &result);
    /// assert_eq!(view, r#"<chunk chunk_id="chunk://1" knowledge_title="Plan">Go.</chunk>"#);
    /// ```
    pub fn model_tool_result_for_tool(&self, tool: &str, result: &ToolResult) -> String {
        let source = self.is_mcp_tool(tool).then_some(ToolSource::Mcp);
        self.tool_result_view(tool, source, result)
    }

    /// [`model_tool_result_for_tool`](Self::model_tool_result_for_tool) for a tool at hand, which says
    /// itself whether it is one of an MCP server.
    pub fn model_tool_result_of(&self, tool: &Tool, result: &ToolResult) -> String {
        self.tool_result_view(&tool.name, Some(tool.source), result)
    }

    pub(crate) fn tool_result_view(
        &self,
        tool: &str,
        source: Option<ToolSource>,
        result: &ToolResult,
    ) -> String {
        let treatment = Treatment::of(tool, self.settings());
        let lists_links = sidecar::lists_links(tool, source, treatment.policy) && self.settings().citations;
        self.result_view(Treatment { lists_links, ..treatment }, result)
    }

    /// The view of a result that comes from a transcript: its tool, where that is known, and its text.
    /// What is registered here is for navigation.
    pub(crate) fn replayed_result_view(&self, tool: Option<&str>, output: &str) -> String {
        let treatment = tool.map(|tool| Treatment::of(tool, self.settings())).unwrap_or_default();
        let steps = Steps { registry: self, treatment, evidence: Evidence::NavigationOnly };
        steps.mine(output);
        steps.shown(output)
    }

    fn result_view(&self, treatment: Treatment<'_>, result: &ToolResult) -> String {
        let evidence = if result.is_error { Evidence::NavigationOnly } else { Evidence::Current };
        let steps = Steps { registry: self, treatment, evidence };
        // First, or a body that is compacted would be another when its links are known.
        let links = if treatment.lists_links && !result.is_error {
            self.list_of_links(&result.output)
        } else {
            String::new()
        };
        steps.body(result) + &links
    }
}

/// What is done with the results of one tool. Nothing, for a dynamic one.
#[derive(Clone, Copy, Default)]
struct Treatment<'s> {
    /// Its name; empty for the generic form.
    tool: &'s str,
    /// For the keys of private spaces, and for directories.
    policy: Option<&'s Policy>,
    /// Structured results have views, and labels in plain ones are read.
    render: bool,
    /// Public citations are read.
    citations: bool,
    /// Known values become handles.
    compact: bool,
    /// Links are listed below a successful result.
    lists_links: bool,
}

impl<'s> Treatment<'s> {
    fn of(tool: &'s str, settings: &'s Settings) -> Self {
        let Some(declared) = settings.policy(tool) else { return Treatment::default() };
        let is_open = !declared.opaque_output;
        Treatment {
            tool,
            policy: Some(declared),
            render: declared.render && is_open,
            citations: declared.citations && is_open,
            compact: is_open,
            lists_links: false,
        }
    }
}

/// The way of one result to its view.
#[derive(Clone, Copy)]
struct Steps<'r> {
    registry: &'r Registry,
    treatment: Treatment<'r>,
    /// What the sources of this result are.
    evidence: Evidence,
}

impl Steps<'_> {
    /// The view without the list of links.
    fn body(self, result: &ToolResult) -> String {
        let context = result.metadata.as_ref().and_then(|metadata| metadata.get("context"));
        let context = context.and_then(Value::as_object);
        let (mut output, mut error) = (Some(result.output.as_str()), None);
        if result.is_error {
            let text = context.and_then(|context| context.get("error")).and_then(Value::as_str);
            (output, error) = failure_parts(&result.output, text.unwrap_or_default());
        }
        match context.map_or(Structured::Unknown, |context| self.structured(context, result.is_error)) {
            Structured::View(view) => return view,
            Structured::NoRows => {}
            Structured::Unknown => [output, error].into_iter().flatten().for_each(|text| self.mine(text)),
        }
        match (output, error) {
            (None, None) => "Error: tool call failed".to_owned(),
            (None, Some(error)) => format!("Error: {}", self.shown(error)),
            (Some(output), None) => self.shown(output),
            (Some(output), Some(error)) => format!("{}\n\nError: {}", self.shown(output), self.shown(error)),
        }
    }

    /// The view of structured data, where it has one.
    fn structured(self, context: &Map<String, Value>, is_error: bool) -> Structured {
        let display_type = context.get("display_type").and_then(Value::as_str).unwrap_or_default();
        if !self.treatment.render || (is_error && display_type != WEB_FETCH) {
            return Structured::Unknown;
        }
        let own = self.registry.settings().renderers.get(display_type).map(|renderer| &**renderer);
        let Some(renderer) = own.or_else(|| default_renderer(display_type)) else {
            return Structured::Unknown;
        };
        let mut view = ResultView::new(self.registry, self.evidence);
        renderer.render(context, &mut view);
        match view.finish(&|text| self.shortened(text)) {
            Some(text) => Structured::View(text),
            None => Structured::NoRows,
        }
    }

    /// Registers what a plain result labels as an id.
    fn mine(self, text: &str) {
        if self.treatment.render {
            self.registry.register_labelled(text, self.evidence);
        }
    }

    /// A plain text as the model sees it.
    fn shown(self, text: &str) -> String {
        let mut text = Cow::Borrowed(text);
        if let Some(policy) = self.treatment.policy {
            step(&mut text, |text| self.registry.encode_private(self.treatment.tool, policy, text));
        }
        // An opaque text keeps its bytes. In other JSON each string is read for itself: there the `n` of a
        // `\n` is no letter of a word, and a quote is no end.
        if self.treatment.compact
            && let Ok(rewritten) = rewrite_strings(&text, &mut |place, text| {
                Some(if place.is_name {
                    self.registry.encode_resources(text).into_owned()
                } else {
                    self.cited(text)
                })
            })
        {
            return rewritten.unwrap_or_else(|| text.into_owned());
        }
        self.cited(&text)
    }

    /// A text whose public citations may be sources.
    fn cited(self, text: &str) -> String {
        if self.treatment.render || self.treatment.citations {
            self.shortened(&self.registry.encode_citations(text, self.evidence))
        } else {
            self.shortened(text)
        }
    }

    /// A text with handles for what is known. Resources come first: an id may be part of one.
    fn shortened(self, text: &str) -> String {
        let registry = self.registry;
        let mut text = Cow::Borrowed(text);
        step(&mut text, |text| registry.encode_resources(text));
        step(&mut text, |text| registry.encode_uris(text));
        for space in self.treatment.policy.iter().flat_map(|policy| &policy.encode_known) {
            step(&mut text, |text| registry.encode_known_ids(*space, text));
        }
        if self.treatment.compact { registry.compact_known_text(&text) } else { text.into_owned() }
    }
}

/// Replaces the text by what `encode` makes of it, if that is another.
fn step(text: &mut Cow<'_, str>, encode: impl for<'t> FnOnce(&'t str) -> Cow<'t, str>) {
    if let Cow::Owned(encoded) = encode(text) {
        *text = Cow::Owned(encoded);
    }
}

/// What became of structured data.
enum Structured {
    /// There is none, or nobody knows its type: the plain output may have labels.
    Unknown,
    /// Its renderer found nothing to show.
    NoRows,
    View(String),
}

/// The parts of a failure's text: what of the output and of the error is said.
fn failure_parts<'t>(output: &'t str, error: &'t str) -> (Option<&'t str>, Option<&'t str>) {
    let error = error.trim();
    if output.trim().is_empty() {
        (None, (!error.is_empty()).then_some(error))
    } else if error.is_empty() || output.contains(error) {
        (Some(output), None)
    } else {
        (Some(output.trim()), Some(error))
    }
}

/// The renderers of the crate.
fn default_renderer(display_type: &str) -> Option<&'static dyn Renderer> {
    Some(match display_type {
        "grep_results" => &knowledge::Retrieval::Keyword,
        "search_results" => &knowledge::Retrieval::Search,
        "graph_query_results" => &knowledge::Retrieval::Graph,
        "knowledge_chunks_list" => &knowledge::Retrieval::DeepRead,
        "document_info" => &documents::DocumentInfo,
        "web_search_results" => &web::WebSearch,
        WEB_FETCH => &web::WebFetch,
        "database_query" => &database::DatabaseQuery,
        _ => return None,
    })
}
