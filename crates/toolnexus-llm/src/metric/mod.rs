//! What a client tells of its work in numbers.
//!
//! The driver notes each model call, tool call and run once. A note goes to the client's cumulative
//! [`Registry`], whose text `Client::metrics` gives, and, when somebody listens, to
//! `ClientOptions::on_metric` as a [`MetricEvent`]. Events hold no payloads, prompts or keys.

mod registry;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use toolnexus_core::ToolSource;

pub(crate) use registry::Registry;

/// Receives metric events, on the run's own task. A panic in it is caught and changes nothing.
pub type MetricSink = Arc<dyn Fn(&MetricEvent) + Send + Sync>;

/// How a model call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LlmStatus {
    /// With an answer.
    Ok,
    /// With an error, after its retries.
    Error,
}

impl LlmStatus {
    /// The spelling in events and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            LlmStatus::Ok => "ok",
            LlmStatus::Error => "error",
        }
    }
}

/// One thing worth counting. As JSON it is tagged by `event`, in snake_case.
///
/// ```
/// use toolnexus_llm::{LlmStatus, MetricEvent};
/// let event = MetricEvent::Llm {
///     model: "m".into(), status: LlmStatus::Ok, ms: 120, prompt_tokens: 3, completion_tokens: 2,
/// };
/// assert_eq!(
///     serde_json::to_string(&event).unwrap(),
///     r#"{"event":"llm","model":"m","status":"ok","ms":120,"prompt_tokens":3,"completion_tokens":2}"#,
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MetricEvent {
    /// A model call, with all of its retries. One that was cancelled counts as an error.
    Llm {
        /// The model that was asked.
        model: String,
        /// How it ended.
        status: LlmStatus,
        /// How long it took, retries and waits included, in milliseconds.
        ms: u64,
        /// Tokens read by this call; 0 where the provider did not say.
        prompt_tokens: u64,
        /// Tokens written by this call.
        completion_tokens: u64,
    },
    /// A tool call that ran, or that a hook answered. A suspended call has a second event when it ran
    /// again.
    Tool {
        /// The tool.
        tool: String,
        /// Where the tool comes from; `custom` for one that the toolkit does not know.
        source: String,
        /// Whether its result is a failure.
        is_error: bool,
        /// How long it took in milliseconds.
        ms: u64,
        /// Whether it now waits for an answer from outside.
        pending: bool,
    },
    /// A run, however it ended. Always its last event. A durable run has one each time it is driven, with
    /// the numbers of the whole run; a resume that finds nothing to do has none.
    Run {
        /// The model, as configured.
        model: String,
        /// Model calls made.
        turns: u32,
        /// Tool calls in its result; where there is none, those that had ended.
        tool_calls: usize,
        /// Tokens of all model calls.
        total_tokens: u64,
        /// How long it took in milliseconds.
        ms: u64,
        /// Why it ended without a result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// Where the numbers of a client go.
#[derive(Default)]
pub(crate) struct Metrics {
    registry: Registry,
    sink: Option<MetricSink>,
    sink_panicked: AtomicBool,
}

impl Metrics {
    pub(crate) fn to(sink: Option<MetricSink>) -> Self {
        Metrics { sink, ..Default::default() }
    }

    pub(crate) fn text(&self) -> String {
        self.registry.text()
    }

    pub(crate) fn llm(
        &self,
        model: &str,
        status: LlmStatus,
        ms: u64,
        prompt_tokens: u64,
        completion_tokens: u64,
    ) {
        self.registry.llm(model, status, ms, prompt_tokens, completion_tokens);
        self.tell(|| MetricEvent::Llm {
            model: model.to_owned(),
            status,
            ms,
            prompt_tokens,
            completion_tokens,
        });
    }

    /// A tool call; without a source its name is the model's invention.
    pub(crate) fn tool(
        &self,
        tool: &str,
        source: Option<ToolSource>,
        is_error: bool,
        ms: u64,
        pending: bool,
    ) {
        self.registry.tool(tool, source, is_error, ms, pending);
        self.tell(|| MetricEvent::Tool {
            tool: tool.to_owned(),
            source: source.unwrap_or(ToolSource::Custom).as_str().to_owned(),
            is_error,
            ms,
            pending,
        });
    }

    pub(crate) fn run(&self, event: impl FnOnce() -> MetricEvent, failed: bool) {
        if failed {
            self.registry.run_failed();
        }
        self.tell(event);
    }

    fn tell(&self, event: impl FnOnce() -> MetricEvent) {
        let Some(sink) = &self.sink else { return };
        let event = event();
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| sink(&event)));
        if told.is_err() && !self.sink_panicked.swap(true, Ordering::Relaxed) {
            tracing::warn!("on_metric panicked; runs go on, and this is said once");
        }
    }
}
