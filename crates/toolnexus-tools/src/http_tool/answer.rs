//! What the model reads of an answer.

use serde_json::{Map, Value};
use toolnexus_core::ToolResult;

use super::ResultMode;
use crate::outbound::Body;

pub(super) fn result(answer: &Body, mode: ResultMode) -> ToolResult {
    let status = answer.status.as_u16();
    let mut text = answer.text();
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

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::CONTENT_TYPE;
    use http::{HeaderMap, HeaderValue, StatusCode};

    fn answer(kind: &'static str, body: &[u8], cut_at: Option<usize>) -> Body {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Body { status: StatusCode::OK, headers, bytes: body.to_vec().into(), cut_at }
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
