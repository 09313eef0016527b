//! Metric events, the exits of a run that each have one, and the text they add up to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::hooks::{answering, calling};
use support::tools::{add, asking, fixed, object};
use support::{KEY, MetricLog, Mode, every_way, options, reply, server, within};
use toolnexus_core::{BoxFuture, ToolResult, ToolSource, Toolkit, define_tool, pending};
use toolnexus_llm::http::{HttpRequest, HttpResponse, HttpTransport, TransportError};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{ClientOptions, MetricEvent, Style, create_client};
use toolnexus_testkit::warnings::Warnings;

const OPENAI: Style = Style::OpenAI;

/// A transport that takes its time before each answer.
struct Slow(Arc<Double>, Duration);

impl HttpTransport for Slow {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let (answer, delay) = (self.0.send(request), self.1);
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            answer.await
        })
    }
}

fn add_call() -> Value {
    let function = json!({"name": "add", "arguments": "{\"a\":2,\"b\":3}"});
    json!({"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]})
}

/// What `metrics()` says before anything was counted.
const NOTHING: &str = "\
# HELP toolnexus_llm_requests_total Total LLM requests.
# TYPE toolnexus_llm_requests_total counter
# HELP toolnexus_llm_tokens_total Total tokens, by type.
# TYPE toolnexus_llm_tokens_total counter
# HELP toolnexus_llm_request_duration_seconds LLM request duration in seconds.
# TYPE toolnexus_llm_request_duration_seconds histogram
# HELP toolnexus_tool_calls_total Total tool calls.
# TYPE toolnexus_tool_calls_total counter
# HELP toolnexus_tool_duration_seconds Tool execution duration in seconds.
# TYPE toolnexus_tool_duration_seconds histogram
# HELP toolnexus_run_errors_total Total run errors.
# TYPE toolnexus_run_errors_total counter
";

// CLIENT-76, CLIENT-77, case M1: byte for byte
#[tokio::test(start_paused = true)]
async fn the_text_is_prometheus_byte_for_byte() {
    let double = Double::new([Answer::openai(&add_call(), 3, 2)]);
    let transport: Arc<dyn HttpTransport> = Arc::new(Slow(Arc::clone(&double), Duration::from_millis(120)));
    let client = create_client(ClientOptions {
        model: "gpt-x".into(),
        http_client: Some(transport),
        // The one turn of the case: its tool runs, and the run ends.
        max_turns: 1,
        ..double.options(OPENAI)
    });
    assert_eq!(client.metrics(), NOTHING);
    let slow_add = define_tool("add", "add", None, |_, _| async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        Ok::<_, String>("5")
    });
    client.run("hi", &Toolkit::from_tools([slow_add])).await.unwrap();
    insta::assert_snapshot!("metrics_m1", client.metrics());
    assert!(client.metrics().ends_with("run_errors_total counter\n"));
}

// CLIENT-70, CLIENT-71, case M2: every style, run and streamed
#[tokio::test]
async fn a_run_of_two_turns_tells_four_events() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("c1", "add", json!({"a": 2, "b": 3})).usage(6, 3),
            reply(style).text("5").usage(5, 2),
        ])
        .await;
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            model: "gpt-x".into(),
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        assert_eq!(
            metrics.timeless(),
            [
                json!({"event": "llm", "model": "gpt-x", "status": "ok", "prompt_tokens": 6, "completion_tokens": 3}),
                json!({"event": "tool", "tool": "add", "source": "native", "is_error": false, "pending": false}),
                json!({"event": "llm", "model": "gpt-x", "status": "ok", "prompt_tokens": 5, "completion_tokens": 2}),
                json!({"event": "run", "model": "gpt-x", "turns": 2, "tool_calls": 1, "total_tokens": 16}),
            ],
            "{style:?} {mode:?}"
        );
        // The same numbers, without anybody listening.
        let text = client.metrics();
        assert!(text.contains("toolnexus_llm_requests_total{model=\"gpt-x\",status=\"ok\"} 2\n"), "{text}");
        assert!(text.contains("toolnexus_llm_tokens_total{type=\"prompt\"} 11\n"), "{text}");
    }
}

// CLIENT-71, CLIENT-147: the JSON of each event reads back
#[test]
fn events_are_tagged_snake_case() {
    for json in [
        r#"{"event":"llm","model":"m","status":"error","ms":1,"prompt_tokens":0,"completion_tokens":0}"#,
        r#"{"event":"tool","tool":"t","source":"mcp","is_error":true,"ms":2,"pending":false}"#,
        r#"{"event":"run","model":"m","turns":1,"tool_calls":0,"total_tokens":3,"ms":4}"#,
        r#"{"event":"run","model":"m","turns":1,"tool_calls":0,"total_tokens":3,"ms":4,"error":"LLM 500"}"#,
    ] {
        let event: MetricEvent = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
    }
}

tokio::task_local! {
    static ON_THE_TASK: ();
}

// CLIENT-70: synchronously, on the loop's own task
#[tokio::test]
async fn the_sink_is_called_on_the_runs_task() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let double = Double::new([Answer::openai(&add_call(), 1, 1), Answer::text(OPENAI, "ok")]);
    let client = create_client(ClientOptions {
        on_metric: Some(Arc::new(move |_: &MetricEvent| {
            ON_THE_TASK.with(|()| count.fetch_add(1, Ordering::Relaxed));
        })),
        ..double.options(OPENAI)
    });
    let toolkit = Toolkit::from_tools([add()]);
    ON_THE_TASK.scope((), client.run("hi", &toolkit)).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 4);
}

// CLIENT-70: a sink that panics changes nothing, and is complained of once
#[tokio::test]
async fn a_panic_of_the_sink_changes_nothing() {
    let warnings = Warnings::listen();
    let double =
        Double::new([Answer::openai(&add_call(), 1, 1), Answer::openai(&json!({"content": "ok"}), 1, 1)]);
    let client = create_client(ClientOptions {
        on_metric: Some(Arc::new(|_: &MetricEvent| panic!("the sink is broken"))),
        ..double.options(OPENAI)
    });
    let result = within(client.run("hi", &Toolkit::from_tools([add()]))).await.unwrap();
    assert_eq!((result.text.as_str(), result.tool_call_count), ("ok", 1));
    let said = warnings.take();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("on_metric"), "{said:?}");
    assert!(client.metrics().contains("status=\"ok\"} 2\n"));
}

// CLIENT-71, CLIENT-73, case R3: one `llm` event for all attempts, with the waits in its duration
#[tokio::test(start_paused = true)]
async fn retries_are_part_of_one_event() {
    let refused = |after: &str| Answer::status(503, &[("Retry-After", after)], "");
    let ok = || Answer::openai(&json!({"content": "ok"}), 6, 3);
    for (answers, retries, status, ms) in [
        (vec![refused("2"), refused("3"), ok()], 2, "ok", 5000),
        (vec![refused("2"), refused("3")], 1, "error", 2000),
        (vec![ok()], 2, "ok", 0),
    ] {
        let double = Double::new(answers);
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            on_metric: Some(metrics.sink()),
            retries: Some(retries),
            ..double.options(OPENAI)
        });
        let _ = client.run("hi", &Toolkit::default()).await;
        let tokens = if status == "ok" { (6, 3) } else { (0, 0) };
        let llm: Vec<Value> = metrics
            .all()
            .iter()
            .filter(|event| matches!(event, MetricEvent::Llm { .. }))
            .map(|event| serde_json::to_value(event).unwrap())
            .collect();
        assert_eq!(
            llm,
            [json!({"event": "llm", "model": "m", "status": status, "ms": ms,
                "prompt_tokens": tokens.0, "completion_tokens": tokens.1})]
        );
        let MetricEvent::Run { ms: run_ms, .. } = metrics.all().pop().unwrap() else { panic!() };
        assert_eq!(run_ms, ms);
    }
}

// CLIENT-71, CLIENT-75: a stream is measured to its end; a broken one is an error; no usage is 0
#[tokio::test(start_paused = true)]
async fn a_streamed_call_is_measured_to_its_end() {
    let good = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: [DONE]\n\n";
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    for (body, status) in [(good, "ok"), (error, "error"), (cut, "error")] {
        let metrics = MetricLog::default();
        let slow = futures::stream::once(async move {
            tokio::time::sleep(Duration::from_millis(700)).await;
            Ok(body.into())
        });
        let Answer::Full(head) = Answer::pieces::<&str>([]) else { panic!() };
        let double = Double::new([Answer::Full(HttpResponse { body: slow.boxed(), ..head })]);
        let client =
            create_client(ClientOptions { on_metric: Some(metrics.sink()), ..double.options(OPENAI) });
        let _ = client.stream("hi", &Toolkit::default()).finish().await;
        assert_eq!(
            serde_json::to_value(&metrics.all()[0]).unwrap(),
            json!({"event": "llm", "model": "m", "status": status, "ms": 700, "prompt_tokens": 0, "completion_tokens": 0})
        );
        assert_eq!(metrics.all().len(), 2);
    }
}

// CLIENT-73, CLIENT-23: calls outside the loop have no `run`
#[tokio::test]
async fn single_calls_tell_the_model_call_alone() {
    for fails in [false, true] {
        let one = || {
            if fails {
                Answer::status(500, &[], "no")
            } else {
                Answer::openai(&json!({"content": "ok"}), 6, 3)
            }
        };
        let double = Double::new([one(), one()]);
        let metrics = MetricLog::default();
        let client =
            create_client(ClientOptions { on_metric: Some(metrics.sink()), ..double.options(OPENAI) });
        let message = json!({"role": "user", "content": "hi"});
        let request = TranslateRequest { messages: vec![message.clone()], ..Default::default() };
        assert_eq!(within(client.translate(request)).await.is_err(), fails);
        let body = object(json!({"model": "mine", "messages": [message]}));
        assert_eq!(within(client.call_provider(body)).await.is_err(), fails);
        let event = |model: &str| {
            let (status, prompt, completion) = if fails { ("error", 0, 0) } else { ("ok", 6, 3) };
            json!({"event": "llm", "model": model, "status": status, "prompt_tokens": prompt, "completion_tokens": completion})
        };
        assert_eq!(metrics.timeless(), [event("m"), event("mine")]);
        assert!(!client.metrics().contains("\ntoolnexus_run_errors_total "));
    }
}

fn tool_event(tool: &str, source: &str, is_error: bool, pending: bool) -> Value {
    json!({"event": "tool", "tool": tool, "source": source, "is_error": is_error, "pending": pending})
}

// CLIENT-71, CLIENT-72, CLIENT-38, CLIENT-35: what each kind of call tells
#[tokio::test]
async fn each_kind_of_call_has_its_tool_events() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style)
                .tool_call("1", "broken", json!({}))
                .tool_call("2", "missing", json!({}))
                .tool_call_raw("3", "add", "[1]")
                .tool_call("4", "add", json!({"a": 1, "b": 1})),
            reply(style).text("ok"),
        ])
        .await;
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        let broken = define_tool("broken", "", None, |_, _| async { Err::<String, _>("no") });
        mode.execute(&client, &Toolkit::from_tools([broken, add()])).await.unwrap();
        let mut events = metrics.of("tool");
        events.sort_by_key(Value::to_string);
        let mut expected = vec![
            tool_event("broken", "native", true, false),
            tool_event("missing", "custom", true, false),
            tool_event("add", "native", true, false),
            tool_event("add", "native", false, false),
        ];
        expected.sort_by_key(Value::to_string);
        assert_eq!(events, expected, "{style:?} {mode:?}");
    }
}

// CLIENT-71, CLIENT-72: a suspension, its retry, and a declined answer
#[tokio::test]
async fn a_suspended_call_tells_that_it_waits() {
    for (style, mode) in every_way() {
        for (wait_for, suspends_again, expected) in [
            (None, false, vec![(false, true)]),
            (Some(answering(true)), false, vec![(false, true), (false, false)]),
            (Some(answering(false)), false, vec![(false, true)]),
            (Some(answering(true)), true, vec![(false, true), (true, false)]),
        ] {
            let server = server(calling(style, &["ask"])).await;
            let metrics = MetricLog::default();
            let client = create_client(ClientOptions {
                wait_for,
                on_metric: Some(metrics.sink()),
                ..options(style, server.base_url())
            });
            let tool = if suspends_again {
                define_tool("ask", "", None, |_, _| async {
                    pending(toolnexus_core::Request { prompt: "?".into(), ..Default::default() })
                })
            } else {
                asking("ask", "Which city?").0
            };
            mode.execute(&client, &Toolkit::from_tools([tool])).await.unwrap();
            let expected: Vec<Value> = expected
                .into_iter()
                .map(|(is_error, pending)| tool_event("ask", "native", is_error, pending))
                .collect();
            assert_eq!(metrics.of("tool"), expected);
            assert_eq!(metrics.of("run")[0].get("error"), None);
        }
    }
}

// CLIENT-71: the label of every origin
#[tokio::test]
async fn the_source_is_the_tools_origin() {
    for (source, label) in [
        (ToolSource::Mcp, "mcp"),
        (ToolSource::Skill, "skill"),
        (ToolSource::Builtin, "builtin"),
        (ToolSource::Native, "native"),
        (ToolSource::Http, "http"),
        (ToolSource::A2a, "a2a"),
        (ToolSource::Agent, "agent"),
        (ToolSource::Media, "media"),
        (ToolSource::Relay, "relay"),
        (ToolSource::Custom, "custom"),
    ] {
        let double =
            Double::new([Answer::calls(OPENAI, &[("c1", "t", json!({}))]), Answer::text(OPENAI, "ok")]);
        let metrics = MetricLog::default();
        let client =
            create_client(ClientOptions { on_metric: Some(metrics.sink()), ..double.options(OPENAI) });
        let toolkit = Toolkit::from_tools([fixed("t", "x").source(source)]);
        within(client.run("hi", &toolkit)).await.unwrap();
        assert_eq!(metrics.of("tool"), [tool_event("t", label, false, false)]);
        let series = format!(
            "toolnexus_tool_calls_total{{tool=\"t\",source=\"{label}\",is_error=\"false\",pending=\"false\"}} 1\n"
        );
        assert!(client.metrics().contains(&series), "{}", client.metrics());
    }
}

// CLIENT-109, CLIENT-107, CLIENT-75: the error is the cut message; nothing of the run's content is told
#[tokio::test]
async fn events_hold_no_payload() {
    for (status, body, error) in [
        (500, "x".repeat(500), format!("LLM 500: {}…", "x".repeat(200))),
        (401, format!("bad key {KEY}"), "LLM 401".to_owned()),
        (402, r#"{"user_id":"user_1"}"#.to_owned(), r#"LLM 402: {"user_id":"«redacted»"}"#.to_owned()),
    ] {
        let double = Double::new([
            Answer::calls(OPENAI, &[("call-id", "add", json!({"a": 77777}))]),
            Answer::status(status, &[], body),
        ]);
        let events = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&events);
        let client = create_client(ClientOptions {
            system_prompt: "SYSTEM".into(),
            on_metric: Some(Arc::new(move |event: &MetricEvent| {
                let mut log = log.lock().unwrap();
                log.push_str(&serde_json::to_string(event).unwrap());
                log.push_str(&format!("{event:?}"));
            })),
            ..double.options(OPENAI)
        });
        let output = ToolResult::success("OUTPUT");
        let tool = define_tool("add", "", None, move |_, _| {
            let output = output.clone();
            async move { output }
        });
        within(client.ask("PROMPT", &Toolkit::from_tools([tool]), "conversation-id")).await.unwrap_err();
        let told = events.lock().unwrap().clone() + &client.metrics();
        for secret in ["PROMPT", "SYSTEM", "OUTPUT", "77777", KEY, "call-id", "conversation-id", "user_1"] {
            assert!(!told.contains(secret), "{secret}: {told}");
        }
        let quoted = serde_json::to_string(&error).unwrap();
        assert!(told.contains(&format!("\"error\":{quoted}")), "{told}");
    }
}

// CLIENT-76: clones share their numbers, clients do not
#[tokio::test]
async fn numbers_belong_to_the_client() {
    let double = Double::new([Answer::text(OPENAI, "ok")]);
    let client = create_client(double.options(OPENAI));
    let other = create_client(double.options(OPENAI));
    let clone = client.clone();
    Mode::Run.execute(&client, &Toolkit::default()).await.unwrap();
    assert_eq!(client.metrics(), clone.metrics());
    assert_ne!(client.metrics(), other.metrics());
    assert_eq!(other.metrics(), NOTHING);
}
