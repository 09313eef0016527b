//! HTTP tools that are sent elsewhere, and hosts that may not be reached.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a panic is the report")]

mod http_server;

use std::net::IpAddr;
use std::time::Duration;

use http_server::{Request, Server, answer, ok};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::{HostPolicy, HttpToolOptions, http_tool};

fn options(url: String) -> HttpToolOptions {
    HttpToolOptions {
        name: "t".into(),
        url,
        headers: [("X-Key".to_owned(), "secret-1".to_owned())].into(),
        ..Default::default()
    }
}

async fn call(options: HttpToolOptions, args: Value) -> ToolResult {
    tokio::time::timeout(Duration::from_secs(20), http_tool(options).execute(args)).await.unwrap()
}

fn redirect(status: &str, location: &str) -> http_server::Reply {
    answer(status, &[&format!("location: {location}")], "moved")
}

fn lines(requests: &[Request]) -> Vec<&str> {
    requests.iter().map(Request::line).collect()
}

// CORE-101: within the origin, with headers; methods as the statuses say
#[tokio::test]
async fn redirects_within_the_origin_are_followed() {
    for (status, method, body) in [
        ("301 Moved Permanently", "GET", ""),
        ("302 Found", "GET", ""),
        ("303 See Other", "GET", ""),
        ("307 Temporary Redirect", "POST", r#"{"a":1}"#),
        ("308 Permanent Redirect", "POST", r#"{"a":1}"#),
    ] {
        let server = Server::start(move |request| match request.target() {
            "/a/b" => redirect(status, "../c?x=1"),
            _ => ok("there"),
        })
        .await;
        let posted = HttpToolOptions { method: "POST".into(), ..options(server.url("/a/b")) };
        assert_eq!(call(posted, json!({"a": 1})).await.output, "there");
        let requests = server.requests();
        assert_eq!(lines(&requests), ["POST /a/b".to_owned(), format!("{method} /c?x=1")]);
        assert_eq!((requests[1].body.as_str(), requests[1].header("x-key")), (body, Some("secret-1")));
        assert_eq!(requests[1].header("content-type").is_some(), !body.is_empty());
    }
}

// CORE-101, case 76: elsewhere only what reads, and without the declared headers
#[tokio::test]
async fn redirects_to_another_origin_lose_the_headers() {
    let other = Server::start(|_| ok("elsewhere")).await;
    let location = other.url("/there");
    let server = Server::start(move |_| redirect("307 Temporary Redirect", &location)).await;

    assert_eq!(call(options(server.url("/")), json!({})).await.output, "elsewhere");
    assert_eq!((other.only().line(), other.only().header("x-key")), ("GET /there", None));

    let posted = HttpToolOptions { method: "POST".into(), ..options(server.url("/")) };
    let result = call(posted, json!({"a": 1})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("HTTP 307: moved", true));
    assert_eq!(Value::Object(result.metadata.unwrap()), json!({"status": 307}));
    assert_eq!(other.requests().len(), 1);
}

// CORE-101: ten at most; what leads nowhere is the result
#[tokio::test]
async fn a_redirect_that_is_not_followed_is_the_result() {
    let server = Server::start(|_| redirect("302 Found", "/again")).await;
    assert_eq!(call(options(server.url("/")), json!({})).await.output, "HTTP 302: moved");
    assert_eq!(server.requests().len(), 11);

    for headers in [
        &[][..],
        &["location: http://[nonsense"],
        &["location: ftp://elsewhere/"],
        &["location: data:text/plain,x"],
    ] {
        let headers: Vec<&'static str> = headers.to_vec();
        let server = Server::start(move |_| answer("302 Found", &headers, "moved")).await;
        assert_eq!(call(options(server.url("/")), json!({})).await.output, "HTTP 302: moved");
        assert_eq!(server.requests().len(), 1);
    }
    // A status that is no redirect is none with a location either.
    let server = Server::start(|_| answer("300 Multiple Choices", &["location: /x"], "choose")).await;
    assert_eq!(call(options(server.url("/")), json!({})).await.output, "HTTP 300: choose");
}

// CORE-101: a server cannot make credentials of its own
#[tokio::test]
async fn credentials_in_a_location_are_not_sent() {
    let server = Server::start(|request| match request.target() {
        "/" => redirect("302 Found", &format!("http://user:pass@{}/in", request.header("host").unwrap())),
        _ => ok("in"),
    })
    .await;
    assert_eq!(call(options(server.url("/")), json!({})).await.output, "in");
    assert_eq!(server.requests()[1].header("authorization"), None);
}

fn policy(allow: &[&str], deny: &[&str]) -> HostPolicy {
    let owned = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    HostPolicy { allow: owned(allow), deny: owned(deny) }
}

fn denied(host: &str) -> (String, Value) {
    (format!("address not allowed: {host}"), json!({"error": "denied"}))
}

async fn tried(url: String, hosts: HostPolicy) -> (String, Value) {
    let result = call(HttpToolOptions { hosts, ..options(url) }, json!({})).await;
    (result.output, Value::Object(result.metadata.unwrap_or_default()))
}

// CORE-145, case 78: refused before anything is sent, by name and by address
#[tokio::test]
async fn hosts_that_may_not_be_reached_are_not() {
    let server = Server::start(|_| ok("reached")).await;
    let url = |host: &str| format!("http://{host}:{}/", server.port());
    assert_eq!(
        tried("http://169.254.169.254/".into(), policy(&[], &["link-local"])).await,
        denied("169.254.169.254")
    );
    for host in
        ["127.0.0.1", "localhost", "LOCALHOST", "0x7f.1", "2130706433", "017700000001", "127.1", "0.0.0.0"]
    {
        let shown = url::Url::parse(&url(host)).unwrap().host_str().unwrap().to_owned();
        assert_eq!(tried(url(host), policy(&[], &["loopback"])).await, denied(&shown), "{host}");
    }
    for host in
        ["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[::]", "[::127.0.0.1]"]
    {
        let outcome = tried(url(host), policy(&[], &["loopback"])).await;
        assert!(outcome.0.starts_with("address not allowed: ["), "{host}: {outcome:?}");
    }
    // A name is checked with what it resolves to.
    assert_eq!(tried(url("localhost"), policy(&[], &["127.0.0.0/8", "::1"])).await, denied("localhost"));
    assert_eq!(tried(url("localhost"), policy(&["example.com"], &[])).await, denied("localhost"));
    assert_eq!(tried(url("127.0.0.1"), policy(&["loopback"], &["127.0.0.1"])).await, denied("127.0.0.1"));
    assert!(server.requests().is_empty());

    assert_eq!(tried(url("localhost"), policy(&["localhost"], &[])).await.0, "reached");
    assert_eq!(tried(url("localhost"), policy(&["127.0.0.0/8", "::1/128"], &[])).await.0, "reached");
    assert_eq!(tried(url("127.0.0.1"), policy(&["loopback"], &["private"])).await.0, "reached");
}

// CORE-145: again on every redirect, connections kept from before or not
#[tokio::test]
async fn a_redirect_cannot_lead_to_a_denied_host() {
    let target = Server::start(|_| ok("reached")).await;
    let location = format!("http://localhost:{}/", target.port());
    let server = Server::start(move |_| redirect("302 Found", &location)).await;
    let hosts = policy(&[], &["localhost"]);
    assert_eq!(tried(server.url("/"), hosts).await, denied("localhost"));
    assert!(target.requests().is_empty());
    // Without that policy the same host is reached, and the next call is refused again.
    assert_eq!(tried(server.url("/"), HostPolicy::default()).await.0, "reached");
    assert_eq!(tried(server.url("/"), policy(&[], &["localhost"])).await, denied("localhost"));
    assert_eq!(target.requests().len(), 1);
}

// CORE-145: through a proxy only the name is checked, and this machine is reached without it
#[tokio::test]
async fn a_proxy_resolves_names_itself() {
    let proxy = Server::start(|_| ok("by proxy")).await;
    let here = Server::start(|_| ok("directly")).await;
    // Proxies are read from the environment, which is the process's: so in one of its own.
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_process_with_a_proxy", "--ignored"])
        .env("http_proxy", proxy.url(""))
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .env("TOOLNEXUS_TEST_HERE", here.url("/"))
        .output()
        .await
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(lines(&proxy.requests()), ["GET http://service.example/x"]);
    assert_eq!(lines(&here.requests()), ["GET /"]);
}

#[tokio::test]
#[ignore = "run by `a_proxy_resolves_names_itself`"]
async fn in_a_process_with_a_proxy() {
    let named = "http://service.example/x";
    assert_eq!(tried(named.into(), policy(&[], &["loopback", "private"])).await.0, "by proxy");
    assert_eq!(tried(named.into(), policy(&[], &["*.example"])).await, denied("service.example"));
    assert_eq!(tried(named.into(), policy(&["10.0.0.0/8"], &[])).await, denied("service.example"));
    assert_eq!(tried("http://10.1.2.3/".into(), policy(&[], &["private"])).await, denied("10.1.2.3"));
    assert_eq!(
        tried(std::env::var("TOOLNEXUS_TEST_HERE").unwrap(), HostPolicy::default()).await.0,
        "directly"
    );
}

fn permits(allow: &[&str], deny: &[&str], name: &str, addresses: &[&str]) -> bool {
    let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    policy(allow, deny).compile().unwrap().permits(name, &addresses)
}

// CORE-145
#[test]
fn names_match_as_names_do() {
    let public = &["93.184.216.34"];
    for name in ["example.com", "EXAMPLE.com", "example.com."] {
        assert!(!permits(&[], &["Example.COM"], name, public), "{name}");
        assert!(permits(&[], &["*.example.com"], name, public), "{name}");
    }
    assert!(!permits(&[], &["*.example.com"], "a.b.example.com", public));
    assert!(permits(&[], &["*.example.com"], "badexample.com", public));
    assert!(!permits(&[], &["bücher.example"], "xn--bcher-kva.example", public));
    assert!(!permits(&[], &["xn--bcher-kva.example"], "BÜCHER.example", public));
    // Any address refuses, every address must be allowed.
    assert!(!permits(&[], &["private"], "mixed.example", &["93.184.216.34", "10.0.0.1"]));
    assert!(!permits(&["93.184.0.0/16"], &[], "mixed.example", &["93.184.216.34", "10.0.0.1"]));
    assert!(permits(&["93.184.0.0/16"], &[], "example.com", public));
    assert!(!permits(&["93.184.0.0/16"], &[], "example.com", &[]));
    assert!(permits(&["example.com"], &[], "example.com", &["10.0.0.1"]));
    assert!(!permits(&["example.com"], &["private"], "example.com", &["10.0.0.1"]));
}

// CORE-145: what the words stand for
#[test]
fn words_stand_for_networks() {
    for (word, inside, outside) in [
        (
            "loopback",
            &["127.0.0.1", "127.255.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"][..],
            &["128.0.0.1", "::2"][..],
        ),
        (
            "private",
            &[
                "10.1.2.3",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.0.1",
                "100.64.0.1",
                "100.127.255.255",
                "fc00::1",
                "fdff::1",
                "fec0::1",
                "64:ff9b::a01:203",
                "2002:a01:203::",
                "::ffff:0:a01:203",
                "64:ff9b:1:a01:2:300::",
            ],
            &["172.32.0.1", "100.128.0.1", "100.63.255.255", "192.169.0.1", "fe00::1", "2001:db8::1"],
        ),
        (
            "link-local",
            &["169.254.169.254", "fe80::1", "febf::1", "::ffff:169.254.0.1"],
            &["169.253.0.1", "fec0::1"],
        ),
    ] {
        for address in inside {
            assert!(!permits(&[], &[word], "h", &[address]), "{word} {address}");
        }
        for address in outside {
            assert!(permits(&[], &[word], "h", &[address]), "{word} {address}");
        }
    }
}

// CORE-145: a block of IPv6 holds the mapped addresses in it
#[test]
fn wide_blocks_hold_mapped_addresses() {
    for block in ["::/0", "::/64", "::ffff:0:0/90", "::ffff:0:0/96", "0.0.0.0/0"] {
        assert!(!permits(&[], &[block], "h", &["::ffff:1.2.3.4"]), "{block}");
    }
    assert!(permits(&[], &["2001:db8::/32"], "h", &["::ffff:1.2.3.4", "2001:db9::1"]));
    assert!(!permits(&[], &["2001:db8::/32"], "h", &["2001:db8:ffff::1"]));
    assert!(permits(&["1.2.3.0/24"], &[], "h", &["::ffff:1.2.3.4"]));
}

// CORE-145, CORE-146: patterns that are none
#[test]
fn patterns_that_cannot_be_read_are_named() {
    for pattern in [
        "",
        "a b",
        "https://example.com",
        "example.com/24",
        "10.0.0.0/33",
        "*",
        "*.",
        "a.*.b",
        "user@host",
        "host:80",
        "%65",
        "[::1",
        "::ffff:0:0/200",
    ] {
        let error = policy(&[], &[pattern]).compile().unwrap_err();
        assert_eq!(error.pattern, pattern);
        assert!(
            error.to_string().starts_with(&format!("invalid host pattern \"{pattern}\": use ")),
            "{error}"
        );
    }
    for pattern in
        ["[::1]", "::1", "10.1", "10.0.0.1/8", "::ffff:10.0.0.0/104", "under_score.example", "LoopBack"]
    {
        assert!(policy(&[pattern], &[]).compile().is_ok(), "{pattern}");
    }
}

proptest! {
    // CORE-145: an address of a denied block gets through in no spelling
    #[test]
    fn no_spelling_gets_through(host in any::<u32>(), prefix in 1_u8..=32, other in any::<u32>()) {
        let block = ipnet::Ipv4Net::new(host.into(), prefix).unwrap().trunc();
        // An address in the block: its network part, the other's host part.
        let mask = u32::from(block.netmask());
        let address = std::net::Ipv4Addr::from((host & mask) | (other & !mask));
        let compiled = policy(&[], &[&block.to_string()]).compile().unwrap();
        let number = u32::from(address);
        let [a, b, c, d] = address.octets();
        let mapped = address.to_ipv6_mapped();
        for spelling in [
            address.to_string(), number.to_string(), format!("0x{number:x}"), format!("0{number:o}"),
            format!("{a}.{b}.{}", u32::from(c) * 256 + u32::from(d)), format!("0x{a:x}.0{b:o}.{c}.{d}"),
            format!("[{mapped}]"), format!("[64:ff9b::{:x}:{:x}]", number >> 16, number & 0xffff),
            format!("[2002:{:x}:{:x}::1]", number >> 16, number & 0xffff), format!("{address}."),
        ] {
            let url = url::Url::parse(&format!("http://{spelling}/")).unwrap();
            prop_assert!(!compiled.permits_name(url.host_str().unwrap()), "{spelling}");
            prop_assert!(!compiled.permits_name(&spelling), "{spelling}");
        }
        prop_assert!(!compiled.permits("h", &[address.into()]) && !compiled.permits("h", &[mapped.into()]));
    }

    #[test]
    fn any_pattern_and_name_is_read_or_refused(pattern in any::<String>(), name in any::<String>()) {
        if let Ok(compiled) = policy(&[], &[&pattern]).compile() {
            let _ = compiled.permits_name(&name);
        }
    }
}
