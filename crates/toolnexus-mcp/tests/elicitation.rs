//! Servers that ask the host while they work on a call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{StillClock, noted, output, servers, stdio, tool, with};
use tokio::sync::{mpsc, oneshot};
use toolnexus_core::{Answer, BoxError, Request, ToolContext, ToolResult, WaitFor, answer_declined};
use toolnexus_mcp::{
    LoadMcpOptions, McpContext, McpSource, answer_to_elicit_result, elicitation_to_request, list_mcp_tools,
    load_mcp_with, server_request_response,
};
use toolnexus_testkit::mcp::{
    AnswerMode, FixtureTool, HttpOptions, Ledger, McpFixture, McpHttpFixture, RawJson, Reply, Step,
};

/// The ways on which a question comes and its answer goes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wire {
    Stdio,
    /// The event stream that answers the call.
    Stream,
    /// The session's standing stream, while the call is answered by one JSON body.
    Standing,
    /// HTTP+SSE of 2024-11-05.
    Legacy,
}

const WIRES: [Wire; 4] = [Wire::Stdio, Wire::Stream, Wire::Standing, Wire::Legacy];

/// A loaded server, and what it has received.
struct Connected {
    source: McpSource,
    peer: Peer,
}

enum Peer {
    Child(Ledger, #[expect(dead_code, reason = "held")] tempfile::TempDir),
    Http(McpHttpFixture),
}

/// Loads the fixture as `docs`, calls side by side.
async fn connect(wire: Wire, fixture: McpFixture, wait_for: Option<WaitFor>) -> Connected {
    connect_with(wire, fixture, wait_for, json!({})).await
}

async fn connect_with(wire: Wire, fixture: McpFixture, wait_for: Option<WaitFor>, more: Value) -> Connected {
    let fixture = fixture.tool(FixtureTool::text("ready", "yes"));
    let (entry, peer) = match wire {
        Wire::Stdio => {
            let (fixture, ledger, folder) = noted(fixture);
            (stdio(&fixture, json!({})), Peer::Child(ledger, folder))
        }
        Wire::Stream | Wire::Standing | Wire::Legacy => {
            let mut options = HttpOptions::default();
            match wire {
                Wire::Standing => options.answers = AnswerMode::Json,
                Wire::Legacy => options.legacy_sse = Some("/messages".into()),
                _ => {}
            }
            let server = McpHttpFixture::start(fixture, options).await.unwrap();
            (server.server_json(), Peer::Http(server))
        }
    };
    let entry = with(with(entry, json!({"concurrency": "stateless"})), more);
    let options = LoadMcpOptions { wait_for, ..Default::default() };
    let source = load_mcp_with(&servers(json!({ "docs": entry })), options).await;
    assert!(source.errors.is_empty(), "{wire:?}: {:?}", source.errors);
    Connected { source, peer }
}

impl Connected {
    async fn call(&self, name: &str) -> ToolResult {
        tool(&self.source, name).execute(json!({})).await
    }

    /// Everything the server has received so far.
    fn received(&self) -> Vec<Value> {
        match &self.peer {
            Peer::Child(ledger, _) => ledger.messages().unwrap(),
            Peer::Http(server) => server.requests().into_iter().map(|request| request.json).collect(),
        }
    }

    fn received_of(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// The answer to the server's first question, once it is there.
    async fn answer(&self) -> Value {
        match &self.peer {
            Peer::Child(ledger, _) => ledger.wait_for_answer(1).await.unwrap(),
            Peer::Http(server) => server.wait_for_answer(1).await.unwrap(),
        }
    }

    /// Whether an answer to the server's first question has come so far.
    fn is_answered(&self) -> bool {
        self.received().iter().any(|message| message["id"] == 1 && message.get("method").is_none())
    }

    /// Lets one step of a script pass. A child has the tool `open_<gate>` for it.
    async fn open(&self, gate: &str) {
        match &self.peer {
            Peer::Child(..) => assert_eq!(output(&self.source, &format!("docs_open_{gate}")).await, "opened"),
            Peer::Http(server) => server.open_gate(gate),
        }
    }
}

/// A question that waits for the test.
struct Question {
    request: Request,
    reply: oneshot::Sender<Answer>,
}

impl Question {
    fn accept(self, data: Value) {
        let Value::Object(data) = data else { panic!("{data}") };
        let answer = Answer { id: self.request.id, ok: true, data: Some(data), reason: None };
        self.reply.send(answer).unwrap();
    }

    /// Waits until nobody listens for the answer any more.
    async fn dropped(mut self) {
        self.reply.closed().await;
    }
}

/// A host that leaves every question to the test.
fn host() -> (Option<WaitFor>, mpsc::UnboundedReceiver<Question>) {
    let (questions, asked) = mpsc::unbounded_channel();
    let wait_for: WaitFor = Arc::new(move |request| {
        let questions = questions.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            questions.send(Question { request, reply })?;
            Ok(answer.await?)
        })
    });
    (Some(wait_for), asked)
}

/// A host that answers every question the same way, at once.
fn answering(answer: impl Fn(Request) -> Result<Answer, BoxError> + Send + Sync + 'static) -> WaitFor {
    Arc::new(move |request| {
        let answer = answer(request);
        Box::pin(async move { answer })
    })
}

fn accepting(data: Value) -> WaitFor {
    answering(move |request| {
        Ok(Answer { id: request.id, ok: true, data: data.as_object().cloned(), reason: None })
    })
}

fn asking(params: Value) -> Step {
    Step::request("elicitation/create", params)
}

fn asks(name: &str) -> FixtureTool {
    FixtureTool::asks(name, "elicitation/create", json!({"message": "Who are you?"}))
}

/// What a call of a tool that `asks` puts out for this answer of the client's.
fn told(result: Value) -> String {
    json!({ "result": result }).to_string()
}

fn failed(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

// MCP-94, SUSPEND-51, cases 53 to 55
#[test]
fn parameters_become_a_request() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let form = elicitation_to_request(&json!({"message": "What is your name?", "requestedSchema": schema}));
    assert_eq!((form.kind.as_str(), form.prompt.as_str(), form.url), ("input", "What is your name?", None));
    assert_eq!(form.data.unwrap()["schema"], schema);

    let url = elicitation_to_request(&json!({
        "mode": "url", "message": "Authorize us", "url": "https://example.test/oauth", "requestedSchema": schema,
    }));
    assert_eq!((url.kind.as_str(), url.prompt.as_str()), ("authorization", "Authorize us"));
    assert_eq!((url.url.as_deref(), url.data), (Some("https://example.test/oauth"), None));
    assert_eq!(elicitation_to_request(&json!({"mode": "url", "url": 7})).url, None);

    for params in
        [json!({}), json!(null), json!([1]), json!({"message": 5, "requestedSchema": null, "mode": "form"})]
    {
        let request = elicitation_to_request(&params);
        assert_eq!((request.kind.as_str(), request.prompt.as_str()), ("input", ""), "{params}");
        assert_eq!((request.url, request.data, request.expires_at), (None, None, None), "{params}");
    }
    let unknown =
        elicitation_to_request(&json!({"mode": "URL", "url": "https://x.test", "requestedSchema": 5}));
    assert_eq!((unknown.kind.as_str(), unknown.url), ("input", None));
    assert_eq!(unknown.data.unwrap()["schema"], 5);
}

// MCP-95, SUSPEND-51
#[test]
fn ids_are_unique() {
    let ids: std::collections::HashSet<String> =
        (0..1000).map(|_| elicitation_to_request(&Value::Null).id).collect();
    assert_eq!(ids.len(), 1000);
    assert!(ids.iter().all(|id| {
        let [prefix, reading, counter] = id.split('-').collect::<Vec<_>>()[..] else { return false };
        prefix == "elc" && [reading, counter].iter().all(|part| part.parse::<u128>().is_ok())
    }));
}

fn json_text(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // MCP-94, MCP-96: any text and any schema come through untouched, key order included
    #[test]
    fn schemas_are_verbatim(message in ".{0,30}", keys in prop::collection::vec("[a-zA-Z$x-]{1,8}", 0..6)) {
        let schema: Map<String, Value> =
            keys.into_iter().enumerate().map(|(at, key)| (key, json!({"at": at, "x-y": [null]}))).collect();
        let request = elicitation_to_request(&json!({"message": message, "requestedSchema": schema}));
        prop_assert_eq!(&request.prompt, &message);
        let text = request.data.unwrap()["schema"].to_string();
        prop_assert_eq!(text, Value::Object(schema).to_string());
    }

    // MCP-97: only a granted answer carries anything, and only `declined` declines
    #[test]
    fn an_answer_says_one_of_three_things(ok: bool, reason in "(declined|cancelled|expired|[a-z]{0,9})", text: String) {
        let data = Map::from_iter([("text".to_owned(), Value::String(text))]);
        let answer = Answer { id: String::new(), ok, data: Some(data.clone()), reason: Some(reason.clone()) };
        let expected = match (ok, reason.as_str()) {
            (true, _) => json!({"action": "accept", "content": data}),
            (false, "declined") => json!({"action": "decline"}),
            (false, _) => json!({"action": "cancel"}),
        };
        prop_assert_eq!(answer_to_elicit_result(&answer), expected);
    }
}

// MCP-97, SUSPEND-52
#[test]
fn an_answer_becomes_a_result() {
    let granted = |data| Answer { id: "x".into(), ok: true, data, reason: Some("declined".into()) };
    assert_eq!(answer_to_elicit_result(&granted(None)).to_string(), r#"{"action":"accept","content":{}}"#);
    let refused = |reason| answer_to_elicit_result(&answer_declined("x", reason)).to_string();
    assert_eq!(refused(Some("declined")), r#"{"action":"decline"}"#);
    for reason in [None, Some("Declined"), Some("cancelled"), Some("expired")] {
        assert_eq!(refused(reason), r#"{"action":"cancel"}"#);
    }
}

// MCP-97, MCP-100, SUSPEND-53, cases 56 to 61
#[tokio::test]
async fn a_message_of_a_server_is_answered() {
    let ask = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "Who are you?"}});
    let respond = async |wait_for: Option<WaitFor>, message: Value| {
        server_request_response(wait_for.as_ref(), &message).await.map(|answer| answer.to_string())
    };
    let accepts = respond(Some(accepting(json!({"name": "ada"}))), ask(json!(77))).await;
    assert_eq!(
        accepts.unwrap(),
        r#"{"jsonrpc":"2.0","id":77,"result":{"action":"accept","content":{"name":"ada"}}}"#
    );
    let declines = answering(|request| Ok(answer_declined(request.id, Some("declined"))));
    let declined = respond(Some(declines), ask(json!(3))).await.unwrap();
    assert_eq!(declined, r#"{"jsonrpc":"2.0","id":3,"result":{"action":"decline"}}"#);
    let panics = respond(Some(answering(|_| panic!("on purpose"))), ask(json!(4))).await.unwrap();
    assert_eq!(panics, r#"{"jsonrpc":"2.0","id":4,"result":{"action":"cancel"}}"#);
    let fails = respond(Some(answering(|_| Err("secret".into()))), ask(json!("four"))).await.unwrap();
    assert_eq!(fails, r#"{"jsonrpc":"2.0","id":"four","result":{"action":"cancel"}}"#);

    let refusal = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#)
    };
    for method in ["sampling/createMessage", "roots/list", "ping"] {
        let message = json!({"jsonrpc": "2.0", "id": 9, "method": method});
        assert_eq!(respond(Some(accepting(json!({}))), message).await.unwrap(), refusal("9"));
    }
    assert_eq!(respond(None, ask(json!(1))).await.unwrap(), refusal("1"));
    for none in [
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress"}),
        json!([1]),
        json!(null),
    ] {
        assert_eq!(respond(Some(accepting(json!({}))), none).await, None);
    }
}

// MCP-93, SUSPEND-50
#[tokio::test]
async fn the_capability_is_offered_with_a_resolver() {
    let offered =
        |connected: &Connected| connected.received_of("initialize")[0]["params"]["capabilities"].clone();
    for wire in WIRES {
        let with = connect(wire, McpFixture::new(), Some(accepting(json!({})))).await;
        assert_eq!(offered(&with).to_string(), r#"{"elicitation":{"form":{},"url":{}}}"#, "{wire:?}");
        let without = connect(wire, McpFixture::new(), None).await;
        assert_eq!(offered(&without).to_string(), "{}", "{wire:?}");
    }
}

// MCP-93, MCP-65
#[tokio::test]
async fn an_inventory_asks_nobody() {
    let server = McpHttpFixture::start(McpFixture::new(), HttpOptions::default()).await.unwrap();
    let options = LoadMcpOptions { wait_for: Some(accepting(json!({}))), ..Default::default() };
    let config = servers(json!({"docs": server.server_json()}));
    list_mcp_tools(&config, &McpContext::default(), options).await.unwrap();
    assert_eq!(server.requests_of("initialize")[0].json["params"]["capabilities"], json!({}));
}

// MCP-94, MCP-96, MCP-98, SUSPEND-54: as it came, answered while the call goes on, the call sent once
#[tokio::test]
async fn a_question_is_answered_within_its_call() {
    // Nothing that rmcp's own types would keep.
    const SCHEMA: &str = r#"{"x-z":{"b":1e2,"a":[null]},"type":"object","properties":{"zip":{"type":"object","properties":{}},"age":{"type":"integer","x-unit":"years"}},"additionalProperties":true,"required":[]}"#;
    let params = json_text(&format!(
        r#"{{"message":"Who are you?","requestedSchema":{SCHEMA},"_meta":{{"trace":1}},"extra":true}}"#
    ));
    for wire in WIRES {
        let script = [
            Step::request("elicitation/create", params.clone()),
            Step::AwaitReply,
            Step::Answer(Reply::ClientReply),
        ];
        let (wait_for, mut asked) = host();
        let docs =
            connect(wire, McpFixture::new().tool(FixtureTool::scripted("ask", script)), wait_for).await;
        let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
            let question = asked.recv().await.unwrap();
            assert_eq!(
                (question.request.kind.as_str(), question.request.prompt.as_str()),
                ("input", "Who are you?")
            );
            let schema = question.request.data.as_ref().unwrap()["schema"].to_string();
            assert_eq!(schema, SCHEMA.replace("1e2", "100.0"), "{wire:?}");
            question.accept(json!({"name": "ada"}));
        });
        assert_eq!(result.output, told(json!({"action": "accept", "content": {"name": "ada"}})), "{wire:?}");
        assert!(!result.is_error);
        assert_eq!(docs.received_of("tools/call").len(), 1, "{wire:?}");
        assert_eq!(docs.answer().await["jsonrpc"], "2.0");
    }
}

// MCP-94: whatever the parameters are
#[tokio::test]
async fn odd_questions_are_questions() {
    for params in ["{}", "[1]", "null", r#"{"mode":"url","url":"https://example.test/a"}"#, r#""text""#] {
        let script = [
            Step::request("elicitation/create", json_text(params)),
            Step::AwaitReply,
            Step::Answer(Reply::ClientReply),
        ];
        for wire in [Wire::Stdio, Wire::Stream] {
            let tool = FixtureTool::scripted("ask", script.clone());
            let url = answering(|request| {
                let data = Map::from_iter([("url".to_owned(), json!(request.url))]);
                Ok(Answer { id: request.id, ok: true, data: Some(data), reason: None })
            });
            let docs = connect(wire, McpFixture::new().tool(tool), Some(url)).await;
            let expected = params.contains("url").then_some("https://example.test/a");
            let content = json!({"action": "accept", "content": {"url": expected}});
            assert_eq!(docs.call("docs_ask").await.output, told(content), "{wire:?} {params}");
        }
    }
}

// MCP-97, SUSPEND-52: and the session goes on
#[tokio::test]
async fn refusals_and_failures_are_answered() {
    type Host = fn(Request) -> Result<Answer, BoxError>;
    let hosts: [(Host, &str); 5] = [
        (|request| Ok(answer_declined(request.id, Some("declined"))), "decline"),
        (|request| Ok(answer_declined(request.id, Some("expired"))), "cancel"),
        (|request| Ok(answer_declined(request.id, None)), "cancel"),
        (|_| Err("nobody home".into()), "cancel"),
        (|_| panic!("on purpose"), "cancel"),
    ];
    for wire in WIRES {
        for (answer, action) in hosts {
            let docs = connect(wire, McpFixture::new().tool(asks("ask")), Some(answering(answer))).await;
            for _ in 0..2 {
                assert_eq!(docs.call("docs_ask").await.output, told(json!({ "action": action })), "{wire:?}");
            }
        }
        let later: WaitFor = Arc::new(|_| {
            Box::pin(async {
                tokio::task::yield_now().await;
                panic!("on purpose")
            })
        });
        let docs = connect(wire, McpFixture::new().tool(asks("ask")), Some(later)).await;
        assert_eq!(docs.call("docs_ask").await.output, told(json!({"action": "cancel"})), "{wire:?}");
        assert_eq!(docs.call("docs_ready").await.output, "yes");
    }
}

// MCP-93, MCP-100, MCP-101, SUSPEND-50: what cannot be answered is refused
#[tokio::test]
async fn other_requests_and_questions_to_nobody_are_refused() {
    let refused = json!({"error": {"code": -32601, "message": "Method not found"}}).to_string();
    for wire in WIRES {
        let fixture = McpFixture::new()
            .tool(asks("ask"))
            .tool(FixtureTool::asks("roots", "roots/list", json!({})))
            .tool(FixtureTool::asks(
                "sample",
                "sampling/createMessage",
                json!({"messages": [], "maxTokens": 1}),
            ))
            .tool(FixtureTool::asks("odd", "toolnexus/elicitation", json!({"unread": "{}"})))
            .tool(FixtureTool::asks("ping", "ping", json!({})));
        let nobody = connect(wire, fixture.clone(), None).await;
        assert_eq!(nobody.call("docs_ask").await.output, refused, "{wire:?}");
        let docs = connect(wire, fixture, Some(accepting(json!({})))).await;
        for name in ["docs_roots", "docs_sample", "docs_odd"] {
            assert_eq!(docs.call(name).await.output, refused, "{wire:?} {name}");
        }
        assert_eq!(docs.call("docs_ping").await.output, told(json!({})), "{wire:?}");
    }
}

// MCP-99: an open question delays neither other calls nor other questions
#[tokio::test]
async fn the_reader_goes_on_while_the_host_thinks() {
    for wire in WIRES {
        let (wait_for, mut asked) = host();
        let docs = connect(wire, McpFixture::new().tool(asks("first")).tool(asks("second")), wait_for).await;
        let (first, second) = tokio::join!(docs.call("docs_first"), async {
            let first = asked.recv().await.unwrap();
            assert_eq!(docs.call("docs_ready").await.output, "yes");
            let (second, ()) = tokio::join!(docs.call("docs_second"), async {
                asked.recv().await.unwrap().accept(json!({"n": 2}));
            });
            first.accept(json!({"n": 1}));
            second
        });
        assert_eq!(first.output, told(json!({"action": "accept", "content": {"n": 1}})), "{wire:?}");
        assert_eq!(second.output, told(json!({"action": "accept", "content": {"n": 2}})), "{wire:?}");
    }
}

// MCP-98, case 70: answers do not wait behind the call that they belong to
#[tokio::test]
async fn a_serialized_connection_can_ask() {
    for wire in WIRES {
        let fixture = McpFixture::new().tool(asks("ask"));
        let more = json!({"concurrency": "serialized"});
        let docs = connect_with(wire, fixture, Some(accepting(json!({"n": 1}))), more).await;
        let (one, two) = tokio::join!(docs.call("docs_ask"), docs.call("docs_ready"));
        assert_eq!(one.output, told(json!({"action": "accept", "content": {"n": 1}})), "{wire:?}");
        assert_eq!(two.output, "yes");
    }
}

// MCP-99, SUSPEND-54, case 95: a call that is cancelled takes its question with it
#[tokio::test]
async fn a_cancelled_call_cancels_its_question() {
    for wire in WIRES {
        let (wait_for, mut asked) = host();
        let docs = connect(wire, McpFixture::new().tool(asks("ask")), wait_for).await;
        let context = ToolContext::default();
        let cancel = context.cancel.clone();
        let (result, ()) =
            tokio::join!(tool(&docs.source, "docs_ask").execute_with(json!({}), context), async {
                let question = asked.recv().await.unwrap();
                cancel.cancel();
                question.dropped().await;
            });
        assert_eq!(result.output, failed("cancelled"), "{wire:?}");
        assert_eq!(docs.answer().await["result"], json!({"action": "cancel"}), "{wire:?}");
        assert_eq!(docs.call("docs_ready").await.output, "yes");
    }
}

// MCP-99: as does one that is answered meanwhile
#[tokio::test]
async fn an_answered_call_cancels_its_question() {
    for wire in WIRES {
        let script = [asking(json!({})), Step::AwaitGate("go".into()), Step::text("never mind")];
        let fixture = McpFixture::new()
            .tool(FixtureTool::scripted("ask", script))
            .tool(FixtureTool::opens_gate("open_go", "go"));
        let (wait_for, mut asked) = host();
        let docs = connect(wire, fixture, wait_for).await;
        let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
            let question = asked.recv().await.unwrap();
            docs.open("go").await;
            question.dropped().await;
        });
        assert_eq!(result.output, "never mind", "{wire:?}");
        assert_eq!(docs.answer().await["result"], json!({"action": "cancel"}), "{wire:?}");
    }
}

// MCP-99: where the wire does not tell, a question lives as long as any call; without a call nobody is
// asked at all
#[tokio::test]
async fn a_question_of_no_call_is_cancelled() {
    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Standing, McpFixture::new(), wait_for).await;
    let Peer::Http(server) = &docs.peer else { panic!() };
    server.wait_for_streams(1).await.unwrap();
    server.push(&json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}}));
    assert_eq!(docs.answer().await["result"], json!({"action": "cancel"}));
    assert!(asked.try_recv().is_err(), "nobody was asked");
}

// MCP-187, case 95; notices nobody knows change nothing
#[tokio::test]
async fn a_server_may_withdraw_its_question() {
    for wire in WIRES {
        let script = [
            asking(json!({})),
            Step::notify("notifications/elicitation/complete", json!({"elicitationId": "e"})),
            Step::notify("notifications/nonsense", json!({})),
            Step::AwaitGate("withdraw".into()),
            Step::CancelRequest,
            Step::AwaitGate("go".into()),
            Step::text("done"),
        ];
        let fixture = McpFixture::new()
            .tool(FixtureTool::scripted("ask", script))
            .tool(FixtureTool::opens_gate("open_withdraw", "withdraw"))
            .tool(FixtureTool::opens_gate("open_go", "go"));
        let (wait_for, mut asked) = host();
        let docs = connect(wire, fixture, wait_for).await;
        let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
            let question = asked.recv().await.unwrap();
            docs.open("withdraw").await;
            question.dropped().await;
            docs.open("go").await;
        });
        assert_eq!(result.output, "done", "{wire:?}");
        docs.call("docs_ready").await;
        assert!(!docs.is_answered(), "{wire:?}: {:?}", docs.received());
    }
}

// MCP-129, case 96
#[tokio::test]
async fn a_child_that_exits_ends_its_question() {
    let script = [asking(json!({})), Step::AwaitGate("die".into()), Step::Exit { code: 3 }];
    let fixture = McpFixture::new()
        .tool(FixtureTool::scripted("ask", script))
        .tool(FixtureTool::opens_gate("open_die", "die"));
    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Stdio, fixture, wait_for).await;
    let (result, died) = tokio::join!(docs.call("docs_ask"), async {
        let question = asked.recv().await.unwrap();
        let died = Instant::now();
        docs.open("die").await;
        question.dropped().await;
        died
    });
    assert_eq!(result.output, failed("peer-exited (status 3)"));
    assert!(died.elapsed() < Duration::from_secs(2), "rmcp alone would wait five seconds for the question");
}

// MCP-77, MCP-99: a close waits for nobody, and nothing is sent after it
#[tokio::test]
async fn a_close_drops_open_questions() {
    for wire in WIRES {
        let (wait_for, mut asked) = host();
        let docs = connect(wire, McpFixture::new().tool(asks("ask")), wait_for).await;
        let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
            let question = asked.recv().await.unwrap();
            let began = Instant::now();
            docs.source.close().await;
            assert!(
                began.elapsed() < Duration::from_millis(1900),
                "{wire:?}: rmcp alone would wait two seconds"
            );
            question.dropped().await;
        });
        assert_eq!(result.output, failed("closed"), "{wire:?}");
        if let Peer::Http(server) = &docs.peer {
            server.wait_for_silence().await.unwrap();
        }
        assert!(!docs.is_answered(), "{wire:?}: {:?}", docs.received());
    }
}

// MCP-91, SUSPEND-54: a person may take an hour, whatever the limits of the call; then they go on
#[tokio::test(start_paused = true)]
async fn limits_do_not_run_while_the_host_thinks() {
    for wire in WIRES {
        let _still = StillClock::hold();
        let hangs = FixtureTool::scripted("hang", [asking(json!({})), Step::AwaitReply, Step::AwaitCancel]);
        let fixture = McpFixture::new().tool(asks("ask")).tool(hangs);
        let (wait_for, mut asked) = host();
        let more = json!({"timeout": 30_000, "maxTotalTimeout": 60_000});
        let docs = connect_with(wire, fixture, wait_for, more).await;
        let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
            let question = asked.recv().await.unwrap();
            tokio::time::advance(Duration::from_secs(3600)).await;
            question.accept(json!({}));
        });
        assert_eq!(result.output, told(json!({"action": "accept", "content": {}})), "{wire:?}");

        let (result, ()) = tokio::join!(docs.call("docs_hang"), async {
            let question = asked.recv().await.unwrap();
            tokio::time::advance(Duration::from_secs(3600)).await;
            question.accept(json!({}));
            match &docs.peer {
                Peer::Child(ledger, _) => ledger.wait_for_answer(2).await.unwrap(),
                Peer::Http(server) => server.wait_for_answer(2).await.unwrap(),
            };
            tokio::time::advance(Duration::from_secs(31)).await;
        });
        assert_eq!(result.output, failed("timeout"), "{wire:?}");
    }
}

// MCP-91: only the asking call's where the wire tells, else those of every call in flight
#[tokio::test(start_paused = true)]
async fn limits_of_other_calls_run_where_the_wire_tells_whose_question_it_is() {
    for wire in WIRES {
        let _still = StillClock::hold();
        let (wait_for, mut asked) = host();
        let other = FixtureTool::scripted("other", [Step::AwaitGate("other".into()), Step::text("other")]);
        let fixture = McpFixture::new()
            .tool(asks("ask"))
            .tool(other)
            .tool(FixtureTool::opens_gate("open_other", "other"));
        let docs = connect_with(wire, fixture, wait_for, json!({"timeout": 30_000})).await;
        let other = docs.call("docs_other");
        tokio::pin!(other);
        let (asker, other) = tokio::join!(docs.call("docs_ask"), async {
            // Both are in flight.
            let question = tokio::select! {
                result = &mut other => panic!("{result:?}"),
                question = asked.recv() => question.unwrap(),
            };
            tokio::time::advance(Duration::from_secs(3600)).await;
            let other = if wire == Wire::Stream {
                other.await
            } else {
                let (other, ()) = tokio::join!(other, docs.open("other"));
                other
            };
            question.accept(json!({}));
            other
        });
        let expected = if wire == Wire::Stream { failed("timeout") } else { "other".to_owned() };
        assert_eq!(other.output, expected, "{wire:?}");
        assert_eq!(asker.output, told(json!({"action": "accept", "content": {}})), "{wire:?}");
    }
}

// MCP-91: cancelling works all the same
#[tokio::test(start_paused = true)]
async fn a_held_call_can_be_cancelled() {
    let _still = StillClock::hold();
    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Stream, McpFixture::new().tool(asks("ask")), wait_for).await;
    let context = ToolContext { timeout_ms: Some(30_000), ..Default::default() };
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(tool(&docs.source, "docs_ask").execute_with(json!({}), context), async {
        let question = asked.recv().await.unwrap();
        tokio::time::advance(Duration::from_secs(3600)).await;
        cancel.cancel();
        question.dropped().await;
    });
    assert_eq!(result.output, failed("cancelled"));
}

fn wanting(state: Option<&str>, keys: &[&str]) -> Step {
    let ask = json!({"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {"x-a": 1}}});
    let requests: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), ask.clone())).collect();
    let mut result = json!({"resultType": "input_required"});
    if !keys.is_empty() {
        result["inputRequests"] = Value::Object(requests);
    }
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    Step::result(result)
}

// MCP-102: one call for the caller, however often it is sent
#[tokio::test]
async fn a_result_may_ask_for_input_first() {
    for wire in [Wire::Stdio, Wire::Stream, Wire::Standing] {
        let ask = FixtureTool::new("ask")
            .then([wanting(Some("état \u{0}=="), &["b", "a"])])
            .then([wanting(None, &["c"])])
            .then([wanting(Some("wait"), &[])])
            .then([Step::result(
                json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}),
            )]);
        let docs = connect(wire, McpFixture::new().tool(ask), Some(accepting(json!({"n": 1})))).await;
        let args = json!({"q": [1]});
        let context = ToolContext { idempotency_key: Some("k".into()), ..Default::default() };
        let result = tool(&docs.source, "docs_ask").execute_with(args.clone(), context).await;
        assert_eq!((result.output.as_str(), result.is_error), ("done", false), "{wire:?}");

        let calls = docs.received_of("tools/call");
        let params: Vec<&Value> = calls.iter().map(|call| &call["params"]).collect();
        let answer = json!({"action": "accept", "content": {"n": 1}});
        let given =
            |at: usize| (params[at].get("inputResponses").cloned(), params[at].get("requestState").cloned());
        assert_eq!(given(0), (None, None));
        assert_eq!(given(1), (Some(json!({"a": answer, "b": answer})), Some(json!("état \u{0}=="))));
        assert_eq!(given(2), (Some(json!({"c": answer})), None));
        assert_eq!(given(3), (None, Some(json!("wait"))));
        let ids: std::collections::HashSet<String> =
            calls.iter().map(|call| call["id"].to_string()).collect();
        assert_eq!(ids.len(), 4, "each sending is a request of its own");
        assert!(params.iter().all(|params| {
            params["arguments"] == args && params["_meta"]["toolnexus/idempotencyKey"] == "k"
        }));
    }
}

// MCP-102: what cannot be given is an error result
#[tokio::test]
async fn input_that_cannot_be_given_fails_the_call() {
    let sampling = json!({
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "elicitation/create", "params": {}},
            "b": {"method": "sampling/createMessage", "params": {}},
        },
    });
    let fixture = McpFixture::new()
        .tool(FixtureTool::scripted("ask", [wanting(Some("s"), &["a"])]))
        .tool(FixtureTool::result("sample", sampling))
        .tool(FixtureTool::result("odd", json!({"resultType": "input_required", "requestState": 7})))
        .tool(FixtureTool::result("nothing", json!({"resultType": "input_required"})));
    let nobody = connect(Wire::Stdio, fixture.clone(), None).await;
    assert_eq!(nobody.call("docs_ask").await.output, failed("rpc-error (input required, and no resolver)"));
    assert_eq!(nobody.received_of("tools/call").len(), 1);

    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Stdio, fixture.clone(), wait_for).await;
    let sampled = docs.call("docs_sample").await;
    assert_eq!(sampled.output, failed("rpc-error (input required that is no elicitation)"));
    assert!(sampled.is_error);
    assert!(asked.try_recv().is_err(), "nobody is asked in vain");
    assert_eq!(docs.call("docs_odd").await.output, failed("malformed-body"));
    assert_eq!(docs.call("docs_nothing").await.output, failed("malformed-body"));

    let docs = connect(Wire::Stdio, fixture, Some(accepting(json!({})))).await;
    assert_eq!(docs.call("docs_ask").await.output, failed("rpc-error (input required more than 10 times)"));
    assert_eq!(docs.received_of("tools/call").len(), 11);
}

// MCP-102, MCP-129: between two sendings a question ends with the call, the connection or the close
#[tokio::test]
async fn a_question_between_sendings_ends_with_its_call() {
    let script = [wanting(None, &["a"])];
    let die = FixtureTool::exits("die", 3);
    let fixture = McpFixture::new().tool(FixtureTool::scripted("ask", script)).tool(die);
    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Stdio, fixture, wait_for).await;

    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(tool(&docs.source, "docs_ask").execute_with(json!({}), context), async {
        let question = asked.recv().await.unwrap();
        cancel.cancel();
        question.dropped().await;
    });
    assert_eq!(result.output, failed("cancelled"));

    let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
        let question = asked.recv().await.unwrap();
        docs.call("docs_die").await;
        question.dropped().await;
    });
    assert_eq!(result.output, failed("peer-exited (status 3)"));
}
