//! Servers that ask the host while they work on a call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

#[path = "support/asking.rs"]
mod asking;
mod support;

use std::sync::Arc;
use std::time::Duration;

use asking::{
    Connected, Peer, WIRES, Wire, accepting, answering, asks, connect, connect_with, failed, host, json_text,
    told, transcript,
};
use serde_json::{Map, json};
use support::{StillClock, servers, tool};
use toolnexus_core::{Answer, BoxError, Request, ToolContext, WaitFor, answer_declined};
use toolnexus_mcp::{LoadMcpOptions, McpContext, list_mcp_tools};
use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture, Reply, Step};

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
    // Without a handshake it rides on each request.
    let offered = |connected: &Connected| {
        connected.received_of("tools/list")[0]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
    };
    for wire in [Wire::Modern, Wire::ModernStdio] {
        let with = connect(wire, McpFixture::new(), Some(accepting(json!({})))).await;
        assert_eq!(offered(&with), json!({"elicitation": {"form": {}, "url": {}}}), "{wire:?}");
        let without = connect(wire, McpFixture::new(), None).await;
        assert_eq!(offered(&without), json!({}), "{wire:?}");
    }
}

// MCP-93, MCP-97: to the byte
#[tokio::test]
async fn the_wire_of_a_question() {
    let fixture = McpFixture::new().tool(asks("ask"));
    let docs = connect(Wire::Stdio, fixture, Some(accepting(json!({"name": "ada", "age": 36})))).await;
    docs.call("docs_ask").await;
    insta::assert_snapshot!(transcript(&docs));
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
        let script = [asking::asking(json!({})), Step::AwaitGate("go".into()), Step::text("never mind")];
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
            asking::asking(json!({})),
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

// MCP-129, case 96: rmcp alone would wait five seconds for the answer; here no time passes at all
#[tokio::test(start_paused = true)]
async fn a_child_that_exits_ends_its_question() {
    let _still = StillClock::hold();
    let script = [asking::asking(json!({})), Step::AwaitGate("die".into()), Step::Exit { code: 3 }];
    let fixture = McpFixture::new()
        .tool(FixtureTool::scripted("ask", script))
        .tool(FixtureTool::opens_gate("open_die", "die"));
    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Stdio, fixture, wait_for).await;
    let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
        let question = asked.recv().await.unwrap();
        docs.open("die").await;
        question.dropped().await;
    });
    assert_eq!(result.output, failed("peer-exited (status 3)"));
}

// MCP-77, MCP-99: a close waits for nobody (rmcp alone would wait two seconds), and nothing is sent
// after it
#[tokio::test(start_paused = true)]
async fn a_close_drops_open_questions() {
    for wire in WIRES {
        let _still = StillClock::hold();
        let (wait_for, mut asked) = host();
        let docs = connect(wire, McpFixture::new().tool(asks("ask")), wait_for).await;
        let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
            let question = asked.recv().await.unwrap();
            docs.source.close().await;
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
        let hangs =
            FixtureTool::scripted("hang", [asking::asking(json!({})), Step::AwaitReply, Step::AwaitCancel]);
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
