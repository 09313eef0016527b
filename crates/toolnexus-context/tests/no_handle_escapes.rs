//! The big search: identities of every kind go to the model as handles, the model uses all of them
//! everywhere, and nobody else ever sees one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use std::sync::Arc;

use client_support::{Hooked, Metrics, Mode, Seen, drain, every_way, options, reply, server, tool, within};
use serde_json::{Value, json};
use support::{R, S, T, U, config};
use toolnexus_context::{RegistryConfig, ToolPolicy};
use toolnexus_core::{
    Answer, Request, Style, Tool, ToolContext, ToolResult, ToolSource, Toolkit, define_tool, pending,
};
use toolnexus_llm::run_log::{MemoryRunLog, RunLog};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{
    ClientOptions, ResumeOptions, RunDurableOptions, RunStatus, StreamEvent, ToolTierOptions, create_client,
};
use toolnexus_testkit::model::ModelReply;

/// The durable identities that are planted.
const PLANTED: [&str; 9] = [
    "document-36283d3d",
    "base-a13f-40d2",
    "chunk-e925fc32",
    "https://example.com/wiki/page?id=7",
    U,
    R,
    S,
    T,
    "summary/8f7a5b68-a7ab-4565-b6f3-1cae2578f041",
];

/// Every handle that is in a text.
fn handles(text: &str) -> Vec<String> {
    let pattern =
        regex::Regex::new(r#"(?i)(?:chunk|doc|kb|url)://[0-9]|res://[0-9]|<ref\b|\b(?:ms|mt|i)[0-9]+\b"#)
            .unwrap();
    pattern.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// Asserts that there is no handle in what somebody saw.
#[track_caller]
fn no_handle(what: &str, seen: &Value) {
    let text = seen.to_string();
    assert_eq!(handles(&text), Vec::<String>::new(), "{what}: {text}");
}

/// Every identity as the model shall call it: whatever it is given, it repeats.
fn everything() -> Value {
    json!({
        "doc": "doc://1",
        "kb": "KB://1",
        "chunk": "see chunk://1.",
        "url": "[page](url://1)",
        "file": "![](res://0001)",
        "path": "https://host.example/d/doc://1?x=1",
        "nested": [{"deep": {"res://0001": ["doc://1", "res://0002"]}}],
        "issue_id": "i1",
        "number": 1.50,
    })
}

const SAID: &str = "doc://1, Kb://1, chunk://1, <ref id=\"chunk://1\"/>, <ref id=\"url://1\"/>, [a](url://1), \
                    ![](res://0001) res://0002, ms1, mt1, i1, <ref id=\"doc://1\"/> chunk://99 res://0099 end";

fn a_config() -> RegistryConfig {
    config()
        .policy("use_all", ToolPolicy::default().private_decode("issue_id", "issue").encode_known(["issue"]))
}

fn toolkit(args: &Seen<Value>) -> Toolkit {
    let kept = args.clone();
    let (use_all, _) = tool("use_all", move |args| {
        kept.push(args.clone());
        ToolResult::success(format!("used {args}"))
    });
    let search = tool("knowledge_search", |_| {
        let rows = json!([{
            "chunk_id": PLANTED[2], "knowledge_id": PLANTED[0], "knowledge_base_id": PLANTED[1],
            "knowledge_title": "Wiki", "content": format!("text with {R}"),
        }]);
        let context = json!({"display_type": "search_results", "results": rows});
        let metadata = json!({"context": context}).as_object().unwrap().clone();
        ToolResult::success("one row").with_metadata(metadata)
    });
    let issue = tool("read_issue", |_| ToolResult::success(json!({"id": U, "slug": PLANTED[8]}).to_string()));
    let remote = tool("remote", |_| ToolResult::success(format!("found {} at {R}", PLANTED[3])));
    let discover = tool("discover_mcp_tools", |_| {
        ToolResult::success(json!({"server_id": S, "tools": [{"tool_ref": T}]}).to_string())
    });
    let ask = define_tool("ask", "ask", None, |args: Value, context: ToolContext| async move {
        match context.answer {
            None => pending(Request {
                kind: "input".into(),
                prompt: format!("may I {args}"),
                data: Some(args.as_object().unwrap().clone()),
                ..Default::default()
            }),
            Some(_) => ToolResult::success(format!("answered {args}")),
        }
    });
    let tools: Vec<Tool> = vec![
        use_all,
        search.0,
        issue.0,
        remote.0.source(ToolSource::Mcp),
        discover.0.input_schema(
            json!({"type": "object", "properties": {"server_id": {"type": "string", "enum": [S]}}}),
        ),
        ask,
    ];
    Toolkit::from_tools(tools)
}

/// What the model does: it looks at everything, uses all of it, and speaks of all of it.
fn script(style: Style, tiers: bool) -> Vec<ModelReply> {
    let call = |turn: ModelReply, id: &str, name: &str, args: Value| match tiers {
        true => turn.tool_call(id, "call_tool", json!({"name": name, "arguments": args})),
        false => turn.tool_call(id, name, args),
    };
    let mut look = reply(style).text("I look.");
    for (id, name, args) in [
        ("c1", "knowledge_search", json!({"query": "x"})),
        ("c2", "read_issue", json!({})),
        ("c3", "remote", json!({})),
        ("c4", "discover_mcp_tools", json!({"server_id": "ms1"})),
    ] {
        look = call(look, id, name, args);
    }
    let mut act = reply(style).thinking(SAID, "c2lnbmVk").text(SAID);
    act = call(act, "d1", "use_all", everything());
    act = call(act, "d2", "call_mcp_tool", json!({"tool_ref": "mt1", "arguments": "{\"a\":\"doc://1\"}"}));
    act = act.tool_call_raw("d3", "use_all", "{\"doc\": \"doc://1\", ");
    act = call(act, "d4", "ask", json!({"about": "doc://1 and res://0001"}));
    let speak = reply(style).thinking(SAID, "c2lnbmVk").deltas(SAID.split_inclusive(['/', ' ']));
    // Under tiers a definition is read before it is used.
    let find = reply(style).tool_call("b1", "tool_search", json!({"query": "select:discover_mcp_tools"}));
    tiers.then_some(find).into_iter().chain([look, act, speak]).collect()
}

fn prompt() -> String {
    format!("Look at toolnexus://kb/{} and server_id=\"{S}\" and {}", PLANTED[1], PLANTED[8])
}

/// That the test is about something: the model saw handles of every space, and no identity.
fn check_requests(requests: &[Value], tiers: bool) {
    let all = json!(requests).to_string();
    for handle in
        ["doc://1", "kb://1", "chunk://1", "url://1", "res://0001", "res://0002", "i1", "ms1", "mt1"]
    {
        assert!(all.contains(handle), "{handle} is in no request");
    }
    for (at, body) in requests.iter().enumerate() {
        let messages = json!([body["messages"], body["contents"]]).to_string();
        // A bare id within a path of an undeclared argument is not told from any other text.
        let text = messages.replace("/d/document-36283d3d", "");
        for planted in PLANTED {
            // An MCP result is opaque but for its files, and its links are listed as they are.
            let is_shown = planted == PLANTED[3];
            // Private and routing ids that the model wrote into its answer are text from then on.
            let was_said = at + 1 == requests.len() && [U, S, T].contains(&planted);
            // Under tiers no definition has named the server before the first prompt does.
            let is_unknown = tiers && planted == S;
            let found = text.find(planted).filter(|_| !is_shown && !was_said && !is_unknown);
            let around = found.map(|at| text[..at].chars().rev().take(80).collect::<Vec<char>>());
            assert_eq!(around.map(|before| before.into_iter().rev().collect::<String>()), None, "{planted}");
        }
    }
}

/// That what the tool got is what was planted.
fn check_args(args: &[Value]) {
    let used = args.first().expect("the tool ran");
    assert_eq!(used["doc"], format!("toolnexus://doc/{}", PLANTED[0]));
    assert_eq!(used["kb"], format!("toolnexus://kb/{}", PLANTED[1]));
    assert_eq!(used["chunk"], format!("see toolnexus://chunk/{}.", PLANTED[2]));
    assert_eq!(used["url"], format!("[page]({})", PLANTED[3]));
    assert_eq!(used["path"], format!("https://host.example/d/{}?x=1", PLANTED[0]));
    assert_eq!(used["issue_id"], U);
    assert_eq!(used["number"], json!(1.5));
    for file in [R, PLANTED[8]] {
        assert!(used.to_string().contains(file), "{used}");
    }
}

// CTX-1: plain and streamed, in every style, with and without tool tiers: result, store, hooks, tool
// arguments, events and metrics hold no handle
#[tokio::test]
async fn no_handle_leaves_a_run() {
    for (style, mode) in every_way() {
        for tiers in [false, true] {
            let server = server(script(style, tiers)).await;
            let (hooked, hooks) = Hooked::new();
            let metrics = Metrics::new();
            let args = Seen::new();
            let answers = Seen::new();
            let asked = answers.clone();
            let client = create_client(ClientOptions {
                hooks: Some(hooks),
                on_metric: Some(metrics.sink()),
                system_prompt: format!("Mind {}", PLANTED[8]),
                tool_tiers: tiers.then(ToolTierOptions::default),
                wait_for: Some(Arc::new(move |request: Request| {
                    asked.push(json!(request));
                    let answer = Answer { id: request.id, ok: true, ..Default::default() };
                    Box::pin(async move { Ok(answer) })
                })),
                ..options(style, &server, a_config())
            });
            let told = mode.tell(&client, &toolkit(&args), &prompt(), "c").await;
            let way = format!("{style:?} {mode:?} tiers={tiers}");
            let requests: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
            assert_eq!(requests.len(), if tiers { 4 } else { 3 }, "{way}");
            check_requests(&requests, tiers);
            check_args(&args.all());
            assert_eq!(answers.len(), 1, "{way}");
            let saved = client.conversation_store().get("c").await.unwrap().unwrap();
            for (what, seen) in [
                ("result", json!(told.result)),
                ("store", json!(saved)),
                ("hooks", hooked.all()),
                ("tool arguments", json!(args.all())),
                ("events", json!(told.events)),
                ("requests of tools", json!(answers.all())),
                ("metrics", json!([metrics.json(), client.metrics()])),
            ] {
                no_handle(&format!("{what} of {way}"), &seen);
            }
            assert!(
                told.result.text.contains("<kb doc=\"Wiki\"") && told.result.text.contains("<web url="),
                "{way}"
            );
        }
    }
}

// CTX-1, CTX-102: a durable run and its resume: the log holds no handle either
#[tokio::test]
async fn no_handle_leaves_a_durable_run() {
    for (style, mode) in every_way() {
        let server = server(script(style, false)).await;
        let (hooked, hooks) = Hooked::new();
        let args = Seen::new();
        let client =
            create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, a_config()) });
        let toolkit = toolkit(&args);
        let memory = Arc::new(MemoryRunLog::default());
        let log: Arc<dyn RunLog> = Arc::<MemoryRunLog>::clone(&memory);
        let start = RunDurableOptions {
            run_id: "r".into(),
            id: "c".into(),
            ..RunDurableOptions::new(Arc::clone(&log))
        };
        let resume = |id: String| ResumeOptions {
            answer: Some(Answer { id, ok: true, ..Default::default() }),
            ..ResumeOptions::new(Arc::clone(&log), "r")
        };
        let (paused, result, events) = match mode {
            Mode::Run => {
                let paused = within(client.run_durable(prompt(), &toolkit, start)).await.unwrap();
                let id = paused.pending.clone().unwrap().id;
                (json!(paused), within(client.resume(&toolkit, resume(id))).await.unwrap(), Vec::new())
            }
            Mode::Stream => {
                let (mut events, _) = within(drain(client.stream_durable(prompt(), &toolkit, start))).await;
                let Some(StreamEvent::Done { result }) = events.last() else { panic!("{events:?}") };
                let (paused, id) = (json!(result), result.pending.clone().unwrap().id);
                let (more, _) = within(drain(client.stream_resume(&toolkit, resume(id)))).await;
                let Some(StreamEvent::Done { result }) = more.last().cloned() else { panic!("{more:?}") };
                events.extend(more);
                (paused, *result, events)
            }
        };
        assert_eq!(result.status, RunStatus::Done);
        check_args(&args.all());
        let saved = client.conversation_store().get("c").await.unwrap().unwrap();
        for (what, seen) in [
            ("pause", paused),
            ("result", json!(result)),
            ("log", json!(memory.read("r", 0).await.unwrap())),
            ("store", json!(saved)),
            ("hooks", hooked.all()),
            ("events", json!(events)),
        ] {
            no_handle(&format!("{what} of {style:?} {mode:?}"), &seen);
        }
    }
}

// CTX-1, CTX-102: a translation, with its raw answer
#[tokio::test]
async fn no_handle_leaves_a_translation() {
    for style in [Style::OpenAI, Style::Anthropic] {
        let server =
            server([reply(style).thinking(SAID, "c2ln").text(SAID).tool_call("c1", "use_all", everything())])
                .await;
        let (hooked, hooks) = Hooked::new();
        let client =
            create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, a_config()) });
        let request = TranslateRequest {
            messages: vec![
                json!({"role": "user", "content": format!("{} {} {R}", prompt(), "toolnexus://doc/document-36283d3d")}),
            ],
            toolkit: Some(toolkit(&Seen::new())),
            ..Default::default()
        };
        let answer = within(client.translate(request)).await.unwrap();
        assert!(answer.text.contains("toolnexus://doc/document-36283d3d"));
        // What this registry does not know stays in arguments, for the host to see: `chunk://1`, `url://1`, `i1`.
        let arguments = answer.tool_calls[0].arguments.clone();
        let args: Value = serde_json::from_str(&arguments).unwrap();
        assert_eq!(args["doc"], "toolnexus://doc/document-36283d3d");
        no_handle("text", &json!(answer.text.replace("ms1", "").replace("mt1", "").replace("i1", "")));
        let mut seen = hooked.all().to_string();
        for kept in ["chunk://1", "url://1", "i1"] {
            seen = seen.replace(kept, "");
        }
        let left: Vec<String> =
            handles(&seen).into_iter().filter(|found| !matches!(found.as_str(), "mt1" | "ms1")).collect();
        assert_eq!(left, Vec::<String>::new(), "{style:?}: {seen}");
    }
}
