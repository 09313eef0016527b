//! Content arrays: what each entry is, and its block for the provider.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use toolnexus_core::ContentPart;
use toolnexus_core::content::{
    ContentPartError, PartEncoder, PartView, Provenance, behind_data_scheme, mime_type_of_url,
};

use super::text::string;

/// Content as Anthropic takes it.
pub(super) enum Content {
    Text(String),
    Blocks(Vec<Value>),
}

/// Content in Anthropic's shape: text alone becomes a string, anything else one block per entry.
/// An array with an entry that is unknown here stays as it is, so that nothing is lost.
pub(super) fn converted(
    content: Option<&Value>,
    encoder: &mut PartEncoder,
) -> Result<Content, ContentPartError> {
    let Some(Value::Array(entries)) = content else {
        return Ok(Content::Text(string(content).to_owned()));
    };
    let Some(parts) = read_all(entries) else { return Ok(Content::Blocks(entries.clone())) };
    if parts.iter().all(ContentPart::is_text) {
        return Ok(Content::Text(texts(&parts)));
    }
    // The provider refuses empty text.
    let said = parts.iter().filter(|part| PartView::from(*part).text() != Some(""));
    let blocks = said.map(|part| encoder.block(part, Provenance::Attached));
    blocks.collect::<Result<_, _>>().map(Content::Blocks)
}

/// Content of an assistant, whose role takes no media: a part becomes its placeholder.
pub(super) fn spoken(content: Option<&Value>) -> Content {
    let Some(Value::Array(entries)) = content else { return Content::Text(string(content).to_owned()) };
    match read_all(entries) {
        Some(parts) => Content::Text(texts(&parts)),
        None => Content::Blocks(entries.clone()),
    }
}

/// For a provider of OpenAI's style: literal parts become blocks, all else stays as it is.
pub(super) fn with_literals_encoded(
    message: &Value,
    encoder: &mut PartEncoder,
) -> Result<Value, ContentPartError> {
    let mut message = message.clone();
    let entries = message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    for entry in entries {
        let literal = PartView::read(entry).filter(|part| part.text().is_none());
        if let Some(part) = literal {
            *entry = encoder.block(part, Provenance::Attached)?;
        }
    }
    Ok(message)
}

fn texts(parts: &[ContentPart]) -> String {
    let text = |part: &ContentPart| {
        let part = PartView::from(part);
        part.text().map_or_else(|| part.placeholder(), str::to_owned)
    };
    parts.iter().map(text).collect()
}

fn read_all(entries: &[Value]) -> Option<Vec<ContentPart>> {
    entries.iter().map(read).collect()
}

/// The part that an entry stands for; `None` for an entry of another provider.
fn read(entry: &Value) -> Option<ContentPart> {
    if let Some(part) = PartView::read(entry) {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (data, url) = (owned(part.data()), owned(part.url()));
        let mime_type = owned(part.mime_type()).unwrap_or_default();
        return Some(match string(entry.get("type")) {
            "image" => ContentPart::Image { mime_type, data, url },
            "audio" => ContentPart::Audio { mime_type, data, url },
            "file" => ContentPart::File { mime_type, data, url, name: owned(part.name()) },
            _ => ContentPart::text(part.text().unwrap_or_default()),
        });
    }
    match string(entry.get("type")) {
        "image_url" => image(entry.get("image_url")?.get("url")?.as_str()?),
        "file" => {
            let file = entry.get("file")?;
            let (mime_type, data) = data_url(file.get("file_data")?.as_str()?)?;
            let name = file.get("filename").and_then(Value::as_str).map(str::to_owned);
            Some(ContentPart::File { mime_type, data: Some(data), url: None, name })
        }
        "input_audio" => {
            let audio = entry.get("input_audio")?;
            let data = audio.get("data")?.as_str()?.to_owned();
            let mime_type = match audio.get("format")?.as_str()? {
                "mp3" => "audio/mpeg".to_owned(),
                format => format!("audio/{format}"),
            };
            Some(ContentPart::Audio { mime_type, data: Some(data), url: None })
        }
        // An assistant's: its text is what it said.
        "refusal" => Some(ContentPart::text(entry.get("refusal")?.as_str()?)),
        _ => None,
    }
}

fn image(url: &str) -> Option<ContentPart> {
    if behind_data_scheme(url).is_some() {
        let (mime_type, data) = data_url(url)?;
        return Some(ContentPart::Image { mime_type, data: Some(data), url: None });
    }
    let mime_type = mime_type_of_url(url).unwrap_or("image/*").to_owned();
    Some(ContentPart::Image { mime_type, data: None, url: Some(url.to_owned()) })
}

/// Mime type and base64 data of a data URL. Base64 goes on as it came: the provider judges it.
fn data_url(url: &str) -> Option<(String, String)> {
    let (head, payload) = behind_data_scheme(url)?.split_once(',')?;
    let mut parameters = head.split(';').map(str::trim);
    let mime_type = parameters.next().filter(|mime| !mime.is_empty()).unwrap_or("application/octet-stream");
    let data = if parameters.any(|parameter| parameter.eq_ignore_ascii_case("base64")) {
        payload.to_owned()
    } else {
        STANDARD.encode(percent_encoding::percent_decode_str(payload).collect::<Vec<u8>>())
    };
    Some((mime_type.to_owned(), data))
}
