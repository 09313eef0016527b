//! Which web pages may send requests.
//!
//! A browser that has a page of somewhere else open lets it send requests to this machine. It says
//! so in `Origin`; programs that are no browsers send none.

use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN};
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS};
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use toolnexus_core::http::{Url, is_loopback};

use crate::error::ServeError;

/// The origins that may send requests.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    /// As browsers write them.
    named: Vec<String>,
    any: bool,
    bound_host: Option<String>,
}

/// What a request's origin means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It comes from no page, or from one of this machine.
    Own,
    /// From a page that the host has named: its browser is to be told so.
    Named(HeaderValue),
    /// From somewhere else.
    Foreign,
}

impl Origins {
    pub(crate) fn new(allowed: &[String], bound_host: Option<&str>) -> Result<Self, ServeError> {
        let mut named = Vec::new();
        for origin in allowed.iter().filter(|origin| *origin != "*") {
            named.push(normal(origin).ok_or_else(|| ServeError::Origin { origin: origin.clone() })?);
        }
        let bound_host = bound_host.map(str::to_ascii_lowercase);
        Ok(Origins { named, any: allowed.iter().any(|origin| origin == "*"), bound_host })
    }

    pub(crate) fn standing(&self, headers: &HeaderMap) -> Standing {
        let mut origins = headers.get_all(ORIGIN).into_iter();
        let origin = match (origins.next(), origins.next()) {
            (None, _) => return Standing::Own,
            (Some(origin), None) => origin,
            (Some(_), Some(_)) => return Standing::Foreign,
        };
        let Ok(text) = origin.to_str() else { return Standing::Foreign };
        if self.any || normal(text).is_some_and(|text| self.named.contains(&text)) {
            return Standing::Named(origin.clone());
        }
        if self.is_own(text) { Standing::Own } else { Standing::Foreign }
    }

    fn is_own(&self, origin: &str) -> bool {
        let Ok(url) = Url::parse(origin) else { return false };
        if !matches!(url.scheme(), "http" | "https") {
            return false;
        }
        let host = url.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']'));
        is_loopback(&url) || (host.is_some() && host == self.bound_host.as_deref())
    }
}

/// `scheme://host[:port]` and nothing more, in lower case, without the scheme's own port.
fn normal(origin: &str) -> Option<String> {
    let (scheme, rest) = origin.split_once("://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if scheme.is_empty() || rest.is_empty() || rest.contains(['/', '?', '#', '@', ' ']) {
        return None;
    }
    let url = Url::parse(&format!("{scheme}://{rest}")).ok()?;
    let normal = url.origin().ascii_serialization();
    // Origins of extensions and the like mean nothing to the parser, but browsers send them.
    Some(if normal == "null" { format!("{scheme}://{rest}").to_ascii_lowercase() } else { normal })
}

/// Whether a browser asks, on behalf of a page, whether that may send a request.
pub(crate) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The headers with which a page of a named origin may read an answer.
pub(crate) fn permit(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer
        .insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id, www-authenticate"));
    answer.append(VARY, HeaderValue::from_static("Origin"));
}

/// The headers of the answer to a preflight request: what `methods` a page may use.
pub(crate) fn permit_request(answer: &mut HeaderMap, asked: &HeaderMap, methods: &'static str) {
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(allowed: &[&str], bound_host: Option<&str>, origin: &str) -> Standing {
        let allowed: Vec<String> = allowed.iter().map(|origin| (*origin).to_owned()).collect();
        let headers = HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap())]);
        Origins::new(&allowed, bound_host).unwrap().standing(&headers)
    }

    // MCP-156, SERVE-63
    #[test]
    fn pages_of_this_machine_and_of_the_bound_host_are_own() {
        for own in [
            "http://localhost",
            "http://localhost:3000",
            "https://127.0.0.1:1",
            "http://127.1.2.3",
            "http://[::1]:8",
            "http://app.localhost",
        ] {
            assert_eq!(standing(&[], None, own), Standing::Own, "{own}");
        }
        for foreign in [
            "null",
            "https://evil.test",
            "http://localhost.evil.test",
            "http://127.0.0.1.evil.test",
            "file://localhost",
            "",
            "localhost",
            "http://",
            "chrome-extension://abc",
        ] {
            assert_eq!(standing(&[], None, foreign), Standing::Foreign, "{foreign}");
        }
        assert_eq!(standing(&[], Some("Box.local"), "http://box.local:9"), Standing::Own);
        assert_eq!(standing(&[], Some("192.168.0.9"), "http://192.168.0.9:9"), Standing::Own);
        assert_eq!(standing(&[], Some("fe80::1"), "http://[fe80::1]:9"), Standing::Own);
        assert_eq!(standing(&[], Some("192.168.0.9"), "http://192.168.0.8:9"), Standing::Foreign);
        let origins = Origins::new(&[], None).unwrap();
        assert_eq!(origins.standing(&HeaderMap::new()), Standing::Own);
        let mut two = HeaderMap::new();
        two.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        two.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert_eq!(origins.standing(&two), Standing::Foreign);
    }

    // MCP-156, SERVE-63
    #[test]
    fn named_origins_are_matched_whole() {
        let named = |origin: &'static str| Standing::Named(HeaderValue::from_static(origin));
        let allowed = ["https://App.example.com/", "chrome-extension://abc", "https://h:8443"];
        assert_eq!(standing(&allowed, None, "https://app.example.com"), named("https://app.example.com"));
        assert_eq!(
            standing(&allowed, None, "https://app.example.com:443"),
            named("https://app.example.com:443")
        );
        assert_eq!(standing(&allowed, None, "chrome-extension://abc"), named("chrome-extension://abc"));
        for foreign in [
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://h",
            "https://sub.app.example.com",
            "null",
        ] {
            assert_eq!(standing(&allowed, None, foreign), Standing::Foreign, "{foreign}");
        }
        assert_eq!(standing(&["*"], None, "null"), named("null"));
        for bad in ["app.example.com", "https://", "https://h/path", "null", "", "https://u@h"] {
            let error = Origins::new(&[bad.to_owned()], None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("allowed origin {bad:?} is no origin")), "{error}");
        }
    }
}
