//! The model boundary: the wire sees encoded text, everybody else decoded text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::boundary::{FORGED, Handles, REJECTION, is_encoded, is_plain};
use support::double::{Answer, Double};
use support::hooks::{Seen, Watch, answering, calling, outputs, result_texts};
use support::tools::{asking, fixed, object, recorded};
use support::{CONTENT_STYLES, MetricLog, Mode, done, drain, every_way, options, reply, server, within};
use toolnexus_core::{BoxFuture, Tool, ToolResult, ToolSource, Toolkit};
use toolnexus_llm::http::{HttpRequest, HttpResponse, HttpTransport, TransportError};
use toolnexus_llm::run::{ModelAnswer, ModelCall};
use toolnexus_llm::run_log::{MemoryRunLog, RunLog};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{
    AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, BoundarySession, ClientOptions, Hooks, LlmOverride,
    ModelBoundary, PromptCacheOptions, ResumeOptions, RunDurableOptions, RunOptions, RunStatus,
    StreamOptions, Style, ToolOverride, ToolTierOptions, Transcript, create_client,
};
use toolnexus_testkit::model::ModelReply;

/// A tool that is described, called and answered with what the model may not see.
fn lookup() -> (Tool, support::tools::Record) {
    let (tool, record) = recorded("lookup", |args, _| {
        ToolResult::success(format!("{} is https://real/1", args["url"].as_str().unwrap()))
    });
    (tool.description("Looks up https://real/1"), record)
}

/// A model that knows handles alone.
fn with_handles(style: Style) -> [ModelReply; 2] {
    [
        reply(style).text("I ask h#1; now").tool_call("c1", "fn_1", json!({"url": "h#1;"})),
        reply(style).deltas(["see h", "#1", "; and fn", "_1"]),
    ]
}

// CLIENT-148, CLIENT-58, D9: nobody but the wire sees handles, and the wire sees nothing else
#[tokio::test]
async fn the_wire_alone_sees_encoded_text() {
    for (style, mode) in every_way() {
        let server = server(with_handles(style)).await;
        let (watch, hooks) = Watch::new();
        let metrics = MetricLog::default();
        let transformed = Seen::new();
        let kept = transformed.clone();
        let client = create_client(ClientOptions {
            boundary: Some(Handles::new()),
            system_prompt: "Mind https://real/1".into(),
            hooks: Some(hooks),
            on_metric: Some(metrics.sink()),
            body_transform: Some(Arc::new(move |body| {
                kept.push(body.to_string());
                body
            })),
            ..options(style, server.base_url())
        });
        let (tool, record) = lookup();
        let toolkit = Toolkit::from_tools([tool]);
        let events = Seen::new();
        let result = match mode {
            Mode::Run => {
                let sink = events.clone();
                let on_event: toolnexus_llm::EventSink = Arc::new(move |event| sink.push(event.clone()));
                let options = RunOptions { id: "c".into(), on_event: Some(on_event), ..Default::default() };
                within(client.run_with("what is https://real/1?", &toolkit, options)).await.unwrap()
            }
            Mode::Stream => {
                let options = StreamOptions { id: "c".into(), ..Default::default() };
                let stream = client.stream_with("what is https://real/1?", &toolkit, options);
                let (all, error) = within(drain(stream)).await;
                assert!(error.is_none());
                let result = done(&all).clone();
                all.into_iter().for_each(|event| events.push(event));
                result
            }
        };

        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        for text in requests.iter().map(|request| request.text()).chain(transformed.all()) {
            assert!(is_encoded(&text), "{style:?} {mode:?}: {text}");
        }
        // All that was to be encoded is there: system text, prompt, tool, and the turn with its result.
        let first = requests[0].text();
        for part in ["Mind h#1;", "what is h#1;?", "Looks up h#1;", "\"fn_1\""] {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert!(requests[1].text().contains("h#1; is h#1;"), "{}", requests[1].text());

        assert_eq!(record.args(), [json!({"url": "https://real/1"})]);
        assert_eq!(result.text, "see https://real/1 and lookup");
        assert_eq!(result_texts(style, &result.messages), ["https://real/1 is https://real/1"]);
        let saved = client.conversation_store().get("c").await.unwrap().unwrap();
        assert_eq!(saved, result.messages);
        let hooks_saw = json!([
            watch
                .before_llm
                .all()
                .iter()
                .map(|event| json!([event.messages, *event.tools]))
                .collect::<Vec<_>>(),
            watch.after_llm.all().iter().map(|event| event.response.clone()).collect::<Vec<_>>(),
            watch.before_tool.all().iter().map(|event| json!([event.name, event.args])).collect::<Vec<_>>(),
            watch
                .after_tool
                .all()
                .iter()
                .map(|event| json!([event.name, event.args, event.result]))
                .collect::<Vec<_>>(),
        ]);
        assert_eq!((watch.before_tool.all().len(), watch.after_llm.all().len()), (1, 2));
        for (what, seen) in [
            ("result", json!(result)),
            ("store", json!(saved)),
            ("hooks", hooks_saw),
            ("events", json!(events.all())),
            ("metrics", json!([metrics.timeless(), client.metrics()])),
        ] {
            assert!(is_plain(&seen.to_string()), "{what} of {style:?} {mode:?}: {seen}");
        }
        assert_eq!(metrics.of("tool")[0]["tool"], "lookup");
        assert_eq!(metrics.of("tool")[0]["source"], "native");
    }
}

/// Notes when a request is sent.
struct Noting(Arc<Double>, Seen<&'static str>);

impl HttpTransport for Noting {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        self.1.push("send");
        self.0.send(request)
    }
}

// CLIENT-148, CLIENT-18: the order of all that happens in a turn
#[tokio::test]
async fn everything_has_its_place_in_the_order() {
    for style in CONTENT_STYLES {
        let (watch, hooks) = Watch::new();
        let log = watch.order.clone();
        let transform_log = log.clone();
        let shown = Seen::new();
        let kept = shown.clone();
        let calls = [("c1", "fn_1", json!({"url": "h#1;"}))];
        let double = Double::new([Answer::calls(style, &calls), Answer::text(style, "ok")]);
        let transport: Arc<dyn HttpTransport> = Arc::new(Noting(Arc::clone(&double), log.clone()));
        let client = create_client(ClientOptions {
            boundary: Some(Handles::logging_to(log.clone())),
            hooks: Some(hooks),
            http_client: Some(transport),
            prompt_cache: Some(PromptCacheOptions { key: Some("https://real/1".into()), long_ttl: false }),
            request_params: object(json!({"user": "https://real/1"})),
            body_transform: Some(Arc::new(move |body: Value| {
                transform_log.push("body_transform");
                kept.push(body.clone());
                body
            })),
            ..double.options(style)
        });
        let (tool, _) = lookup();
        within(client.run("hi", &Toolkit::from_tools([tool]))).await.unwrap();
        assert_eq!(
            log.all(),
            [
                "before_llm",
                "encode_tools",
                "encode_messages",
                "body_transform",
                "send",
                "decode",
                "after_llm",
                "before_tool",
                "after_tool",
                "note_result",
                // The tools are the same ones.
                "before_llm",
                "encode_messages",
                "body_transform",
                "send",
                "decode",
                "after_llm",
            ]
        );
        // Marks and params come after the encoding: what they hold is not encoded.
        let body = &shown.all()[0];
        assert_eq!(body["user"], "https://real/1");
        if style == Style::Anthropic {
            assert_eq!(body["tools"][0]["cache_control"], json!({"type": "ephemeral"}));
            assert_eq!(body["tools"][0]["name"], "fn_1");
        } else {
            assert_eq!(body["prompt_cache_key"], "https://real/1");
        }
    }
}

// CLIENT-148: a rejected call does not run and fires no tool hook; the others do
#[tokio::test]
async fn a_rejected_call_does_not_run() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("c1", "fn_1", json!({"url": FORGED})).tool_call(
                "c2",
                "fn_1",
                json!({"url": "h#1;"}),
            ),
            reply(style).text("ok"),
        ])
        .await;
        let (watch, hooks) = Watch::new();
        let metrics = MetricLog::default();
        let boundary = Handles::new();
        let client = create_client(ClientOptions {
            boundary: Some(Arc::<Handles>::clone(&boundary)),
            hooks: Some(hooks),
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        let (tool, record) = lookup();
        let result = mode.execute(&client, &Toolkit::from_tools([tool])).await.unwrap();
        assert_eq!(outputs(&result), [REJECTION, "https://real/1 is https://real/1"]);
        assert_eq!((result.tool_calls[0].is_error, result.tool_calls[0].name.as_str()), (true, "lookup"));
        assert_eq!(result_texts(style, &result.messages), outputs(&result));
        assert_eq!(record.count(), 1);
        let hooked: Vec<String> = watch.before_tool.all().into_iter().map(|event| event.id).collect();
        assert_eq!((hooked, watch.after_tool.all().len()), (vec!["c2".to_owned()], 1));
        let tool = |is_error: bool| json!({"event": "tool", "tool": "lookup", "source": "native", "is_error": is_error, "pending": false});
        assert_eq!(metrics.of("tool"), [tool(true), tool(false)]);
        assert_eq!(boundary.results.all().len(), 2);
    }
}

// CLIENT-148, D9: a session for each run, ask, stream and translation; the run's own boundary wins
#[tokio::test]
async fn each_run_has_a_session_of_its_own() {
    let style = Style::Anthropic;
    let double = Double::new([
        Answer::text(style, "ok"),
        Answer::text(style, "ok"),
        Answer::streamed_text(style, "ok"),
        Answer::text(style, "ok"),
        Answer::text(style, "ok"),
        Answer::text(style, "h#1;"),
        Answer::streamed_text(style, "h#1;"),
    ]);
    let boundary = Handles::new();
    let shared: Arc<dyn ModelBoundary> = Arc::<Handles>::clone(&boundary);
    let client = create_client(ClientOptions { boundary: Some(shared), ..double.options(style) });
    let toolkit = Toolkit::default();
    let opened = || boundary.opened.all().len();
    within(client.run("hi", &toolkit)).await.unwrap();
    assert_eq!(boundary.opened.all(), [style]);
    within(client.ask("hi", &toolkit, "c")).await.unwrap();
    assert_eq!(opened(), 2);
    within(client.stream("hi", &toolkit).finish()).await.unwrap();
    assert_eq!(opened(), 3);
    let request =
        TranslateRequest { messages: vec![json!({"role": "user", "content": "hi"})], ..Default::default() };
    within(client.translate(request)).await.unwrap();
    assert_eq!(opened(), 4);
    let body = object(json!({"messages": []}));
    within(client.call_provider(body)).await.unwrap();
    assert_eq!(opened(), 4);

    let own = Handles::new();
    let boundary_of_run: Option<Arc<dyn ModelBoundary>> = Some(Arc::<Handles>::clone(&own));
    let options = RunOptions { boundary: boundary_of_run.clone(), ..Default::default() };
    let result = within(client.run_with("hi", &toolkit, options)).await.unwrap();
    let options = StreamOptions { boundary: boundary_of_run, ..Default::default() };
    let streamed = within(client.stream_with("hi", &toolkit, options).finish()).await.unwrap();
    assert_eq!((result.text.as_str(), streamed.text.as_str()), ("https://real/1", "https://real/1"));
    assert_eq!((opened(), own.opened.all().len()), (4, 2));
}

// CLIENT-148, CLIENT-57: a translated call is encoded and decoded, its hooks see plain text
#[tokio::test]
async fn a_translation_passes_the_boundary() {
    for style in CONTENT_STYLES {
        let server =
            server([reply(style).text("see h#1;").tool_call("c1", "fn_1", json!({"url": "h#1;"}))]).await;
        let (watch, hooks) = Watch::new();
        let log = Seen::new();
        let client = create_client(ClientOptions {
            boundary: Some(Handles::logging_to(log.clone())),
            hooks: Some(hooks),
            system_prompt: "Mind https://real/1".into(),
            ..options(style, server.base_url())
        });
        let (tool, _) = lookup();
        let request = TranslateRequest {
            messages: vec![json!({"role": "user", "content": "what is https://real/1?"})],
            toolkit: Some(Toolkit::from_tools([tool])),
            ..Default::default()
        };
        let answer = within(client.translate(request)).await.unwrap();
        assert_eq!(answer.text, "see https://real/1");
        let call = &answer.tool_calls[0];
        assert_eq!(call.name, "lookup");
        assert!(is_plain(&format!("{:?}{}", call.arguments, call.name)));
        let body = server.requests()[0].text();
        assert!(is_encoded(&body) && body.contains("Mind h#1;") && body.contains("fn_1"), "{body}");
        let seen = json!([
            watch.before_llm.all()[0].messages,
            *watch.before_llm.all()[0].tools,
            watch.after_llm.all()[0].response
        ]);
        assert!(is_plain(&seen.to_string()), "{seen}");
        assert_eq!(log.all(), ["encode_tools", "encode_messages", "decode"]);
    }
}

// CLIENT-148: the result that is noted is the final one: after the hook, after the question, once
#[tokio::test]
async fn the_final_result_is_noted() {
    let cases = [
        (Some(answering(true)), vec!["[answered: yes]", "denied", "[x]"]),
        (Some(answering(false)), vec!["[declined/expired: Which city?]", "denied", "[x]"]),
        (None, vec!["denied", "[x]"]),
    ];
    for (wait_for, expected) in cases {
        for (style, mode) in every_way() {
            let server = server(calling(style, &["ask", "gated", "plain"])).await;
            let boundary = Handles::new();
            let hooks = Hooks::default()
                .with_before_tool(|event: BeforeToolEvent| async move {
                    Ok((event.name == "gated").then(|| ToolOverride::result(ToolResult::failure("denied"))))
                })
                .with_after_tool(|event: AfterToolEvent| async move {
                    Ok(Some(ToolOverride::result(ToolResult::success(format!("[{}]", event.result.output)))))
                });
            let client = create_client(ClientOptions {
                boundary: Some(Arc::<Handles>::clone(&boundary)),
                hooks: Some(hooks),
                wait_for: wait_for.clone(),
                ..options(style, server.base_url())
            });
            let toolkit = Toolkit::from_tools([
                asking("ask", "Which city?").0,
                fixed("gated", "no"),
                fixed("plain", "x"),
            ]);
            let result = mode.execute(&client, &toolkit).await.unwrap();
            let halted = wait_for.is_none();
            assert_eq!(result.status == RunStatus::Pending, halted);
            let mut noted: Vec<String> =
                boundary.results.all().into_iter().map(|(_, output)| output).collect();
            noted.sort();
            let mut expected = expected.clone();
            expected.sort_unstable();
            assert_eq!(noted, expected, "{style:?} {mode:?}");
        }
    }
}

/// A boundary that changes nothing, or drops every tool.
struct Through {
    drops_tools: bool,
}

impl ModelBoundary for Through {
    fn open(&self, _style: Style) -> Box<dyn BoundarySession> {
        Box::new(Through { drops_tools: self.drops_tools })
    }
}

impl BoundarySession for Through {
    fn encode_tools(&mut self, tools: Vec<Value>) -> Vec<Value> {
        if self.drops_tools { Vec::new() } else { tools }
    }

    fn encode_messages(&mut self, system: &str, messages: &Transcript) -> (String, Transcript) {
        (system.to_owned(), messages.clone())
    }

    fn decode(&mut self, answer: ModelAnswer) -> ModelAnswer {
        answer
    }

    fn decode_text(&mut self, piece: &str) -> String {
        piece.to_owned()
    }

    fn flush_text(&mut self) -> String {
        String::new()
    }

    fn note_result(&mut self, _call: &ModelCall, _source: Option<ToolSource>, _result: &Arc<ToolResult>) {}
}

// CLIENT-148: without a boundary, and with one that changes nothing, the same bytes and the same result
#[tokio::test]
async fn a_boundary_that_changes_nothing_changes_nothing() {
    for (style, mode) in every_way() {
        let mut seen = Vec::new();
        for boundary in [None, Some(Through { drops_tools: false })] {
            let server = server(with_handles(style)).await;
            let client = create_client(ClientOptions {
                boundary: boundary.map(|boundary| Arc::new(boundary) as Arc<dyn ModelBoundary>),
                system_prompt: "SYS".into(),
                ..options(style, server.base_url())
            });
            let (tool, _) = lookup();
            let result = mode.execute(&client, &Toolkit::from_tools([tool])).await.unwrap();
            let bodies: Vec<_> = server.requests().iter().map(|request| request.body().clone()).collect();
            seen.push((bodies, result));
        }
        assert!(seen[0] == seen[1], "{style:?} {mode:?}");
    }
}

// CLIENT-148, CLIENT-16: a boundary that leaves no tools leaves the keys out
#[tokio::test]
async fn tools_that_a_boundary_drops_are_left_out() {
    for (style, mode) in every_way() {
        let server = server(reply(style).text("ok")).await;
        let client = create_client(ClientOptions {
            boundary: Some(Arc::new(Through { drops_tools: true })),
            ..options(style, server.base_url())
        });
        mode.execute(&client, &Toolkit::from_tools([lookup().0])).await.unwrap();
        let body = server.requests()[0].json();
        assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None), "{style:?}");
    }
}

// CLIENT-148: tools are encoded when they change, the transcript in every turn
#[tokio::test]
async fn tools_are_encoded_when_they_change() {
    for replaces_on in [None, Some(1)] {
        let style = Style::OpenAI;
        let call = || Answer::calls(style, &[("c1", "fn_1", json!({"url": ""}))]);
        let double = Double::new([call(), call(), Answer::text(style, "ok")]);
        let boundary = Handles::new();
        let hooks = Hooks::default().with_before_llm(move |event: BeforeLlmEvent| async move {
            let mut tools = (*event.tools).clone();
            tools.push(json!({"type": "function", "function": {"name": "more", "parameters": {"type": "object", "properties": {}}}}));
            Ok((Some(event.turn) == replaces_on).then(|| LlmOverride { tools: Some(tools), ..Default::default() }))
        });
        let client = create_client(ClientOptions {
            boundary: Some(Arc::<Handles>::clone(&boundary)),
            hooks: Some(hooks),
            ..double.options(style)
        });
        within(client.run("hi", &Toolkit::from_tools([lookup().0]))).await.unwrap();
        let count = |what: &str| boundary.log.all().iter().filter(|entry| **entry == what).count();
        assert_eq!(count("encode_messages"), 3);
        assert_eq!(count("encode_tools"), if replaces_on.is_some() { 2 } else { 1 });
        assert_eq!(double.body(2)["tools"].as_array().unwrap().len(), 1 + usize::from(replaces_on.is_some()));
        assert_eq!(double.body(2)["tools"][0]["function"]["name"], "fn_1");
    }
}

// CLIENT-148, CLIENT-27, CLIENT-28: the system text is encoded once, where the style has it
#[tokio::test]
async fn the_system_text_is_encoded_where_it_is() {
    for (style, mode) in every_way() {
        let server = server(reply(style).text("ok")).await;
        let boundary = Handles::new();
        let client = create_client(ClientOptions {
            boundary: Some(Arc::<Handles>::clone(&boundary)),
            system_prompt: "SYS https://real/1".into(),
            ..options(style, server.base_url())
        });
        mode.execute(&client, &Toolkit::default()).await.unwrap();
        let apart = if style == Style::OpenAI { "" } else { "SYS https://real/1" };
        assert_eq!(boundary.systems.all(), [apart], "{style:?}");
        assert_eq!(server.requests()[0].text().matches("SYS h#1;").count(), 1);
    }
}

// CLIENT-148, CLIENT-90: under tiers the call inside call_tool is decoded
#[tokio::test]
async fn a_call_inside_call_tool_is_decoded() {
    for (style, mode) in every_way() {
        for arguments in [json!({"url": "h#1;"}), json!("{\"url\": \"h#1;\"}")] {
            let server = server([
                reply(style).tool_call("s1", "tool_search", json!({"query": "select:fn_1"})),
                reply(style).tool_call("c1", "call_tool", json!({"name": "fn_1", "arguments": arguments})),
                reply(style).text("ok"),
            ])
            .await;
            let client = create_client(ClientOptions {
                boundary: Some(Handles::new()),
                tool_tiers: Some(ToolTierOptions::default()),
                ..options(style, server.base_url())
            });
            let (tool, record) = lookup();
            let result = mode.execute(&client, &Toolkit::from_tools([tool])).await.unwrap();
            assert_eq!(record.args(), [json!({"url": "https://real/1"})]);
            // A search is decoded too: it names the tool as the model knows it.
            assert!(result.tool_calls[0].output.contains("\"lookup\""), "{:?}", outputs(&result));
            let call = &result.tool_calls[1];
            assert_eq!((call.name.as_str(), call.via.as_deref()), ("lookup", Some("call_tool")));
            assert!(server.requests().iter().all(|request| is_encoded(&request.text())), "{style:?}");
            assert!(is_plain(&json!(result).to_string()));
        }
    }
}

// CLIENT-148: a durable run is logged in plain text, and each resume has a session of its own
#[tokio::test]
async fn the_log_of_a_durable_run_holds_plain_text() {
    for style in support::STYLES {
        let log = Arc::new(MemoryRunLog::default());
        let boundary = Handles::new();
        let server = server([
            reply(style)
                .tool_call("c1", "fn_1", json!({"url": "h#1;"}))
                .tool_call("c2", "fn_1", json!({"url": FORGED}))
                .tool_call("c3", "ask", json!({"about": "h#1;"})),
            reply(style).text("see h#1;"),
        ])
        .await;
        let client = create_client(ClientOptions {
            boundary: Some(Arc::<Handles>::clone(&boundary)),
            ..options(style, server.base_url())
        });
        let (tool, record) = lookup();
        let toolkit = Toolkit::from_tools([tool, asking("ask", "Which city?").0]);
        let shared: Arc<dyn RunLog> = Arc::<MemoryRunLog>::clone(&log);
        let options = RunDurableOptions { run_id: "r".into(), ..RunDurableOptions::new(Arc::clone(&shared)) };
        let paused = within(client.run_durable("what is https://real/1?", &toolkit, options)).await.unwrap();
        assert_eq!((paused.status, boundary.opened.all().len()), (RunStatus::Pending, 1));

        let id = paused.pending.unwrap().id;
        let answer = toolnexus_core::Answer { id, ok: true, ..Default::default() };
        let options = ResumeOptions { answer: Some(answer), ..ResumeOptions::new(shared, "r") };
        let result = within(client.resume(&toolkit, options)).await.unwrap();
        assert_eq!(result.text, "see https://real/1");
        assert_eq!(outputs(&result), ["https://real/1 is https://real/1", REJECTION, "answered: yes"]);
        assert_eq!((record.count(), boundary.opened.all().len()), (1, 2));
        let events = json!(log.read("r", 0).await.unwrap()).to_string();
        assert!(is_plain(&events), "{style:?}: {events}");
        assert!(server.requests().iter().all(|request| is_encoded(&request.text())));
    }
}
