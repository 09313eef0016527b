//! What the head of a request says about its body and about the answer it can take.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// What a request says its body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyType {
    /// It does not say.
    Unsaid,
    /// `application/json`, or `application/…+json`.
    Json,
    /// Something else.
    Other,
}

/// Reads `Content-Type`. Parameters play no part.
pub(crate) fn body_type(headers: &HeaderMap) -> BodyType {
    let mut found = BodyType::Unsaid;
    for value in headers.get_all(CONTENT_TYPE) {
        if !value.to_str().is_ok_and(|value| is_json(essence(value))) {
            return BodyType::Other;
        }
        found = BodyType::Json;
    }
    found
}

/// Whether the head of a request allows its body to be JSON: `Content-Type` is absent, or a JSON type.
/// Anything else is not to be read: a web page can send it without asking its browser.
///
/// ```
/// use http::HeaderMap;
/// use http::header::{CONTENT_TYPE, HeaderValue};
/// use toolnexus_mcp::server::is_json_or_unsaid;
/// assert!(is_json_or_unsaid(&HeaderMap::new()));
/// let form = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/plain"))]);
/// assert!(!is_json_or_unsaid(&form));
/// ```
pub fn is_json_or_unsaid(headers: &HeaderMap) -> bool {
    body_type(headers) != BodyType::Other
}

/// Whether `Accept` lists event streams by name. `*/*` does not: who says that may want JSON.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|range| essence(range).eq_ignore_ascii_case("text/event-stream") && !is_refused(range))
}

fn essence(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

fn is_json(essence: &str) -> bool {
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let suffix = subtype.get(subtype.len().saturating_sub(5)..);
    kind.eq_ignore_ascii_case("application")
        && (subtype.eq_ignore_ascii_case("json")
            || (subtype.len() > 5 && suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"))))
}

/// A weight of zero says: anything but this.
fn is_refused(range: &str) -> bool {
    range.split(';').skip(1).filter_map(|parameter| parameter.split_once('=')).any(|(name, weight)| {
        name.trim().eq_ignore_ascii_case("q")
            && weight.trim().parse::<f32>().is_ok_and(|weight| weight == 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: http::HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    // MCP-156, SERVE-62
    #[test]
    fn json_is_known_by_its_type() {
        assert_eq!(body_type(&HeaderMap::new()), BodyType::Unsaid);
        for json in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/problem+json",
            "application/json;",
        ] {
            assert_eq!(body_type(&head(CONTENT_TYPE, &[json])), BodyType::Json, "{json}");
        }
        for other in [
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "",
            "json",
            "application/+json",
            "application/jsonp",
        ] {
            assert_eq!(body_type(&head(CONTENT_TYPE, &[other])), BodyType::Other, "{other}");
        }
        assert_eq!(body_type(&head(CONTENT_TYPE, &["application/json", "text/plain"])), BodyType::Other);
        let latin = HeaderMap::from_iter([(CONTENT_TYPE, http::HeaderValue::from_bytes(b"\xff").unwrap())]);
        assert_eq!(body_type(&latin), BodyType::Other);
    }

    // MCP-188, MCP-189
    #[test]
    fn event_streams_are_asked_for_by_name() {
        let accepts = |values: &[&str]| accepts_events(&head(ACCEPT, values));
        assert!(accepts(&["application/json, text/event-stream"]));
        assert!(accepts(&["application/json", "Text/Event-Stream;q=0.5"]));
        assert!(!accepts(&[]));
        assert!(!accepts(&["*/*"]));
        assert!(!accepts(&["application/json"]));
        assert!(!accepts(&["text/event-stream;q=0, */*"]));
        assert!(!accepts(&["text/event-streams"]));
    }
}
