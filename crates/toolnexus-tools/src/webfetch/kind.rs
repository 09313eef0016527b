//! What kind of body an answer has.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// What kind of body an answer has, by its content type.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// HTML, to be converted.
    Page,
    /// Text that is told as it is.
    Text,
    /// There is no content type: the body itself shows.
    Unnamed,
    /// What is no text, with its type.
    Binary(String),
}

/// Characters of a type that are told; it is a peer's word, and could be as long as its headers.
const TOLD_CHARACTERS: usize = 100;

/// Binary types beside images, sound, films and fonts; as text they would be noise.
const BINARY: [&str; 6] = ["octet-stream", "pdf", "zip", "gzip", "x-gzip", "wasm"];

pub(super) fn kind(headers: &HeaderMap) -> Kind {
    let given = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let given = given.unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((class, form)) = essence.split_once('/') else { return Kind::Unnamed };
    match (class, form) {
        ("text", "html") | ("application", "xhtml+xml") => Kind::Page,
        ("image" | "audio" | "video" | "font", _) => Kind::Binary(told(&essence)),
        ("application", form) if BINARY.contains(&form) => Kind::Binary(told(&essence)),
        _ => Kind::Text,
    }
}

fn told(essence: &str) -> String {
    essence.chars().take(TOLD_CHARACTERS).collect()
}

/// Whether a text without a type starts as HTML does: one of the tags by which browsers know it.
pub(super) fn starts_like_html(text: &str) -> bool {
    const STARTS: [&str; 17] = [
        "<!doctype html",
        "<html",
        "<head",
        "<script",
        "<iframe",
        "<h1",
        "<div",
        "<font",
        "<table",
        "<a",
        "<style",
        "<title",
        "<b",
        "<body",
        "<br",
        "<p",
        "<!--",
    ];
    let text = text.trim_start().as_bytes();
    STARTS.iter().any(|start| {
        let begins =
            text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start.as_bytes()));
        begins
            && (*start == "<!--"
                || matches!(text.get(start.len()), Some(b' ' | b'>' | b'\t' | b'\n' | b'\r')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    // BUILTIN-69, BUILTIN-71
    #[test]
    fn types_are_told_apart() {
        for (given, expected) in [
            ("text/html", Kind::Page),
            ("Text/HTML ; charset=utf-8", Kind::Page),
            ("application/xhtml+xml", Kind::Page),
            ("application/json", Kind::Text),
            ("text/plain", Kind::Text),
            ("application/xml", Kind::Text),
            ("", Kind::Unnamed),
            ("nonsense", Kind::Unnamed),
            ("IMAGE/png", Kind::Binary("image/png".into())),
            ("image/svg+xml", Kind::Binary("image/svg+xml".into())),
            ("audio/mpeg; a=b", Kind::Binary("audio/mpeg".into())),
            ("video/mp4", Kind::Binary("video/mp4".into())),
            ("application/octet-stream", Kind::Binary("application/octet-stream".into())),
            ("application/pdf", Kind::Binary("application/pdf".into())),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(given))]);
            assert_eq!(kind(&headers), expected, "{given}");
        }
        assert_eq!(kind(&HeaderMap::new()), Kind::Unnamed);
        let long = HeaderValue::try_from(format!("image/{}", "x".repeat(10_000))).unwrap();
        let expected = format!("image/{}", "x".repeat(94));
        assert_eq!(kind(&HeaderMap::from_iter([(CONTENT_TYPE, long)])), Kind::Binary(expected));
    }

    // BUILTIN-69
    #[test]
    fn html_is_known_by_its_first_tag() {
        for text in ["<!DOCTYPE HTML>", " \n<html lang=en>", "<p>a", "<!--a", "<h1 id=x>", "<body\n>"] {
            assert!(starts_like_html(text), "{text}");
        }
        for text in ["", "a <p>", "<pre>", "<?xml version=\"1.0\"?>", "{\"a\":\"<p>\"}", "<p", "<ä", "<x>"] {
            assert!(!starts_like_html(text), "{text}");
        }
    }
}
