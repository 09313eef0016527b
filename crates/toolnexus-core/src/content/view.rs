//! A part looked at where it lies.

use serde_json::{Map, Value, json};

use super::{ContentPart, ContentPartError, PartKind};

/// A content part, borrowed: from a [`ContentPart`], or from the JSON of a transcript without a
/// copy of its data.
///
/// ```
/// use serde_json::json;
/// use toolnexus_core::content::PartView;
/// let stored = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw=="});
/// assert_eq!(PartView::read(&stored).unwrap().part_bytes(), 4);
///
/// let native = json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}});
/// assert!(PartView::read(&native).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PartView<'a> {
    kind: PartKind,
    /// The text of a text part; else the mime type.
    label: &'a str,
    data: Option<&'a str>,
    url: Option<&'a str>,
    name: Option<&'a str>,
}

impl<'a> PartView<'a> {
    /// The part that a JSON value is; `None` for anything else, such as a provider's own block.
    ///
    /// A text part has a string `text`, any other a string `mimeType`. A `data`, `url` or `name`
    /// that is no string counts as absent.
    pub fn read(value: &'a Value) -> Option<Self> {
        let map = value.as_object()?;
        let kind = PartKind::from_name(text(map, "type")?)?;
        let label = text(map, if kind == PartKind::Text { "text" } else { "mimeType" })?;
        if kind == PartKind::Text {
            return Some(PartView { kind, label, data: None, url: None, name: None });
        }
        let name = if kind == PartKind::File { text(map, "name") } else { None };
        Some(PartView { kind, label, data: text(map, "data"), url: text(map, "url"), name })
    }

    /// Which kind of part this is.
    pub const fn kind(self) -> PartKind {
        self.kind
    }

    /// The text of a text part.
    pub fn text(self) -> Option<&'a str> {
        (self.kind == PartKind::Text).then_some(self.label)
    }

    /// The mime type of a non-text part.
    pub fn mime_type(self) -> Option<&'a str> {
        (self.kind != PartKind::Text).then_some(self.label)
    }

    /// The base64 data of a non-text part.
    pub const fn data(self) -> Option<&'a str> {
        self.data
    }

    /// The URL of a non-text part.
    pub const fn url(self) -> Option<&'a str> {
        self.url
    }

    /// The name of a file part.
    pub const fn name(self) -> Option<&'a str> {
        self.name
    }

    /// See [`ContentPart::part_bytes`].
    pub fn part_bytes(self) -> u64 {
        match self.text() {
            Some(text) => text.len() as u64,
            None => self.data.map_or(0, decoded_len),
        }
    }

    /// See [`ContentPart::validate`].
    ///
    /// # Errors
    /// As there.
    pub fn validate(self, max_part_bytes: Option<u64>) -> Result<(), ContentPartError> {
        match (self.kind, self.data, self.url) {
            (PartKind::Text, ..) => return Ok(()),
            (kind, Some(_), Some(_)) => return Err(ContentPartError::conflict(kind)),
            (kind, None, None) => return Err(ContentPartError::missing(kind)),
            _ => {}
        }
        let bytes = self.part_bytes();
        match max_part_bytes {
            Some(allowed) if bytes > allowed => {
                let what = format!("{} part ({})", self.kind.as_str(), self.label);
                Err(ContentPartError::too_large(&what, bytes, allowed))
            }
            _ => Ok(()),
        }
    }

    /// See [`ContentPart::summarize`].
    pub fn summarize(self) -> String {
        match self.text() {
            Some(text) => text.to_owned(),
            None => format!("{} ({}, {} bytes)", self.kind.as_str(), self.label, self.part_bytes()),
        }
    }

    /// What the model reads in place of a part that cannot be sent:
    /// `[unsupported <type> part (<mimeType>, <bytes> bytes)]`.
    pub fn placeholder(self) -> String {
        format!(
            "[unsupported {} part ({}, {} bytes)]",
            self.kind.as_str(),
            self.mime_type().unwrap_or_default(),
            self.part_bytes()
        )
    }

    /// See [`ContentPart::describe`].
    pub fn describe(self) -> Value {
        match self.mime_type() {
            None => json!({"type": self.kind.as_str(), "bytes": self.part_bytes()}),
            Some(mime) => json!({
                "type": self.kind.as_str(), "mimeType": mime, "bytes": self.part_bytes()
            }),
        }
    }

    /// See [`ContentPart::token_estimate`].
    pub fn token_estimate(self) -> u64 {
        match self.text() {
            Some(text) => (text.chars().count() as u64).div_ceil(4),
            None => (self.part_bytes() / 750).max(85),
        }
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key)?.as_str()
}

fn decoded_len(data: &str) -> u64 {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count() as u64;
    ((data.len() as u64 / 4) * 3).saturating_sub(padding)
}

impl<'a> From<&'a ContentPart> for PartView<'a> {
    fn from(part: &'a ContentPart) -> Self {
        let (kind, label, data, url, name) = match part {
            ContentPart::Text { text } => (PartKind::Text, text, &None, &None, &None),
            ContentPart::Image { mime_type, data, url } => (PartKind::Image, mime_type, data, url, &None),
            ContentPart::File { mime_type, data, url, name } => (PartKind::File, mime_type, data, url, name),
            ContentPart::Audio { mime_type, data, url } => (PartKind::Audio, mime_type, data, url, &None),
        };
        PartView { kind, label, data: data.as_deref(), url: url.as_deref(), name: name.as_deref() }
    }
}

/// Kind, mime type and size.
impl std::fmt::Debug for PartView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartView({})", self.describe())
    }
}
