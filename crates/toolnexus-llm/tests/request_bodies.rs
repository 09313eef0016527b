//! What leaves the process: URL, headers and the exact bytes of the body, in both styles.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::tools::{add, echo, fixed};
use support::{CONTENT_STYLES, KEY, STYLES, options, reply, server, within};
use toolnexus_core::{Tool, ToolHints, ToolOrigin, ToolkitParts, define_tool};
use toolnexus_llm::http::HttpTransport;
use toolnexus_llm::{
    ClientError, ClientOptions, Message, RunOptions, StreamOptions, Style, Toolkit, create_client,
};

const ADD: &str = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}"#;

/// The body of the one request that this prompt makes.
async fn body_of(options: ClientOptions, toolkit: &Toolkit, history: Vec<Message>, streamed: bool) -> String {
    let answer = if streamed { Answer::streamed_text } else { Answer::text };
    let double = Double::new([answer(options.style, "ok")]);
    let http_client: Arc<dyn HttpTransport> = Arc::<Double>::clone(&double);
    let client = create_client(ClientOptions { http_client: Some(http_client), ..options });
    if streamed {
        let options = StreamOptions { history: history.into(), ..Default::default() };
        client.stream_with("hi", toolkit, options).finish().await.unwrap();
    } else {
        client
            .run_with("hi", toolkit, RunOptions { history: history.into(), ..Default::default() })
            .await
            .unwrap();
    }
    assert_eq!(double.count(), 1);
    String::from_utf8(double.seen()[0].request.body.to_bytes().to_vec()).unwrap()
}

async fn plain(options: ClientOptions, toolkit: &Toolkit) -> String {
    body_of(options, toolkit, vec![], false).await
}

fn here(style: Style) -> ClientOptions {
    options(style, "http://double.test/v1")
}

// CLIENT-14, CLIENT-16, CLIENT-27, case B1
#[tokio::test]
async fn openai_sends_model_and_messages_and_nothing_else() {
    assert_eq!(
        plain(here(Style::OpenAI), &Toolkit::default()).await,
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#
    );
}

// CLIENT-14, CLIENT-17, case B2
#[tokio::test]
async fn openai_announces_tools_and_opens_with_the_system_text() {
    let options = ClientOptions { system_prompt: "SYS".into(), ..here(Style::OpenAI) };
    assert_eq!(
        plain(options, &Toolkit::from_tools([add()])).await,
        format!(
            r#"{{"model":"m","messages":[{{"role":"system","content":"SYS"}},{{"role":"user","content":"hi"}}],"tools":[{{"type":"function","function":{{"name":"add","description":"add","parameters":{ADD}}}}}],"tool_choice":"auto"}}"#
        )
    );
}

// CLIENT-14, case B3
#[tokio::test]
async fn an_openai_stream_asks_for_usage() {
    assert_eq!(
        body_of(here(Style::OpenAI), &Toolkit::default(), vec![], true).await,
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
    let tools = Toolkit::from_tools([fixed("t", "")]);
    assert_eq!(
        body_of(here(Style::OpenAI), &tools, vec![], true).await,
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"t","description":"t","parameters":{"type":"object","properties":{}}}}],"tool_choice":"auto","stream":true,"stream_options":{"include_usage":true}}"#
    );
}

// CLIENT-15, case B4
#[tokio::test]
async fn anthropic_sends_a_token_limit_and_no_empty_system() {
    assert_eq!(
        plain(here(Style::Anthropic), &Toolkit::default()).await,
        r#"{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":"hi"}]}"#
    );
}

// CLIENT-15, case B5
#[tokio::test]
async fn anthropic_has_neither_tool_choice_nor_stream_options() {
    let options = ClientOptions { system_prompt: "SYS".into(), ..here(Style::Anthropic) };
    assert_eq!(
        body_of(options, &Toolkit::from_tools([add()]), vec![], true).await,
        format!(
            r#"{{"model":"m","max_tokens":4096,"system":"SYS","messages":[{{"role":"user","content":"hi"}}],"tools":[{{"name":"add","description":"add","input_schema":{ADD}}}],"stream":true}}"#
        )
    );
}

// CLIENT-17, case B11
#[tokio::test]
async fn openai_schemas_get_properties_on_a_copy() {
    let ping =
        define_tool("ping", "ping", Some(json!({"type": "object"})), |_, _| async { Ok::<_, String>("") });
    let toolkit = Toolkit::from_tools([ping]);
    let body = plain(here(Style::OpenAI), &toolkit).await;
    assert!(body.contains(r#""parameters":{"type":"object","properties":{}}"#), "{body}");
    assert_eq!(toolkit.to_openai()[0]["function"]["parameters"], json!({"type": "object"}));

    let body = plain(here(Style::Anthropic), &toolkit).await;
    assert!(body.contains(r#""input_schema":{"type":"object"}"#), "{body}");
}

// CLIENT-17, case B12
#[tokio::test]
async fn tools_are_sent_in_the_order_of_the_toolkit() {
    let toolkit = Toolkit::from_tools([fixed("zeta", ""), fixed("alpha", "")]);
    for style in CONTENT_STYLES {
        let body: Value = serde_json::from_str(&plain(here(style), &toolkit).await).unwrap();
        let names: Vec<&str> = body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool.get("function").unwrap_or(tool)["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["zeta", "alpha"], "{style}");
    }
}

// CLIENT-17: what a tool says to the host is not for the model
#[tokio::test]
async fn hints_titles_and_origins_stay_home() {
    let tool: Tool = add()
        .hints(ToolHints { read_only: true, ..Default::default() })
        .title("Addition")
        .origin(ToolOrigin { server: "calc".into(), remote_name: "sum".into() });
    for style in STYLES {
        assert_eq!(
            plain(here(style), &Toolkit::from_tools([tool.clone()])).await,
            plain(here(style), &Toolkit::from_tools([add()])).await,
        );
    }
}

// CLIENT-28, D6, case B14
#[tokio::test]
async fn anthropic_hoists_system_messages_out_of_the_transcript() {
    let transcript = || {
        vec![
            Message::from(json!({"role": "system", "content": "S1"})),
            Message::from(json!({"role": "user", "content": "one"})),
            Message::from(json!({"role": "system", "content": ""})),
            Message::from(
                json!({"role": "system", "content": [{"type": "text", "text": "S"}, {"type": "text", "text": "2"}]}),
            ),
        ]
    };
    let with_system = ClientOptions { system_prompt: "SYS".into(), ..here(Style::Anthropic) };
    assert_eq!(
        body_of(with_system.clone(), &Toolkit::default(), transcript(), false).await,
        r#"{"model":"m","max_tokens":4096,"system":"SYS\n\nS1\n\nS2","messages":[{"role":"user","content":"one"},{"role":"user","content":"hi"}]}"#
    );
    assert_eq!(
        body_of(here(Style::Anthropic), &Toolkit::default(), transcript(), true).await,
        r#"{"model":"m","max_tokens":4096,"system":"S1\n\nS2","messages":[{"role":"user","content":"one"},{"role":"user","content":"hi"}],"stream":true}"#
    );

    // The transcript itself is not changed.
    let double = Double::new([Answer::text(Style::Anthropic, "ok")]);
    let client = create_client(double.options(Style::Anthropic));
    let run = RunOptions { history: transcript().into(), ..Default::default() };
    let result = client.run_with("hi", &Toolkit::default(), run).await.unwrap();
    assert_eq!(result.messages[..4], transcript());
    assert_eq!(result.messages[0].value(), &json!({"role": "system", "content": "S1"}));

    // OpenAI takes them where they stand.
    let body: Value =
        serde_json::from_str(&body_of(here(Style::OpenAI), &Toolkit::default(), transcript(), false).await)
            .unwrap();
    let sent: Vec<Message> =
        body["messages"].as_array().unwrap().iter().cloned().map(Message::from).collect();
    assert_eq!(sent[..4], transcript());
}

// CLIENT-27, CLIENT-28
#[tokio::test]
async fn with_a_history_the_system_text_goes_where_the_style_keeps_it() {
    let history = || {
        vec![
            Message::from(json!({"role": "user", "content": "one"})),
            Message::from(json!({"role": "assistant", "content": "1"})),
        ]
    };
    let system = |style| ClientOptions { system_prompt: "SYS".into(), ..here(style) };
    // OpenAI: a history is used verbatim, no system message is added.
    assert_eq!(
        body_of(system(Style::OpenAI), &Toolkit::default(), history(), false).await,
        r#"{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"hi"}]}"#
    );
    // Anthropic: the system text of today's options goes with every request.
    assert_eq!(
        body_of(system(Style::Anthropic), &Toolkit::default(), history(), false).await,
        r#"{"model":"m","max_tokens":4096,"system":"SYS","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"hi"}]}"#
    );
}

// CLIENT-30, case L7
#[tokio::test]
async fn the_system_text_joins_prompt_and_skills_without_stray_lines() {
    for (prompt, skills, expected) in
        [("", "S", Some("S")), ("A", "S", Some("A\n\nS")), ("A", "", Some("A")), ("", "", None)]
    {
        let toolkit =
            Toolkit::from_parts(ToolkitParts { skills_prompt: skills.into(), ..Default::default() });
        for style in CONTENT_STYLES {
            let options = ClientOptions { system_prompt: prompt.into(), ..here(style) };
            let body: Value = serde_json::from_str(&plain(options, &toolkit).await).unwrap();
            let sent = match style {
                Style::Anthropic => body.get("system").cloned(),
                _ => body["messages"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|m| m["role"] == "system")
                    .map(|m| m["content"].clone()),
            };
            assert_eq!(sent, expected.map(Value::from), "{style} {prompt:?} {skills:?}");
        }
    }
}

// CLIENT-3, CLIENT-22: options set to their empty values are absent ones
#[tokio::test]
async fn empty_options_change_no_byte() {
    for style in STYLES {
        let spelled_out = ClientOptions {
            api_key_env: Some(String::new()),
            headers: Default::default(),
            system_prompt: String::new(),
            max_turns: 0,
            retry_base_ms: 0,
            retryable_statuses: vec![],
            timeout_ms: 0,
            ..here(style)
        };
        assert_eq!(
            plain(spelled_out, &Toolkit::default()).await,
            plain(here(style), &Toolkit::default()).await
        );
    }
}

// CLIENT-4: sent as it is on every turn, echoed on the result
#[tokio::test]
async fn the_model_name_is_sent_unchanged_on_every_turn() {
    let name = "openrouter/Some Model:free@2025 \"x\"";
    for style in CONTENT_STYLES {
        let double = Double::new([
            Answer::calls(style, &[("c", "add", json!({"a": 1, "b": 2}))]),
            Answer::text(style, "3"),
        ]);
        let client = create_client(ClientOptions { model: name.into(), ..double.options(style) });
        let result = client.run("hi", &Toolkit::from_tools([add()])).await.unwrap();
        assert_eq!(result.model, name);
        assert_eq!(double.count(), 2);
        for at in 0..2 {
            assert_eq!(double.body(at)["model"], name);
            assert_eq!(double.body(at).as_object().unwrap().keys().next().unwrap(), "model");
        }
    }
}

// CLIENT-14, CLIENT-15, CLIENT-41, CLIENT-42: the second request of a run with tools, whole
#[tokio::test]
async fn the_second_request_of_a_run_reads_like_this() {
    for style in CONTENT_STYLES {
        let double = Double::new([
            Answer::calls(style, &[("c1", "echo", json!({"text": "é\n\"x\""})), ("c2", "nope", json!({}))]),
            Answer::text(style, "ok"),
        ]);
        let options = ClientOptions { system_prompt: "SYS".into(), ..double.options(style) };
        create_client(options).run("hi", &Toolkit::from_tools([echo()])).await.unwrap();
        let body = String::from_utf8(double.seen()[1].request.body.to_bytes().to_vec()).unwrap();
        insta::assert_snapshot!(format!("second_request_{style}"), body);
    }
}

// CLIENT-11, cases U1 and U2
#[tokio::test]
async fn the_endpoint_follows_base_and_style() {
    for (style, base, expected) in [
        (Style::OpenAI, "https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
        (Style::OpenAI, "http://h:1/x///", "http://h:1/x/chat/completions"),
        (Style::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        (Style::Anthropic, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        (Style::Anthropic, "https://h/api/v1/", "https://h/api/v1/messages"),
        (Style::Anthropic, "https://h/api/", "https://h/api/v1/messages"),
    ] {
        let double = Double::new([Answer::text(style, "ok")]);
        let client = create_client(ClientOptions { base_url: base.into(), ..double.options(style) });
        client.run("hi", &Toolkit::default()).await.unwrap();
        assert_eq!(double.seen()[0].request.url.as_str(), expected);
        assert_eq!(double.seen()[0].request.method, "POST");
    }
}

// CORE-46, CLIENT-42: what is no part of ours is sent as it came, also beside one
#[tokio::test]
async fn blocks_of_the_providers_own_keep_their_keys() {
    let cited = json!({"type": "text", "text": "see", "citations": [{"url": "u"}]});
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
    for style in CONTENT_STYLES {
        let history = vec![
            Message::from(
                json!({"role": "user", "content": [{"type": "text", "text": "what", "cache_control": {}}, image]}),
            ),
            Message::from(
                json!({"role": "assistant", "content": [cited, {"type": "thinking", "thinking": "\"mimeType\""}]}),
            ),
        ];
        let body: Value =
            serde_json::from_str(&body_of(here(style), &Toolkit::default(), history, false).await).unwrap();
        assert_eq!(body["messages"][0]["content"][0]["cache_control"], json!({}));
        assert_eq!(body["messages"][1]["content"][0], cited);
        assert_eq!(body["messages"][1]["content"][1]["thinking"], "\"mimeType\"");
        assert_ne!(body["messages"][0]["content"][1], image, "encoded for {style}");
    }
}

/// The headers of the one request, as a server sees them: lower-cased and sorted.
async fn headers_of(
    style: Style,
    options: impl Fn(ClientOptions) -> ClientOptions,
    streamed: bool,
) -> Vec<(String, String)> {
    let server = server(reply(style).text("ok")).await;
    let client = create_client(options(support::options(style, server.base_url())));
    if streamed {
        within(client.stream("hi", &Toolkit::default()).finish()).await.unwrap();
    } else {
        within(client.run("hi", &Toolkit::default())).await.unwrap();
    }
    let request = server.requests().remove(0);
    let mut headers: Vec<(String, String)> = request
        .headers()
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_lowercase(), value.clone()))
        .filter(|(name, _)| name != "host" && name != "content-length")
        .collect();
    headers.sort();
    headers
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

// CLIENT-12, case K3
#[tokio::test]
async fn a_request_has_the_headers_of_its_style_and_no_others() {
    let same = |options| options;
    assert_eq!(
        headers_of(Style::OpenAI, same, false).await,
        pairs(&[
            ("accept", "*/*"),
            ("authorization", "Bearer sk-test-123456"),
            ("content-type", "application/json")
        ])
    );
    assert_eq!(
        headers_of(Style::Anthropic, same, false).await,
        pairs(&[
            ("accept", "*/*"),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            ("x-api-key", "sk-test-123456"),
        ])
    );
    for style in STYLES {
        let headers = headers_of(style, same, true).await;
        let accepts: Vec<_> = headers.iter().filter(|(name, _)| name == "accept").collect();
        assert_eq!(accepts, [&("accept".to_owned(), "text/event-stream".to_owned())], "{style}");
    }
}

// CLIENT-12: a host's headers replace the dialect's, whatever their case
#[tokio::test]
async fn given_headers_win_over_the_dialects_own() {
    let openai = |options| ClientOptions {
        headers: [("AUTHORIZATION", "Basic xyz"), ("X-Extra", "${HOME} stays"), ("accept", "application/x")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..options
    };
    assert_eq!(
        headers_of(Style::OpenAI, openai, true).await,
        pairs(&[
            ("accept", "application/x"),
            ("authorization", "Basic xyz"),
            ("content-type", "application/json"),
            ("x-extra", "${HOME} stays"),
        ])
    );
    let anthropic = |options| ClientOptions {
        headers: [("Anthropic-Version".to_owned(), "2099-01-01".to_owned())].into(),
        ..options
    };
    let headers = headers_of(Style::Anthropic, anthropic, false).await;
    assert!(headers.contains(&("anthropic-version".into(), "2099-01-01".into())), "{headers:?}");
    assert_eq!(headers.len(), 4);
}

/// The error of a run with these options, which must send nothing.
async fn refused(options: impl Fn(ClientOptions) -> ClientOptions) -> String {
    let double = Double::new([]);
    let client = create_client(options(double.options(Style::OpenAI)));
    let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Config(_)), "{error:?}");
    let streamed = client.stream("hi", &Toolkit::default()).finish().await.unwrap_err();
    assert_eq!(streamed.to_string(), error.to_string());
    assert_eq!(double.count(), 0);
    error.to_string()
}

// CLIENT-1
#[tokio::test]
async fn unusable_options_are_reported_by_the_first_call() {
    let base = |base: &str| {
        let base = base.to_owned();
        move |options| ClientOptions { base_url: base.clone(), ..options }
    };
    for bad in ["", "  ", "ftp://h/v1", "localhost:8080", "/v1", "file:///x"] {
        let error = refused(base(bad)).await;
        assert!(error.contains("base_url"), "{bad:?}: {error}");
    }
    let error = refused(|options| ClientOptions { model: String::new(), ..options }).await;
    assert!(error.contains("model"), "{error}");
    let error = refused(|options| ClientOptions {
        headers: [("bad name".to_owned(), "secret-value".to_owned())].into(),
        ..options
    })
    .await;
    assert!(error.contains("bad name") && !error.contains("secret-value"), "{error}");
}

// CLIENT-9, CLIENT-7, cases K1 and K2
#[tokio::test]
async fn without_a_key_nothing_is_sent() {
    let error = refused(|options| ClientOptions {
        base_url: "http://localhost:11434/v1".into(),
        api_key: "".into(),
        ..options
    })
    .await;
    assert!(error.starts_with("no API key: set api_key or api_key_env"), "{error}");
    let error = refused(|options| ClientOptions {
        base_url: "https://gateway.internal/v1".into(),
        api_key: "".into(),
        api_key_env: Some("TN_DOCS_SURELY_UNSET_KEY".into()),
        ..options
    })
    .await;
    assert!(error.contains("TN_DOCS_SURELY_UNSET_KEY"), "{error}");
}

// CLIENT-10: a key that no header can hold is named and not shown
#[tokio::test]
async fn an_illegal_key_is_reported_without_its_value() {
    let error = refused(|options| ClientOptions { api_key: "sk-bad\nkey".into(), ..options }).await;
    assert!(error.contains("api_key") && !error.contains("sk-bad"), "{error}");
}

// CLIENT-10: nothing that prints shows the key or a header value
#[tokio::test]
async fn debug_output_shows_no_secret() {
    let options = ClientOptions {
        base_url: "https://user:pass-in-url@h/v1?token=query-secret".into(),
        headers: [("X-Token".to_owned(), "header-secret".to_owned())].into(),
        ..here(Style::OpenAI)
    };
    for shown in [format!("{options:?}"), format!("{:?}", create_client(options.clone()))] {
        for secret in [KEY, "header-secret", "pass-in-url", "query-secret"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("X-Token"), "{shown}");
    }
    let double = Double::new([Answer::text(Style::OpenAI, "ok")]);
    create_client(double.options(Style::OpenAI)).run("hi", &Toolkit::default()).await.unwrap();
    let request = format!("{:?}", double.seen()[0].request);
    assert!(request.contains("authorization") && !request.contains(KEY), "{request}");
}

// CLIENT-2: anything but the known names is OpenAI
#[test]
fn style_is_read_from_text_and_never_fails() {
    assert_eq!(Style::from("anthropic"), Style::Anthropic);
    assert_eq!(Style::from("gemini"), Style::Gemini);
    for other in ["openai", "", "ANTHROPIC", "mistral"] {
        assert_eq!(Style::from(other), Style::OpenAI);
    }
    assert_eq!(ClientOptions::default().style, Style::OpenAI);
}

// CLIENT-1, CLIENT-11: a query stays behind the endpoint's path; what cannot be honoured is refused
#[tokio::test]
async fn the_base_url_may_have_a_query_and_nothing_secret() {
    let double = Double::new([Answer::text(Style::OpenAI, "ok")]);
    let base_url = "https://h/openai/v1/?api-version=2026-01-01".to_owned();
    let client = create_client(ClientOptions { base_url, ..double.options(Style::OpenAI) });
    client.run("hi", &Toolkit::default()).await.unwrap();
    assert_eq!(
        double.seen()[0].request.url.as_str(),
        "https://h/openai/v1/chat/completions?api-version=2026-01-01"
    );
    for (base_url, word) in
        [("http://user:pw@h/v1", "user name or password"), ("http://h/v1#frag", "fragment")]
    {
        let options = ClientOptions { base_url: base_url.into(), ..double.options(Style::OpenAI) };
        let error = create_client(options).run("hi", &Toolkit::default()).await.unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains("pw@"), "{error}");
    }
    assert_eq!(double.count(), 1);
}
