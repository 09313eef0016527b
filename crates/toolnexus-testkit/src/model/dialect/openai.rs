//! OpenAI chat completions.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::super::sse::sse_data;
use super::super::turn::{Ending, Part, Piece, Turn, Usage, words};
use super::Dialect;

const ID: &str = "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT";
const MODEL: &str = "gpt-4o-mini-2024-07-18";
const CREATED: u64 = 1_741_569_952;
const FINGERPRINT: &str = "fp_06737a9306";

pub(super) fn json(turn: &Turn) -> Value {
    let mut text: Option<String> = None;
    let mut reasoning: Option<String> = None;
    let mut calls = Vec::new();
    let mut extra = Map::new();
    for part in &turn.parts {
        match part {
            Part::Text(deltas) => text.get_or_insert_default().push_str(&deltas.concat()),
            Part::Thinking { deltas, .. } => reasoning.get_or_insert_default().push_str(&deltas.concat()),
            Part::ToolCall { id, name, arguments } => calls.push(json!({
                "id": id, "type": "function", "function": {"name": name, "arguments": arguments},
            })),
            Part::Raw(Value::Object(fields)) => extra.extend(fields.clone()),
            Part::Raw(_) | Part::Event(_) | Part::Pause(_) => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), text.into());
    if let Some(reasoning) = reasoning {
        message.insert("reasoning_content".into(), reasoning.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    message.insert("refusal".into(), Value::Null);
    message.insert("annotations".into(), json!([]));
    message.extend(extra);
    let mut body = json!({
        "id": id(turn),
        "object": "chat.completion",
        "created": CREATED,
        "model": model(turn),
        "choices": [
            {"index": 0, "message": message, "logprobs": null, "finish_reason": finish(turn)},
        ],
    });
    if let Some(fields) = body.as_object_mut() {
        if let Some(usage) = usage(turn) {
            fields.insert("usage".into(), usage);
        }
        fields.insert("service_tier".into(), "default".into());
        fields.insert("system_fingerprint".into(), FINGERPRINT.into());
    }
    body
}

pub(super) fn stream(turn: &Turn, with_usage: bool) -> Vec<Piece> {
    let usage = if with_usage { usage(turn) } else { None };
    let chunk = |choices: Value, usage_field: Option<Value>| {
        let mut body = json!({
            "id": id(turn),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": model(turn),
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if let (Some(fields), Some(value)) = (body.as_object_mut(), usage_field) {
            fields.insert("usage".into(), value);
        }
        Piece::Event(sse_data(&body.to_string()))
    };
    // With include_usage every chunk has the field, null until the last.
    let not_yet = usage.as_ref().map(|_| Value::Null);
    let delta = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        chunk(json!([choice]), not_yet.clone())
    };

    let opening = if turn.has_calls() { Value::Null } else { "".into() };
    let role = json!({"role": "assistant", "content": opening, "refusal": null});
    let mut out = vec![delta(role, Value::Null)];
    let mut index = 0;
    for part in &turn.parts {
        match part {
            Part::Text(deltas) => {
                out.extend(deltas.iter().map(|text| delta(json!({"content": text}), Value::Null)));
            }
            Part::Thinking { deltas, .. } => {
                let thought = |text| delta(json!({"reasoning_content": text}), Value::Null);
                out.extend(deltas.iter().map(thought));
            }
            Part::ToolCall { id, name, arguments } => {
                let call = |call: Value| delta(json!({"tool_calls": [call]}), Value::Null);
                out.push(call(json!({
                    "index": index, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""},
                })));
                for piece in words(arguments) {
                    out.push(call(json!({"index": index, "function": {"arguments": piece}})));
                }
                index += 1;
            }
            Part::Raw(fields) => out.push(delta(fields.clone(), Value::Null)),
            Part::Event(bytes) => out.push(Piece::Event(bytes.clone())),
            Part::Pause(pause) => out.push(Piece::Pause(pause.clone())),
        }
    }
    match &turn.ending {
        Ending::Complete => {
            out.push(delta(json!({}), finish(turn)));
            if let Some(usage) = usage {
                out.push(chunk(json!([]), Some(usage)));
            }
            out.push(Piece::Event(Bytes::from_static(b"data: [DONE]\n\n")));
        }
        Ending::Error { kind, message } => {
            let error = Dialect::OpenAi.error(200, kind, message);
            out.push(Piece::Event(sse_data(&error.to_string())));
        }
        Ending::Unfinished | Ending::Cut | Ending::Hang => {}
    }
    out
}

fn id(turn: &Turn) -> &str {
    turn.id.as_deref().unwrap_or(ID)
}

fn model(turn: &Turn) -> &str {
    turn.model.as_deref().unwrap_or(MODEL)
}

fn finish(turn: &Turn) -> Value {
    match &turn.finish {
        Some(reason) => reason.as_str().into(),
        None if turn.has_calls() => "tool_calls".into(),
        None => "stop".into(),
    }
}

fn usage(turn: &Turn) -> Option<Value> {
    match &turn.usage {
        Usage::Absent => None,
        Usage::Verbatim(usage) => Some(usage.clone()),
        Usage::Counts { input, output, cache_read, .. } => Some(json!({
            "prompt_tokens": input,
            "completion_tokens": output,
            "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": cache_read, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        })),
    }
}
