//! Content parts on their way to a provider.
//!
//! The transcript keeps parts as they are; each request writes them in the provider's blocks, on
//! a copy. What a provider has no block for is refused: if the caller attached it, the run stops
//! before the request; if a tool returned it, a line of text stands in its place.

use std::borrow::Cow;

use serde::Deserialize as _;
use serde_json::{Value, json};
use toolnexus_core::{ContentPart, PartKind, Style};

use crate::Message;

/// Who put a part into the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provenance {
    /// The caller: prompt and history.
    Attached,
    /// A tool.
    Derived,
}

/// An attached part that the provider has no block for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RefusedPart(String);

/// Encodes the parts of one request.
pub(super) struct PartEncoder {
    style: Style,
    /// The kinds that were replaced by text.
    pub(super) replaced: Vec<PartKind>,
}

impl PartEncoder {
    pub(super) fn new(style: Style) -> Self {
        PartEncoder { style, replaced: Vec::new() }
    }

    /// The block of one part.
    pub(super) fn block(&mut self, part: &ContentPart, from: Provenance) -> Result<Value, RefusedPart> {
        let malformed = !part.is_text() && part.data().is_some() == part.url().is_some();
        let block = match (self.style, part) {
            _ if malformed => None,
            (_, ContentPart::Text { text }) => Some(json!({"type": "text", "text": text})),
            (Style::Anthropic, _) => anthropic_block(part),
            (Style::OpenAI | Style::Gemini, _) => openai_block(part),
        };
        match (block, from) {
            (Some(block), _) => Ok(block),
            (None, Provenance::Derived) if !malformed => {
                self.replaced.push(part.kind());
                Ok(json!({"type": "text", "text": placeholder(part)}))
            }
            (None, _) => Err(RefusedPart(self.refusal(part, malformed))),
        }
    }

    fn refusal(&self, part: &ContentPart, malformed: bool) -> String {
        let kind = part.kind().as_str();
        if malformed {
            return format!("{kind} part needs exactly one of data and url");
        }
        let how = if part.url().is_some() { "given by URL" } else { "given as data" };
        format!(
            "style \"{}\" has no block for this {kind} part ({}, {how})",
            self.style,
            part.mime_type().unwrap_or_default()
        )
    }

    /// A content list with every part in it encoded; blocks of the provider's own stay.
    pub(super) fn content(&mut self, content: &[Value]) -> Result<Vec<Value>, RefusedPart> {
        content
            .iter()
            .map(|entry| match as_part(entry).filter(|part| !part.is_text()) {
                Some(part) => self.block(&part, Provenance::Attached),
                // A text part is a block already, perhaps with keys of the provider's.
                None => Ok(entry.clone()),
            })
            .collect()
    }
}

/// Reads a part; `None` for anything else, a provider's own block among it.
pub(super) fn as_part(value: &Value) -> Option<ContentPart> {
    ContentPart::deserialize(value).ok()
}

/// The parts that a tool's entry in the transcript carries.
pub(super) fn parts_of(entry: &Value) -> Vec<ContentPart> {
    entry.get("parts").and_then(Value::as_array).into_iter().flatten().filter_map(as_part).collect()
}

/// A message whose content list is encoded; the message itself if there is nothing to encode.
pub(super) fn encoded<'a>(
    message: &'a Message,
    encoder: &mut PartEncoder,
) -> Result<Cow<'a, Message>, RefusedPart> {
    let Some(content) = message.get("content").and_then(Value::as_array) else {
        return Ok(Cow::Borrowed(message));
    };
    let blocks = encoder.content(content)?;
    Ok(Cow::Owned(with_content(message, Value::Array(blocks))))
}

/// A copy of the message with other content.
pub(super) fn with_content(message: &Message, content: Value) -> Message {
    let mut value = message.value().clone();
    if let Value::Object(map) = &mut value {
        map.insert("content".into(), content);
    }
    Message::from(value)
}

fn placeholder(part: &ContentPart) -> String {
    format!(
        "[unsupported {} part ({}, {} bytes)]",
        part.kind().as_str(),
        part.mime_type().unwrap_or_default(),
        part.part_bytes()
    )
}

fn openai_block(part: &ContentPart) -> Option<Value> {
    let mime = part.mime_type()?;
    let data_url = |data: &str| format!("data:{mime};base64,{data}");
    match (part, part.data(), part.url()) {
        (ContentPart::Image { .. }, data, url) => {
            let url = data.map(data_url).or_else(|| url.map(str::to_owned))?;
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        (ContentPart::File { name, .. }, Some(data), _) => {
            let filename = name.as_deref().unwrap_or("file");
            Some(json!({"type": "file", "file": {"filename": filename, "file_data": data_url(data)}}))
        }
        (ContentPart::Audio { .. }, Some(data), _) => {
            Some(json!({"type": "input_audio", "input_audio": {"data": data, "format": audio_format(mime)}}))
        }
        _ => None,
    }
}

fn audio_format(mime: &str) -> &str {
    match mime {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        other => other.strip_prefix("audio/").unwrap_or(other),
    }
}

fn anthropic_block(part: &ContentPart) -> Option<Value> {
    let kind = match part.kind() {
        PartKind::Image => "image",
        PartKind::File => "document",
        PartKind::Text | PartKind::Audio => return None,
    };
    let source = match (part.data(), part.url()) {
        (Some(data), _) => json!({"type": "base64", "media_type": part.mime_type()?, "data": data}),
        (None, Some(url)) => json!({"type": "url", "url": url}),
        (None, None) => return None,
    };
    Some(json!({"type": kind, "source": source}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(style: Style, part: &ContentPart) -> Result<Value, RefusedPart> {
        PartEncoder::new(style).block(part, Provenance::Attached)
    }

    // CORE-37, CORE-38, CLIENT-111
    #[test]
    fn every_part_has_the_block_of_its_provider() {
        let image = ContentPart::from_base64("image/png", "AAAA", None);
        let linked = ContentPart::from_link("image/png", "https://x/a.png", None);
        let pdf = ContentPart::from_base64("application/pdf", "JVBERi0x", Some("report.pdf".into()));
        let linked_pdf = ContentPart::from_link("application/pdf", "https://x/a.pdf", None);
        let wav = ContentPart::from_base64("audio/x-wav", "AAAA", None);

        let openai = |part| block(Style::OpenAI, part);
        assert_eq!(
            openai(&image).unwrap(),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})
        );
        assert_eq!(
            openai(&linked).unwrap(),
            json!({"type": "image_url", "image_url": {"url": "https://x/a.png"}})
        );
        assert_eq!(
            openai(&pdf).unwrap(),
            json!({"type": "file", "file": {"filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}})
        );
        assert_eq!(
            openai(&wav).unwrap(),
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})
        );
        // CLIENT-113
        assert!(openai(&linked_pdf).unwrap_err().to_string().contains("application/pdf"));

        let anthropic = |part| block(Style::Anthropic, part);
        assert_eq!(
            anthropic(&image).unwrap(),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
        );
        assert_eq!(
            anthropic(&linked_pdf).unwrap(),
            json!({"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}})
        );
        assert!(anthropic(&wav).unwrap_err().to_string().contains("audio/x-wav"));
    }

    // CORE-40, case 40
    #[test]
    fn a_tools_part_without_a_block_becomes_a_line_of_text() {
        let wav = ContentPart::from_base64("audio/wav", "AAAAAAAA", None);
        let mut encoder = PartEncoder::new(Style::Anthropic);
        assert_eq!(
            encoder.block(&wav, Provenance::Derived).unwrap(),
            json!({"type": "text", "text": "[unsupported audio part (audio/wav, 6 bytes)]"})
        );
        assert_eq!(encoder.replaced, [PartKind::Audio]);
    }

    // CORE-46: blocks of the provider's own are no parts
    #[test]
    fn native_blocks_are_left_alone() {
        for native in [
            json!({"type": "image", "source": {"type": "url", "url": "https://x"}}),
            json!({"type": "file", "file": {"file_id": "f"}}),
            json!({"type": "image_url", "image_url": {"url": "https://x"}}),
        ] {
            assert_eq!(as_part(&native), None);
        }
    }
}
