//! `data:` URLs.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;

use super::{ContentPartError, PartErrorCode};

/// What a `data:` URL without a mime type holds.
const UNNAMED: &str = "application/octet-stream";

/// Reads what others wrote: with or without padding, with bits behind the last byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What a `data:` URL holds.
pub(super) struct DataUrl {
    pub(super) mime_type: String,
    pub(super) bytes: Vec<u8>,
}

/// What follows the scheme of a `data:` URL, which may be written in any case; `None` for any other
/// text.
///
/// ```
/// use toolnexus_core::content::behind_data_scheme;
/// assert_eq!(behind_data_scheme("DATA:,x"), Some(",x"));
/// assert_eq!(behind_data_scheme("https://x"), None);
/// ```
pub fn behind_data_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked("data:".len())?;
    scheme.eq_ignore_ascii_case("data:").then_some(rest)
}

/// Whether a text is a `data:` URL by its beginning.
pub(super) fn is_data_url(text: &str) -> bool {
    behind_data_scheme(text).is_some()
}

/// Reads `data:<mime>[;param…][;base64],<payload>`. Its error shows nothing of the text.
pub(super) fn read(url: &str) -> Result<DataUrl, ContentPartError> {
    let malformed = |problem: &str| {
        ContentPartError::new(
            PartErrorCode::SourceMissing,
            format!(
                "malformed data URL of {} bytes: {problem}; it reads data:<mime type>;base64,<data>",
                url.len()
            ),
        )
    };
    let rest = behind_data_scheme(url).ok_or_else(|| malformed("it does not begin with data:"))?;
    let (head, payload) = rest.split_once(',').ok_or_else(|| malformed("it has no comma"))?;
    let mut parameters = head.split(';').map(str::trim);
    let mime_type = parameters.next().unwrap_or_default().to_ascii_lowercase();
    let is_base64 = parameters.any(|parameter| parameter.eq_ignore_ascii_case("base64"));
    let mut bytes: Vec<u8> = percent_decode_str(payload).collect();
    if is_base64 {
        bytes.retain(|byte| !byte.is_ascii_whitespace());
        bytes = LENIENT.decode(&bytes).map_err(|_| malformed("its data is not base64"))?;
    }
    Ok(DataUrl { mime_type: if mime_type.is_empty() { UNNAMED.to_owned() } else { mime_type }, bytes })
}
