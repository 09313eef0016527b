//! `webfetch` that is sent elsewhere, and hosts that it may not reach.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
mod http_server;

use std::time::Duration;

use common::{facts, tool};
use http_server::{Reply, Request, Server, answer, ok};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::{BuiltinsConfig, HostPolicy, select_builtins};

async fn fetch_within(web: HostPolicy, url: String) -> ToolResult {
    let webfetch = tool(&BuiltinsConfig { web, ..Default::default() }, "webfetch");
    // A hang must fail the test, not stop the suite.
    tokio::time::timeout(Duration::from_secs(60), webfetch.execute(json!({ "url": url }))).await.unwrap()
}

async fn fetch(url: String) -> ToolResult {
    fetch_within(HostPolicy::default(), url).await
}

fn redirect(status: &str, location: &str) -> Reply {
    answer(status, &[&format!("location: {location}")], "moved")
}

fn lines(requests: &[Request]) -> Vec<&str> {
    requests.iter().map(Request::line).collect()
}

// BUILTIN-67, BUILTIN-107: redirects are followed, and where they led is told
#[tokio::test]
async fn redirects_are_followed() {
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let server = Server::start(move |request| match request.target() {
            "/a/b" => redirect(status, "../c?x=1#part"),
            _ => ok("there"),
        })
        .await;
        let result = fetch(server.url("/a/b")).await;
        assert_eq!((result.output.as_str(), result.is_error), ("there", false));
        let there = server.url("/c?x=1#part");
        assert_eq!(facts(&result), json!({"status": 200, "format": "markdown", "finalUrl": there}));
        assert_eq!(lines(&server.requests()), ["GET /a/b", "GET /c?x=1"]);
    }
    // An error at the end of the way has an address too; without a redirect there is none.
    let server = Server::start(|request| match request.target() {
        "/" => redirect("302 Found", "/gone"),
        _ => answer("410 Gone", &[], "x"),
    })
    .await;
    let result = fetch(server.url("/")).await;
    assert_eq!((result.output.as_str(), result.is_error), ("HTTP 410", true));
    assert_eq!(facts(&result), json!({"status": 410, "finalUrl": server.url("/gone")}));
    assert_eq!(facts(&fetch(server.url("/gone")).await), json!({"status": 410}));
}

// BUILTIN-67: ten redirects, not eleven
#[tokio::test]
async fn redirects_end() {
    let server = Server::start(|request| {
        let at: usize = request.target().trim_start_matches('/').parse().unwrap();
        if at == 0 { ok("there") } else { redirect("302 Found", &format!("/{}", at - 1)) }
    })
    .await;
    let result = fetch(server.url("/10")).await;
    assert_eq!((result.output.as_str(), server.requests().len()), ("there", 11));
    let result = fetch(server.url("/11")).await;
    assert_eq!((result.output.as_str(), result.is_error), ("HTTP 302", true));
    assert_eq!(facts(&result), json!({"status": 302, "finalUrl": server.url("/1")}));
    assert_eq!(server.requests().len(), 22);

    let server = Server::start(|_| redirect("301 Moved Permanently", "/")).await;
    assert_eq!(fetch(server.url("/")).await.output, "HTTP 301");
    assert_eq!(server.requests().len(), 11);
}

// BUILTIN-67, BUILTIN-71: what leads nowhere, or to another scheme, is the result
#[tokio::test]
async fn a_redirect_that_is_not_followed_is_the_result() {
    let endless: &str = Box::leak(format!("location: /{}", "x".repeat(70_000)).into_boxed_str());
    for headers in [
        &[][..],
        &["location: http://[nonsense"],
        &[endless],
        &["location: ftp://elsewhere/"],
        &["location: file:///etc/passwd"],
        &["location: data:text/plain,x"],
        &["location: javascript:x"],
    ] {
        let headers: Vec<&'static str> = headers.to_vec();
        let server = Server::start(move |_| answer("302 Found", &headers, "moved")).await;
        let result = fetch(server.url("/")).await;
        assert_eq!((result.output.as_str(), facts(&result)), ("HTTP 302", json!({"status": 302})));
        assert_eq!(server.requests().len(), 1);
    }
}

// BUILTIN-107: user and password are sent to their origin only, and shown nowhere
#[tokio::test]
async fn user_and_password_stay_with_their_origin() {
    let other = Server::start(|_| ok("elsewhere")).await;
    let elsewhere = format!("http://mallory:planted@127.0.0.1:{}/in", other.port());
    let server = Server::start(move |request| match request.target() {
        "/" => redirect("302 Found", "/same"),
        "/same" => redirect("302 Found", &elsewhere),
        "/refused" => answer("401 Unauthorized", &["www-authenticate: Basic"], "no"),
        _ => ok("in"),
    })
    .await;
    let url = |path: &str| format!("http://user-1:secret%2D1@127.0.0.1:{}{path}", server.port());
    let result = fetch(url("/")).await;
    assert_eq!(result.output, "elsewhere");
    // user-1:secret-1
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some("Basic dXNlci0xOnNlY3JldC0x"));
    }
    assert_eq!((other.only().header("authorization"), other.only().line()), (None, "GET /in"));
    assert!(other.only().header("accept").unwrap().starts_with("text/"));
    assert_eq!(facts(&result)["finalUrl"], json!(other.url("/in")));
    for result in [result, fetch(url("/x")).await, fetch(url("/refused")).await] {
        let shown = format!("{result:?}");
        for secret in ["user-1", "secret", "mallory", "planted", "dXNlci0x"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

fn policy(allow: &[&str], deny: &[&str]) -> HostPolicy {
    let owned = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    HostPolicy { allow: owned(allow), deny: owned(deny) }
}

fn assert_denied(result: &ToolResult, host: &str) {
    assert_eq!(
        (result.output.clone(), result.is_error),
        (format!("webfetch: address not allowed: {host}"), true)
    );
    assert_eq!(facts(result), json!({"error": "denied"}));
}

// BUILTIN-108, case 87: refused before anything is sent, at first and after a redirect
#[tokio::test]
async fn denied_hosts_are_not_reached() {
    let target = Server::start(|_| ok("reached")).await;
    let no_loopback = || policy(&[], &["loopback"]);
    for host in ["127.0.0.1", "localhost", "2130706433", "[::1]", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{}/", target.port());
        let shown = url::Url::parse(&url).unwrap().host_str().unwrap().to_owned();
        assert_denied(&fetch_within(no_loopback(), url).await, &shown);
    }
    // A host that may be reached cannot lead to one that may not. This one is known by its name only:
    // both are this machine.
    let location = format!("http://localhost:{}/", target.port());
    let server = Server::start(move |_| redirect("302 Found", &location)).await;
    assert_denied(&fetch_within(policy(&[], &["localhost"]), server.url("/")).await, "localhost");
    assert_denied(&fetch_within(policy(&["127.0.0.1"], &["localhost"]), server.url("/")).await, "localhost");
    assert_eq!(server.requests().len(), 2);
    assert!(target.requests().is_empty());
    // Without a policy everything is reached, and a refusal is not forgotten for it.
    assert_eq!(fetch(server.url("/")).await.output, "reached");
    assert_denied(&fetch_within(policy(&[], &["localhost"]), server.url("/")).await, "localhost");
    assert_eq!(target.requests().len(), 1);
}

// BUILTIN-108: names are tested with what they resolve to; `deny` beats `allow`
#[tokio::test]
async fn addresses_count_as_names_do() {
    let server = Server::start(|_| ok("reached")).await;
    let url = || format!("http://localhost:{}/", server.port());
    for (allow, deny, reached) in [
        (&["localhost"][..], &[][..], true),
        (&["127.0.0.0/8", "::1"], &[], true),
        (&["LOCALHOST"], &["private"], true),
        (&["localhost"], &["127.0.0.0/8", "::1"], false),
        (&["localhost"], &["localhost"], false),
        (&["10.0.0.0/8"], &[], false),
        (&["*.localhost", "example.com"], &[], false),
    ] {
        let result = fetch_within(policy(allow, deny), url()).await;
        if reached {
            assert_eq!(result.output, "reached", "{allow:?} {deny:?}");
        } else {
            assert_denied(&result, "localhost");
        }
    }
    assert_eq!(server.requests().len(), 3);
}

// BUILTIN-108, case 88: here by way of a proxy, which is all that this machine has of the internet
#[tokio::test]
async fn only_allowed_names_are_reached() {
    let only_docs = || policy(&["*.example.com"], &[]);
    // Whatever it resolved to, it would not be allowed: so nobody is asked.
    for url in ["https://example.com/", "http://example.com/", "https://docs.example.com.evil.example/"] {
        let host = url::Url::parse(url).unwrap().host_str().unwrap().to_owned();
        assert_denied(&fetch_within(only_docs(), url.into()).await, &host);
    }
    let proxy = Server::start(|request| match request.target() {
        // What a public page can do.
        "http://www.example.com/" => redirect("302 Found", "http://127.0.0.1/"),
        _ => ok("by proxy"),
    })
    .await;
    // Proxies are read from the environment, which is the process's: so in one of its own.
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_process_with_a_proxy", "--ignored"])
        .env("http_proxy", proxy.url(""))
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .await
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(lines(&proxy.requests()), ["GET http://docs.example.com/", "GET http://www.example.com/"]);
}

#[tokio::test]
#[ignore = "run by `only_allowed_names_are_reached`"]
async fn in_a_process_with_a_proxy() {
    let only_docs = policy(&["*.example.com"], &[]);
    assert_eq!(fetch_within(only_docs.clone(), "http://docs.example.com/".into()).await.output, "by proxy");
    assert_denied(&fetch_within(only_docs, "http://example.com/".into()).await, "example.com");
    // Case 87: a public URL that redirects to this machine.
    let no_loopback = policy(&[], &["loopback"]);
    assert_denied(&fetch_within(no_loopback, "http://www.example.com/".into()).await, "127.0.0.1");
}

// BUILTIN-108: an entry that cannot be read is an error of the configuration, and opens nothing
#[tokio::test]
async fn a_policy_that_cannot_be_read_does_not_fail_open() {
    let web = policy(&[], &["10.0.0.0/99"]);
    let config = BuiltinsConfig { web: web.clone(), ..Default::default() };
    let error = select_builtins(Some(&config)).unwrap_err().to_string();
    assert!(error.starts_with("builtins.web: invalid host pattern \"10.0.0.0/99\": "), "{error}");
    let error = BuiltinsConfig::from_value(&json!({"web": {"allow": ["a b"]}})).unwrap_err().to_string();
    assert!(error.starts_with("builtins.web: invalid host pattern \"a b\": "), "{error}");
    let section = json!({"web": {"allow": ["*.example.com"], "deny": ["private"]}});
    let read = BuiltinsConfig::from_value(&section).unwrap().unwrap().web;
    assert_eq!(read, policy(&["*.example.com"], &["private"]));

    // Tools that were built without asking refuse each call.
    let server = Server::start(|_| ok("reached")).await;
    let result = fetch_within(web, server.url("/")).await;
    assert!(
        result.is_error && result.output.starts_with("webfetch: builtins.web: invalid host pattern"),
        "{result:?}"
    );
    assert!(server.requests().is_empty());
    assert_eq!(result.metadata.map(Value::Object), None);
}
