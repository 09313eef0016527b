//! Whether a transcript may be sent: an independent reading of the providers' rules.

use serde_json::Value;
use toolnexus_llm::{Message, Style};

/// The ids of the tool calls that a message asks for.
pub(crate) fn call_ids(style: Style, message: &Value) -> Vec<String> {
    if style == Style::Gemini {
        let parts = message["parts"].as_array().into_iter().flatten();
        let calls = parts.filter_map(|part| part.get("functionCall")).filter(|call| !call.is_null());
        return calls.map(id_or_name).collect();
    }
    if message["role"] != "assistant" {
        return Vec::new();
    }
    let (list, of_type) = match style {
        Style::Anthropic => (&message["content"], Some("tool_use")),
        _ => (&message["tool_calls"], None),
    };
    list.as_array()
        .into_iter()
        .flatten()
        .filter(|entry| of_type.is_none_or(|kind| entry["type"] == kind))
        .map(|entry| entry["id"].as_str().expect("a call has an id").to_owned())
        .collect()
}

/// A call or result of Gemini's, which may lack an id.
fn id_or_name(value: &Value) -> String {
    let id = value.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    id.unwrap_or_else(|| value["name"].as_str().unwrap_or_default()).to_owned()
}

/// The ids that the results after an assistant message answer, and how many messages they take.
fn answers(style: Style, rest: &[Message]) -> (Vec<String>, usize) {
    match style {
        Style::Gemini => {
            let parts = rest.first().filter(|m| m["role"] == "user").and_then(|m| m["parts"].as_array());
            let results = parts.into_iter().flatten().filter_map(|part| part.get("functionResponse"));
            let ids: Vec<String> = results
                .map(|result| {
                    let response = &result["response"];
                    assert!(response["isError"].is_boolean() && response["output"].is_string(), "{result}");
                    id_or_name(result)
                })
                .collect();
            let taken = usize::from(!ids.is_empty());
            (ids, taken)
        }
        Style::Anthropic => {
            let blocks = rest.first().filter(|m| m["role"] == "user").and_then(|m| m["content"].as_array());
            let ids: Vec<String> = blocks
                .into_iter()
                .flatten()
                .filter(|block| block["type"] == "tool_result")
                .map(|block| {
                    assert!(block["is_error"].is_boolean() && !block["content"].is_null(), "{block}");
                    block["tool_use_id"].as_str().unwrap().to_owned()
                })
                .collect();
            let taken = usize::from(!ids.is_empty());
            (ids, taken)
        }
        _ => {
            let ids: Vec<String> = rest
                .iter()
                .take_while(|message| message["role"] == "tool")
                .map(|message| {
                    assert!(message["content"].is_string(), "{}", message.value());
                    message["tool_call_id"].as_str().unwrap().to_owned()
                })
                .collect();
            let taken = ids.len();
            (ids, taken)
        }
    }
}

/// Every tool call is answered exactly once, in order, right behind its message and nowhere else.
/// With `open_tail`, the last turn may be answered in part: a prefix of its calls.
pub(crate) fn check(style: Style, messages: &[Message], open_tail: bool) -> Result<(), String> {
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        let asked = call_ids(style, message);
        at += 1;
        let (answered, taken) = answers(style, &messages[at..]);
        let is_last = at + taken == messages.len();
        let fits = answered == asked
            || (open_tail && is_last && !answered.is_empty() && asked.starts_with(&answered));
        if !fits {
            return Err(format!("calls {asked:?} are answered by {answered:?} (message {at})"));
        }
        at += taken;
    }
    Ok(())
}
