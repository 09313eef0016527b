//! Tools: what they are made of, and what a call may do without reaching its caller.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is a test's failure report"
)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use serde_json::{Map, Value, json};
use toolnexus_core::{
    Answer, ContentPart, Tool, ToolContext, ToolHints, ToolOrigin, ToolResult, ToolSource, Toolkit,
    define_tool,
};

fn plain(name: &str) -> Tool {
    Tool::new(name, |_args, _context| async { ToolResult::success("ran") })
}

// CORE-1, CORE-3
#[test]
fn a_tool_lists_itself_with_four_keys() {
    let tool = plain("search");
    assert_eq!(
        serde_json::to_string(&tool).unwrap(),
        r#"{"name":"search","description":"","inputSchema":{"type":"object"},"source":"custom"}"#
    );
    assert_eq!(tool.hints, None);
    let nothing = tool.input_schema(Value::Null);
    assert_eq!(nothing.input_schema, json!({"type": "object"}));
}

// CORE-1: a clone shares the execute function
#[tokio::test]
async fn a_clone_shares_its_function() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tool = Tool::new("count", move |_args, _context| {
        let before = counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, String>(before) }
    });
    let clone = tool.clone();
    assert_eq!(tool.execute(json!({})).await.output, "0");
    assert_eq!(clone.execute(json!({})).await.output, "1");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

// CORE-2
#[test]
fn sources_have_their_exact_names() {
    let all = [
        (ToolSource::Mcp, "mcp"),
        (ToolSource::Skill, "skill"),
        (ToolSource::Builtin, "builtin"),
        (ToolSource::Native, "native"),
        (ToolSource::Http, "http"),
        (ToolSource::A2a, "a2a"),
        (ToolSource::Media, "media"),
        (ToolSource::Agent, "agent"),
        (ToolSource::Relay, "relay"),
        (ToolSource::Custom, "custom"),
    ];
    for (source, name) in all {
        assert_eq!(source.as_str(), name);
        assert_eq!(serde_json::to_value(source).unwrap(), name);
    }
}

// CORE-4: the schema is passed on as it is and never enforced
#[tokio::test]
async fn the_schema_is_not_enforced_and_keeps_its_order() {
    let schema =
        r#"{"type":"object","required":["z"],"properties":{"z":{"type":"number"},"a":{}},"x-own":1}"#;
    let tool = define_tool(
        "t",
        "",
        Some(serde_json::from_str(schema).unwrap()),
        |args: Value, _context| async move { Ok::<_, String>(args) },
    );
    assert_eq!(tool.input_schema.to_string(), schema);
    assert_eq!(
        tool.execute(json!({"z": "no number", "more": 1})).await.output,
        r#"{"z":"no number","more":1}"#
    );
}

// CORE-5, case 4
#[test]
fn a_given_name_is_never_changed() {
    let toolkit = Toolkit::from_tools([plain("calc.sum")]);
    assert_eq!(toolkit.to_openai()[0]["function"]["name"], "calc.sum");
    assert!(toolkit.get("calc.sum").is_some());
    assert!(toolkit.get("calc_sum").is_none());
}

// CORE-6, CORE-80, D17
#[test]
fn hints_title_and_origin_ride_along_and_reach_no_model() {
    let hints = ToolHints { read_only: true, ..Default::default() };
    let origin = ToolOrigin { server: "srv".into(), remote_name: "a.b".into() };
    let tool = plain("t").with_hints(hints).title("T").origin(origin.clone());
    assert_eq!(tool.hints, Some(hints));
    assert_eq!((tool.title.as_deref(), tool.origin.as_ref()), (Some("T"), Some(&origin)));
    let toolkit = Toolkit::from_tools([tool]);
    for array in [toolkit.to_openai(), toolkit.to_anthropic(), toolkit.to_gemini()] {
        let text = Value::from(array).to_string();
        for word in ["readOnly", "read_only", "title", "origin", "srv"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

// CORE-75: raw arguments in, any outcome out
#[tokio::test]
async fn a_function_is_a_tool() {
    let tool = define_tool(
        "echo",
        "Says it again",
        None,
        |args: serde_json::Value, context: ToolContext| async move {
            Ok::<_, std::fmt::Error>(format!("{args} {}", context.call_id))
        },
    );
    assert_eq!((tool.name.as_str(), tool.description.as_str()), ("echo", "Says it again"));
    assert_eq!((tool.source, &tool.input_schema), (ToolSource::Native, &json!({"type": "object"})));
    let context = ToolContext { call_id: "c1".into(), ..Default::default() };
    assert_eq!(tool.execute_with(json!({"a": 1}), context).await.output, r#"{"a":1} c1"#);
    let schema = json!({"properties": {"z": {}, "a": {}}, "type": "object"});
    let bare = define_tool("bare", "", Some(schema.clone()), |_args, _context| async { 7_u8 });
    assert_eq!(bare.input_schema.to_string(), schema.to_string());
    assert_eq!(bare.execute(json!({})).await.output, "7");
}

// CORE-7, CORE-77, case 7
#[tokio::test]
async fn whatever_a_tool_does_wrong_is_a_result() {
    let fails = define_tool("boom", "", None, |_args, _context| async { Err::<String, _>("kaboom") });
    let panics = Tool::new("panics", |_args, _context| async {
        if true {
            panic!("in the future");
        }
        ToolResult::default()
    });
    let early = Tool::new("early", |_args, _context| {
        if true {
            panic!("{} the closure", "in");
        }
        async { ToolResult::default() }
    });
    let wordless = Tool::new("wordless", |_args, _context| async {
        std::panic::panic_any(7_u8);
        #[expect(unreachable_code, reason = "it gives the closure its type")]
        ToolResult::default()
    });
    let cases = [
        (fails, "kaboom"),
        (panics, "in the future"),
        (early, "in the closure"),
        (wordless, "tool panicked"),
    ];
    let toolkit = Toolkit::from_tools(cases.iter().map(|(tool, _)| tool.clone()));
    for (tool, output) in cases {
        assert_eq!(tool.execute(json!({})).await, ToolResult::failure(output));
        assert_eq!(toolkit.execute(&tool.name, json!({})).await, ToolResult::failure(output));
    }
}

// CORE-9: output beside parts
#[test]
fn output_stands_beside_parts() {
    let result = ToolResult::success("a picture").with_parts(vec![ContentPart::from_base64(
        "image/png",
        "AAAA",
        None,
    )]);
    assert_eq!((result.output.as_str(), result.parts.len()), ("a picture", 1));
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["parts"][0]["type"], "image");
    assert_eq!(serde_json::from_value::<ToolResult>(json).unwrap(), result);
}

// CORE-12, CORE-13
#[tokio::test]
async fn the_context_reaches_the_tool_and_defaults_to_nothing() {
    let seen = Tool::new("seen", |_args, context: ToolContext| async move {
        let host = context.extensions.get::<u32>().copied();
        Ok::<_, String>(json!([
            context.call_id,
            context.timeout_ms,
            context.answer.is_some(),
            context.data,
            context.cancel.is_cancelled(),
            context.idempotency_key,
            host,
        ]))
    });
    assert_eq!(seen.execute(json!({})).await.output, r#"["",null,false,{},false,null,null]"#);
    let mut data = Map::new();
    data.insert("user".into(), "ada".into());
    let mut context = ToolContext {
        timeout_ms: Some(50),
        answer: Some(Answer::default()),
        call_id: "c1".into(),
        data,
        idempotency_key: Some("r/0/1".into()),
        ..Default::default()
    };
    context.extensions.insert(7_u32);
    context.cancel.cancel();
    let result = seen.execute_with(json!({}), context).await;
    assert_eq!(result.output, r#"["c1",50,true,{"user":"ada"},true,"r/0/1",7]"#);
}

// CORE-14: execute itself waits for the tool, also when the token has fired
#[tokio::test]
async fn a_fired_token_does_not_cut_the_tool_off() {
    let tool = Tool::new("finishes", |_args, context: ToolContext| async move {
        context.cancel.cancelled().await;
        tokio::task::yield_now().await;
        Ok::<_, String>("finished")
    });
    let context = ToolContext::default();
    context.cancel.cancel();
    assert_eq!(tool.execute_with(json!({}), context).await.output, "finished");
}

// D17: a result that is data
#[test]
fn a_structured_result_shows_its_json() {
    let result = ToolResult::structured(json!({"b": 1, "a": [true]}));
    assert_eq!(result.output, r#"{"b":1,"a":[true]}"#);
    assert_eq!(serde_json::to_value(&result).unwrap()["structuredContent"], json!({"b": 1, "a": [true]}));
    assert!(!serde_json::to_string(&ToolResult::success("x")).unwrap().contains("structured"));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

/// A future by hand, whose captures do not go with its last poll.
struct Armed {
    _bomb: Bomb,
    ends: bool,
}

impl Future for Armed {
    type Output = ToolResult;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<ToolResult> {
        if self.ends { Poll::Ready(ToolResult::success("done")) } else { Poll::Pending }
    }
}

// CORE-7: what a panic carries may panic itself when it is dropped
#[tokio::test]
async fn a_panics_payload_is_dropped_inside() {
    let tool = Tool::new("bomb", |_args, _context| async {
        if true {
            std::panic::panic_any(Bomb);
        }
        ToolResult::success("")
    });
    let expected = ToolResult::failure("tool panicked");
    assert_eq!(tool.execute(json!({})).await, expected);
    let early = Tool::new("early", |_args, _context| {
        if true {
            std::panic::panic_any(Bomb);
        }
        std::future::ready(ToolResult::success(""))
    });
    assert_eq!(Toolkit::from_tools([early]).execute("early", json!({})).await, expected);
}

// CORE-7: a panic while the tool's future is dropped, after its end or before, stays inside
#[tokio::test]
async fn a_tools_future_is_dropped_inside() {
    let armed = |ends| Tool::new("armed", move |_args, _context| Armed { _bomb: Bomb, ends });
    assert_eq!(armed(true).execute(json!({})).await, ToolResult::failure("dropped"));
    let tool = armed(false);
    let mut running = Box::pin(tool.execute(json!({})));
    assert!(futures::poll!(&mut running).is_pending());
    drop(running);
}
