//! The part itself.

use serde::{Deserialize, Serialize};

use super::{ContentPartError, PartView};

/// One piece of content: text, or an image, file or audio clip given inline or by URL.
///
/// A non-text part carries exactly one of `data` (standard base64, padded) and `url`.
/// Whatever prints a part shows its type, mime type and size, never its data.
///
/// ```
/// use toolnexus_core::ContentPart;
/// let part: ContentPart = serde_json::from_str(
///     r#"{"type":"image","mimeType":"image/png","data":"iVBORw=="}"#).unwrap();
/// assert_eq!(part.summarize(), "image (image/png, 4 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture.
    Image {
        /// For example `image/png`.
        mime_type: String,
        /// The bytes in standard base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// Where the picture can be fetched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// A document or any other file.
    File {
        /// For example `application/pdf`.
        mime_type: String,
        /// The bytes in standard base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// Where the file can be fetched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The file's base name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A sound clip.
    Audio {
        /// For example `audio/wav`.
        mime_type: String,
        /// The bytes in standard base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// Where the clip can be fetched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
}

/// The kind of a [`ContentPart`], as its `type` key spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// Plain text.
    Text,
    /// A picture.
    Image,
    /// A document or any other file.
    File,
    /// A sound clip.
    Audio,
}

impl PartKind {
    /// The spelling of the `type` key.
    pub const fn as_str(self) -> &'static str {
        match self {
            PartKind::Text => "text",
            PartKind::Image => "image",
            PartKind::File => "file",
            PartKind::Audio => "audio",
        }
    }

    /// The kind of this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "text" => Some(PartKind::Text),
            "image" => Some(PartKind::Image),
            "file" => Some(PartKind::File),
            "audio" => Some(PartKind::Audio),
            _ => None,
        }
    }

    /// The kind that a mime type means: `image/*`, `audio/*`, else a file.
    pub fn of_mime(mime_type: &str) -> Self {
        if mime_type.starts_with("image/") {
            PartKind::Image
        } else if mime_type.starts_with("audio/") {
            PartKind::Audio
        } else {
            PartKind::File
        }
    }
}

impl ContentPart {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        ContentPart::Text { text: text.into() }
    }

    /// A part of the kind that the mime type means, holding base64 `data`.
    /// `name` is kept for files only.
    pub fn from_base64(mime_type: impl Into<String>, data: impl Into<String>, name: Option<String>) -> Self {
        Self::of_kind(mime_type.into(), Some(data.into()), None, name)
    }

    /// A part of the kind that the mime type means, to be fetched at `url`.
    /// `name` is kept for files only.
    pub fn from_link(mime_type: impl Into<String>, url: impl Into<String>, name: Option<String>) -> Self {
        Self::of_kind(mime_type.into(), None, Some(url.into()), name)
    }

    fn of_kind(mime_type: String, data: Option<String>, url: Option<String>, name: Option<String>) -> Self {
        match PartKind::of_mime(&mime_type) {
            PartKind::Image => ContentPart::Image { mime_type, data, url },
            PartKind::Audio => ContentPart::Audio { mime_type, data, url },
            _ => ContentPart::File { mime_type, data, url, name },
        }
    }

    /// Which kind of part this is.
    pub const fn kind(&self) -> PartKind {
        match self {
            ContentPart::Text { .. } => PartKind::Text,
            ContentPart::Image { .. } => PartKind::Image,
            ContentPart::File { .. } => PartKind::File,
            ContentPart::Audio { .. } => PartKind::Audio,
        }
    }

    /// True for a text part.
    pub const fn is_text(&self) -> bool {
        matches!(self, ContentPart::Text { .. })
    }

    /// The part, borrowed.
    pub fn view(&self) -> PartView<'_> {
        self.into()
    }

    /// The mime type of a non-text part.
    pub fn mime_type(&self) -> Option<&str> {
        self.view().mime_type()
    }

    /// The base64 data of a non-text part.
    pub fn data(&self) -> Option<&str> {
        self.view().data()
    }

    /// The URL of a non-text part.
    pub fn url(&self) -> Option<&str> {
        self.view().url()
    }

    /// The decoded size in bytes: of the data, 0 for a URL, the UTF-8 length for text.
    pub fn part_bytes(&self) -> u64 {
        self.view().part_bytes()
    }

    /// Checks that a non-text part has exactly one of `data` and `url`, and no more than
    /// `max_part_bytes` decoded bytes. A text part is always valid.
    ///
    /// # Errors
    /// [`SourceConflict`](super::PartErrorCode::SourceConflict),
    /// [`SourceMissing`](super::PartErrorCode::SourceMissing) or
    /// [`TooLarge`](super::PartErrorCode::TooLarge).
    pub fn validate(&self, max_part_bytes: Option<u64>) -> Result<(), ContentPartError> {
        self.view().validate(max_part_bytes)
    }

    /// One line for a reader: `<type> (<mimeType>, <bytes> bytes)`; for text, the text.
    pub fn summarize(&self) -> String {
        self.view().summarize()
    }

    /// What logs and events may show of a part: type, mime type and size.
    pub fn describe(&self) -> serde_json::Value {
        self.view().describe()
    }

    /// About how many tokens a model counts for it: a quarter of the characters of a text; else
    /// one per 750 bytes, at least 85.
    pub fn token_estimate(&self) -> u64 {
        self.view().token_estimate()
    }
}

impl std::fmt::Debug for ContentPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ContentPart({})", self.describe())
    }
}

impl From<&str> for ContentPart {
    fn from(text: &str) -> Self {
        ContentPart::text(text)
    }
}

impl From<String> for ContentPart {
    fn from(text: String) -> Self {
        ContentPart::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use proptest::prelude::*;

    // CORE-18
    #[test]
    fn parts_have_the_shapes_of_the_wire() {
        let part = ContentPart::from_base64("image/png", "AAAA", Some("dropped.png".into()));
        assert_eq!(
            serde_json::to_string(&part).unwrap(),
            r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#
        );
        let part = ContentPart::from_link("application/pdf", "https://x/y.pdf", Some("y.pdf".into()));
        let json = serde_json::to_string(&part).unwrap();
        assert_eq!(
            json,
            r#"{"type":"file","mimeType":"application/pdf","url":"https://x/y.pdf","name":"y.pdf"}"#
        );
        assert_eq!(serde_json::from_str::<ContentPart>(&json).unwrap(), part);
    }

    // CORE-32, CORE-33, CORE-20: no data in anything that prints
    #[test]
    fn printing_shows_size_and_never_data() {
        let part = ContentPart::from_base64("audio/wav", "c2VjcmV0", None);
        assert_eq!(part.summarize(), "audio (audio/wav, 6 bytes)");
        assert_eq!(part.describe().to_string(), r#"{"type":"audio","mimeType":"audio/wav","bytes":6}"#);
        assert!(!format!("{part:?}").contains("c2VjcmV0"));
        assert_eq!(
            ContentPart::from_link("image/webp", "https://x", None).summarize(),
            "image (image/webp, 0 bytes)"
        );
        assert_eq!(ContentPart::text("hé").describe().to_string(), r#"{"type":"text","bytes":3}"#);
    }

    proptest! {
        // CORE-31
        #[test]
        fn the_size_is_that_of_the_decoded_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
            prop_assert_eq!(ContentPart::from_base64("image/png", data, None).part_bytes(), bytes.len() as u64);
        }
    }
}
