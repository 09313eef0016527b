//! Gemini `generateContent`.

use serde_json::{Map, Value, json};

use super::super::sse::sse_data;
use super::super::turn::{Ending, Part, Piece, Turn, Usage};
use super::{Dialect, arguments_value};

const ID: &str = "vZCkaPm2J8uQ1MkPo7bN2A8";
const MODEL: &str = "gemini-2.5-flash";

pub(super) fn json(turn: &Turn) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    let mut open_text: Option<String> = None;
    for part in &turn.parts {
        if let Part::Text(deltas) = part {
            open_text.get_or_insert_default().push_str(&deltas.concat());
            continue;
        }
        let whole = match part {
            Part::Thinking { deltas, signature } => thought(&deltas.concat(), signature),
            Part::ToolCall { id, name, arguments } => call(id, name, arguments),
            Part::Raw(part) => part.clone(),
            Part::Text(_) | Part::Event(_) | Part::Pause(_) => continue,
        };
        parts.extend(open_text.take().map(|text| json!({"text": text})));
        parts.push(whole);
    }
    parts.extend(open_text.map(|text| json!({"text": text})));
    response(turn, parts, Some(finish(turn)), usage(turn))
}

pub(super) fn stream(turn: &Turn) -> Vec<Piece> {
    let mut out = Vec::new();
    // Each part is a response of its own, with the input counted and the output still open.
    let push = |parts: Vec<Value>| {
        let body = response(turn, parts, None, usage_so_far(turn));
        Piece::Event(sse_data(&body.to_string()))
    };
    for part in &turn.parts {
        match part {
            Part::Text(deltas) => out.extend(deltas.iter().map(|text| push(vec![json!({"text": text})]))),
            Part::Thinking { deltas, signature } => {
                let last = deltas.len().saturating_sub(1);
                for (i, text) in deltas.iter().enumerate() {
                    out.push(push(vec![thought(text, if i == last { signature } else { "" })]));
                }
            }
            Part::ToolCall { id, name, arguments } => out.push(push(vec![call(id, name, arguments)])),
            Part::Raw(part) => out.push(push(vec![part.clone()])),
            Part::Event(bytes) => out.push(Piece::Event(bytes.clone())),
            Part::Pause(pause) => out.push(Piece::Pause(pause.clone())),
        }
    }
    match &turn.ending {
        Ending::Complete => {
            let parts = vec![json!({"text": ""})];
            let last = response(turn, parts, Some(finish(turn)), usage(turn));
            out.push(Piece::Event(sse_data(&last.to_string())));
        }
        Ending::Error { kind, message } => {
            let error = Dialect::Gemini.error(200, kind, message);
            out.push(Piece::Event(sse_data(&error.to_string())));
        }
        Ending::Unfinished | Ending::Cut | Ending::Hang => {}
    }
    out
}

fn response(turn: &Turn, parts: Vec<Value>, finish: Option<Value>, usage: Option<Value>) -> Value {
    let mut candidate = Map::new();
    candidate.insert("content".into(), json!({"parts": parts, "role": "model"}));
    if let Some(reason) = finish {
        candidate.insert("finishReason".into(), reason);
    }
    candidate.insert("index".into(), 0.into());
    let mut body = Map::new();
    body.insert("candidates".into(), json!([candidate]));
    if let Some(usage) = usage {
        body.insert("usageMetadata".into(), usage);
    }
    body.insert("modelVersion".into(), turn.model.as_deref().unwrap_or(MODEL).into());
    body.insert("responseId".into(), turn.id.as_deref().unwrap_or(ID).into());
    body.into()
}

fn thought(text: &str, signature: &str) -> Value {
    let mut part = json!({"text": text, "thought": true});
    if let (false, Some(fields)) = (signature.is_empty(), part.as_object_mut()) {
        fields.insert("thoughtSignature".into(), signature.into());
    }
    part
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    let mut call = Map::new();
    if !id.is_empty() {
        call.insert("id".into(), id.into());
    }
    call.insert("name".into(), name.into());
    call.insert("args".into(), arguments_value(arguments));
    json!({"functionCall": call})
}

/// Gemini says `STOP` also when it calls functions.
fn finish(turn: &Turn) -> Value {
    turn.finish.as_deref().unwrap_or("STOP").into()
}

fn usage(turn: &Turn) -> Option<Value> {
    match &turn.usage {
        Usage::Absent => None,
        Usage::Verbatim(usage) => Some(usage.clone()),
        Usage::Counts { input, output, cache_read, .. } => {
            let mut usage = json!({
                "promptTokenCount": input,
                "candidatesTokenCount": output,
                "totalTokenCount": input + output,
            });
            if let (Some(fields), 1..) = (usage.as_object_mut(), *cache_read) {
                fields.insert("cachedContentTokenCount".into(), (*cache_read).into());
            }
            Some(usage)
        }
    }
}

fn usage_so_far(turn: &Turn) -> Option<Value> {
    match &turn.usage {
        Usage::Counts { input, .. } => Some(json!({"promptTokenCount": input, "totalTokenCount": input})),
        Usage::Verbatim(_) | Usage::Absent => None,
    }
}
