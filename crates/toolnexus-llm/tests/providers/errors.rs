//! Error answers: what a host reads, and what is tried again.

use toolnexus_llm::{ClientError, ClientOptions, ProviderError, Style, create_client};
use toolnexus_testkit::model::Reply;

use crate::recorded::{answer, failure, json_of, read, style_of, toolkit};
use crate::support::{options, reply, server, within};

fn with_status(file: &str, status: u16) -> Reply {
    let kind = if file.ends_with(".html") { "text/html" } else { "application/json" };
    Reply::status(status).header("Content-Type", kind).body(read(file))
}

async fn provider_errors(file: &str, status: u16) -> Vec<ProviderError> {
    let errors = failure(style_of(file), with_status(file, status)).await;
    let read = errors.into_iter().map(|error| match error {
        ClientError::Provider(error) => error,
        other => panic!("{file}: {other:?}"),
    });
    read.collect()
}

// CLIENT-104, CLIENT-106, CLIENT-107, CLIENT-108
#[tokio::test]
async fn an_error_answer_says_what_the_provider_says() {
    for (file, status, says) in [
        ("openai/error-400.json", 400, "maximum context length is 128000 tokens"),
        ("openai/error-401.json", 401, ""),
        ("openai/error-429.json", 429, "You exceeded your current quota"),
        ("azure/error-400.json", 400, "content management policy"),
        ("azure/error-404.json", 404, "DeploymentNotFound"),
        ("openrouter/error-402.json", 402, "Insufficient credits"),
        ("anthropic/error-400.json", 400, "without `tool_result` blocks"),
        ("anthropic/error-529.json", 529, "Overloaded"),
        ("gemini/error-400.json", 400, "API key not valid"),
        ("gemini/error-429.json", 429, "exceeded your current quota"),
        ("ollama/error-404.json", 404, "try pulling it first"),
        ("vllm/error-400.json", 400, "requested 5000 tokens"),
        ("vllm/error-400-old.json", 400, "--enable-auto-tool-choice"),
        ("scaleway/error-403.json", 403, ""),
        ("mistral/error-422.json", 422, "Extra inputs are not permitted"),
        ("deepseek/error-402.json", 402, "Insufficient Balance"),
        ("groq/error-400.json", 400, "Failed to call a function"),
        ("groq/error-429.json", 429, "Rate limit reached"),
        ("gateways/nginx-502.html", 502, "502 Bad Gateway"),
        ("gateways/cloudflare-520.html", 520, "520: Web server is returning an unknown error"),
        ("gateways/cloudflare-524.html", 524, "error code: 524"),
    ] {
        for error in provider_errors(file, status).await {
            assert_eq!(error.status, status, "{file}");
            if says.is_empty() {
                assert_eq!((error.body.as_str(), error.to_string()), ("", format!("LLM {status}")), "{file}");
                continue;
            }
            assert!(error.body.contains(says), "{file}: {}", error.body);
            assert!(error.to_string().starts_with(&format!("LLM {status}: ")), "{file}: {error}");
            assert!(error.to_string().chars().count() <= 212, "{file}: {error}");
            assert!(!error.body.contains("user_2xkTq"), "{file}");
        }
    }
}

// CLIENT-93: what passes by itself is tried again, whatever its body; the rest is not
#[tokio::test]
async fn a_gateways_page_is_tried_again_where_that_may_help() {
    for (file, status, again) in [
        ("gateways/nginx-502.html", 502, true),
        ("anthropic/error-529.json", 529, true),
        ("openai/error-429.json", 429, true),
        ("gateways/cloudflare-520.html", 520, false),
        ("gateways/cloudflare-524.html", 524, false),
    ] {
        let style = style_of(file);
        let failing = with_status(file, status).header("Retry-After", "0");
        let server = server([failing, Reply::from(reply(style).text("ok"))]).await;
        let options = ClientOptions { retries: Some(1), ..options(style, server.base_url()) };
        let result = within(create_client(options).run("hi", &toolkit())).await;
        assert_eq!((result.is_ok(), server.request_count()), (again, 1 + usize::from(again)), "{file}");
    }
}

// CLIENT-32: a 200 that is no answer is an error that shows what it is, asked for whole or streamed
#[tokio::test]
async fn a_good_status_may_hide_an_error() {
    for (file, says) in [
        ("gateways/error-in-200.json", "upstream timed out"),
        ("openrouter/error-in-200.json", "Provider returned error"),
        ("gateways/login.html", "Sign in"),
        ("openai/error-400.json", "maximum context length"),
        ("anthropic/error-529.json", "Overloaded"),
        ("gemini/error-400.json", "API key not valid"),
    ] {
        // Some say that it is a stream.
        for kind in ["application/json", "text/event-stream"] {
            let lying = Reply::status(200).header("Content-Type", kind).body(read(file));
            for error in failure(style_of(file), lying).await {
                assert!(matches!(error, ClientError::InvalidResponse(_)), "{file}: {error:?}");
                assert!(error.to_string().contains(says), "{file} as {kind}: {error}");
                assert!(!error.to_string().contains("user_2xkTq"), "{file}: {error}");
            }
        }
    }
}

// CLIENT-32, CLIENT-123: OpenRouter may put the error beside the text it could still deliver
#[tokio::test]
async fn an_error_inside_a_choice_is_no_answer() {
    let whole = failure(Style::OpenAI, answer("openrouter/choice-error.json")).await.remove(0);
    assert!(matches!(whole, ClientError::InvalidResponse(_)), "{whole:?}");
    assert!(whole.to_string().contains("Upstream idle timeout exceeded"), "{whole}");
    let streamed = failure(Style::OpenAI, answer("openrouter/choice-error.sse")).await.remove(1);
    assert!(matches!(&streamed, ClientError::Provider(error) if error.status == 200), "{streamed:?}");
    assert!(streamed.to_string().contains("Upstream idle timeout exceeded"), "{streamed}");
    assert_eq!(json_of("openrouter/choice-error.json")["choices"][0]["finish_reason"], "error");
}

// CLIENT-123
#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_ends_it() {
    for (file, says) in [
        ("openai/error.sse", "The server had an error while processing your request"),
        ("openrouter/error.sse", "Provider disconnected unexpectedly"),
        ("anthropic/error.sse", "Overloaded"),
        ("anthropic/gateway-error.sse", "Upstream idle timeout exceeded"),
        ("gemini/error.sse", "The model is overloaded"),
        ("vllm/error.sse", "EngineCore encountered an issue."),
    ] {
        let error = failure(style_of(file), answer(file)).await.remove(1);
        assert!(matches!(&error, ClientError::Provider(error) if error.status == 200), "{file}: {error:?}");
        assert!(error.to_string().starts_with("LLM stream error: "), "{file}: {error}");
        assert!(error.to_string().contains(says), "{file}: {error}");
    }
}
