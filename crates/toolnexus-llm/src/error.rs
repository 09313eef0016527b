//! Why a run ended without a result.

use toolnexus_core::BoxError;
use toolnexus_core::http::TransportError;
use toolnexus_core::redact::{cut, redact_body, redact_secret};

/// How many characters of a provider's error body an error message shows.
pub const ERROR_BODY_CAP: usize = 200;

/// Why a call of the client failed. A tool's failure is never one of these: the model reads it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The options cannot be used; nothing was sent.
    #[error("{0}")]
    Config(String),
    /// The provider answered with an error.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// No answer, or no whole answer, was obtained.
    #[error("{context}: {source}; check base_url and the network")]
    Transport {
        /// What was attempted, with the origin of the URL.
        context: String,
        /// What went wrong.
        source: TransportError,
    },
    /// The function that stands for the model failed or panicked; see
    /// [`create_in_process_client`](crate::create_in_process_client).
    #[error("the in-process model failed: {0}")]
    Generate(#[source] BoxError),
    /// The run took longer than `timeout_ms`.
    #[error("run timeout after {timeout_ms}ms")]
    Timeout {
        /// The configured deadline in milliseconds.
        timeout_ms: u64,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The provider's answer cannot be read.
    #[error("{0}")]
    InvalidResponse(String),
    /// The resolver of a suspension failed.
    #[error("the resolver of a suspended tool failed: {0}")]
    WaitFor(#[source] BoxError),
    /// The conversation store failed.
    #[error("the conversation store failed: {0}")]
    Store(#[source] BoxError),
    /// This client cannot do that.
    #[error("{0}")]
    Unsupported(String),
    /// A content part cannot be sent.
    #[error(transparent)]
    ContentPart(#[from] toolnexus_core::content::ContentPartError),
    /// The run's state and its driver disagree: a fault of this library.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),
}

/// A provider's error answer.
///
/// Identifying values in the body are replaced before anything sees it; the body of a 401 or 403
/// is left out, since it may echo the credential. `Display` shows the status and at most
/// [`ERROR_BODY_CAP`] characters of the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The HTTP status; 200 for an error that came inside a stream.
    pub status: u16,
    /// The body, redacted and otherwise whole.
    pub body: String,
    /// The `Retry-After` header as it came.
    pub retry_after: Option<String>,
    /// `LLM <status>: <body, cut>`.
    pub message: String,
}

impl ProviderError {
    /// The error of an HTTP answer that is not 2xx. `secret` is the credential that was sent.
    pub fn from_response(status: u16, body: &str, retry_after: Option<String>, secret: &str) -> Self {
        let body = match status {
            401 | 403 => String::new(),
            _ => redact_secret(&redact_body(body), secret).into_owned(),
        };
        let message = if body.is_empty() {
            format!("LLM {status}")
        } else {
            format!("LLM {status}: {}", cut(&body, ERROR_BODY_CAP))
        };
        ProviderError { status, body, retry_after, message }
    }

    /// The error object of a stream whose head said 200.
    pub(crate) fn in_stream(error: &str, secret: &str) -> Self {
        let body = redact_secret(&redact_body(error), secret).into_owned();
        let message = format!("LLM stream error: {}", cut(&body, ERROR_BODY_CAP));
        ProviderError { status: 200, body, retry_after: None, message }
    }
}

/// An unreadable answer, showing as much of it as an error may. `secret` is the credential that
/// was sent.
pub(crate) fn invalid_response(problem: &str, body: &[u8], secret: &str) -> ClientError {
    let text = String::from_utf8_lossy(body);
    let text = redact_body(&text);
    // Before the cut: half a secret is still one.
    let shown = redact_secret(&text, secret);
    let shown = cut(shown.trim(), ERROR_BODY_CAP);
    // The parser's own message may quote what it read.
    let problem = redact_secret(problem, secret);
    ClientError::InvalidResponse(if shown.is_empty() {
        format!("the model's answer is empty: {problem}; is base_url a model API?")
    } else {
        format!("the model's answer cannot be read: {problem}; it says: {shown}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLIENT-104, CLIENT-106..108, cases E1 to E3
    #[test]
    fn provider_errors_are_redacted_and_cut() {
        let error = ProviderError::from_response(402, r#"{"error":{"user_id":"u"}}"#, Some("3".into()), "");
        assert_eq!(error.body, r#"{"error":{"user_id":"«redacted»"}}"#);
        assert_eq!(error.to_string(), r#"LLM 402: {"error":{"user_id":"«redacted»"}}"#);
        assert_eq!(error.retry_after.as_deref(), Some("3"));

        let error =
            ProviderError::from_response(401, r#"{"error":"invalid key sk-live-DEADBEEF"}"#, None, "");
        assert_eq!((error.body.as_str(), error.message.as_str()), ("", "LLM 401"));

        let error = ProviderError::from_response(500, &"x".repeat(500), None, "");
        assert_eq!(error.body.len(), 500);
        assert_eq!(error.message, format!("LLM 500: {}…", "x".repeat(200)));
    }

    // CLIENT-10, case K6
    #[test]
    fn an_echoed_key_is_replaced() {
        let error = ProviderError::from_response(400, "bad key sk-test-123456", None, "sk-test-123456");
        assert_eq!(error.body, "bad key «redacted»");
    }

    // CLIENT-123
    #[test]
    fn errors_inside_a_stream_carry_status_200() {
        let error = ProviderError::in_stream(r#"{"message":"Overloaded"}"#, "");
        assert_eq!(error.status, 200);
        assert_eq!(error.message, r#"LLM stream error: {"message":"Overloaded"}"#);
    }
}
