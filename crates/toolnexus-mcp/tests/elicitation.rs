//! What servers ask and hosts answer, as plain values.
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

use asking::{accepting, answering};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolnexus_core::{Answer, WaitFor, answer_declined};
use toolnexus_mcp::{answer_to_elicit_result, elicitation_to_request, server_request_response};

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
