//! The boundary of a client: a registry for each execution.
//!
//! A [`Session`] is what the client opens for one execution. It adds to the registry what only the
//! course of an execution knows:
//!
//! ```text
//!             ┌─ Memory    what was sent: unchanged messages keep their bytes
//! encode ─────┼─ Results   what tools of this run returned: rendered once, in message order
//!             └─ leak report, observer
//! decode ───── answer      the message of a style, its text and its calls, together
//! ```

mod answer;
mod call;
mod members;
mod memory;
mod results;
mod said;

use std::sync::Arc;

use serde_json::Value;
use toolnexus_core::{Snapshot, Style, ToolResult, ToolSource};
use toolnexus_llm::run::{ModelAnswer, ModelCall};
use toolnexus_llm::{BoundarySession, ModelBoundary, Transcript};

use crate::settings::Settings;
use crate::{ContextError, ContextObserver, ModelPayload, Registry, RegistryConfig, summarize_leaks};
use memory::Memory;
use results::Results;
use said::Listener;

/// The boundary that a client is given: each run, stream, resume and translation opens a registry of its
/// own.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_context::{ContextOptions, RegistryConfig};
/// use toolnexus_llm::ClientOptions;
/// let boundary = ContextOptions::new(RegistryConfig::default()).unwrap();
/// let options = ClientOptions { boundary: Some(Arc::new(boundary)), ..Default::default() };
/// ```
#[derive(Clone)]
pub struct ContextOptions {
    settings: Arc<Settings>,
    observer: Option<Arc<dyn ContextObserver>>,
}

impl ContextOptions {
    /// A boundary with this configuration.
    ///
    /// # Errors
    /// When the configuration contradicts itself; the error names the part.
    pub fn new(registry: RegistryConfig) -> Result<Self, ContextError> {
        Ok(ContextOptions { settings: Arc::new(Settings::new(registry)?), observer: None })
    }

    /// The same boundary, watched.
    #[must_use]
    pub fn observer(mut self, observer: impl ContextObserver + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }
}

impl std::fmt::Debug for ContextOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextOptions").field("observer", &self.observer.is_some()).finish_non_exhaustive()
    }
}

impl ModelBoundary for ContextOptions {
    fn open(&self, style: Style) -> Box<dyn BoundarySession> {
        Box::new(Session::new(Registry::of(Arc::clone(&self.settings)), style, self.observer.clone()))
    }
}

/// A registry that a host made for one run: the host can register sources before it and read handles
/// after it.
impl ModelBoundary for Registry {
    fn open(&self, style: Style) -> Box<dyn BoundarySession> {
        Box::new(Session::new(self.clone(), style, None))
    }
}

/// The boundary of one execution.
struct Session {
    registry: Registry,
    style: Style,
    observer: Option<Arc<dyn ContextObserver>>,
    /// The text of the turn that is being streamed.
    text: Listener,
    memory: Memory,
    results: Results,
}

impl Session {
    fn new(registry: Registry, style: Style, observer: Option<Arc<dyn ContextObserver>>) -> Self {
        Session {
            text: Listener::new(&registry),
            registry,
            style,
            observer,
            memory: Memory::default(),
            results: Results::default(),
        }
    }

    /// Says what is left of identifiers in what is about to be sent; never what stands around them.
    fn report_leaks(&self) {
        let leaks = self.memory.leaks();
        if !leaks.is_empty() {
            tracing::warn!(
                "[toolnexus] identifiers reach the model as they are\n{}",
                summarize_leaks(&leaks)
            );
        }
    }
}

impl BoundarySession for Session {
    fn note_tools(&mut self, tools: &Snapshot) {
        let of_mcp = tools.tools().iter().filter(|tool| tool.source == ToolSource::Mcp);
        self.registry.mark_mcp_tools(of_mcp.map(|tool| tool.name.as_str()));
    }

    fn encode_tools(&mut self, tools: Vec<Value>) -> Vec<Value> {
        self.registry.encode_tools(&tools)
    }

    fn encode_messages(&mut self, system: &str, messages: &Transcript) -> (String, Transcript) {
        self.text.begin();
        self.memory.encode(&self.registry, self.style, system, messages, &self.results);
        self.results.register_evidence(&self.registry);
        self.report_leaks();
        let (system, messages) = (self.memory.system().to_owned(), self.memory.messages().clone());
        if let Some(observer) = &self.observer {
            observer.request_encoded(&ModelPayload { system: &system, messages: &messages });
        }
        (system, messages)
    }

    fn decode(&mut self, answer: ModelAnswer) -> ModelAnswer {
        if let (Some(observer), Some(message)) = (&self.observer, &answer.message) {
            observer.answer_received(message);
        }
        let answer = answer::decode(&self.registry, self.style, answer, self.text.take(), |audit| {
            if let Some(observer) = &self.observer {
                observer.call_decoded(&audit);
            }
        });
        self.results.expect(&answer.calls);
        answer
    }

    fn decode_text(&mut self, piece: &str) -> String {
        self.text.hear(piece)
    }

    fn flush_text(&mut self) -> String {
        self.text.end()
    }

    fn note_result(&mut self, call: &ModelCall, source: Option<ToolSource>, result: &Arc<ToolResult>) {
        self.results.note(call, source, result);
    }
}
