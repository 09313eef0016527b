//! Credentials are in request headers and nowhere else, whatever a provider does with them.
//!
//! Beside this file, every test of this crate watches the logs: see `support::secrets`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::error::Error;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::secrets::{HEADER_SECRET, Watcher, shows_secret};
use support::tools::echo;
use support::{KEY, STYLES, drain, options, reply, server, within};
use toolnexus_core::Toolkit;
use toolnexus_core::redact::REDACTION_TOKEN;
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{Client, ClientError, ClientOptions, RunResult, Style, create_client};
use toolnexus_testkit::model::{Reply, Script};
use toolnexus_testkit::tracing_listener::listen_on_this_thread;
use tracing_subscriber::layer::SubscriberExt as _;

/// Both credentials, as a provider may echo them.
fn echoed() -> String {
    format!("{KEY}, and {HEADER_SECRET}!")
}

/// Options with a credential in the header of each style, beside the key.
fn with_secrets(style: Style, base_url: &str) -> ClientOptions {
    let name = match style {
        Style::OpenAI => "Authorization",
        Style::Anthropic => "X-Api-Key",
        Style::Gemini => "x-goog-api-key",
    };
    let value = if style == Style::OpenAI { format!("Bearer {HEADER_SECRET}") } else { HEADER_SECRET.into() };
    ClientOptions { headers: [(name.to_owned(), value)].into_iter().collect(), ..options(style, base_url) }
}

/// All that a host can get to see.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn add(&mut self, value: &impl std::fmt::Debug) {
        self.0.push(format!("{value:?}"));
        self.0.push(format!("{value:#?}"));
    }

    fn result(&mut self, result: &RunResult) {
        self.add(result);
        self.0.push(serde_json::to_string(result).unwrap());
    }

    fn error(&mut self, error: &ClientError) {
        self.add(error);
        if let ClientError::Provider(provider) = error {
            self.0.push(format!("{} {:?} {}", provider.body, provider.retry_after, provider.message));
        }
        let mut next: Option<&dyn Error> = Some(error);
        while let Some(error) = next {
            self.0.push(format!("{error} {error:?} {error:#?}"));
            next = error.source();
        }
    }

    fn outcome(&mut self, outcome: Result<RunResult, ClientError>) {
        match outcome {
            Ok(result) => self.result(&result),
            Err(error) => self.error(&error),
        }
    }

    #[track_caller]
    fn check(&self, what: &str) {
        for text in &self.0 {
            assert!(!shows_secret(text), "{what}: {text}");
            // Nor most of one, where an answer was cut off.
            let most = [KEY, HEADER_SECRET].iter().any(|secret| text.contains(&secret[..10]));
            assert!(!most, "{what}: {text}");
        }
    }
}

/// Every way to call the model.
async fn called_in_every_way(client: &Client, style: Style) -> Shown {
    let toolkit = Toolkit::from_tools([echo()]);
    let mut shown = Shown::default();
    shown.add(client);
    shown.outcome(within(client.run("hi", &toolkit)).await);
    shown.outcome(within(client.ask("hi", &toolkit, "c")).await);
    let stored = client.conversation_store().get("c").await.unwrap();
    shown.0.push(serde_json::to_string(&stored).unwrap());
    let stream = client.stream("hi", &toolkit);
    shown.add(&stream);
    let (events, error) = within(drain(stream)).await;
    for event in &events {
        shown.add(event);
        shown.0.push(serde_json::to_string(event).unwrap());
    }
    error.iter().for_each(|error| shown.error(error));
    let messages = vec![json!({"role": "user", "content": "hi"})];
    match within(client.translate(TranslateRequest { messages, ..Default::default() })).await {
        Ok(result) => shown.add(&result),
        Err(error) => {
            assert!(style != Style::Gemini || matches!(error, ClientError::Unsupported(_)), "{error:?}");
            shown.error(&error);
        }
    }
    shown
}

/// The payload of an event with an error, and of one with a text.
fn error_event(style: Style, message: &str) -> String {
    let error = json!({"type": "x_error", "message": message});
    match style {
        Style::Anthropic => json!({"type": "error", "error": error}).to_string(),
        _ => json!({"error": error}).to_string(),
    }
}

fn text_event(style: Style, text: &str) -> String {
    match style {
        Style::Anthropic => {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
                .to_string()
        }
        Style::Gemini => json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}).to_string(),
        Style::OpenAI => json!({"choices": [{"delta": {"content": text}}]}).to_string(),
    }
}

/// A reply whose body is cut in the middle of the first credential, and of the second.
fn in_pieces(reply: Reply, body: &str) -> Reply {
    let cuts = [KEY, HEADER_SECRET].map(|secret| body.find(secret).unwrap() + 7);
    let (first, rest) = body.split_at(cuts[0]);
    let (second, third) = rest.split_at(cuts[1] - cuts[0]);
    [first, second, third].into_iter().fold(reply, |reply, piece| reply.chunk(piece.to_owned()))
}

/// Everything a provider can do with what it was sent.
fn misdeeds(style: Style) -> Vec<(&'static str, Reply)> {
    let echo = echoed();
    let error = json!({"error": {"message": format!("bad key {echo}"), "type": "invalid_request_error"}});
    let status = |status: u16| Reply::status(status).json_body(error.clone());
    let event = format!("data: {}\n\n", error_event(style, &format!("bad key {echo}")));
    let text = format!("data: {}\n\n", text_event(style, &format!("your key is {echo}")));
    let long = format!("{}{echo}", "x".repeat(193));
    let begun = format!("bad key {}", &KEY[..KEY.len() - 1]);
    vec![
        ("a good answer", reply(style).text("fine").into()),
        ("400", status(400)),
        ("401", status(401)),
        ("403", status(403)),
        ("429 with a header", status(429).header("Retry-After", &echo)),
        ("500", Reply::status(500).body(format!("<html>{echo}</html>"))),
        ("a long body", Reply::status(400).body(long)),
        ("400 in pieces", in_pieces(Reply::status(400), &error.to_string())),
        ("400 cut off", Reply::status(400).body(begun.clone()).cut()),
        ("an error event", Reply::stream().chunk(event.clone())),
        ("an error event in pieces", in_pieces(Reply::stream(), &event)),
        ("no JSON", Reply::status(200).body(format!("<html>{echo}</html>"))),
        ("no answer", Reply::json(json!({"detail": echo}))),
        ("no answer in pieces", in_pieces(Reply::status(200), &json!({"detail": echo}).to_string())),
        ("a document for a stream", Reply::stream().chunk(error.to_string())),
        ("an answer", reply(style).text(format!("your key is {echo}")).into()),
        ("an answer in pieces", in_pieces(Reply::stream(), &text)),
        ("an answer cut off", Reply::stream().chunk(text).chunk(format!("data: {begun}")).cut()),
        ("a whole answer cut off", Reply::status(200).body(format!("{{\"x\":\"{begun}")).cut()),
        ("a call", reply(style).tool_call("c1", "echo", json!({"text": echo})).into()),
        ("a call of a tool with that name", reply(style).tool_call("c1", KEY, json!({})).into()),
        ("a redirect", Reply::redirect(307, &format!("http://127.0.0.1:1/?key={KEY}&{HEADER_SECRET}"))),
        ("nothing", Reply::close()),
    ]
}

// CLIENT-10, CLIENT-104, CLIENT-109, CLIENT-123
#[tokio::test]
async fn no_error_event_or_result_shows_a_credential() {
    for style in STYLES {
        for (what, reply) in misdeeds(style) {
            let server = server(Script::always(reply)).await;
            let options = ClientOptions { max_turns: 1, ..with_secrets(style, &server.base_url()) };
            let mut shown = Shown::default();
            shown.add(&options);
            shown.check("options");
            let shown = called_in_every_way(&create_client(options), style).await;
            shown.check(&format!("{style:?}, {what}"));
            // What is in a header is really sent there, or nothing would be proved.
            let requests = server.requests();
            assert!(
                requests.iter().all(|request| {
                    request.headers().iter().any(|(_, value)| value.contains(HEADER_SECRET))
                })
            );
            assert!(requests.iter().all(|request| !shows_secret(&request.text())));
        }
    }
}

// CLIENT-10: a key is replaced where it stands, and the rest of the answer stays
#[tokio::test]
async fn what_is_left_of_an_echo() {
    for style in STYLES {
        let text = format!("your key is {}", echoed());
        let expected = format!("your key is {REDACTION_TOKEN}, and {REDACTION_TOKEN}!");
        let server = server(Script::always(reply(style).text(&text))).await;
        let client = create_client(with_secrets(style, &server.base_url()));
        let toolkit = Toolkit::default();
        assert_eq!(within(client.run("hi", &toolkit)).await.unwrap().text, expected);
        assert_eq!(within(client.stream("hi", &toolkit).finish()).await.unwrap().text, expected);

        let refusal = Reply::status(400).body(text.clone());
        let refusing = support::server(Script::always(refusal)).await;
        let client = create_client(with_secrets(style, &refusing.base_url()));
        let error = within(client.run("hi", &toolkit)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("LLM 400: {expected}"));
    }
}

// CLIENT-10: a key of fewer than 8 characters is too common a word to be replaced
#[tokio::test]
async fn a_short_key_is_a_word_like_others() {
    let server = server(Script::always(reply(Style::OpenAI).text("ollama runs"))).await;
    let options = ClientOptions { api_key: "ollama".into(), ..options(Style::OpenAI, server.base_url()) };
    assert_eq!(
        within(create_client(options).run("hi", &Toolkit::default())).await.unwrap().text,
        "ollama runs"
    );
}

// CLIENT-10: nobody listens there
#[tokio::test]
async fn a_refused_connection_shows_no_credential() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for style in STYLES {
        let client =
            create_client(with_secrets(style, &format!("http://{address}/v1?token={HEADER_SECRET}")));
        called_in_every_way(&client, style).await.check("refused");
    }
}

// CLIENT-10: what a transport is given prints none of it, its headers included
#[tokio::test]
async fn a_request_shows_no_credential() {
    for style in STYLES {
        let double = Double::new([Answer::text(style, "ok")]);
        let options = ClientOptions { headers: with_secrets(style, "").headers, ..double.options(style) };
        create_client(options).run("hi", &Toolkit::default()).await.unwrap();
        let request = &double.seen()[0].request;
        let mut shown = Shown::default();
        shown.add(request);
        shown.add(&request.headers);
        shown.0.push(request.url.to_string());
        shown.check("request");
        assert!(request.headers.values().any(|value| value.to_str().unwrap().contains(HEADER_SECRET)));
    }
}

// CLIENT-10: the watch over the logs sees events, spans and what spans learn later
#[test]
fn the_watch_is_awake() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&seen);
    let watcher = Watcher(move |line: &str| told.lock().unwrap().push(line.to_owned()));
    let _guard = listen_on_this_thread(tracing_subscriber::registry().with(watcher));
    tracing::trace!(target: "somewhere::else", "nothing to see");
    tracing::trace!(target: "somewhere::else", "key {KEY}");
    tracing::debug!(field = HEADER_SECRET, "x");
    let body: Value = json!({"key": KEY});
    let span = tracing::trace_span!("call", ?body, later = tracing::field::Empty);
    span.record("later", KEY);
    assert_eq!(seen.lock().unwrap().len(), 4, "{:?}", seen.lock().unwrap());
}

// CLIENT-109: what is logged of an error answer is cut and redacted like its message
#[tokio::test(start_paused = true)]
async fn no_log_line_holds_a_raw_error_body() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&seen);
    let watcher = Watcher(move |line: &str| told.lock().unwrap().push(line.to_owned()));
    let _guard = listen_on_this_thread(tracing_subscriber::registry().with(watcher));
    for style in STYLES {
        // Not sent here, so that nothing replaces it: only the cut keeps it out of the message.
        let body = format!("{}{HEADER_SECRET}", "x".repeat(300));
        let answers = (0..3).map(|_| Answer::status(503, &[], body.clone()));
        let double = Double::new(answers);
        let client = create_client(ClientOptions { retries: Some(2), ..double.options(style) });
        let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
        assert!(!error.to_string().contains(HEADER_SECRET), "{error}");
        assert!(matches!(&error, ClientError::Provider(error) if error.body == body));
        assert_eq!(double.count(), 3);
    }
    assert!(seen.lock().unwrap().is_empty(), "{:?}", seen.lock().unwrap());
}
