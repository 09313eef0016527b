//! The boundary of a client: a registry for each execution.

use std::sync::Arc;

use serde_json::Value;
use toolnexus_core::{Style, ToolResult, ToolSource};
use toolnexus_llm::run::{ModelAnswer, ModelCall};
use toolnexus_llm::{BoundarySession, ModelBoundary, Transcript};

use crate::settings::Settings;
use crate::{ContextError, ContextObserver, Registry, RegistryConfig, StreamDecoder};

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
    fn open(&self, _style: Style) -> Box<dyn BoundarySession> {
        Box::new(Session::new(Registry::of(Arc::clone(&self.settings)), self.observer.clone()))
    }
}

/// A registry that a host made for one run: the host can register sources before it and read handles
/// after it.
impl ModelBoundary for Registry {
    fn open(&self, _style: Style) -> Box<dyn BoundarySession> {
        Box::new(Session::new(self.clone(), None))
    }
}

struct Session {
    registry: Registry,
    observer: Option<Arc<dyn ContextObserver>>,
    text: StreamDecoder,
}

impl Session {
    fn new(registry: Registry, observer: Option<Arc<dyn ContextObserver>>) -> Self {
        Session { text: registry.stream_decoder(), registry, observer }
    }
}

impl BoundarySession for Session {
    fn encode_tools(&mut self, tools: Vec<Value>) -> Vec<Value> {
        self.registry.encode_tools(&tools)
    }

    fn encode_messages(&mut self, system: &str, messages: &Transcript) -> (String, Transcript) {
        let _ = &self.observer;
        (system.to_owned(), messages.clone())
    }

    fn decode(&mut self, answer: ModelAnswer) -> ModelAnswer {
        answer
    }

    fn decode_text(&mut self, piece: &str) -> String {
        self.text.feed(piece)
    }

    fn flush_text(&mut self) -> String {
        self.text.flush()
    }

    fn note_result(&mut self, call: &ModelCall, source: Option<ToolSource>, result: &Arc<ToolResult>) {
        let _ = (call, source, result);
    }
}
