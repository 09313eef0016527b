//! What a tool call is given beside its arguments.

use ::http::Extensions;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{Answer, LogLevel, Reporter, Request, Suspended, WaitFor, new_request_id};

/// The surroundings of one tool call. Passed by value; `Default` is a call outside any run.
///
/// ```
/// use toolnexus_core::ToolContext;
/// let context = ToolContext { timeout_ms: Some(500), ..Default::default() };
/// assert!(!context.cancel.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct ToolContext {
    /// Fires when the run ends early; a tool should then return a failure promptly.
    pub cancel: CancellationToken,
    /// How long the call may take, in milliseconds. `None`: the tool's own default.
    pub timeout_ms: Option<u64>,
    /// Set only on the one execution that follows a resolved suspension.
    pub answer: Option<Answer>,
    /// The model's id for this call, which tells concurrent calls apart; empty outside a run.
    pub call_id: String,
    /// State of the host, opaque to the library: in a run, a copy of the run's `data`.
    pub data: Map<String, Value>,
    /// The same in every attempt of this call, for tools that can deduplicate. Set in durable runs.
    pub idempotency_key: Option<String>,
    /// Typed values that a host attaches, found by their type.
    pub extensions: Extensions,
    /// Where [`progress`](Self::progress) and [`log`](Self::log) go; nowhere by default.
    pub reporter: Reporter,
    /// Who answers [`elicit`](Self::elicit) while the call goes on. `None`: nobody, the call is
    /// suspended.
    pub ask: Option<WaitFor>,
}

impl ToolContext {
    /// Tells how far the call has come: `progress` of `total`, in a unit of the tool's own, and what
    /// it is doing.
    ///
    /// Never waits and never fails, and costs next to nothing when nobody listens. Of reports that
    /// nobody took yet only the newest is kept.
    ///
    /// ```
    /// use toolnexus_core::ToolContext;
    /// ToolContext::default().progress(3.0, Some(10.0), Some("reading"));
    /// ```
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.reporter.progress(progress, total, message);
    }

    /// Tells a line for the log of whoever runs the tool.
    ///
    /// Never waits and never fails. Of lines that nobody took yet the newest 64 are kept.
    ///
    /// ```
    /// use toolnexus_core::{LogLevel, ToolContext};
    /// ToolContext::default().log(LogLevel::Info, "cache is cold");
    /// ```
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.reporter.log(level, message);
    }

    /// Asks the person or system behind the call for data of the form `schema`, a flat JSON schema.
    ///
    /// Gives the answer at once when the call has one, or when the caller can be asked while the
    /// call goes on; a refusal is an answer with `ok: false`. Otherwise the tool returns the error,
    /// which suspends the call, and is run again from its beginning when the answer is there: do
    /// nothing before that must not be done twice. A suspended call gets one answer, so it can ask one
    /// question.
    ///
    /// Never ask for secrets this way: those go through [`auth_required`](crate::auth_required).
    ///
    /// # Errors
    /// [`Suspended`], to be returned with `?`.
    ///
    /// ```
    /// use serde_json::{Value, json};
    /// use toolnexus_core::{BoxError, ToolContext, define_tool};
    /// let weather = define_tool("weather", "Weather", None, |_args: Value, context: ToolContext| async move {
    ///     let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    ///     let answer = context.elicit("Which city?", schema).await?;
    ///     let city = answer.data.unwrap_or_default().remove("city").unwrap_or_default();
    ///     Ok::<_, BoxError>(format!("sunny in {}", city.as_str().unwrap_or("nowhere")))
    /// });
    /// # assert_eq!(weather.name, "weather");
    /// ```
    pub async fn elicit(&self, message: impl Into<String>, schema: Value) -> Result<Answer, Suspended> {
        if let Some(answer) = &self.answer {
            return Ok(answer.clone());
        }
        let mut request = Request {
            id: new_request_id(),
            kind: "input".into(),
            prompt: message.into(),
            data: Some(Map::from_iter([("schema".to_owned(), schema)])),
            ..Default::default()
        };
        if let Some(ask) = &self.ask {
            match ask(request.clone()).await {
                Ok(answer) => return Ok(answer),
                // Whoever was there is not any more: the ordinary way is left.
                Err(_) => request.id = new_request_id(),
            }
        }
        Err(Suspended(request))
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("cancelled", &self.cancel.is_cancelled())
            .field("timeout_ms", &self.timeout_ms)
            .field("answered", &self.answer.is_some())
            .finish_non_exhaustive()
    }
}
