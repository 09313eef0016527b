//! Results that ask for input before there is a result.
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

use asking::{Wire, accepting, connect, failed, host, transcript};
use serde_json::{Map, Value, json};
use support::tool;
use toolnexus_core::ToolContext;
use toolnexus_testkit::mcp::{FixtureTool, McpFixture, Step};

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
    for wire in [Wire::Modern, Wire::ModernStdio, Wire::Stdio, Wire::Stream] {
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

// MCP-102: to the byte
#[tokio::test]
async fn the_wire_of_a_round() {
    let ask = FixtureTool::new("ask").then([wanting(Some("s=="), &["who"])]).then([Step::text("done")]);
    let docs =
        connect(Wire::ModernStdio, McpFixture::new().tool(ask), Some(accepting(json!({"n": 1})))).await;
    docs.call("docs_ask").await;
    insta::assert_snapshot!(transcript(&docs));
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
    let nobody = connect(Wire::Modern, fixture.clone(), None).await;
    assert_eq!(nobody.call("docs_ask").await.output, failed("rpc-error (input required, and no resolver)"));
    assert_eq!(nobody.received_of("tools/call").len(), 1);

    let (wait_for, mut asked) = host();
    let docs = connect(Wire::Modern, fixture.clone(), wait_for).await;
    let sampled = docs.call("docs_sample").await;
    assert_eq!(sampled.output, failed("rpc-error (input required that is no elicitation)"));
    assert!(sampled.is_error);
    assert!(asked.try_recv().is_err(), "nobody is asked in vain");
    assert_eq!(docs.call("docs_odd").await.output, failed("malformed-body"));
    assert_eq!(docs.call("docs_nothing").await.output, failed("malformed-body"));

    let docs = connect(Wire::Modern, fixture, Some(accepting(json!({})))).await;
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
    let docs = connect(Wire::ModernStdio, fixture, wait_for).await;

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

    let (wait_for, mut asked) = host();
    let script = [wanting(None, &["a"])];
    let docs =
        connect(Wire::Modern, McpFixture::new().tool(FixtureTool::scripted("ask", script)), wait_for).await;
    let (result, ()) = tokio::join!(docs.call("docs_ask"), async {
        let question = asked.recv().await.unwrap();
        docs.source.close().await;
        question.dropped().await;
    });
    assert_eq!(result.output, failed("closed"));
}
