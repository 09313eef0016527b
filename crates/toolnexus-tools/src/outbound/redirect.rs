//! Where an answer sends its reader.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode};

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
