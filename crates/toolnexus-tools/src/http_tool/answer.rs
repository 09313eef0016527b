//! What the model reads of an answer.

use encoding_rs::{Encoding, UTF_8};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use toolnexus_core::ToolResult;

use super::ResultMode;
use super::exchange::Answer;

pub(super) fn result(answer: &Answer, mode: ResultMode) -> ToolResult {
    let status = answer.status.as_u16();
    let mut text = text(answer);
    if let (ResultMode::Json, None, true) = (mode, answer.cut_at, answer.status.is_success())
        && let Ok(mut json) = serde_json::from_str::<Value>(&text)
    {
        json.sort_all_objects();
        text = json.to_string();
    }
    let mut metadata = Map::from_iter([("status".to_owned(), status.into())]);
    if let Some(limit) = answer.cut_at {
        text.push_str(&format!("\n[response cut at {limit} bytes]"));
        metadata.insert("truncated".to_owned(), true.into());
    }
    let result = if !answer.status.is_success() {
        ToolResult::failure(format!("HTTP {status}: {text}"))
    } else if mode == ResultMode::StatusText {
        ToolResult::success(format!("{status}\n{text}"))
    } else {
        ToolResult::success(text)
    };
    result.with_metadata(metadata)
}

/// The body as text: by the charset of its type, else by its byte order mark, else as UTF-8. What is
/// no text is replaced; a byte order mark, and a character that was cut in two, are left out.
fn text(answer: &Answer) -> String {
    let mut decoder = match charset(&answer.headers) {
        Some(declared) => declared.new_decoder_with_bom_removal(),
        None => UTF_8.new_decoder(),
    };
    let capacity = decoder.max_utf8_buffer_length(answer.body.len()).unwrap_or(0);
    let mut text = String::with_capacity(capacity);
    let whole = answer.cut_at.is_none();
    let (_, _, _) = decoder.decode_to_string(&answer.body, &mut text, whole);
    text
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
    use http::{HeaderValue, StatusCode};

    fn answer(kind: &'static str, body: &[u8], cut_at: Option<usize>) -> Answer {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Answer { status: StatusCode::OK, headers, body: body.to_vec().into(), cut_at }
    }

    // CORE-101
    #[test]
    fn text_is_decoded_by_its_charset() {
        for (kind, body, text) in [
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
            assert_eq!(self::text(&answer(kind, body, None)), text, "{kind} {body:?}");
        }
    }

    // CORE-144: what is cut ends at a character boundary
    #[test]
    fn a_cut_character_is_left_out() {
        let cut = answer("text/plain", "aé€".as_bytes().split_last().unwrap().1, Some(5));
        let result = result(&cut, ResultMode::Text);
        assert_eq!(result.output, "aé\n[response cut at 5 bytes]");
        let metadata = result.metadata.unwrap();
        assert_eq!((&metadata["status"], &metadata["truncated"]), (&200.into(), &true.into()));
        let cut = answer("text/plain; charset=shift_jis", b"a\x93", Some(2));
        assert_eq!(self::result(&cut, ResultMode::Json).output, "a\n[response cut at 2 bytes]");
    }

    // CORE-97, case 56
    #[test]
    fn json_is_compact_and_sorted_and_the_rest_is_text() {
        let json = |body: &str| result(&answer("", body.as_bytes(), None), ResultMode::Json).output;
        assert_eq!(
            json(r#"{"b":1, "a":{"d":[ {"z":1,"y":2} ],"c":null}}"#),
            r#"{"a":{"c":null,"d":[{"y":2,"z":1}]},"b":1}"#
        );
        assert_eq!(json("plain"), "plain");
        assert_eq!(json(""), "");
        assert_eq!(json(" \"text\" "), "\"text\"");
        let deep = "[".repeat(5000);
        assert_eq!(json(&deep), deep);
        // Half of a document is text, even where it reads as one.
        let cut = answer("", b"12", Some(2));
        assert_eq!(result(&cut, ResultMode::Json).output, "12\n[response cut at 2 bytes]");
    }
}
