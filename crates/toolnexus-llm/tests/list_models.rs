//! The list of a provider's models.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::{KEY, STYLES, options, server, within};
use tokio::sync::oneshot::{self, error::TryRecvError};
use toolnexus_llm::{
    ClientError, ClientOptions, ModelInfo, ProviderError, Style, create_client, list_models,
};
use toolnexus_testkit::model::{ModelServer, RecordedRequest, Reply, Script, free_port_url};

const ANTHROPIC: Style = Style::Anthropic;
const GEMINI: Style = Style::Gemini;
const OPENAI: Style = Style::OpenAI;

/// Options without a model, which no list needs.
fn at(style: Style, base_url: impl Into<String>) -> ClientOptions {
    ClientOptions { model: String::new(), ..options(style, base_url) }
}

fn model(id: &str, name: Option<&str>, context_length: Option<u64>) -> ModelInfo {
    ModelInfo { id: id.into(), name: name.map(Into::into), context_length }
}

/// The list that one whole answer gives, and the requests.
async fn listed(
    style: Style,
    script: impl Into<Script>,
) -> (Result<Vec<ModelInfo>, ClientError>, Vec<RecordedRequest>) {
    let server = server(script).await;
    let result = within(list_models(&at(style, server.base_url()))).await;
    (result, server.requests())
}

/// A list with nothing in it.
fn empty(style: Style) -> Value {
    match style {
        GEMINI => json!({"models": []}),
        _ => json!({"data": []}),
    }
}

fn paths(requests: &[RecordedRequest]) -> Vec<&str> {
    requests.iter().map(RecordedRequest::path).collect()
}

// CLIENT-138, CLIENT-137, CLIENT-1, case G1: sorted, and no `model` in the options
#[tokio::test]
async fn openai_models_are_sorted_by_id() {
    let reply = Reply::json(json!({"object": "list", "data": [
        {"id": "z-large", "name": "Z Large", "context_length": 131_072},
        {"id": "a-small"},
    ]}));
    let (models, requests) = listed(OPENAI, reply).await;
    let expected = [model("a-small", None, None), model("z-large", Some("Z Large"), Some(131_072))];
    assert_eq!(models.unwrap(), expected);
    assert_eq!(paths(&requests), ["/v1/models"]);
    assert_eq!((requests[0].method(), requests[0].body().len()), ("GET", 0));
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-test-123456"));
}

// CLIENT-138: the spellings of other servers; what makes no sense is left out; ids sort by byte
#[tokio::test]
async fn odd_entries_cost_only_themselves() {
    let (models, _) = listed(
        OPENAI,
        Reply::json(json!({"data": [
            {"id": "é"},
            {"id": "window", "context_window": 8192, "name": ""},
            {"id": "vllm", "max_model_len": 32_768.0, "name": null},
            {"id": "mistral", "max_context_length": 32_000, "name": 7},
            {"id": "Upper", "context_length": null, "max_model_len": 5},
            {"id": "zero", "context_length": 0, "context_window": "many"},
            {"id": ""},
            {"id": 7},
            {"name": "nameless"},
            "text",
            null,
        ]})),
    )
    .await;
    let expected = [
        model("Upper", None, Some(5)),
        model("mistral", None, Some(32_000)),
        model("vllm", None, Some(32_768)),
        model("window", None, Some(8192)),
        model("zero", None, None),
        model("é", None, None),
    ];
    assert_eq!(models.unwrap(), expected);
    // A bare array, as some servers send it.
    let (models, _) = listed(OPENAI, Reply::json(json!([{"id": "bare"}]))).await;
    assert_eq!(models.unwrap(), [model("bare", None, None)]);
    // Half a surrogate is no reason to know nothing.
    let body = r#"{"data":[{"id":"a","name":"\ud83d"}]}"#;
    let (models, _) = listed(OPENAI, Reply::status(200).body(body)).await;
    assert_eq!(models.unwrap(), [model("a", Some("\u{fffd}"), None)]);
}

// CLIENT-137: one request: the fields that lead anthropic on mean nothing here
#[tokio::test]
async fn openai_has_one_page() {
    let reply = Reply::json(json!({"data": [{"id": "a"}], "has_more": true, "last_id": "a"}));
    let (models, requests) = listed(OPENAI, reply).await;
    assert_eq!((models.unwrap().len(), requests.len()), (1, 1));
}

// CLIENT-137, CLIENT-138, case G2
#[tokio::test]
async fn anthropic_pages_are_followed() {
    let script = Script::new()
        .reply(Reply::json(json!({
            "data": [{"type": "model", "id": "claude-b", "display_name": "Claude B"}],
            "has_more": true, "first_id": "claude-b", "last_id": "claude-b",
        })))
        .reply(Reply::json(json!({
            "data": [{"type": "model", "id": "claude-a", "display_name": "Claude A"}],
            "has_more": false, "first_id": "claude-a", "last_id": "claude-a",
        })));
    let (models, requests) = listed(ANTHROPIC, script).await;
    let models = models.unwrap();
    assert_eq!(
        models,
        [model("claude-a", Some("Claude A"), None), model("claude-b", Some("Claude B"), None)]
    );
    assert_eq!(paths(&requests), ["/v1/models", "/v1/models?after_id=claude-b"]);
    for request in &requests {
        assert_eq!(request.header("x-api-key"), Some(KEY));
        assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    }
}

// CLIENT-137: a list that does not move on ends
#[tokio::test]
async fn anthropic_pages_end_where_they_lead_nowhere() {
    let page = |id: &str, last_id: Value| {
        Reply::json(json!({"data": [{"id": id}], "has_more": true, "last_id": last_id}))
    };
    let script = Script::new().reply(page("a", json!("a"))).reply(page("b", json!("a")));
    let (models, requests) = listed(ANTHROPIC, script).await;
    assert_eq!((models.unwrap().len(), requests.len()), (2, 2));
    for last_id in [json!(null), json!(""), json!(7)] {
        let (models, requests) = listed(ANTHROPIC, page("a", last_id)).await;
        assert_eq!((models.unwrap().len(), requests.len()), (1, 1));
    }
    let (models, requests) = listed(ANTHROPIC, Reply::json(json!({"data": [], "last_id": "a"}))).await;
    assert_eq!((models.unwrap().len(), requests.len()), (0, 1));
}

// CLIENT-137, CLIENT-138, CLIENT-151
#[tokio::test]
async fn gemini_pages_are_followed() {
    let script = Script::new()
        .reply(Reply::json(json!({
            "models": [
                {"name": "models/gemini-b", "displayName": "Gemini B", "inputTokenLimit": 1_048_576},
                {"name": "tuned/mine"},
                {"name": "models/"},
                {"displayName": "nameless"},
            ],
            "nextPageToken": "a+b/c=&d",
        })))
        .reply(Reply::json(json!({"models": [{"name": "models/gemini-a"}], "nextPageToken": ""})));
    let server = server(script).await;
    let models = within(list_models(&at(GEMINI, server.origin()))).await.unwrap();
    let expected = [
        model("gemini-a", None, None),
        model("gemini-b", Some("Gemini B"), Some(1_048_576)),
        model("tuned/mine", None, None),
    ];
    assert_eq!(models, expected);
    let requests = server.requests();
    assert_eq!(
        paths(&requests),
        ["/v1beta/models?pageSize=1000", "/v1beta/models?pageSize=1000&pageToken=a%2Bb%2Fc%3D%26d"]
    );
    assert!(requests.iter().all(|request| request.header("x-goog-api-key") == Some(KEY)));
}

// CLIENT-137: a list without end is cut
#[tokio::test]
async fn a_hundred_pages_are_read_at_most() {
    for style in [ANTHROPIC, GEMINI] {
        let script = Script::respond_with(move |request| {
            let id = format!("m{:03}", request.index());
            Reply::json(match style {
                GEMINI => json!({"models": [{"name": id}], "nextPageToken": id}),
                _ => json!({"data": [{"id": id}], "has_more": true, "last_id": id}),
            })
        });
        let (models, requests) = listed(style, script).await;
        let models = models.unwrap();
        assert_eq!((models.len(), requests.len()), (100, 100), "{style}");
        assert_eq!(models[99].id, "m099");
    }
    // A token that stays the same leads nowhere.
    let stuck = Script::always(Reply::json(json!({"models": [{"name": "a"}], "nextPageToken": "t"})));
    assert_eq!(listed(GEMINI, stuck).await.1.len(), 2);
}

// CLIENT-137, CLIENT-11, CLIENT-151: where the list is, whatever the base URL looks like
#[tokio::test]
async fn the_list_lies_where_the_base_leads() {
    let server = server(Script::respond_with(|request| {
        Reply::json(empty(if request.path().contains("pageSize") { GEMINI } else { OPENAI }))
    }))
    .await;
    for (style, base, expected) in [
        (OPENAI, "/v1", "/v1/models"),
        (OPENAI, "/v1//", "/v1/models"),
        (OPENAI, "", "/models"),
        (OPENAI, "/api/v1?api-version=7", "/api/v1/models?api-version=7"),
        (ANTHROPIC, "", "/v1/models"),
        (ANTHROPIC, "/v1/", "/v1/models"),
        (ANTHROPIC, "/proxy", "/proxy/v1/models"),
        (GEMINI, "", "/v1beta/models?pageSize=1000"),
        (GEMINI, "/v1alpha/", "/v1alpha/models?pageSize=1000"),
        (GEMINI, "/v1?tenant=a", "/v1/models?tenant=a&pageSize=1000"),
    ] {
        let options = at(style, format!("{}{base}", server.origin()));
        assert_eq!(within(list_models(&options)).await.unwrap(), [], "{style} {base}");
        assert_eq!(server.requests().last().unwrap().path(), expected, "{style} {base}");
    }
    // The model of the options plays no part.
    let named = ClientOptions { model: "tuned/m:x".into(), ..at(GEMINI, server.origin()) };
    within(list_models(&named)).await.unwrap();
    assert_eq!(server.requests().last().unwrap().path(), "/v1beta/models?pageSize=1000");
}

// CLIENT-137, CLIENT-12: custom headers are there and win
#[tokio::test]
async fn headers_of_the_options_are_sent() {
    for style in STYLES {
        let server = server(Reply::json(empty(style))).await;
        let headers =
            [("X-Tenant", "blue"), ("AUTHORIZATION", "own"), ("X-Api-Key", "own"), ("x-goog-api-key", "own")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        within(list_models(&ClientOptions { headers, ..at(style, server.base_url()) })).await.unwrap();
        let requests = server.requests();
        assert_eq!(requests[0].header("x-tenant"), Some("blue"));
        for name in ["authorization", "x-api-key", "x-goog-api-key"] {
            assert_eq!(requests[0].header(name), Some("own"), "{style}");
            let sent = requests[0].headers().iter().filter(|(sent, _)| sent.eq_ignore_ascii_case(name));
            assert_eq!(sent.count(), 1);
        }
    }
}

// CLIENT-1, CLIENT-6, CLIENT-9: what cannot be used is told before anything is sent
#[tokio::test]
async fn options_that_cannot_be_used_send_nothing() {
    let double = Double::new([]);
    let given = |change: fn(&mut ClientOptions)| {
        let mut options = double.options(OPENAI);
        change(&mut options);
        options
    };
    for (options, said) in [
        (given(|options| options.base_url = " ".into()), "base_url is empty"),
        (given(|options| options.base_url = "ftp://double.test".into()), "base_url has the scheme \"ftp\""),
        (given(|options| options.api_key = "".into()), "no API key: set api_key or api_key_env"),
        (given(|options| options.api_key = "a\nb".into()), "the API key from api_key"),
        (
            given(|options| {
                options.api_key = "".into();
                options.api_key_env = Some("TOOLNEXUS_TEST_SURELY_UNSET".into());
            }),
            "TOOLNEXUS_TEST_SURELY_UNSET",
        ),
    ] {
        match list_models(&options).await {
            Err(ClientError::Config(text)) => assert!(text.contains(said), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(double.count(), 0);
}

fn refused(result: Result<Vec<ModelInfo>, ClientError>) -> ProviderError {
    match result {
        Err(ClientError::Provider(error)) => error,
        other => panic!("{other:?}"),
    }
}

// CLIENT-138, CLIENT-104..108, CLIENT-10: a provider's error, once, without what it gives away
#[tokio::test]
async fn an_error_answer_is_a_provider_error() {
    let (result, requests) = listed(OPENAI, Reply::status(401).body(format!("bad key {KEY}"))).await;
    let error = refused(result);
    assert_eq!((error.status, error.body.as_str(), error.message.as_str()), (401, "", "LLM 401"));
    assert_eq!(requests.len(), 1);

    let busy =
        Reply::status(500).header("Retry-After", "soon").json_body(json!({"org_id": "o", "said": KEY}));
    let (result, requests) = listed(OPENAI, busy).await;
    let error = refused(result);
    assert_eq!(error.message, r#"LLM 500: {"org_id":"«redacted»","said":"«redacted»"}"#);
    assert_eq!(error.retry_after.as_deref(), Some("soon"));
    assert_eq!(requests.len(), 1);

    let (result, _) = listed(OPENAI, Reply::status(404).body("<h1>Not Found</h1>")).await;
    assert_eq!(refused(result).message, "LLM 404: <h1>Not Found</h1>");
    let (result, _) = listed(OPENAI, Reply::status(500).body("half of it").cut()).await;
    assert_eq!(refused(result).message, "LLM 500: half of it");
    // No redirect is followed: the key would go along.
    let (result, requests) = listed(OPENAI, Reply::redirect(302, "/elsewhere")).await;
    assert_eq!((refused(result).status, requests.len()), (302, 1));
    // A later page that fails is a failure: half a list would pass for a whole one.
    let script = Script::new()
        .reply(Reply::json(json!({"data": [{"id": "a"}], "has_more": true, "last_id": "a"})))
        .reply(Reply::status(429));
    assert_eq!(refused(listed(ANTHROPIC, script).await.0).status, 429);
}

// CLIENT-138, CLIENT-10: a 2xx that is no list
#[tokio::test]
async fn an_answer_without_the_array_is_invalid() {
    let invalid = async |style: Style, reply: Reply| match listed(style, reply).await.0 {
        Err(ClientError::InvalidResponse(text)) => text,
        other => panic!("{other:?}"),
    };
    let html = Reply::status(200).header("Content-Type", "text/html").body("<html>Welcome</html>");
    let said = invalid(OPENAI, html).await;
    assert!(said.contains("not JSON") && said.contains("<html>Welcome</html>"), "{said}");
    assert!(invalid(OPENAI, Reply::status(200)).await.contains("is empty"));
    for style in STYLES {
        let key = if style == GEMINI { "models" } else { "data" };
        for body in [json!({}), json!({key: null}), json!({key: {"id": "a"}}), json!("text"), json!(null)] {
            let said = invalid(style, Reply::json(body)).await;
            assert!(said.contains(&format!("it has no array \"{key}\"")), "{style}: {said}");
        }
    }
    assert!(invalid(ANTHROPIC, Reply::json(json!([]))).await.contains("no array"));
    let said = invalid(OPENAI, Reply::json(json!({"error": format!("no such key {KEY}")}))).await;
    assert!(said.contains("no such key «redacted»") && !said.contains(KEY), "{said}");
}

// CLIENT-137, CLIENT-25: no answer at all
#[tokio::test]
async fn no_answer_is_a_transport_error() {
    let base_url = free_port_url().unwrap();
    match within(list_models(&at(OPENAI, base_url.clone()))).await {
        Err(ClientError::Transport { context, .. }) => {
            assert!(context.contains("http://127.0.0.1:"), "{context}")
        }
        other => panic!("{other:?}"),
    }
    for reply in [Reply::close(), Reply::status(200).body(r#"{"data":"#).cut()] {
        let (result, requests) = listed(OPENAI, reply).await;
        assert!(matches!(result, Err(ClientError::Transport { .. })), "{result:?}");
        assert_eq!(requests.len(), 1);
    }
}

// CLIENT-138: an answer that does not end is not read to its end
#[tokio::test]
async fn an_answer_has_a_limit() {
    let huge = Reply::status(200).body(r#"{"data":""#).fill(b'x', 65 * 1024 * 1024);
    match listed(OPENAI, huge).await.0 {
        Err(ClientError::InvalidResponse(text)) => assert!(text.contains("over the limit"), "{text}"),
        other => panic!("{other:?}"),
    }
}

// CLIENT-137, CLIENT-103: `timeout_ms` bounds all pages together
#[tokio::test(start_paused = true)]
async fn the_deadline_is_that_of_the_whole_list() {
    let page = json!({"data": [{"id": "a"}], "has_more": true, "last_id": "a"});
    let (held, mut dropped) = oneshot::channel();
    let double = Double::new([Answer::json(&page), Answer::Hang(held)]);
    let options = ClientOptions { timeout_ms: 250, ..double.options(ANTHROPIC) };
    let start = tokio::time::Instant::now();
    let result = list_models(&options).await;
    assert!(matches!(result, Err(ClientError::Timeout { timeout_ms: 250 })), "{result:?}");
    assert_eq!((start.elapsed(), double.count()), (Duration::from_millis(250), 2));
    // The request has ended with it, and heard of it.
    assert_eq!(dropped.try_recv(), Err(TryRecvError::Closed));
    assert!(double.seen()[1].request.cancel.is_cancelled());

    let (held, mut dropped) = oneshot::channel();
    let double = Double::new([Answer::hanging_body(r#"{"data":["#, held)]);
    let options = ClientOptions { timeout_ms: 250, ..double.options(ANTHROPIC) };
    assert!(matches!(list_models(&options).await, Err(ClientError::Timeout { .. })));
    assert_eq!(dropped.try_recv(), Err(TryRecvError::Closed));
}

// CLIENT-137, CLIENT-102: dropping the future ends the request
#[tokio::test]
async fn dropping_the_list_ends_its_request() {
    let server = server(Reply::hang()).await;
    let options = at(OPENAI, server.base_url());
    let listing = tokio::spawn(async move { list_models(&options).await });
    within(server.wait_for_requests(1)).await;
    listing.abort();
    within(server.wait_for_aborted(1)).await;
}

// CLIENT-137, CLIENT-24, CLIENT-25: the host's HTTP client carries the request; there are no retries
#[tokio::test]
async fn the_list_goes_through_the_seam_once() {
    for style in STYLES {
        let double = Double::new([Answer::json(&empty(style))]);
        assert_eq!(list_models(&double.options(style)).await.unwrap(), []);
        let request = double.seen()[0].request.clone();
        assert_eq!((request.method.as_str(), request.body.is_empty()), ("GET", true));
        assert!(request.url.as_str().starts_with("http://double.test/v1/models"));
        assert!(!request.url.as_str().contains(KEY));
    }
    let failing: [fn() -> Answer; 2] = [|| Answer::Fail("down"), || Answer::status(503, &[], "")];
    for answer in failing {
        let double = Double::new([answer()]);
        let options = ClientOptions { retries: Some(5), ..double.options(OPENAI) };
        list_models(&options).await.unwrap_err();
        assert_eq!(double.count(), 1);
    }
}

// CLIENT-137: a client lists with its own options and connections
#[tokio::test]
async fn a_client_lists_over_its_connections() {
    let server: ModelServer = server(Script::always(Reply::json(json!({"data": [{"id": "a"}]})))).await;
    let client = create_client(at(OPENAI, server.base_url()));
    for _ in 0..2 {
        assert_eq!(within(client.list_models()).await.unwrap(), [model("a", None, None)]);
    }
    assert_eq!((server.request_count(), server.accepted_connections()), (2, 1));
}

// CLIENT-138
#[test]
fn what_is_not_known_is_left_out_of_the_json() {
    let known = model("a", Some("A"), Some(5));
    assert_eq!(serde_json::to_value(&known).unwrap(), json!({"id": "a", "name": "A", "context_length": 5}));
    let bare = model("a", None, None);
    assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"id":"a"}"#);
    assert_eq!(serde_json::from_str::<ModelInfo>(r#"{"id":"a"}"#).unwrap(), bare);
}
