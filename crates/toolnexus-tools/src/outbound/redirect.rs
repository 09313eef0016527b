//! Where an answer sends its reader.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode, Uri};

use super::Outgoing;

/// The request that a redirect asks for; `None` if there is none, or none that is followed.
///
/// To another origin only what reads is followed, without the headers that were meant for the first
/// one, and never from https to http.
pub(super) fn next(request: &Outgoing, response: &reqwest::Response) -> Option<Outgoing> {
    let status = response.status();
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let moves = matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER);
    if !keeps_method && !moves {
        return None;
    }
    let location = std::str::from_utf8(response.headers().get(LOCATION)?.as_bytes()).ok()?;
    let mut url = request.url.join(location).ok()?;
    // What a server puts there would be sent as credentials.
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return None;
    }
    // What is too long for HTTP leads nowhere.
    url.as_str().parse::<Uri>().ok()?;
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    let same_origin = url.origin() == request.url.origin();
    let downgrades = request.url.scheme() == "https" && url.scheme() == "http";
    if !same_origin && (!reads || downgrades) {
        return None;
    }
    let mut headers = if same_origin { request.headers.clone() } else { HeaderMap::new() };
    let open_headers = request.open_headers.clone();
    if reads || keeps_method {
        let (method, body) = (request.method.clone(), request.body.clone());
        return Some(Outgoing { method, url, headers, open_headers, body });
    }
    headers.remove(CONTENT_TYPE);
    Some(Outgoing { method: Method::GET, url, headers, open_headers, body: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, AUTHORIZATION};
    use http::{HeaderName, HeaderValue};
    use url::Url;

    /// Where a 302 leads that came from `from` and names `location`.
    fn led(from: &str, location: &str) -> Option<Outgoing> {
        let header = |name: HeaderName| HeaderMap::from_iter([(name, HeaderValue::from_static("x"))]);
        let request = Outgoing {
            method: Method::GET,
            url: Url::parse(from).unwrap(),
            headers: header(AUTHORIZATION),
            open_headers: header(ACCEPT),
            body: None,
        };
        let response = http::Response::builder().status(302).header(LOCATION, location).body("").unwrap();
        next(&request, &response.into())
    }

    // BUILTIN-107, CORE-101: encrypted stays encrypted; another port or scheme is another origin
    #[test]
    fn https_does_not_lead_to_http() {
        for (from, location, to, keeps_headers) in [
            ("https://h/a", "http://h/b", None, false),
            ("https://h/a", "http://other/b", None, false),
            ("https://h/a", "HTTP://h/b", None, false),
            ("http://h/a", "https://h/b", Some("https://h/b"), false),
            ("https://h/a", "//other/b", Some("https://other/b"), false),
            ("https://h/a", "https://h:444/b", Some("https://h:444/b"), false),
            ("https://h/a", "https://h:443/b", Some("https://h/b"), true),
            ("https://h/a", "https://u:p@h/b", Some("https://h/b"), true),
            ("https://h/a", "b?c#d", Some("https://h/b?c#d"), true),
        ] {
            let next = led(from, location);
            assert_eq!(next.as_ref().map(|next| next.url.as_str()), to, "{from} {location}");
            if let Some(next) = next {
                assert_eq!(next.headers.contains_key(AUTHORIZATION), keeps_headers, "{from} {location}");
                assert!(next.open_headers.contains_key(ACCEPT));
            }
        }
    }
}
