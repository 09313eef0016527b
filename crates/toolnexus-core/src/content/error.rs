//! Why a part cannot be made or sent.

use super::{PartKind, PartView};
use crate::Style;

/// A part that cannot be made, or cannot be sent.
///
/// The message names the part by kind, mime type, size or path; it never holds the part's data.
///
/// ```
/// use toolnexus_core::content::{ContentPart, PartErrorCode};
/// let error = ContentPart::from_url("https://example.com/notes.xyz").unwrap_err();
/// assert_eq!(error.code, PartErrorCode::UnknownExtension);
/// assert!(error.to_string().contains("xyz"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ContentPartError {
    /// What kind of problem it is.
    pub code: PartErrorCode,
    /// The problem and its remedy, for a reader.
    pub message: String,
}

/// The kinds of [`ContentPartError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartErrorCode {
    /// A part with both `data` and `url`.
    SourceConflict,
    /// A part with neither; a file that is not there or cannot be read; a malformed `data:` URL.
    SourceMissing,
    /// No mime type can be found.
    UnknownExtension,
    /// A kind of source that cannot be read here.
    UnsupportedSource,
    /// More bytes than allowed.
    TooLarge,
    /// The style has no block for such a part.
    Unsupported,
}

impl PartErrorCode {
    /// The code as text, for example `too-large`.
    pub const fn as_str(self) -> &'static str {
        match self {
            PartErrorCode::SourceConflict => "source-conflict",
            PartErrorCode::SourceMissing => "source-missing",
            PartErrorCode::UnknownExtension => "unknown-extension",
            PartErrorCode::UnsupportedSource => "unsupported-source",
            PartErrorCode::TooLarge => "too-large",
            PartErrorCode::Unsupported => "unsupported",
        }
    }
}

impl std::fmt::Display for PartErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ContentPartError {
    pub(super) fn new(code: PartErrorCode, message: impl Into<String>) -> Self {
        ContentPartError { code, message: message.into() }
    }

    pub(super) fn conflict(kind: PartKind) -> Self {
        Self::new(
            PartErrorCode::SourceConflict,
            format!("{} part has both data and url; give exactly one", kind.as_str()),
        )
    }

    pub(super) fn missing(kind: PartKind) -> Self {
        Self::new(
            PartErrorCode::SourceMissing,
            format!("{} part has neither data nor url; give exactly one", kind.as_str()),
        )
    }

    /// `what` has `actual` bytes; of a reader those that were read until it was given up.
    pub(super) fn too_large(what: &str, actual: u64, allowed: u64) -> Self {
        Self::new(
            PartErrorCode::TooLarge,
            format!(
                "{what} has {actual} bytes, the limit max_part_bytes is {allowed}; make it smaller or raise the limit"
            ),
        )
    }

    pub(super) fn unsupported(style: Style, part: PartView<'_>) -> Self {
        let (how, remedy) = match part.url() {
            Some(_) => ("given by URL", "attach its bytes, or set on_unsupported_part to text"),
            None => ("given as data", "send it as another kind, or set on_unsupported_part to text"),
        };
        Self::new(
            PartErrorCode::Unsupported,
            format!(
                "style \"{style}\" has no block for {} part ({}) {how}; {remedy}",
                with_article(part.kind()),
                part.mime_type().unwrap_or_default()
            ),
        )
    }
}

/// The kind as a sentence needs it.
pub(super) fn with_article(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Text => "a text",
        PartKind::Image => "an image",
        PartKind::File => "a file",
        PartKind::Audio => "an audio",
    }
}
