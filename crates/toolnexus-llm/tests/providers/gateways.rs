//! What proxies and self-made servers do to the format of OpenAI.

use serde_json::json;
use toolnexus_llm::FinishReason;

use crate::recorded::{json_of, outcome, time, weather};

const STOP: FinishReason = FinishReason::Stop;

// CLIENT-35, CLIENT-41, CLIENT-119
#[tokio::test]
async fn calls_may_lack_ids_or_hold_objects() {
    let object = outcome("gateways/arguments-object.json").await.kept_verbatim();
    object.called(&[weather("c1")]);
    outcome("gateways/arguments-object.sse").await.called(&[weather("c1")]);

    // Every call goes back with an id, and its result names it.
    let calls = [weather("call_0_0"), time("call_0_1"), time("call_0_2")];
    let whole = outcome("gateways/ids-missing.json").await.called(&calls);
    let mut kept = json_of("gateways/ids-missing.json")["choices"][0]["message"].clone();
    for (at, call) in calls.iter().enumerate() {
        kept["tool_calls"][at]["id"] = json!(call.id);
    }
    let whole = whole.kept(&kept);
    assert_eq!(whole.sent[4], json!({"role": "tool", "tool_call_id": "call_0_2", "content": "noon"}));
    let streamed = outcome("gateways/ids-missing.sse").await.called(&calls[..2]);
    assert_eq!(streamed.sent[1]["tool_calls"][1]["id"], "call_0_1");
    assert_eq!(streamed.sent[3], json!({"role": "tool", "tool_call_id": "call_0_1", "content": "noon"}));

    let gaps = outcome("gateways/index-gaps.sse").await;
    gaps.called(&[weather("c1"), time("c4")]);
}

// CLIENT-29, CLIENT-32, CLIENT-41
#[tokio::test]
async fn content_comes_in_many_forms() {
    outcome("gateways/content-array.json").await.kept_verbatim().said("one two", STOP);
    for file in ["gateways/content-absent.json", "gateways/content-null.json"] {
        outcome(file).await.said("", STOP).kept(&json!({"role": "assistant", "content": ""}));
    }
    let mut kept = json_of("gateways/role-absent.json")["choices"][0]["message"].clone();
    kept["role"] = json!("assistant");
    outcome("gateways/role-absent.json").await.said("ok", STOP).kept(&kept);
}

// CLIENT-78: missing usage is zeros; counts may be written as floats
#[tokio::test]
async fn usage_comes_in_many_forms() {
    for file in ["gateways/usage-null.json", "gateways/usage-absent.json", "gateways/finish-null.sse"] {
        outcome(file).await.counted([0, 0, 0], [0, 0]).said("ok", STOP);
    }
    outcome("gateways/usage-floats.json").await.counted([12, 3, 15], [4, 0]).said("ok", STOP);
    outcome("gateways/usage-early.sse").await.counted([5, 2, 7], [0, 0]).said("ok", STOP);
}

// CLIENT-118, CLIENT-150
#[tokio::test]
async fn streams_begin_and_end_in_many_ways() {
    for file in ["gateways/done-missing.sse", "gateways/after-done.sse"] {
        outcome(file).await.told(&["ok"]).counted([5, 2, 7], [0, 0]).said("ok", STOP);
    }
    outcome("gateways/lines.sse").await.told(&["o", "k"]).said("ok", STOP);
    outcome("gateways/crlf.sse").await.told(&["naïve 🦀"]).said("naïve 🦀", STOP);
}

// CLIENT-32, CLIENT-118: a byte order mark is no part of an answer
#[tokio::test]
async fn a_byte_order_mark_costs_nothing() {
    outcome("gateways/bom.sse").await.told(&["o", "k"]).said("ok", STOP);
    outcome("gateways/bom.json").await.kept_verbatim().counted([5, 2, 7], [0, 0]).said("ok", STOP);
}
