//! Calls that a history leaves without a result.
//!
//! A run that stopped at a question keeps the results up to it and no more. Providers refuse a
//! transcript whose last turn is answered in part, so whatever continues it answers the rest.

use serde_json::{Value, json};
use toolnexus_core::{Style, ToolResult};

use super::gemini::{calls_of, is_function_response};
use super::parts::with_content;
use super::{ToolAnswer, wire};
use crate::{Message, Transcript};

/// Gives every call of the last assistant turn that has no result an error that says so. Nothing
/// is changed where all calls are answered.
pub(crate) fn answer_rest(style: Style, history: &mut Transcript) {
    match style {
        Style::Anthropic => answer_rest_of_anthropic(history),
        Style::OpenAI => answer_rest_of_openai(history),
        Style::Gemini => answer_rest_of_gemini(history),
    }
}

/// A call of the transcript.
struct Call {
    id: String,
    name: String,
}

impl Call {
    fn of(id: Option<&Value>, name: Option<&Value>) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        Call { id: text(id), name: text(name) }
    }

    fn no_result(&self) -> ToolResult {
        no_result(&self.name)
    }
}

fn no_result(name: &str) -> ToolResult {
    ToolResult::failure(format!("no result supplied on resume for {name}"))
}

fn answer_rest_of_openai(history: &mut Transcript) {
    let answered = history.messages().rev().take_while(|message| message.role() == "tool").count();
    let asking = history.messages().rev().nth(answered).filter(|message| message.role() == "assistant");
    let entries = asking.and_then(|message| message.get("tool_calls")?.as_array()).into_iter().flatten();
    let calls: Vec<Call> = entries
        .map(|entry| {
            Call::of(entry.get("id"), entry.get("function").and_then(|function| function.get("name")))
        })
        .collect();
    if calls.len() <= answered {
        return;
    }
    let before = history.len().saturating_sub(answered);
    let mut given: Vec<Message> = history.messages().skip(before).cloned().collect();
    given.iter().for_each(|_| drop(history.pop()));
    for call in &calls {
        match given.iter().position(|message| message.get("tool_call_id").is_some_and(|id| *id == call.id)) {
            Some(at) => history.push(given.remove(at)),
            None => {
                let answer =
                    ToolAnswer { id: &call.id, name: &call.name, result: &call.no_result(), of_media: false };
                history.extend(wire(Style::OpenAI).tool_results(None, &[answer]));
            }
        }
    }
    history.extend(given);
}

fn answer_rest_of_anthropic(history: &mut Transcript) {
    let is_kind = |block: &Value, kind: &str| block.get("type").is_some_and(|given| given == kind);
    let blocks =
        |message: &Message| message.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let results = history
        .messages()
        .next_back()
        .filter(|message| message.role() == "user")
        .filter(|message| blocks(message).iter().any(|block| is_kind(block, "tool_result")))
        .cloned();
    let asking = history.messages().rev().nth(usize::from(results.is_some()));
    let calls: Vec<Call> = asking
        .filter(|message| message.role() == "assistant")
        .map(blocks)
        .into_iter()
        .flatten()
        .filter(|block| is_kind(block, "tool_use"))
        .map(|block| Call::of(block.get("id"), block.get("name")))
        .collect();
    let mut given = results.as_ref().map(blocks).unwrap_or_default();
    if calls.len() <= given.iter().filter(|block| is_kind(block, "tool_result")).count() {
        return;
    }
    let mut content = Vec::with_capacity(calls.len());
    for call in &calls {
        let found = given.iter().position(|block| block.get("tool_use_id").is_some_and(|id| *id == call.id));
        content.push(match found {
            Some(at) => given.remove(at),
            None => {
                let text = call.no_result().output;
                json!({"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": true})
            }
        });
    }
    content.append(&mut given);
    // All results of a turn are in one message.
    let message = match results {
        Some(results) => {
            history.pop();
            with_content(&results, Value::Array(content))
        }
        None => Message::from(json!({"role": "user", "content": content})),
    };
    history.push(message);
}

fn answer_rest_of_gemini(history: &mut Transcript) {
    let parts =
        |message: &Message| message.get("parts").and_then(Value::as_array).cloned().unwrap_or_default();
    let results = history
        .messages()
        .next_back()
        .filter(|message| message.role() == "user" && parts(message).iter().any(is_function_response))
        .cloned();
    let asking = history.messages().rev().nth(usize::from(results.is_some()));
    let calls = asking.filter(|message| message.role() == "model").map(calls_of).unwrap_or_default();
    let mut given = results.as_ref().map(parts).unwrap_or_default();
    if calls.len() <= given.iter().filter(|part| is_function_response(part)).count() {
        return;
    }
    let mut content = Vec::with_capacity(calls.len());
    for call in &calls {
        let text =
            |part: &Value, key: &str| part.get("functionResponse")?.get(key)?.as_str().map(str::to_owned);
        // A call without an id is answered by the next result without one, for the same function.
        let answers = |part: &Value| match &call.id {
            Some(id) => text(part, "id").is_some_and(|given| given == *id),
            None => text(part, "id").is_none() && text(part, "name").is_some_and(|given| given == call.name),
        };
        content.push(match given.iter().position(answers) {
            Some(at) => given.remove(at),
            None => {
                let output = no_result(&call.name).output;
                let mut response =
                    json!({"name": call.name, "response": {"output": output, "isError": true}});
                if let (Some(id), Some(map)) = (&call.id, response.as_object_mut()) {
                    map.shift_insert(0, "id".into(), id.as_str().into());
                }
                json!({"functionResponse": response})
            }
        });
    }
    content.append(&mut given);
    if results.is_some() {
        history.pop();
    }
    history.push(Message::from(json!({"role": "user", "parts": content})));
}
