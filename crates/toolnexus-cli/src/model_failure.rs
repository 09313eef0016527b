//! What a failure of the model means for whoever typed the command: their flags, one remedy.

use toolnexus::ClientError;
use toolnexus::client::ProviderError;

use crate::exit::{Exit, Failure, timed_out};
use crate::provider::Choice;
use crate::runs;

/// The library's error in the words of the command. `attempts` is how often the last call was tried.
pub(crate) fn of_client_error(error: &ClientError, choice: &Choice, attempts: u32) -> Failure {
    let failed = |message| Failure::new(Exit::Failed, message);
    let model = format!("the model at {}", choice.origin());
    match error {
        ClientError::Config(text) | ClientError::Unsupported(text) => {
            Failure::usage(text.replace("base_url", "--base-url"))
        }
        ClientError::Timeout { .. } => timed_out("the model has not finished"),
        ClientError::Provider(error) => failed(refused(error, &model, choice, attempts)),
        ClientError::Transport { source, .. } => failed(cut_off(&source.to_string(), &model, attempts)),
        ClientError::InvalidResponse(text) => failed(unreadable(text, &model)),
        ClientError::RunLog(error) => runs::of_log_error(error, ""),
        ClientError::Durable(error) => runs::of_durable_error(error, ""),
        other => failed(other.to_string()),
    }
}

/// An answer that is an error.
fn refused(error: &ProviderError, model: &str, choice: &Choice, attempts: u32) -> String {
    let status = error.status;
    let said = error.message.split_once(": ").map(|(_, said)| format!(": {said}")).unwrap_or_default();
    let times = after(attempts);
    match status {
        // Inside a stream that began well.
        200 => format!("{model} broke off its answer with an error{said}; try again, or check the server"),
        // What it says is a page for browsers.
        300..=399 => format!(
            "{model} answered with a redirect ({status}), and redirects are not followed; \
             put the final address into --base-url"
        ),
        401 | 403 => format!(
            "{model} refused the key ({status}; {}): check it and what it may be used for",
            choice.key.describe()
        ),
        404 => format!("{model} answered 404{said}; check --model, and --base-url (most end in /v1)"),
        429 => format!(
            "{model} answered 429{times}{said}; the rate limit or the quota is used up: \
             try again later, or another --model"
        ),
        500.. => format!("{model} answered {status}{times}{said}; try again later, or check the server"),
        _ => format!("{model} answered {status}{said}"),
    }
}

/// No answer, or half of one.
fn cut_off(cause: &str, model: &str, attempts: u32) -> String {
    if let Some(cause) = cause.strip_prefix("the answer broke off") {
        return format!("{model} broke off its answer{cause}; try again, or check the server");
    }
    let cause = cause.strip_prefix("no answer: ").unwrap_or(cause);
    format!(
        "{model} gave no answer{}: {cause}; check --base-url, the server and the network",
        after(attempts)
    )
}

/// A whole answer that makes no sense.
fn unreadable(text: &str, model: &str) -> String {
    if text.starts_with("stream ended") {
        return format!("{model} ended its answer before it was complete; try again, or check the server");
    }
    // Asked of a field of the library; here it is a flag.
    let text = text.strip_suffix("; is base_url a model API?").unwrap_or(text);
    match text.strip_prefix("the model's answer ") {
        Some(rest) => format!("the answer of {model} {rest}; does --base-url lead to a model API?"),
        None => format!("{model} cannot be understood: {text}"),
    }
}

fn after(attempts: u32) -> String {
    if attempts > 1 { format!(" in {attempts} attempts") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Key;

    fn told(error: ClientError, attempts: u32) -> String {
        let choice = Choice {
            base_url: "http://user:hunter2@here:1/v1?key=k".into(),
            host: "here:1".into(),
            style: toolnexus::Style::OpenAI,
            model: "m".into(),
            key: Key::Variable("MY_KEY".into()),
        };
        let message = of_client_error(&error, &choice, attempts).message;
        assert!(!message.contains("hunter2") && !message.contains("key=k"), "{message}");
        assert!(!message.replace("--base-url", "").contains("base_url"), "{message}");
        message
    }

    fn status(status: u16, body: &str) -> ClientError {
        ClientError::Provider(ProviderError::from_response(status, body, None, ""))
    }

    #[test]
    fn each_status_has_its_remedy() {
        assert_eq!(
            told(status(308, "<h1>Moved</h1>"), 1),
            "the model at http://here:1 answered with a redirect (308), and redirects are not followed; \
             put the final address into --base-url"
        );
        assert_eq!(
            told(status(503, "busy"), 3),
            "the model at http://here:1 answered 503 in 3 attempts: busy; \
             try again later, or check the server"
        );
        assert_eq!(
            told(status(401, "x"), 1),
            "the model at http://here:1 refused the key (401; the value of MY_KEY): \
             check it and what it may be used for"
        );
        assert_eq!(told(status(400, "bad"), 1), "the model at http://here:1 answered 400: bad");
    }

    #[test]
    fn settings_are_called_by_their_flags() {
        assert_eq!(told(ClientError::Config("base_url is odd".into()), 0), "--base-url is odd");
        let empty = "the model's answer is empty: EOF; is base_url a model API?";
        assert_eq!(
            told(ClientError::InvalidResponse(empty.into()), 0),
            "the answer of the model at http://here:1 is empty: EOF; does --base-url lead to a model API?"
        );
    }
}
