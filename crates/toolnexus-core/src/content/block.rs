//! The blocks of each style.

use serde_json::{Value, json};

use super::{PartKind, PartView};
use crate::Style;

/// A text in the block of a style.
pub(super) fn text_block(style: Style, text: &str) -> Value {
    match style {
        Style::OpenAI | Style::Anthropic => json!({"type": "text", "text": text}),
        Style::Gemini => json!({"text": text}),
    }
}

/// The block of a well-formed part; `None` when the style has none for it.
pub(super) fn block(style: Style, part: PartView<'_>) -> Option<Value> {
    let block = match (style, part.text()) {
        (_, Some(text)) => Some(text_block(style, text)),
        (Style::OpenAI, None) => openai(part),
        (Style::Anthropic, None) => anthropic(part),
        (Style::Gemini, None) => gemini(part),
    };
    // A provider drops a block of a type it does not know and still answers 200, so that nobody
    // would ever hear of a mistake above.
    block.filter(|block| is_known(style, block))
}

/// Whether a style has blocks of this type.
pub(super) fn is_known(style: Style, block: &Value) -> bool {
    let named =
        |names: &[&str]| block.get("type").and_then(Value::as_str).is_some_and(|name| names.contains(&name));
    match style {
        Style::OpenAI => named(&["text", "image_url", "file", "input_audio"]),
        Style::Anthropic => named(&["text", "image", "document"]),
        Style::Gemini => block.as_object().is_some_and(|map| {
            map.len() == 1 && map.keys().all(|key| matches!(key.as_str(), "text" | "inlineData" | "fileData"))
        }),
    }
}

fn openai(part: PartView<'_>) -> Option<Value> {
    let mime = part.mime_type()?;
    match (part.kind(), part.data(), part.url()) {
        (PartKind::Image, Some(data), _) => {
            Some(json!({"type": "image_url", "image_url": {"url": data_url(mime, data)}}))
        }
        (PartKind::Image, None, Some(url)) => Some(json!({"type": "image_url", "image_url": {"url": url}})),
        (PartKind::File, Some(data), _) => {
            let filename = part.name().unwrap_or("file");
            // Bare base64 here is refused by the API.
            let file = json!({"filename": filename, "file_data": data_url(mime, data)});
            Some(json!({"type": "file", "file": file}))
        }
        (PartKind::Audio, Some(data), _) => {
            Some(json!({"type": "input_audio", "input_audio": {"data": data, "format": audio_format(mime)}}))
        }
        _ => None,
    }
}

fn data_url(mime: &str, data: &str) -> String {
    format!("data:{mime};base64,{data}")
}

fn audio_format(mime: &str) -> &str {
    match mime {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        other => other.strip_prefix("audio/").unwrap_or(other),
    }
}

fn anthropic(part: PartView<'_>) -> Option<Value> {
    let kind = match part.kind() {
        PartKind::Image => "image",
        PartKind::File => "document",
        PartKind::Text | PartKind::Audio => return None,
    };
    let source = match (part.data(), part.url()) {
        (Some(data), _) => json!({"type": "base64", "media_type": part.mime_type()?, "data": data}),
        (None, url) => json!({"type": "url", "url": url?}),
    };
    Some(json!({"type": kind, "source": source}))
}

fn gemini(part: PartView<'_>) -> Option<Value> {
    let mime = part.mime_type()?;
    match (part.data(), part.url()) {
        (Some(data), _) => Some(json!({"inlineData": {"mimeType": mime, "data": data}})),
        (None, url) => Some(json!({"fileData": {"mimeType": mime, "fileUri": url?}})),
    }
}
