//! Relay tools in a run: declared like any tool, executed by the caller.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::double::{Answer as Reply, Double};
use support::tools::{asking, fixed};
use support::{STYLES, within};
use toolnexus_core::{
    Answer, RELAY_KIND, RelayCall, RelayResult, Request, Style, Tool, Toolkit, WaitFor, answer_declined,
    answer_output_error, is_relay_request, pending_of, relay_answer, relay_calls_of, relay_tool,
};
use toolnexus_llm::{ClientOptions, RunOptions, RunResult, RunStatus, StreamEvent, create_client};

fn weather() -> Tool {
    relay_tool("weather", "Weather of a city", None)
}

async fn run(
    style: Style,
    tools: Vec<Tool>,
    calls: &[(&str, &str, Value)],
    wait_for: Option<WaitFor>,
) -> (RunResult, Vec<StreamEvent>, Arc<Double>) {
    let double = Double::new([Reply::calls(style, calls), Reply::text(style, "ok")]);
    let client = create_client(ClientOptions { wait_for, ..double.options(style) });
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let options = RunOptions {
        on_event: Some(Arc::new(move |event: &StreamEvent| sink.lock().unwrap().push(event.clone()))),
        ..Default::default()
    };
    let result = within(client.run_with("hi", &Toolkit::from_tools(tools), options)).await.unwrap();
    let events = events.lock().unwrap().clone();
    (result, events, double)
}

fn call(id: &str, name: &str, input: Value) -> RelayCall {
    let arguments = input.to_string();
    RelayCall { id: id.into(), name: name.into(), input: input.as_object().unwrap().clone(), arguments }
}

// CORE-130, SUSPEND-35, SUSPEND-39: declared like any tool; uncalled it changes nothing
#[tokio::test]
async fn a_relay_tool_is_declared_like_any_other() {
    assert_eq!(weather().source.as_str(), "relay");
    assert_eq!(weather().input_schema, json!({"type": "object", "properties": {}}));
    let own = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    assert_eq!(relay_tool("w", "", Some(own.clone())).input_schema, own);

    let double = Double::new([Reply::text(Style::OpenAI, "ok")]);
    let client = create_client(double.options(Style::OpenAI));
    let result = client.run("hi", &Toolkit::from_tools([weather()])).await.unwrap();
    assert_eq!((result.status, result.pending), (RunStatus::Done, None));
    assert_eq!(
        double.body(0)["tools"],
        json!([{"type": "function", "function": {
            "name": "weather", "description": "Weather of a city",
            "parameters": {"type": "object", "properties": {}},
        }}])
    );
}

// CORE-131, SUSPEND-35, SUSPEND-39: the call is the request; the loop gives it the model's id
#[tokio::test]
async fn the_first_execution_is_a_request() {
    let args = json!({"city": "Kochi", "n": 1});
    let request = pending_of(&weather().execute(args.clone()).await).unwrap();
    assert_eq!((request.kind.as_str(), RELAY_KIND), ("tool_call", "tool_call"));
    assert_eq!(request.prompt, "relay tool call weather to the caller for execution");
    assert!(is_relay_request(&request));
    assert_eq!(relay_calls_of(&request).unwrap(), [call("", "weather", args.clone())]);
    assert_eq!(relay_calls_of(&Request { kind: "input".into(), ..request }), None);

    for style in STYLES {
        let (result, events, _) = run(style, vec![weather()], &[("c1", "weather", args.clone())], None).await;
        assert_eq!(result.status, RunStatus::Pending);
        let request = result.pending.unwrap();
        assert_eq!(relay_calls_of(&request).unwrap(), [call("c1", "weather", args.clone())]);
        let told: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::Pending { request } => Some(request.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(told, [request]);
    }
}

// CORE-132, SUSPEND-36, SUSPEND-30: one request for all relay calls of the turn
#[tokio::test]
async fn a_halt_carries_every_relay_call_of_the_turn() {
    for style in STYLES {
        let (ask, _) = asking("ask", "Sure?");
        let tools = vec![weather(), relay_tool("news", "", None), fixed("own", "mine"), ask.clone()];
        let calls = [
            ("c1", "own", json!({})),
            ("c2", "weather", json!({"city": "Kochi"})),
            ("c3", "ask", json!({})),
            ("c4", "news", json!({"of": "today"})),
        ];
        let (result, events, _) = run(style, tools.clone(), &calls, None).await;
        let request = result.pending.unwrap();
        assert_eq!(request.prompt, "relay tool call weather to the caller for execution");
        assert_eq!(result.text, request.prompt);
        assert_eq!(
            relay_calls_of(&request).unwrap(),
            [call("c2", "weather", calls[1].2.clone()), call("c4", "news", calls[3].2.clone())]
        );
        assert!(events.contains(&StreamEvent::Pending { request }));
        // Another kind that is first surfaces unmixed.
        let calls = [("c1", "ask", json!({})), ("c2", "weather", json!({}))];
        let (result, _, _) = run(style, tools, &calls, None).await;
        let request = result.pending.unwrap();
        assert_eq!((request.prompt.as_str(), relay_calls_of(&request)), ("Sure?", None));
    }
}

fn answering(answer: fn(&Request) -> Answer) -> (WaitFor, Arc<Mutex<Vec<Request>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let wait_for: WaitFor = Arc::new(move |request| {
        seen.lock().unwrap().push(request.clone());
        Box::pin(async move { Ok(answer(&request)) })
    });
    (wait_for, asked)
}

fn outputs(result: &RunResult) -> Vec<(&str, bool)> {
    result.tool_calls.iter().map(|call| (call.output.as_str(), call.is_error)).collect()
}

// CORE-132, CORE-133, CORE-136, SUSPEND-36, SUSPEND-37: a resolver gets each call alone
#[tokio::test]
async fn a_resolver_answers_each_call_alone() {
    let calls = [("c1", "weather", json!({"city": "Kochi"})), ("c2", "weather", json!({"city": "Rome"}))];
    for style in STYLES {
        let (wait_for, asked) = answering(|request| match relay_calls_of(request).unwrap()[0].id.as_str() {
            "c1" => {
                let mine = RelayResult { id: "c1".into(), output: "29C".into(), is_error: false };
                relay_answer(&request.id, [RelayResult { id: "c2".into(), ..mine.clone() }, mine])
            }
            _ => answer_output_error(&request.id, "no such city"),
        });
        let (result, _, _) = run(style, vec![weather()], &calls, Some(wait_for)).await;
        assert_eq!(outputs(&result), [("29C", false), ("no such city", true)]);
        let asked: Vec<_> =
            asked.lock().unwrap().iter().map(|request| relay_calls_of(request).unwrap().len()).collect();
        assert_eq!(asked, [1, 1]);
    }
    type Case = (fn(&Request) -> Answer, &'static str);
    let cases: [Case; 5] = [
        (|request| relay_answer(&request.id, []), "no result supplied on resume for weather"),
        (
            |request| Answer { id: request.id.clone(), ok: true, ..Default::default() },
            "toolnexus: Answer output must be a string",
        ),
        (
            |request| Answer {
                id: request.id.clone(),
                ok: true,
                data: json!({"output": 7}).as_object().cloned(),
                reason: None,
            },
            "toolnexus: Answer output must be a string",
        ),
        (
            |request| Answer {
                id: request.id.clone(),
                ok: true,
                data: json!({"results": [{"id": "c1"}]}).as_object().cloned(),
                reason: None,
            },
            "toolnexus: Answer output must be a string",
        ),
        // CORE-134: in a run a declined answer never reaches the tool
        (
            |request| answer_declined(&request.id, Some("no")),
            "declined/expired: relay tool call weather to the caller for execution",
        ),
    ];
    for (answer, output) in cases {
        let (wait_for, _) = answering(answer);
        let (result, _, _) = run(Style::OpenAI, vec![weather()], &calls[..1], Some(wait_for)).await;
        assert_eq!(outputs(&result), [(output, true)]);
    }
}

// CORE-134, SUSPEND-37: outside a run
#[tokio::test]
async fn outside_a_run_the_tool_says_that_it_was_declined() {
    for (reason, said) in [(Some("busy"), "busy"), (None, "declined"), (Some(""), "declined")] {
        let context =
            toolnexus_core::ToolContext { answer: Some(answer_declined("r", reason)), ..Default::default() };
        let result = weather().execute_with(json!({}), context).await;
        assert_eq!(result.output, format!("relay declined for weather: {said}"));
        assert!(result.is_error && pending_of(&result).is_none());
    }
}

// CORE-138: the same by hand, with an ordinary suspension
#[tokio::test]
async fn an_ordinary_tool_can_do_the_same() {
    let (tool, _) = asking("ask", "for the caller");
    let (wait_for, _) = answering(|request| Answer {
        data: json!({"text": "29C"}).as_object().cloned(),
        ..toolnexus_core::answer_output(&request.id, "")
    });
    let (result, _, _) = run(Style::OpenAI, vec![tool], &[("c1", "ask", json!({}))], Some(wait_for)).await;
    assert_eq!(outputs(&result), [("answered: 29C", false)]);
}

// CORE-135: nobody hears of an error where a relay tool only waits
#[tokio::test]
async fn waiting_is_no_error() {
    for style in STYLES {
        let (wait_for, _) = answering(|request| toolnexus_core::answer_output(&request.id, "29C"));
        let calls = [("c1", "weather", json!({}))];
        let (_, events, _) = run(style, vec![weather()], &calls, Some(wait_for)).await;
        let results: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::ToolResult { output, is_error, .. } => Some((output.as_str(), *is_error)),
                _ => None,
            })
            .collect();
        assert_eq!(results, [("29C", false)]);
        let (_, events, _) = run(style, vec![weather()], &calls, None).await;
        assert!(!events.iter().any(|event| matches!(event, StreamEvent::ToolResult { .. })));
    }
}
