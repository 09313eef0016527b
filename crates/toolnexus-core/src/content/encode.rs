//! Content parts on their way to a provider.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::block::{block, text_block};
use super::error::with_article;
use super::{ContentPart, ContentPartError, PartErrorCode, PartKind, PartView};
use crate::Style;

/// Who put a part where it is. It decides what happens to a part that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Provenance {
    /// The caller: prompt, history, whatever is no tool's result. Such a part is an error.
    #[default]
    Attached,
    /// A tool. Such a part becomes a line of text that says what is missing.
    Derived,
}

/// What happens to a part that cannot be sent, whoever put it there.
///
/// A part with both or neither of `data` and `url` is an error in either mode.
///
/// ```
/// use toolnexus_core::content::UnsupportedPart;
/// assert_eq!("text".parse(), Ok(UnsupportedPart::Text));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnsupportedPart {
    /// It is an error.
    Error,
    /// A line of text stands in its place.
    Text,
}

impl UnsupportedPart {
    /// `error` or `text`.
    pub const fn as_str(self) -> &'static str {
        match self {
            UnsupportedPart::Error => "error",
            UnsupportedPart::Text => "text",
        }
    }
}

/// A text that names no [`UnsupportedPart`] mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode {0:?} for unsupported parts; use \"error\" or \"text\"")]
pub struct UnknownMode(pub String);

impl FromStr for UnsupportedPart {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "error" => Ok(UnsupportedPart::Error),
            "text" => Ok(UnsupportedPart::Text),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

/// How [`encode_parts`] is to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeOptions {
    /// Whose blocks to write. Default: OpenAI's.
    pub style: Style,
    /// Who put the parts there. Default: the caller.
    pub provenance: Provenance,
    /// The most decoded bytes of a non-text part. `None`: no limit.
    pub max_part_bytes: Option<u64>,
    /// What happens to a part that cannot be sent. `None`: as its provenance says.
    pub on_unsupported_part: Option<UnsupportedPart>,
}

/// The parts in the blocks of a provider, one block each, in order.
///
/// Warns on every call about parts that text stands in for.
///
/// ```
/// use serde_json::json;
/// use toolnexus_core::content::{ContentPart, EncodeOptions, Provenance, encode_parts};
/// use toolnexus_core::Style;
///
/// let parts = [ContentPart::text("listen"), ContentPart::from_bytes(b"RIFF", "audio/wav")?];
/// let options = EncodeOptions {
///     style: Style::Anthropic,
///     provenance: Provenance::Derived,
///     ..Default::default()
/// };
/// assert_eq!(encode_parts(&parts, options)?, [
///     json!({"type": "text", "text": "listen"}),
///     json!({"type": "text", "text": "[unsupported audio part (audio/wav, 4 bytes)]"}),
/// ]);
/// # Ok::<(), toolnexus_core::content::ContentPartError>(())
/// ```
///
/// # Errors
/// The first part that cannot be sent and has no text in its place; a part with both or neither of
/// `data` and `url`.
pub fn encode_parts(parts: &[ContentPart], options: EncodeOptions) -> Result<Vec<Value>, ContentPartError> {
    let mut encoder = PartEncoder::new(options.style)
        .with_max_part_bytes(options.max_part_bytes)
        .with_on_unsupported_part(options.on_unsupported_part);
    let blocks = parts.iter().map(|part| encoder.block(part, options.provenance)).collect();
    encoder.into_replaced().into_iter().for_each(|replaced| replaced.warn(options.style));
    blocks
}

/// Encodes parts one by one and remembers which of them text stands in for.
///
/// It warns of nothing itself: whoever encodes the same transcript again and again decides what has
/// been said already.
///
/// ```
/// use toolnexus_core::content::{ContentPart, PartEncoder, PartErrorCode, PartKind, Provenance};
/// use toolnexus_core::Style;
///
/// let mut encoder = PartEncoder::new(Style::OpenAI).with_max_part_bytes(Some(3));
/// let picture = ContentPart::from_bytes(b"\x89PNG", "image/png")?;
/// assert!(encoder.block(&picture, Provenance::Attached).is_err());
/// encoder.block(&picture, Provenance::Derived)?;
/// let [replaced] = encoder.replaced() else { panic!() };
/// assert_eq!((replaced.kind, replaced.reason), (PartKind::Image, PartErrorCode::TooLarge));
/// # Ok::<(), toolnexus_core::content::ContentPartError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PartEncoder {
    style: Style,
    max_part_bytes: Option<u64>,
    on_unsupported_part: Option<UnsupportedPart>,
    replaced: Vec<ReplacedPart>,
}

impl PartEncoder {
    /// An encoder without a limit, which goes by provenance.
    pub const fn new(style: Style) -> Self {
        PartEncoder { style, max_part_bytes: None, on_unsupported_part: None, replaced: Vec::new() }
    }

    /// The most decoded bytes of a non-text part. `None`: no limit.
    #[must_use]
    pub const fn with_max_part_bytes(mut self, limit: Option<u64>) -> Self {
        self.max_part_bytes = limit;
        self
    }

    /// What happens to a part that cannot be sent. `None`: as its provenance says.
    #[must_use]
    pub const fn with_on_unsupported_part(mut self, mode: Option<UnsupportedPart>) -> Self {
        self.on_unsupported_part = mode;
        self
    }

    /// Whose blocks it writes.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// The block of one part, or of the text that stands in its place.
    ///
    /// # Errors
    /// A part that is malformed, or that cannot be sent and has no text in its place.
    pub fn block<'p>(
        &mut self,
        part: impl Into<PartView<'p>>,
        provenance: Provenance,
    ) -> Result<Value, ContentPartError> {
        let part = part.into();
        let refused = match self.encoded(part) {
            Ok(block) => return Ok(block),
            Err(refused) => refused,
        };
        if !self.replaces(&refused, provenance) {
            return Err(refused);
        }
        self.replaced.push(ReplacedPart { kind: part.kind(), reason: refused.code });
        Ok(self.text(&part.placeholder()))
    }

    /// A text in the style's block.
    pub fn text(&self, text: &str) -> Value {
        text_block(self.style, text)
    }

    /// What text stands in for so far, in order.
    pub fn replaced(&self) -> &[ReplacedPart] {
        &self.replaced
    }

    /// What text stands in for, in order.
    pub fn into_replaced(self) -> Vec<ReplacedPart> {
        self.replaced
    }

    fn encoded(&self, part: PartView<'_>) -> Result<Value, ContentPartError> {
        part.validate(self.max_part_bytes)?;
        block(self.style, part).ok_or_else(|| ContentPartError::unsupported(self.style, part))
    }

    fn replaces(&self, refused: &ContentPartError, provenance: Provenance) -> bool {
        let sendable_elsewhere = matches!(refused.code, PartErrorCode::TooLarge | PartErrorCode::Unsupported);
        sendable_elsewhere
            && match self.on_unsupported_part {
                Some(mode) => mode == UnsupportedPart::Text,
                None => provenance == Provenance::Derived,
            }
    }
}

/// That text stands in for a part, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplacedPart {
    /// The part's kind.
    pub kind: PartKind,
    /// [`PartErrorCode::Unsupported`] or [`PartErrorCode::TooLarge`].
    pub reason: PartErrorCode,
}

impl ReplacedPart {
    /// Writes the warning to the log.
    pub fn warn(self, style: Style) {
        let part = with_article(self.kind);
        if self.reason == PartErrorCode::TooLarge {
            tracing::warn!(
                %style,
                reason = %self.reason,
                "[toolnexus] {part} part is over max_part_bytes: the model reads a placeholder"
            );
        } else {
            tracing::warn!(
                %style,
                reason = %self.reason,
                "[toolnexus] style \"{style}\" has no block for {part} part: the model reads a placeholder"
            );
        }
    }
}
