//! The body of an answer: bytes within a limit, and the text that they are.

use bytes::Bytes;
use encoding_rs::{Encoding, UTF_8};
use futures::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use url::Url;

use super::Failed;

/// What came back.
pub(crate) struct Body {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    /// Set to the limit where there was more.
    pub(crate) cut_at: Option<usize>,
}

/// Reads a body, of which no more than `limit` bytes are kept.
pub(super) async fn read(
    response: reqwest::Response,
    url: &Url,
    limit: usize,
    mut progress: impl FnMut(usize, Option<u64>),
) -> Result<Body, Failed> {
    let (status, headers) = (response.status(), response.headers().clone());
    let announced = response.content_length();
    let mut pieces = response.bytes_stream();
    let mut bytes = Vec::new();
    let mut cut_at = None;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Failed::Body { status, kind: Failed::of(&error, url).kind() })?;
        let room = limit - bytes.len();
        bytes.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        progress(bytes.len(), announced);
        if piece.len() > room {
            cut_at = Some(limit);
            break;
        }
    }
    Ok(Body { status, headers, bytes: bytes.into(), cut_at })
}

impl Body {
    /// The body as text: by the charset of its type, else by its byte order mark, else as UTF-8. What
    /// is no text is replaced; a byte order mark, and a character that was cut in two, are left out.
    pub(crate) fn text(&self) -> String {
        let mut decoder = match charset(&self.headers) {
            Some(declared) => declared.new_decoder_with_bom_removal(),
            None => UTF_8.new_decoder(),
        };
        let capacity = decoder.max_utf8_buffer_length(self.bytes.len()).unwrap_or(0);
        let mut text = String::with_capacity(capacity);
        let whole = self.cut_at.is_none();
        let (_, _, _) = decoder.decode_to_string(&self.bytes, &mut text, whole);
        text
    }
}

fn charset(headers: &HeaderMap) -> Option<&'static Encoding> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let parameters = kind.split(';').skip(1);
    let label = parameters.filter_map(|parameter| parameter.split_once('=')).find_map(|(name, value)| {
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })?;
    Encoding::for_label_no_replacement(label.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn body(kind: &'static str, bytes: &[u8], cut_at: Option<usize>) -> Body {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Body { status: StatusCode::OK, headers, bytes: bytes.to_vec().into(), cut_at }
    }

    // CORE-101, BUILTIN-69: the header's charset, else a byte order mark, else UTF-8 with replacement
    #[test]
    fn text_is_decoded_by_its_charset() {
        for (kind, bytes, text) in [
            ("text/plain", "é".as_bytes(), "é"),
            ("text/plain; charset=ISO-8859-1", b"\xe9", "é"),
            ("text/plain;x=y; Charset=\"shift_jis\"", b"\x93\xfa\x96{", "日本"),
            ("text/plain; charset=utf-16le", b"h\0i\0", "hi"),
            ("text/plain; charset=utf-8", b"\xff\xfe", "\u{fffd}\u{fffd}"),
            ("text/plain; charset=iso-2022-kr", b"as utf-8", "as utf-8"),
            ("text/plain; charset=nonsense", b"a\xffb", "a\u{fffd}b"),
            ("text/plain", b"\xef\xbb\xbfbom", "bom"),
            ("text/plain", b"\xff\xfeh\0i\0", "hi"),
            ("", b"\xf0\x9f\x98", "\u{fffd}"),
        ] {
            assert_eq!(body(kind, bytes, None).text(), text, "{kind} {bytes:?}");
        }
    }

    // CORE-144, BUILTIN-71: what is cut ends at a character boundary
    #[test]
    fn a_cut_character_is_left_out() {
        let cut = body("text/plain", "aé€".as_bytes().split_last().unwrap().1, Some(5));
        assert_eq!(cut.text(), "aé");
        assert_eq!(body("text/plain; charset=shift_jis", b"a\x93", Some(2)).text(), "a");
    }
}
