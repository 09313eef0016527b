//! Why a run ended without a result.

use std::borrow::Cow;

use futures::StreamExt as _;
use toolnexus_core::BoxError;
use toolnexus_core::http::{HttpResponse, TransportError};
use toolnexus_core::redact::{REDACTION_TOKEN, cut, redact_body, redact_secret};

/// How many characters of a provider's error body an error message shows.
pub const ERROR_BODY_CAP: usize = 200;

/// How much of an error answer is read.
pub(crate) const ERROR_BODY_LIMIT: usize = 16 * 1024 * 1024;

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
    /// A hook failed, or panicked.
    #[error("the hook {hook} failed: {source}")]
    Hook {
        /// Which of the hooks: `before_llm`, `after_llm`, `before_tool` or `after_tool`.
        hook: &'static str,
        /// What it reported.
        #[source]
        source: BoxError,
    },
    /// The log of a durable run failed, or another process continued the run. Nothing more was
    /// called or executed.
    #[error(transparent)]
    RunLog(#[from] crate::run_log::RunLogError),
    /// A durable run cannot be begun, resumed or forked as asked. Nothing was written.
    #[error(transparent)]
    Durable(#[from] crate::durable::DurableError),
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

impl ClientError {
    /// The kind of the error, for traces: no text of anybody's.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            ClientError::Config(_) => "config",
            ClientError::Provider(_) => "provider",
            ClientError::Transport { .. } => "transport",
            ClientError::Timeout { .. } => "timeout",
            ClientError::Cancelled => "cancelled",
            ClientError::InvalidResponse(_) => "invalid_response",
            ClientError::WaitFor(_) => "wait_for",
            ClientError::Hook { .. } => "hook",
            ClientError::RunLog(_) => "run_log",
            ClientError::Durable(_) => "durable",
            ClientError::Store(_) => "store",
            ClientError::Generate(_) => "generate",
            ClientError::Unsupported(_) => "unsupported",
            ClientError::ContentPart(_) => "content_part",
            ClientError::Run(_) => "run",
        }
    }
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
    /// The error of an HTTP answer that is not 2xx. `secret` is the credential that was sent; of
    /// several, each stands in a line of its own.
    pub fn from_response(status: u16, body: &str, retry_after: Option<String>, secret: &str) -> Self {
        let body = match status {
            401 | 403 => String::new(),
            _ => hidden(&redact_body(body), secret),
        };
        let message = if body.is_empty() {
            format!("LLM {status}")
        } else {
            format!("LLM {status}: {}", cut(&body, ERROR_BODY_CAP))
        };
        let retry_after = retry_after.map(|value| hidden(&value, secret));
        ProviderError { status, body, retry_after, message }
    }

    /// Reads an answer that is not 2xx: as much of its body as is wanted and comes, since an error
    /// body that breaks off still says something. `secret` is the credential that was sent.
    pub(crate) async fn read(mut response: HttpResponse, secret: &str) -> Self {
        let retry_after = response
            .headers
            .get("retry-after")
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let mut body = Vec::new();
        while body.len() < ERROR_BODY_LIMIT
            && let Some(Ok(piece)) = response.body.next().await
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(ERROR_BODY_LIMIT);
        let body = String::from_utf8_lossy(&body);
        ProviderError::from_response(response.status.as_u16(), &body, retry_after, secret)
    }

    /// The error object of a stream whose head said 200.
    pub(crate) fn in_stream(error: &str, secret: &str) -> Self {
        let body = hidden(&redact_body(error), secret);
        let message = format!("LLM stream error: {}", cut(&body, ERROR_BODY_CAP));
        ProviderError { status: 200, body, retry_after: None, message }
    }
}

/// The least characters of a credential that is looked for.
const SECRET_FROM: usize = 8;

/// The credentials that are looked for in answers, as they and as JSON may spell them.
pub(crate) fn secrets_of(secret: &str) -> Vec<Cow<'_, str>> {
    let long = secret.lines().filter(|line| line.chars().count() >= SECRET_FROM);
    long.flat_map(|line| {
        let escaped = line.contains('/').then(|| Cow::Owned(line.replace('/', "\\/")));
        std::iter::once(Cow::Borrowed(line)).chain(escaped)
    })
    .collect()
}

/// A text without credentials, nor the beginning of one where the text was cut off.
fn hidden(text: &str, secret: &str) -> String {
    let mut text = text.to_owned();
    for secret in secrets_of(secret) {
        if let Cow::Owned(without) = redact_secret(&text, &secret) {
            text = without;
        }
        let beginnings = (SECRET_FROM..secret.len()).rev().filter_map(|end| secret.get(..end));
        let begun = beginnings.into_iter().find_map(|beginning| text.strip_suffix(beginning));
        if let Some(before) = begun {
            text = format!("{before}{REDACTION_TOKEN}");
        }
    }
    text
}

/// An unreadable answer, showing as much of it as an error may. `secret` is the credential that
/// was sent.
pub(crate) fn invalid_response(problem: &str, body: &[u8], secret: &str) -> ClientError {
    let text = String::from_utf8_lossy(body);
    let text = redact_body(&text);
    // Before the cut: half a secret is still one.
    let shown = hidden(&text, secret);
    let shown = cut(shown.trim(), ERROR_BODY_CAP);
    // The parser's own message may quote what it read, at any length.
    let problem = hidden(problem, secret);
    let problem = cut(&problem, ERROR_BODY_CAP);
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

    // CLIENT-32: a parser that quotes what it read does not make the error as long as the answer
    #[test]
    fn what_a_parser_quotes_is_cut_too() {
        let long = "t".repeat(5_000);
        let error = invalid_response(&format!("invalid type: string \"{long}\""), long.as_bytes(), "");
        assert!(error.to_string().chars().count() < 600, "{error}");
    }

    // CLIENT-10, case K6
    #[test]
    fn an_echoed_key_is_replaced() {
        let error = ProviderError::from_response(400, "bad key sk-test-123456", None, "sk-test-123456");
        assert_eq!(error.body, "bad key «redacted»");
        let wait = Some("sk-test-123456".to_owned());
        let error = ProviderError::from_response(429, "", wait, "other\nsk-test-123456");
        assert_eq!(error.retry_after.as_deref(), Some("«redacted»"));
    }

    // CLIENT-10: as JSON may spell it, one of several, and cut off
    #[test]
    fn a_key_is_found_in_every_form() {
        let secrets = "ab/cd/efgh\nsecond-secret\nshort";
        assert_eq!(hidden(r"[ab\/cd\/efgh ab/cd/efgh]", secrets), "[«redacted» «redacted»]");
        assert_eq!(hidden("short second-secret", secrets), "short «redacted»");
        assert_eq!(hidden("it is second-se", secrets), "it is «redacted»");
        assert_eq!(hidden("it is second", secrets), "it is second");
        assert_eq!(hidden("", ""), "");
    }

    // CLIENT-123
    #[test]
    fn errors_inside_a_stream_carry_status_200() {
        let error = ProviderError::in_stream(r#"{"message":"Overloaded"}"#, "");
        assert_eq!(error.status, 200);
        assert_eq!(error.message, r#"LLM stream error: {"message":"Overloaded"}"#);
    }
}
