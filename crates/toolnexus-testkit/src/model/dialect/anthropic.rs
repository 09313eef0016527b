//! Anthropic messages.

use serde_json::{Map, Value, json};

use super::super::sse::sse_event;
use super::super::turn::{Ending, Part, Piece, Turn, Usage, words};
use super::{Dialect, arguments_value};

const ID: &str = "msg_01XFDUDYJgAACzvnptvVoYEL";
const MODEL: &str = "claude-sonnet-4-20250514";

pub(super) fn json(turn: &Turn) -> Value {
    let mut content: Vec<Value> = Vec::new();
    // The text block that a further text continues.
    let mut open_text: Option<String> = None;
    for part in &turn.parts {
        if let Part::Text(deltas) = part {
            open_text.get_or_insert_default().push_str(&deltas.concat());
            continue;
        }
        let block = match part {
            Part::Thinking { deltas, signature } => {
                json!({"type": "thinking", "thinking": deltas.concat(), "signature": signature})
            }
            Part::ToolCall { id, name, arguments } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": arguments_value(arguments)})
            }
            Part::Raw(block) => block.clone(),
            Part::Text(_) | Part::Event(_) | Part::Pause(_) => continue,
        };
        content.extend(open_text.take().map(text_block));
        content.push(block);
    }
    content.extend(open_text.map(text_block));
    let mut message = message(turn, content.into(), finish(turn));
    if let Some(usage) = usage(turn) {
        message.insert("usage".into(), usage);
    }
    message.into()
}

fn text_block(text: String) -> Value {
    json!({"type": "text", "text": text})
}

fn message(turn: &Turn, content: Value, stop_reason: Value) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("id".into(), turn.id.as_deref().unwrap_or(ID).into());
    out.insert("type".into(), "message".into());
    out.insert("role".into(), "assistant".into());
    out.insert("model".into(), turn.model.as_deref().unwrap_or(MODEL).into());
    out.insert("content".into(), content);
    out.insert("stop_reason".into(), stop_reason);
    out.insert("stop_sequence".into(), Value::Null);
    out
}

pub(super) fn stream(turn: &Turn) -> Vec<Piece> {
    let mut start = message(turn, json!([]), Value::Null);
    if let Some(usage) = usage_at_start(turn) {
        start.insert("usage".into(), usage);
    }
    let mut blocks = Blocks::default();
    blocks.event("message_start", json!({"message": start}));
    for part in &turn.parts {
        match part {
            Part::Text(deltas) => {
                blocks.continue_text();
                for text in deltas {
                    blocks.delta(json!({"type": "text_delta", "text": text}));
                }
            }
            Part::Thinking { deltas, signature } => {
                blocks.open(json!({"type": "thinking", "thinking": "", "signature": ""}));
                for thinking in deltas {
                    blocks.delta(json!({"type": "thinking_delta", "thinking": thinking}));
                }
                if !signature.is_empty() {
                    blocks.delta(json!({"type": "signature_delta", "signature": signature}));
                }
                blocks.close();
            }
            Part::ToolCall { id, name, arguments } => {
                blocks.open(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                blocks.delta(json!({"type": "input_json_delta", "partial_json": ""}));
                // A call without arguments is `{}` in the body and nothing more in the stream.
                let arguments = if arguments == "{}" { "" } else { arguments };
                for piece in words(arguments) {
                    blocks.delta(json!({"type": "input_json_delta", "partial_json": piece}));
                }
                blocks.close();
            }
            Part::Raw(block) => {
                blocks.open(block.clone());
                blocks.close();
            }
            Part::Event(bytes) => blocks.out.push(Piece::Event(bytes.clone())),
            Part::Pause(pause) => blocks.out.push(Piece::Pause(pause.clone())),
        }
    }
    match &turn.ending {
        Ending::Complete => {
            blocks.close();
            let delta = json!({"stop_reason": finish(turn), "stop_sequence": null});
            let mut fields = json!({"delta": delta});
            if let (Some(fields), Some(usage)) = (fields.as_object_mut(), usage_at_end(turn)) {
                fields.insert("usage".into(), usage);
            }
            blocks.event("message_delta", fields);
            blocks.event("message_stop", json!({}));
        }
        Ending::Error { kind, message } => {
            let error = Dialect::Anthropic.error(200, kind, message);
            blocks.out.push(Piece::Event(sse_event("error", &error.to_string())));
        }
        Ending::Unfinished | Ending::Cut | Ending::Hang => {}
    }
    blocks.out
}

/// The events of content blocks, numbered.
#[derive(Default)]
struct Blocks {
    out: Vec<Piece>,
    index: usize,
    open: bool,
}

impl Blocks {
    fn event(&mut self, kind: &str, fields: Value) {
        let mut body = Map::new();
        body.insert("type".into(), kind.into());
        if let Value::Object(fields) = fields {
            body.extend(fields);
        }
        self.out.push(Piece::Event(sse_event(kind, &Value::from(body).to_string())));
    }

    fn open(&mut self, block: Value) {
        self.close();
        self.event("content_block_start", json!({"index": self.index, "content_block": block}));
        if self.index == 0 {
            self.event("ping", json!({}));
        }
        self.open = true;
    }

    /// Opens a text block, or goes on with the one that is open: only text leaves one open.
    fn continue_text(&mut self) {
        if !self.open {
            self.open(json!({"type": "text", "text": ""}));
        }
    }

    fn delta(&mut self, delta: Value) {
        self.event("content_block_delta", json!({"index": self.index, "delta": delta}));
    }

    fn close(&mut self) {
        if self.open {
            self.event("content_block_stop", json!({"index": self.index}));
            self.index += 1;
            self.open = false;
        }
    }
}

fn finish(turn: &Turn) -> Value {
    match &turn.finish {
        Some(reason) => reason.as_str().into(),
        None if turn.has_calls() => "tool_use".into(),
        None => "end_turn".into(),
    }
}

fn usage(turn: &Turn) -> Option<Value> {
    match &turn.usage {
        Usage::Absent => None,
        Usage::Verbatim(usage) => Some(usage.clone()),
        Usage::Counts { input, output, cache_read, cache_write } => Some(json!({
            "input_tokens": input,
            "cache_creation_input_tokens": cache_write,
            "cache_read_input_tokens": cache_read,
            "output_tokens": output,
            "service_tier": "standard",
        })),
    }
}

/// At the start the provider knows the input and has written next to nothing.
fn usage_at_start(turn: &Turn) -> Option<Value> {
    let mut usage = usage(turn)?;
    if let (Usage::Counts { output, .. }, Some(fields)) = (&turn.usage, usage.as_object_mut()) {
        fields.insert("output_tokens".into(), (*output).min(1).into());
    }
    Some(usage)
}

/// At the end it reports the output as a total, not as an addition.
fn usage_at_end(turn: &Turn) -> Option<Value> {
    match &turn.usage {
        Usage::Counts { output, .. } => Some(json!({"output_tokens": output})),
        Usage::Verbatim(_) | Usage::Absent => usage(turn),
    }
}
