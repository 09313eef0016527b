//! Which hosts and web pages are served: what keeps a page from reaching its visitor's own server by
//! rebinding a name.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use toolnexus_core::http::{Url, is_loopback};

use super::options::McpHandlerOptions;

/// Why a request is refused, if it is.
pub(super) fn foreign(head: &Parts, options: &McpHandlerOptions) -> Option<&'static str> {
    if !options.allowed_hosts.is_empty() && !host(head).is_some_and(|host| is_allowed_host(&host, options)) {
        return Some("Host is not allowed");
    }
    let mut origins = head.headers.get_all(ORIGIN).into_iter();
    let all = origins.all(|origin| origin.to_str().is_ok_and(|origin| is_allowed_origin(origin, options)));
    (!all).then_some("Origin is not allowed")
}

/// The host that a request is for, if it names exactly one.
fn host(head: &Parts) -> Option<String> {
    let mut named = head.headers.get_all(HOST).into_iter();
    match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().ok().map(str::to_owned),
        // HTTP/2 has it in the request line.
        (None, _) => head.uri.authority().map(|authority| authority.as_str().to_owned()),
        (Some(_), Some(_)) => None,
    }
}

fn is_allowed_host(host: &str, options: &McpHandlerOptions) -> bool {
    options.allowed_hosts.iter().any(|allowed| {
        let bare = without_port(allowed) == allowed.as_str();
        let host = if bare { without_port(host) } else { host };
        host.eq_ignore_ascii_case(allowed)
    })
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => {
            // A bare IPv6 address has colons of its own; one with a port is in brackets.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

fn is_allowed_origin(origin: &str, options: &McpHandlerOptions) -> bool {
    let listed = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(origin);
    if options.allowed_origins.iter().any(listed) {
        return true;
    }
    let Some(url) = Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https")) else {
        return false;
    };
    // A page of a host whose name was checked is that host's own.
    let own = || origin.split_once("://").is_some_and(|(_, host)| is_allowed_host(host, options));
    is_loopback(&url) || own()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &McpHandlerOptions, headers: &[(&str, &str)]) -> bool {
        let mut request = http::Request::post("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        foreign(&request.body(()).unwrap().into_parts().0, options).is_some()
    }

    fn hosts(hosts: &[&str]) -> McpHandlerOptions {
        let allowed_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        McpHandlerOptions { allowed_hosts, ..Default::default() }
    }

    #[test]
    fn pages_of_this_machine_and_no_others_are_served() {
        let options = McpHandlerOptions::default();
        for origin in
            ["http://localhost:6274", "http://127.0.0.1", "https://[::1]:8443", "http://app.localhost"]
        {
            assert!(!refused(&options, &[("origin", origin)]), "{origin}");
        }
        for origin in [
            "http://evil.test",
            "null",
            "",
            "file://",
            "http://localhost.evil.test",
            "localhost",
            "http://10.0.0.1",
        ] {
            assert!(refused(&options, &[("origin", origin)]), "{origin}");
        }
        // Same origin for the browser that was lied to about the name.
        assert!(refused(&options, &[("host", "evil.test"), ("origin", "http://evil.test")]));
        assert!(!refused(&options, &[("host", "api.example.com")]));
        assert!(refused(&options, &[("origin", "http://localhost"), ("origin", "http://evil.test")]));
    }

    #[test]
    fn more_origins_are_served_when_they_are_listed() {
        let origins =
            |origin: &str| McpHandlerOptions { allowed_origins: vec![origin.into()], ..Default::default() };
        let app = origins("https://app.example.com");
        assert!(!refused(&app, &[("origin", "https://APP.example.com")]));
        assert!(refused(&app, &[("origin", "http://app.example.com")]));
        assert!(refused(&app, &[("origin", "https://app.example.com:8443")]));
        assert!(!refused(&origins("*"), &[("origin", "null")]));
    }

    #[test]
    fn only_listed_hosts_are_served() {
        let options = hosts(&["api.example.com", "localhost:8080", "[::1]"]);
        for host in ["api.example.com", "API.example.com:443", "localhost:8080", "[::1]:9", "[::1]"] {
            assert!(!refused(&options, &[("host", host)]), "{host}");
        }
        for host in ["evil.test", "localhost", "localhost:81", "api.example.com.evil.test", "::1", ""] {
            assert!(refused(&options, &[("host", host)]), "{host}");
        }
        assert!(refused(&options, &[]));
        assert!(refused(&options, &[("host", "localhost:8080"), ("host", "evil.test")]));
        // Its own pages.
        assert!(!refused(&options, &[("host", "api.example.com"), ("origin", "https://api.example.com")]));
        assert!(refused(&options, &[("host", "api.example.com"), ("origin", "https://evil.test")]));
        let http2 = http::Request::post("https://api.example.com/mcp").body(()).unwrap().into_parts().0;
        assert_eq!(foreign(&http2, &options), None);
    }
}
