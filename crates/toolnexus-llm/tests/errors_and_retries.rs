//! What goes wrong on the way to the model: retries and their waits, errors and what they show,
//! cancellation, deadlines, and runs that are dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;
use support::double::{Answer, Double};
use support::tools::{add, asking, fixed, stuck};
use support::{CONTENT_STYLES, KEY, STYLES, options, reply, server, within};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxFuture, Toolkit, WaitFor};
use toolnexus_llm::http::{HttpRequest, HttpResponse, HttpTransport, TransportError};
use toolnexus_llm::{
    AskOptions, ClientError, ClientOptions, ERROR_BODY_CAP, ErrorInfo, ProviderError, REDACTED_BODY_KEYS,
    REDACTION_TOKEN, RETRYABLE_STATUSES, RunOptions, RunResult, StreamEvent, StreamOptions, Style, Tier,
    create_client,
};
use toolnexus_testkit::model::{Reply, Script, free_port_url};

const OPENAI: Style = Style::OpenAI;

/// Runs one prompt against a double; the result and the double.
async fn run(
    answers: impl IntoIterator<Item = Answer>,
    change: impl FnOnce(ClientOptions) -> ClientOptions,
) -> (Result<RunResult, ClientError>, Arc<Double>) {
    let double = Double::new(answers);
    let client = create_client(change(double.options(OPENAI)));
    (client.run("hi", &Toolkit::default()).await, double)
}

fn retries(n: u32) -> impl FnOnce(ClientOptions) -> ClientOptions {
    move |options| ClientOptions { retries: Some(n), ..options }
}

fn status(status: u16) -> Answer {
    Answer::status(status, &[], "no")
}

fn ok() -> Answer {
    Answer::text(OPENAI, "ok")
}

fn provider(result: Result<RunResult, ClientError>) -> ProviderError {
    match result {
        Err(ClientError::Provider(error)) => error,
        other => panic!("{other:?}"),
    }
}

// CLIENT-95, CLIENT-94, case R1
#[tokio::test(start_paused = true)]
async fn a_valid_retry_after_is_waited_exactly() {
    for (header, seconds) in [("2", 2), ("0", 0), ("  7  ", 7), ("2147483647", 2_147_483_647)] {
        for name in ["Retry-After", "retry-after", "RETRY-AFTER"] {
            let refused = Answer::status(503, &[(name, header)], "");
            let (result, double) = run([refused, ok()], retries(1)).await;
            assert_eq!(result.unwrap().text, "ok");
            assert_eq!(double.waits(), [Duration::from_secs(seconds)], "{name}: {header}");
        }
    }
}

// CLIENT-95, CLIENT-94, case R2
#[tokio::test(start_paused = true)]
async fn any_other_retry_after_is_no_opinion() {
    for header in [
        "0.5",
        "5.9",
        "-5",
        "+5",
        "2147483648",
        "99999999999999999999",
        "",
        "abc",
        "٣",
        "1 2",
        "Wed, 21 Oct 2015 07:28:00 GMT",
    ] {
        let (result, double) =
            run([Answer::status(429, &[("Retry-After", header)], ""), ok()], retries(1)).await;
        result.unwrap();
        assert_backoff(&double, &[500]);
    }
}

/// Each wait is its base plus at most 99 ms.
fn assert_backoff(double: &Double, bases_ms: &[u64]) {
    let waits = double.waits();
    assert_eq!(waits.len(), bases_ms.len());
    for (wait, base) in waits.iter().zip(bases_ms) {
        let base = Duration::from_millis(*base);
        assert!(*wait >= base && *wait < base + Duration::from_millis(100), "{wait:?} for {base:?}");
    }
}

// CLIENT-94, CLIENT-2
#[tokio::test(start_paused = true)]
async fn the_backoff_doubles_from_its_base() {
    let (_, double) = run((0..4).map(|_| status(500)).collect::<Vec<_>>(), retries(3)).await;
    assert_backoff(&double, &[500, 1000, 2000]);
    let base = |options| ClientOptions { retries: Some(2), retry_base_ms: 100, ..options };
    let (_, double) = run((0..3).map(|_| Answer::Fail("down")).collect::<Vec<_>>(), base).await;
    assert_backoff(&double, &[100, 200]);
    // Saturating: only the deadline ends such a wait.
    let endless = |options| ClientOptions { retry_base_ms: u64::MAX, timeout_ms: 200, ..retries(1)(options) };
    let (result, double) = run([status(503)], endless).await;
    assert!(matches!(result, Err(ClientError::Timeout { .. })));
    assert_eq!(double.count(), 1);
    // A header of an earlier answer says nothing about a later one.
    let answers = [Answer::status(503, &[("Retry-After", "9")], ""), status(503), ok()];
    let (_, double) = run(answers, retries(2)).await;
    assert_eq!(double.waits()[0], Duration::from_secs(9));
    assert!(double.waits()[1] >= Duration::from_secs(1) && double.waits()[1] < Duration::from_millis(1100));
}

// CLIENT-92, CLIENT-2, case R3: two retries are the default
#[tokio::test(start_paused = true)]
async fn a_call_is_tried_three_times_by_default() {
    let default = |options| ClientOptions { retries: None, ..options };
    let (result, double) = run([status(503), status(503), ok()], default).await;
    assert_eq!(result.unwrap().turns, 1);
    assert_eq!(double.count(), 3);
    // Every attempt is the same request.
    assert!(double.seen().windows(2).all(|pair| {
        pair[0].request.body.to_bytes() == pair[1].request.body.to_bytes()
            && pair[0].request.headers == pair[1].request.headers
    }));
    let (result, double) = run([status(503), status(503), status(503)], default).await;
    assert_eq!((provider(result).status, double.count()), (503, 3));
    let (result, double) = run([status(503)], retries(0)).await;
    assert_eq!((provider(result).status, double.count()), (503, 1));
}

// CLIENT-92, CLIENT-104, case R4
#[tokio::test(start_paused = true)]
async fn the_budget_bounds_the_attempts() {
    let (result, double) = run([status(502), status(502)], retries(1)).await;
    assert_eq!((provider(result).status, double.count()), (502, 2));
}

/// A classifier that keeps what it is told.
fn classifier(tier: Tier) -> (Arc<Mutex<Vec<ErrorInfo>>>, impl FnOnce(ClientOptions) -> ClientOptions) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let change = move |options| ClientOptions {
        retries: Some(3),
        on_error: Some(Arc::new(move |info: &ErrorInfo| {
            kept.lock().unwrap().push(info.clone());
            tier
        })),
        ..options
    };
    (told, change)
}

// CLIENT-92, CLIENT-93, case R5
#[tokio::test(start_paused = true)]
async fn a_classifier_may_retry_what_is_final() {
    let (result, double) = run([status(400)], retries(3)).await;
    assert_eq!((provider(result).status, double.count()), (400, 1));

    let (told, change) = classifier(Tier::Retry);
    let (result, double) = run((0..4).map(|_| status(400)).collect::<Vec<_>>(), change).await;
    assert_eq!((provider(result).status, double.count()), (400, 4));
    // The last attempt is told too.
    let told = told.lock().unwrap();
    assert_eq!(told.iter().map(|info| info.attempt).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(told.iter().all(|info| !info.retryable && info.status == Some(400) && info.error.is_none()));
}

// CLIENT-92, CLIENT-93, case R6
#[tokio::test(start_paused = true)]
async fn a_classifier_may_give_up_what_is_retryable() {
    let (told, change) = classifier(Tier::Fail);
    let (result, double) = run([Answer::status(429, &[("Retry-After", "2")], "")], change).await;
    assert_eq!((provider(result).status, double.count()), (429, 1));
    assert_eq!(
        *told.lock().unwrap(),
        [ErrorInfo {
            error: None,
            status: Some(429),
            attempt: 0,
            retryable: true,
            retry_after: Some("2".into())
        }]
    );
}

// CLIENT-92: a transport failure has an error and no status
#[tokio::test(start_paused = true)]
async fn a_classifier_hears_of_transport_failures() {
    let (told, change) = classifier(Tier::Retry);
    let broken = Answer::pieces([Ok("{\"choices\":"), Err("the line went dead")]);
    let (result, double) = run([Answer::Fail("no route"), broken, ok()], change).await;
    assert_eq!(result.unwrap().text, "ok");
    assert_eq!(double.count(), 3);
    let told = told.lock().unwrap();
    let info = |attempt, error: &str| ErrorInfo {
        error: Some(error.into()),
        status: None,
        attempt,
        retryable: true,
        retry_after: None,
    };
    assert_eq!(*told, [info(0, "no route"), info(1, "the line went dead")]);
}

// CLIENT-93, cases R7: the default set, and nothing else
#[tokio::test(start_paused = true)]
async fn exactly_the_listed_statuses_are_retried() {
    assert_eq!(RETRYABLE_STATUSES, [429, 500, 502, 503, 504, 529]);
    for code in (300..600).filter(|code| *code != 304) {
        let (result, double) = run([status(code), ok()], retries(1)).await;
        let retried = RETRYABLE_STATUSES.contains(&code);
        assert_eq!((double.count(), result.is_ok()), if retried { (2, true) } else { (1, false) }, "{code}");
    }
    let widened = |options| ClientOptions { retries: Some(1), retryable_statuses: vec![520], ..options };
    let (result, double) = run([status(520), ok()], widened).await;
    assert_eq!((result.unwrap().text.as_str(), double.count()), ("ok", 2));
    // It only widens.
    let (_, double) = run([status(503), ok()], widened).await;
    assert_eq!(double.count(), 2);
}

// CLIENT-92: success is any 2xx
#[tokio::test(start_paused = true)]
async fn any_2xx_is_an_answer() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"ok"}}]}"#;
    for code in [200, 201, 299] {
        let (result, _) = run([Answer::status(code, &[], body)], retries(0)).await;
        assert_eq!(result.unwrap().text, "ok");
    }
}

// CLIENT-92, CLIENT-33: what is final after its retries is an `Err`, not a turn
#[tokio::test(start_paused = true)]
async fn a_broken_body_is_a_failed_attempt_and_then_an_error() {
    let broken = || Answer::pieces([Ok("{"), Err("the line went dead")]);
    let (result, double) = run([broken(), broken()], retries(1)).await;
    let error = result.unwrap_err();
    assert!(matches!(error, ClientError::Transport { .. }), "{error:?}");
    assert!(error.to_string().contains("the line went dead"), "{error}");
    assert_eq!(double.count(), 2);
}

// CLIENT-98: a stream is retried up to its head
#[tokio::test(start_paused = true)]
async fn a_stream_is_retried_up_to_the_head_of_its_answer() {
    for style in STYLES {
        let double = Double::new([status(503), Answer::Fail("no route"), Answer::streamed_text(style, "ok")]);
        let client = create_client(ClientOptions { retries: Some(2), ..double.options(style) });
        let result = client.stream("hi", &Toolkit::default()).finish().await.unwrap();
        assert_eq!((result.text.as_str(), double.count()), ("ok", 3));

        let double = Double::new([Answer::pieces([Ok(": comment\n\n"), Err("the line went dead")])]);
        let client = create_client(ClientOptions { retries: Some(2), ..double.options(style) });
        let error = client.stream("hi", &Toolkit::default()).finish().await.unwrap_err();
        assert!(matches!(error, ClientError::Transport { .. }), "{error:?}");
        assert!(error.to_string().contains("the line went dead"), "{error}");
        assert_eq!(double.count(), 1);
    }
}

// CLIENT-104..CLIENT-106, CLIENT-108, case E1
#[tokio::test]
async fn a_provider_error_is_redacted_and_whole() {
    let body = r#"{"error":{"message":"no credit","user_id":"user_2abcdefghijkl","org_id":"org_9","account_id":"acct_7","organization":"acme"}}"#;
    let redacted = r#"{"error":{"message":"no credit","user_id":"«redacted»","org_id":"«redacted»","account_id":"«redacted»","organization":"«redacted»"}}"#;
    for style in STYLES {
        let script = Script::always(Reply::status(402).header("Retry-After", "3").body(body));
        let server = server(script).await;
        let client = create_client(options(style, server.base_url()));
        let error = provider(within(client.run("hi", &Toolkit::default())).await);
        assert_eq!(
            (error.status, error.body.as_str(), error.retry_after.as_deref()),
            (402, redacted, Some("3"))
        );
        assert_eq!(error.message, format!("LLM 402: {redacted}"));
        assert_eq!(error.to_string(), error.message);
        // The same on a stream.
        let streamed = provider(within(client.stream("hi", &Toolkit::default()).finish()).await);
        assert_eq!(streamed, error);
    }
    assert_eq!(REDACTED_BODY_KEYS, ["user_id", "account_id", "org_id", "organization"]);
    assert_eq!((REDACTION_TOKEN, ERROR_BODY_CAP), ("«redacted»", 200));
}

// CLIENT-106: bytes with nothing to redact stay; text is searched for the same keys
#[tokio::test]
async fn an_error_body_is_kept_as_it_came() {
    for (sent, kept) in [
        ("{ \"error\" : [1,  2.50] }\n", "{ \"error\" : [1,  2.50] }\n"),
        (r#"{ "b": 1, "user_id": {"deep": true}, "a": 2 }"#, r#"{"b":1,"user_id":"«redacted»","a":2}"#),
        (r#"<p>{"org_id": "org_9"</p>"#, r#"<p>{"org_id": "«redacted»"</p>"#),
    ] {
        let (result, _) = run([Answer::status(400, &[], sent)], retries(0)).await;
        assert_eq!(provider(result).body, kept);
    }
}

// CLIENT-107, CLIENT-108, case E2
#[tokio::test]
async fn a_refused_credential_shows_no_body() {
    for code in [401, 403] {
        let (result, _) =
            run([Answer::status(code, &[], r#"{"error":"invalid key sk-live-DEADBEEF"}"#)], retries(0)).await;
        let error = provider(result);
        assert_eq!((error.body.as_str(), error.message), ("", format!("LLM {code}")));
    }
}

// CLIENT-106, CLIENT-108, case E3
#[tokio::test]
async fn the_message_is_cut_and_the_body_is_not() {
    let (result, _) = run([Answer::status(500, &[], "x".repeat(500))], retries(0)).await;
    let error = provider(result);
    assert_eq!(error.body, "x".repeat(500));
    assert_eq!(error.message, format!("LLM 500: {}…", "x".repeat(200)));
    // Characters, not bytes; exactly at the cap nothing is cut.
    let (result, _) = run([Answer::status(500, &[], "é".repeat(200))], retries(0)).await;
    assert_eq!(provider(result).message, format!("LLM 500: {}", "é".repeat(200)));
    let (result, _) = run([Answer::status(500, &[], "")], retries(0)).await;
    assert_eq!(provider(result).message, "LLM 500");
    // A long body is whole: 3 MiB.
    let (result, _) = run([Answer::status(500, &[], "x".repeat(3 << 20))], retries(0)).await;
    assert_eq!(provider(result).body.len(), 3 << 20);
    // One that breaks off says what it has said.
    let server = server(Reply::status(500).body("half of it").cut()).await;
    let client = create_client(options(OPENAI, server.base_url()));
    assert_eq!(provider(within(client.run("hi", &Toolkit::default())).await).body, "half of it");
}

// CLIENT-105, case E4
#[tokio::test]
async fn a_retry_after_is_handed_on_as_it_came() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    let (result, _) = run([Answer::status(429, &[("Retry-After", date)], "")], retries(0)).await;
    assert_eq!(provider(result).retry_after.as_deref(), Some(date));
    let (result, _) = run([status(429)], retries(0)).await;
    assert_eq!(provider(result).retry_after, None);
}

// CLIENT-10, case K6
#[tokio::test]
async fn an_echoed_key_is_never_shown() {
    let echo = format!("bad key {KEY}");
    let (result, _) = run([Answer::status(400, &[], echo.clone())], retries(0)).await;
    let error = provider(result);
    assert_eq!(error.body, "bad key «redacted»");
    assert!(!format!("{error:?} {error}").contains(KEY));

    // Also where the answer is no error to HTTP, in every reading of it, and across the cut.
    let across_the_cut = format!("{}{KEY}", "x".repeat(190));
    let in_place = format!(r#"{{"choices":"{KEY}"}}"#);
    let in_content = format!(r#"{{"content":"{KEY}"}}"#);
    for body in [echo, across_the_cut, in_place, in_content] {
        for style in STYLES {
            for streamed in [false, true] {
                let double = Double::new([Answer::status(200, &[], body.clone())]);
                let client = create_client(double.options(style));
                let error = match streamed {
                    false => client.run("hi", &Toolkit::default()).await.unwrap_err(),
                    true => client.stream("hi", &Toolkit::default()).finish().await.unwrap_err(),
                };
                assert!(matches!(error, ClientError::InvalidResponse(_)), "{error:?}");
                let shown = format!("{error:?} {error}");
                assert!(!shown.contains("sk-test"), "{shown}");
            }
        }
    }
    // And in an error inside a stream.
    let event = format!("data: {}\n\n", json!({"error": {"message": format!("bad key {KEY}")}}));
    let double = Double::new([Answer::status(200, &[], event)]);
    let error =
        create_client(double.options(OPENAI)).stream("hi", &Toolkit::default()).finish().await.unwrap_err();
    assert_eq!(error.to_string(), r#"LLM stream error: {"error":{"message":"bad key «redacted»"}}"#);
}

// CLIENT-13, case K7
#[tokio::test]
async fn a_redirect_is_an_error_and_goes_nowhere() {
    for style in STYLES {
        for code in [301, 302, 303, 307, 308] {
            let elsewhere = server(Script::always(reply(style).text("caught"))).await;
            let here =
                server(Reply::redirect(code, &format!("{}/chat/completions", elsewhere.base_url()))).await;
            let client = create_client(ClientOptions { retries: Some(2), ..options(style, here.base_url()) });
            let error = provider(within(client.run("hi", &Toolkit::default())).await);
            assert_eq!(error.status, code);
            assert_eq!((here.request_count(), elsewhere.accepted_connections()), (1, 0));
        }
    }
}

// CLIENT-32: an answer that cannot be read shows itself, is not retried
#[tokio::test]
async fn unreadable_answers_are_errors_that_show_what_came() {
    let gateway = json!({"error": {"message": "quota", "user_id": "u-1"}}).to_string();
    let long = format!("<html>{}</html>", "y".repeat(500));
    for (style, body, shown) in [
        (OPENAI, "not JSON", "not JSON"),
        (OPENAI, "", "empty"),
        (OPENAI, "{}", "{}"),
        (OPENAI, r#"{"choices":[]}"#, r#"{"choices":[]}"#),
        (OPENAI, r#"{"choices":[{}]}"#, "choices[0].message"),
        (OPENAI, r#"{"choices":[{"message":null}]}"#, "choices[0].message"),
        (OPENAI, r#"{"choices":[{"message":"text"}]}"#, "choices[0].message"),
        (OPENAI, gateway.as_str(), r#"{"error":{"message":"quota","user_id":"«redacted»"}}"#),
        (OPENAI, long.as_str(), "yyy…"),
        (OPENAI, r#"{"choices":[{"message":{"content":"x"}}]} trailing"#, "trailing"),
        (Style::Anthropic, "not JSON", "not JSON"),
        (Style::Anthropic, "{}", "content"),
        (Style::Anthropic, r#"{"content":null}"#, "content"),
        (Style::Anthropic, r#"{"content":"text"}"#, "content"),
        (Style::Anthropic, gateway.as_str(), "quota"),
    ] {
        let double = Double::new([Answer::status(200, &[], body.to_owned())]);
        let client = create_client(ClientOptions { retries: Some(2), ..double.options(style) });
        let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
        assert!(matches!(error, ClientError::InvalidResponse(_)), "{body}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(shown), "{body}: {text}");
        assert!(text.chars().count() < 400, "{text}");
        assert_eq!(double.count(), 1);
    }
}

// CLIENT-92, CLIENT-13: what the network does, over real sockets
#[tokio::test]
async fn broken_connections_are_transport_errors() {
    let base = free_port_url().unwrap();
    let client = create_client(options(OPENAI, &base));
    let error = within(client.run("hi", &Toolkit::default())).await.unwrap_err();
    let ClientError::Transport { .. } = &error else { panic!("{error:?}") };
    let text = error.to_string();
    assert!(text.contains("could not connect") && text.contains("base_url"), "{text}");
    assert!(!text.contains(KEY) && !text.contains("/chat/completions"), "{text}");

    let cut = || Reply::from(Reply::openai().text("never whole").cut());
    for broken in [
        Reply::close(),
        Reply::reset(),
        cut(),
        Reply::status(200).body("{").cut_reset(),
        Reply::raw("not HTTP\r\n\r\n"),
    ] {
        let server = server(Script::from([broken])).await;
        let client = create_client(options(OPENAI, server.base_url()));
        let error = within(client.run("hi", &Toolkit::default())).await.unwrap_err();
        assert!(matches!(error, ClientError::Transport { .. }), "{error:?}");
    }
    // Each of them is worth another attempt.
    let server = server([cut(), Reply::from(Reply::openai().text("whole"))]).await;
    let quick = ClientOptions { retries: Some(1), retry_base_ms: 1, ..options(OPENAI, server.base_url()) };
    let result = within(create_client(quick).run("hi", &Toolkit::default())).await.unwrap();
    assert_eq!(result.text, "whole");
    // A stream that breaks is not retried.
    let server = support::server(Script::always(Reply::openai().text("Hel").cut())).await;
    let patient = ClientOptions { retries: Some(1), retry_base_ms: 1, ..options(OPENAI, server.base_url()) };
    let (events, error) =
        within(support::drain(create_client(patient).stream("hi", &Toolkit::default()))).await;
    assert_eq!(support::deltas(&events), ["Hel"]);
    assert!(matches!(error, Some(ClientError::Transport { .. })), "{error:?}");
    assert_eq!(server.request_count(), 1);
}

/// Where a run is when it is ended.
#[derive(Clone, Copy, Debug)]
enum Phase {
    RequestInFlight,
    ReadingTheBody,
    Backoff,
    ToolRunning,
    ResolverWaiting,
}

const PHASES: [Phase; 5] = [
    Phase::RequestInFlight,
    Phase::ReadingTheBody,
    Phase::Backoff,
    Phase::ToolRunning,
    Phase::ResolverWaiting,
];

type Running = BoxFuture<'static, Result<RunResult, ClientError>>;

/// A run that gets into a phase and stays there.
struct Stage {
    run: Running,
    double: Arc<Double>,
    /// Resolves when the phase is reached.
    reached: BoxFuture<'static, ()>,
    /// Resolves when what the phase holds was dropped.
    gone: BoxFuture<'static, ()>,
    /// Times that the classifier was asked.
    classified: Arc<Mutex<Vec<ErrorInfo>>>,
}

fn stage(phase: Phase, style: Style, streamed: bool, cancel: CancellationToken, timeout_ms: u64) -> Stage {
    let (held, dropped) = oneshot::channel::<()>();
    let gone = dropped.map(|_| ()).boxed();
    let call = |name| {
        if streamed {
            Answer::pieces([Ok(match style {
                Style::Anthropic => format!(
                    "data: {}\n\ndata: {}\n\n",
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "1", "name": name, "input": {}}}),
                    json!({"type": "message_stop"}),
                ),
                _ => format!(
                    "data: {}\n\ndata: [DONE]\n\n",
                    json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "1", "function": {"name": name, "arguments": "{}"}}]}}]}),
                ),
            })])
        } else {
            Answer::calls(style, &[("1", name, json!({}))])
        }
    };
    let slow = stuck("slow");
    let (ask, _) = asking("ask", "?");
    let (asked, resolver_reached) = oneshot::channel::<()>();
    let mut resolver_held = Some((asked, held));
    let (answer, reached_at_double) = match phase {
        Phase::RequestInFlight => (Answer::Hang(resolver_held.take().unwrap().1), true),
        Phase::ReadingTheBody => (Answer::hanging_body("data: {", resolver_held.take().unwrap().1), true),
        Phase::Backoff => {
            resolver_held.take();
            (Answer::status(503, &[("Retry-After", "1000")], ""), true)
        }
        Phase::ToolRunning => (call("slow"), false),
        Phase::ResolverWaiting => (call("ask"), false),
    };
    let resolver_held = Arc::new(Mutex::new(resolver_held));
    let wait_for: WaitFor = Arc::new(move |_request| {
        let (asked, held) = resolver_held.lock().unwrap().take().unwrap();
        Box::pin(async move {
            let _held = held;
            let _ = asked.send(());
            std::future::pending().await
        })
    });
    let double = Double::new([answer]);
    let (classified, change) = classifier(Tier::Retry);
    let client = create_client(ClientOptions {
        wait_for: Some(wait_for),
        timeout_ms,
        ..change(double.options(style))
    });
    let toolkit = Toolkit::from_tools([slow.tool, ask]);
    let run: Running = if streamed {
        let options = StreamOptions { cancel: Some(cancel), ..Default::default() };
        Box::pin(client.stream_with("hi", &toolkit, options).finish())
    } else {
        let options = RunOptions { cancel: Some(cancel), ..Default::default() };
        Box::pin(async move { client.run_with("hi", &toolkit, options).await })
    };
    let at_double = Arc::clone(&double);
    let reached: BoxFuture<'static, ()> = match phase {
        _ if reached_at_double => Box::pin(async move { at_double.arrived().await }),
        Phase::ResolverWaiting => resolver_reached.map(|_| ()).boxed(),
        _ => {
            let started = slow.started;
            Box::pin(async move { drop(started.await) })
        }
    };
    let gone = match phase {
        Phase::ToolRunning => slow.dropped.map(|_| ()).boxed(),
        _ => gone,
    };
    Stage { run, double, reached, gone, classified }
}

// CLIENT-100, CLIENT-101, CLIENT-97, CLIENT-96, CLIENT-68, SUSPEND-23
#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_run_in_every_phase() {
    for style in CONTENT_STYLES {
        for streamed in [false, true] {
            for phase in PHASES {
                let cancel = CancellationToken::new();
                let Stage { run, double, reached, gone, classified } =
                    stage(phase, style, streamed, cancel.clone(), 0);
                let begun = Instant::now();
                let canceller = async {
                    reached.await;
                    // Let the run get from the event to its wait.
                    tokio::task::yield_now().await;
                    cancel.cancel();
                };
                let (result, ()) = tokio::join!(run, canceller);
                let error = result.unwrap_err();
                assert!(matches!(error, ClientError::Cancelled), "{phase:?}: {error:?}");
                assert_eq!(error.to_string(), "the run was cancelled");
                assert_eq!(begun.elapsed(), Duration::ZERO, "{phase:?}");
                gone.await;
                assert_eq!(double.count(), 1);
                let asked = usize::from(matches!(phase, Phase::Backoff));
                assert_eq!(classified.lock().unwrap().len(), asked, "{phase:?}");
                // Whoever holds the run's token hears of it.
                assert!(double.seen()[0].request.cancel.is_cancelled());
            }
        }
    }
}

// CLIENT-99, CLIENT-103, CLIENT-96, CLIENT-97, CLIENT-68, SUSPEND-23, case R8
#[tokio::test(start_paused = true)]
async fn the_deadline_bounds_every_phase() {
    for style in CONTENT_STYLES {
        for streamed in [false, true] {
            for phase in PHASES {
                let Stage { run, double, gone, classified, .. } =
                    stage(phase, style, streamed, CancellationToken::new(), 200);
                let begun = Instant::now();
                let error = run.await.unwrap_err();
                assert!(matches!(error, ClientError::Timeout { timeout_ms: 200 }), "{phase:?}: {error:?}");
                assert_eq!(error.to_string(), "run timeout after 200ms");
                let elapsed = begun.elapsed();
                assert!(
                    elapsed >= Duration::from_millis(200) && elapsed < Duration::from_millis(205),
                    "{elapsed:?}"
                );
                gone.await;
                assert_eq!(double.count(), 1);
                let asked = usize::from(matches!(phase, Phase::Backoff));
                assert_eq!(classified.lock().unwrap().len(), asked, "{phase:?}");
                assert!(double.seen()[0].request.cancel.is_cancelled());
            }
        }
    }
}

// CLIENT-102, CLIENT-124
#[tokio::test(start_paused = true)]
async fn dropping_a_run_drops_what_it_holds() {
    for style in CONTENT_STYLES {
        for streamed in [false, true] {
            for phase in PHASES {
                let Stage { mut run, double, mut reached, gone, .. } =
                    stage(phase, style, streamed, CancellationToken::new(), 0);
                tokio::select! {
                    biased;
                    _ = &mut run => panic!("it ended by itself"),
                    () = &mut reached => {}
                }
                assert!(!double.seen()[0].request.cancel.is_cancelled());
                drop(run);
                gone.await;
                assert!(double.seen()[0].request.cancel.is_cancelled());
                // Nothing goes on behind the caller's back.
                tokio::time::sleep(Duration::from_secs(5000)).await;
                assert_eq!(double.count(), 1);
            }
        }
    }
}

// CLIENT-101: a token that has fired already
#[tokio::test]
async fn a_run_that_is_cancelled_before_it_begins_sends_nothing() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let double = Double::new([]);
    let client = create_client(double.options(OPENAI));
    let ask = AskOptions { cancel: Some(cancel), ..Default::default() };
    let error = client.ask_with("hi", &Toolkit::default(), "c", ask).await.unwrap_err();
    assert!(matches!(error, ClientError::Cancelled));
    assert_eq!(double.count(), 0);
}

// CLIENT-100: a cancel that comes out of the run itself stops the next step
#[tokio::test]
async fn a_listener_or_a_tool_may_cancel_the_run() {
    for style in STYLES {
        // From an event: the tool that was announced does not run, what a result calls for is not sent.
        for (kind, args) in [("tool_call", json!({})), ("tool_result", json!("not readable"))] {
            let (tool, record) =
                support::tools::recorded("t", |_, _| toolnexus_core::ToolResult::success(""));
            let double = Double::new([Answer::calls(style, &[("1", "t", args)])]);
            let cancel = CancellationToken::new();
            let from_event = cancel.clone();
            let run = RunOptions {
                cancel: Some(cancel),
                on_event: Some(Arc::new(move |event: &StreamEvent| {
                    if support::kinds(std::slice::from_ref(event)) == [kind] {
                        from_event.cancel();
                    }
                })),
                ..Default::default()
            };
            let client = create_client(double.options(style));
            let error = client.run_with("hi", &Toolkit::from_tools([tool]), run).await.unwrap_err();
            assert!(matches!(error, ClientError::Cancelled));
            assert_eq!((record.count(), double.count()), (0, 1));
        }

        // From a tool: nobody is asked, nothing more is sent.
        let cancel = CancellationToken::new();
        let from_tool = cancel.clone();
        let (tool, _) = support::tools::recorded("t", move |_, _| {
            from_tool.cancel();
            toolnexus_core::ToolResult::success("stopped it all")
        });
        let (ask, _) = asking("ask", "?");
        let double = Double::new([Answer::calls(style, &[("1", "t", json!({})), ("2", "ask", json!({}))])]);
        let asked = Arc::new(Mutex::new(false));
        let kept = Arc::clone(&asked);
        let wait_for: WaitFor = Arc::new(move |_| {
            *kept.lock().unwrap() = true;
            Box::pin(std::future::pending())
        });
        let client = create_client(ClientOptions { wait_for: Some(wait_for), ..double.options(style) });
        let run = RunOptions { cancel: Some(cancel), ..Default::default() };
        let error = client.run_with("hi", &Toolkit::from_tools([tool, ask]), run).await.unwrap_err();
        assert!(matches!(error, ClientError::Cancelled));
        assert_eq!((double.count(), *asked.lock().unwrap()), (1, false));
    }
}

// CLIENT-97: a transport that ends by the cancel is no failed attempt
#[tokio::test]
async fn a_transport_that_hears_the_cancel_is_not_judged() {
    struct Interrupted(CancellationToken);
    impl HttpTransport for Interrupted {
        fn send(&self, _request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
            self.0.cancel();
            Box::pin(async { Err(TransportError::new("interrupted")) })
        }
    }
    let cancel = CancellationToken::new();
    let (classified, change) = classifier(Tier::Retry);
    let client = create_client(ClientOptions {
        http_client: Some(Arc::new(Interrupted(cancel.clone()))),
        ..change(options(OPENAI, "http://double.test/v1"))
    });
    let run = RunOptions { cancel: Some(cancel), ..Default::default() };
    let error = client.run_with("hi", &Toolkit::default(), run).await.unwrap_err();
    assert!(matches!(error, ClientError::Cancelled), "{error:?}");
    assert_eq!(classified.lock().unwrap().len(), 0);
}

// CLIENT-37, CLIENT-100: tools have the token; one that minds it is heard no more than one that does not
#[tokio::test]
async fn tools_are_given_the_token_of_the_run() {
    let slow = stuck("slow");
    let double = Double::new([Answer::calls(OPENAI, &[("1", "slow", json!({}))])]);
    let client = create_client(double.options(OPENAI));
    let cancel = CancellationToken::new();
    let toolkit = Toolkit::from_tools([slow.tool]);
    let run = RunOptions { cancel: Some(cancel.clone()), ..Default::default() };
    let run = client.run_with("hi", &toolkit, run);
    let canceller = async {
        let context = slow.started.await.unwrap();
        assert!(!context.cancel.is_cancelled());
        cancel.cancel();
        context.cancel.cancelled().await;
    };
    let (result, ()) = within(async { tokio::join!(run, canceller) }).await;
    assert!(matches!(result, Err(ClientError::Cancelled)));
    slow.dropped.await.unwrap_err();
}

// CLIENT-102: the caller's token is not fired by the end of a run
#[tokio::test]
async fn the_end_of_a_run_leaves_the_callers_token_alone() {
    let cancel = CancellationToken::new();
    let (tool, record) = support::tools::recorded("t", |_, _| toolnexus_core::ToolResult::success(""));
    let double = Double::new([Answer::calls(OPENAI, &[("1", "t", json!({}))]), ok(), status(400)]);
    let client = create_client(double.options(OPENAI));
    let toolkit = Toolkit::from_tools([tool]);
    let run = || RunOptions { cancel: Some(cancel.clone()), ..Default::default() };
    client.run_with("hi", &toolkit, run()).await.unwrap();
    // What a tool has started in the background may go on after a run that ended well.
    assert!(!record.all()[0].context.cancel.is_cancelled());
    client.run_with("hi", &toolkit, run()).await.unwrap_err();
    assert!(!cancel.is_cancelled());
}

// CLIENT-100, CLIENT-97, case R9: over a socket, the server sees the client go
#[tokio::test]
async fn a_cancel_closes_the_connection() {
    for streamed in [false, true] {
        let server = server(Reply::hang()).await;
        let (classified, change) = classifier(Tier::Retry);
        let client = create_client(change(options(OPENAI, server.base_url())));
        let cancel = CancellationToken::new();
        let toolkit = Toolkit::default();
        let run: Running = if streamed {
            let options = StreamOptions { cancel: Some(cancel.clone()), ..Default::default() };
            Box::pin(client.stream_with("hi", &toolkit, options).finish())
        } else {
            let options = RunOptions { cancel: Some(cancel.clone()), ..Default::default() };
            Box::pin(async move { client.run_with("hi", &toolkit, options).await })
        };
        let canceller = async {
            server.wait_for_requests(1).await;
            cancel.cancel();
        };
        let (result, ()) = within(async { tokio::join!(run, canceller) }).await;
        assert!(matches!(result, Err(ClientError::Cancelled)));
        within(server.wait_for_aborted(1)).await;
        assert_eq!((server.request_count(), classified.lock().unwrap().len()), (1, 0));
    }
}

// CLIENT-99: the deadline is that of the whole run, not of each call
#[tokio::test(start_paused = true)]
async fn the_deadline_counts_over_all_turns() {
    let wait = toolnexus_core::define_tool("wait", "", None, |_, _| async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        Ok::<_, String>("waited")
    });
    let calls = || Answer::calls(OPENAI, &[("1", "wait", json!({}))]);
    let double = Double::new([calls(), calls(), calls()]);
    let client = create_client(ClientOptions { timeout_ms: 400, ..double.options(OPENAI) });
    let begun = Instant::now();
    let error = client.run("hi", &Toolkit::from_tools([wait])).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { timeout_ms: 400 }));
    assert!(begun.elapsed() >= Duration::from_millis(400) && begun.elapsed() < Duration::from_millis(405));
    assert_eq!(double.count(), 3);
}

// CLIENT-103: a transport's own timeout is a retryable failure, not the run's deadline
#[tokio::test(start_paused = true)]
async fn a_transport_timeout_is_not_the_deadline() {
    let (result, double) =
        run([Answer::Fail("no answer: timed out"), Answer::Fail("no answer: timed out")], retries(1)).await;
    assert!(matches!(result, Err(ClientError::Transport { .. })));
    assert_eq!(double.count(), 2);
}

// CLIENT-36, CLIENT-33: none of this is caused by tools
#[tokio::test]
async fn an_error_in_a_later_turn_ends_the_run() {
    let double = Double::new([
        Answer::calls(OPENAI, &[("1", "add", json!({"a": 1, "b": 2})), ("2", "t", json!({}))]),
        status(400),
    ]);
    let client = create_client(double.options(OPENAI));
    let result = client.run("hi", &Toolkit::from_tools([add(), fixed("t", "x")])).await;
    assert_eq!(provider(result).status, 400);
    assert_eq!(double.count(), 2);
}

// design: errors can be boxed, sent and matched
#[test]
fn errors_are_errors() {
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<ClientError>();
    error::<ProviderError>();
}

// CLIENT-32, D15: an answer without end is cut off at the limit and not asked for again
#[tokio::test]
async fn an_answer_over_the_size_limit_is_unreadable() {
    let piece = bytes::Bytes::from(vec![b' '; 1 << 20]);
    let endless = Answer::pieces(std::iter::repeat_n(Ok(piece), 66));
    let (result, double) = run([endless, ok()], retries(2)).await;
    let Err(ClientError::InvalidResponse(message)) = result else { panic!("{result:?}") };
    assert!(message.contains("over the limit of 67108864 bytes"), "{message}");
    assert_eq!(double.count(), 1);
}
