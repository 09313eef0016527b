//! `webfetch` against a server: what is sent, and what is made of the answer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
mod http_server;

use std::io::Write as _;
use std::time::Duration;

use common::{facts, limited, tool};
use futures::StreamExt as _;
use http_server::{Reply, Server, answer, ok};
use serde_json::{Value, json};
use toolnexus_core::{Tool, ToolContext, ToolHints, ToolReport, ToolResult, report_channel};
use toolnexus_tools::{BuiltinLimits, BuiltinsConfig};

fn webfetch() -> Tool {
    tool(&BuiltinsConfig::default(), "webfetch")
}

fn limited_to(web_bytes: u64) -> Tool {
    let limits = BuiltinLimits { web_bytes, ..Default::default() };
    tool(&BuiltinsConfig { limits, ..Default::default() }, "webfetch")
}

async fn call(tool: &Tool, arguments: Value) -> ToolResult {
    call_with(tool, arguments, ToolContext::default()).await
}

async fn call_with(tool: &Tool, arguments: Value, context: ToolContext) -> ToolResult {
    // A hang must fail the test, not stop the suite.
    tokio::time::timeout(Duration::from_secs(60), tool.execute_with(arguments, context)).await.unwrap()
}

async fn fetch(url: String) -> ToolResult {
    call(&webfetch(), json!({ "url": url })).await
}

fn typed(kind: &str, body: impl AsRef<[u8]>) -> Reply {
    answer("200 OK", &[&format!("content-type: {kind}")], body)
}

// BUILTIN-67, case 37: an error status is told alone, whatever the body and the format
#[tokio::test]
async fn an_error_status_is_the_result() {
    for (line, status) in [
        ("500 Internal Server Error", 500),
        ("404 Not Found", 404),
        ("304 Not Modified", 304),
        ("300 Multiple Choices", 300),
    ] {
        let server = Server::start(move |_| answer(line, &["content-type: image/png"], "boom")).await;
        for format in ["markdown", "text", "html"] {
            let result = call(&webfetch(), json!({"url": server.url("/"), "format": format})).await;
            assert_eq!((result.output, result.is_error), (format!("HTTP {status}"), true));
            assert_eq!(Value::Object(result.metadata.unwrap()), json!({"status": status}));
        }
    }
}

// BUILTIN-67, BUILTIN-69, case 38: one GET; plain text is told as it is
#[tokio::test]
async fn plain_text_is_fetched() {
    let server = Server::start(|_| typed("text/plain", "fetched-body-content")).await;
    let result = call(&webfetch(), json!({"url": server.url("/a?b=c#d"), "format": "text"})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("fetched-body-content", false));
    assert_eq!(facts(&result), json!({"status": 200, "format": "text"}));
    assert_eq!((server.only().line(), server.only().body.as_str()), ("GET /a?b=c", ""));
}

// BUILTIN-107: who asks, and for what; no cookies
#[tokio::test]
async fn requests_say_who_asks_and_for_text() {
    let server = Server::start(|request| match request.target() {
        "/" => answer("302 Found", &["location: /next", "set-cookie: session=1"], ""),
        _ => answer("200 OK", &["set-cookie: session=2"], "x"),
    })
    .await;
    let webfetch = webfetch();
    for _ in 0..2 {
        assert_eq!(call(&webfetch, json!({"url": server.url("/")})).await.output, "x");
    }
    assert_eq!(server.requests().len(), 4);
    for request in server.requests() {
        assert_eq!(request.header("user-agent").unwrap(), format!("toolnexus/{}", env!("CARGO_PKG_VERSION")));
        let accept = request.header("accept").unwrap();
        assert!(accept.starts_with("text/") && accept.ends_with("*/*;q=0.1"), "{accept}");
        for absent in ["cookie", "authorization", "referer", "content-type"] {
            assert_eq!(request.header(absent), None, "{absent}");
        }
    }
}

const PAGE: &str = "<!doctype html><h1>T</h1><p>a <b>b</b> &amp; <a href=/x>c</a></p><script>no</script>  \n";

// BUILTIN-67, BUILTIN-68: the formats, and one that is none
#[tokio::test]
async fn a_page_comes_in_the_format_asked_for() {
    let server = Server::start(|_| typed("text/html; charset=utf-8", PAGE)).await;
    let link = server.url("/x");
    let as_markdown = format!("# T\n\na **b** & [c]({link})");
    for (format, output, used) in [
        (json!(null), as_markdown.as_str(), "markdown"),
        (json!("markdown"), as_markdown.as_str(), "markdown"),
        (json!("pdf"), as_markdown.as_str(), "markdown"),
        (json!(7), as_markdown.as_str(), "markdown"),
        (json!(["html"]), as_markdown.as_str(), "markdown"),
        (json!("text"), "T\n\na b & c", "text"),
        (json!("html"), PAGE, "html"),
    ] {
        let result = call(&webfetch(), json!({"url": server.url("/"), "format": format})).await;
        assert_eq!((result.output.as_str(), result.is_error), (output, false), "{format}");
        assert_eq!(facts(&result), json!({"status": 200, "format": used}));
    }
}

// BUILTIN-69: which bodies are converted
#[tokio::test]
async fn only_pages_are_converted() {
    let json = " {\"a\": \"<p>x</p>\"} \n\n\n\n";
    for (kind, body, converted) in [
        ("content-type: text/html", "<p>x</p>", true),
        ("content-type: TEXT/HTML;charset=utf-8", "x</p>", true),
        ("content-type: application/xhtml+xml", "<p>x</p>", true),
        ("x: y", "<!DOCTYPE html><p>x</p>", true),
        ("x: y", " \n<html><body>x", true),
        ("content-type: nonsense", "<p>x</p>", true),
        ("x: y", "x <p>y</p>", false),
        ("x: y", json, false),
        ("content-type: application/json", json, false),
        ("content-type: text/plain", "<!doctype html><p>x</p>  \n", false),
        ("content-type: text/markdown", "# x  \n\n\n\n", false),
        ("content-type: application/xml", "<p>x</p>", false),
    ] {
        let server = Server::start(move |_| answer("200 OK", &[kind], body)).await;
        for format in ["markdown", "text"] {
            let result = call(&webfetch(), json!({"url": server.url("/"), "format": format})).await;
            let expected = if converted { "x" } else { body };
            assert_eq!((result.output.as_str(), result.is_error), (expected, false), "{kind} {body}");
        }
    }
}

// BUILTIN-69: the charset of the header, else UTF-8 with replacement
#[tokio::test]
async fn text_is_decoded() {
    for (kind, body, text) in [
        ("text/plain; charset=ISO-8859-1", &b"caf\xe9"[..], "café"),
        ("text/html; charset=windows-1252", b"<p>\x80 caf\xe9", "€ café"),
        ("text/plain; charset=shift_jis", b"\x93\xfa\x96{", "日本"),
        ("text/plain", b"caf\xc3\xa9 \xff", "café \u{fffd}"),
        ("text/plain; charset=nonsense", b"caf\xc3\xa9", "café"),
        ("text/html", b"\xef\xbb\xbf<p>bom", "bom"),
        ("text/html", b"\xff\xfe<\0p\0>\0h\0i\0", "hi"),
        // What a page says of itself does not count.
        ("text/html", b"<meta charset=latin1><p>caf\xc3\xa9", "café"),
    ] {
        let server = Server::start(move |_| typed(kind, body)).await;
        assert_eq!(fetch(server.url("/")).await.output, text, "{kind}");
    }
}

// BUILTIN-71: what is no text is not read
#[tokio::test]
async fn what_is_no_text_is_refused() {
    for (kind, shown) in [
        ("image/png", "image/png"),
        ("Image/SVG+XML; charset=utf-8", "image/svg+xml"),
        ("audio/mpeg", "audio/mpeg"),
        ("video/mp4", "video/mp4"),
        ("application/octet-stream", "application/octet-stream"),
        ("application/pdf", "application/pdf"),
    ] {
        // It is not waited for either.
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 10\r\n\r\n");
        let server = Server::start(move |_| Reply::Hang(head.clone().into_bytes())).await;
        for format in ["markdown", "html"] {
            let result = call(&webfetch(), json!({"url": server.url("/"), "format": format})).await;
            assert_eq!(
                (result.output, result.is_error),
                (format!("webfetch: unsupported content type {shown}"), true)
            );
            server.gone().await;
        }
    }
}

// BUILTIN-71, BUILTIN-12, BUILTIN-13, BUILTIN-15: addresses that are none
#[tokio::test]
async fn bad_addresses_are_named_without_secrets() {
    let webfetch = webfetch();
    for (url, said) in [
        (json!(null), "url is required".to_owned()),
        (json!(""), "url is required".to_owned()),
        (json!({"href": "http://h/"}), "url is required".to_owned()),
        (json!("ftp://h/x"), "unsupported URL scheme: ftp".to_owned()),
        (json!("FILE:///etc/passwd"), "unsupported URL scheme: file".to_owned()),
        (json!("data:text/plain,secret-1"), "unsupported URL scheme: data".to_owned()),
        (json!("javascript:secret-1"), "unsupported URL scheme: javascript".to_owned()),
        (json!("mailto:a@example.com"), "unsupported URL scheme: mailto".to_owned()),
        (json!("tel:117"), "unsupported URL scheme: tel".to_owned()),
        (json!("example.com/x?key=secret-1"), invalid("example.com/x")),
        (json!("localhost:8080"), invalid("localhost:8080")),
        (json!("example.com:443/x?key=secret-1"), invalid("example.com:443/x")),
        (json!("/etc/passwd"), invalid("/etc/passwd")),
        (json!("http://user-1:secret-1@[bad/x?key=secret-1"), invalid("http://[bad/x")),
        (json!("http://"), invalid("http://")),
        (json!("http://h:99999/"), invalid("http://h:99999/")),
        (json!(7), invalid("7")),
        (json!("é".repeat(5000)), invalid(&"é".repeat(200))),
    ] {
        let result = call(&webfetch, json!({ "url": url })).await;
        assert_eq!((result.output, result.is_error), (format!("webfetch: {said}"), true));
        assert_eq!(result.metadata, None);
    }
    assert_eq!(call(&webfetch, Value::Null).await.output, "webfetch: url is required");
}

fn invalid(shown: &str) -> String {
    format!("invalid URL \"{shown}\": give an absolute http or https URL")
}

// BUILTIN-70: what goes wrong on the way is told, with no part of the address but the host
#[tokio::test]
async fn failures_of_the_transport_are_told() {
    let server = Server::start(|request| match request.target() {
        "/nothing?key=secret-1" => Reply::Cut(Vec::new()),
        "/garbage?key=secret-1" => Reply::Cut(b"SSH-2.0-OpenSSH_9\r\n".to_vec()),
        "/half?key=secret-1" => Reply::Cut(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
        _ => answer("200 OK", &["content-encoding: gzip"], "no gzip"),
    })
    .await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let here = format!("127.0.0.1:{}", server.port());
    let broke = format!("the connection to {here} broke before an answer came");
    // More than HTTP can say, as nobody is asked.
    let endless = format!("/{}", "x".repeat(70_000));
    let unread = "the body of the answer (status 200) could not be read to its end".to_owned();
    for (to, path, said) in [
        (here.clone(), "/nothing", broke.clone()),
        (here.clone(), "/garbage", broke),
        (here.clone(), "/half", unread.clone()),
        (here.clone(), "/no-gzip", unread),
        (here.clone(), endless.as_str(), "the URL cannot be sent: uri too long".to_owned()),
        (closed.to_string(), "/", format!("could not connect to {closed}: ")),
        // A label that is too long: no resolver needs to ask anybody.
        (
            format!("{}.invalid", "a".repeat(64)),
            "/",
            format!("the name {}.invalid could not be resolved", "a".repeat(64)),
        ),
    ] {
        // A proxy would resolve the name itself.
        if to.ends_with("invalid") && PROXY_VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            continue;
        }
        let result = fetch(format!("http://user-1:secret-1@{to}{path}?key=secret-1")).await;
        assert!(
            result.is_error && result.output.starts_with(&format!("webfetch: {said}")),
            "{path}: {}",
            result.output
        );
        let shown = format!("{result:?}");
        assert!(!shown.contains("secret-1") && !shown.contains("user-1"), "{shown}");
    }
}

const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

// BUILTIN-70: the deadline covers head and body, in seconds with fractions; BUILTIN-102: the host's bounds it
#[tokio::test]
async fn slow_servers_time_out() {
    let server = Server::start(|request| match request.target() {
        "/head" => Reply::Hang(Vec::new()),
        "/loris" => Reply::Hang(b"HTTP/1.1 200 OK\r\nx-slow".to_vec()),
        "/error-body" => Reply::Hang(b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nhalf".to_vec()),
        "/redirect-body" => {
            Reply::Hang(b"HTTP/1.1 302 Found\r\nlocation: /quick\r\ncontent-length: 9\r\n\r\n".to_vec())
        }
        "/quick" => ok("quick"),
        _ => Reply::Hang(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
    })
    .await;
    let webfetch = webfetch();
    for path in ["/head", "/loris", "/body"] {
        for (timeout, host, said) in [
            (json!(0.05), None, "0.05"),
            (json!("0.05"), None, "0.05"),
            (json!(null), Some(50), "0.05"),
            (json!(20), Some(60), "0.06"),
            (json!(0.05), Some(20_000), "0.05"),
            (json!(true), Some(0), "0"),
        ] {
            let context = host.map(limited).unwrap_or_default();
            let result =
                call_with(&webfetch, json!({"url": server.url(path), "timeout": timeout}), context).await;
            let expected = format!("webfetch: timed out after {said}s");
            assert_eq!((result.output, result.is_error, result.metadata), (expected, true, None), "{path}");
        }
    }
    // Bodies that nobody needs are not waited for.
    assert_eq!(fetch(server.url("/error-body")).await.output, "HTTP 500");
    assert_eq!(fetch(server.url("/redirect-body")).await.output, "quick");
}

// BUILTIN-14, BUILTIN-70: limits that are none, and ones that no clock can hold
#[tokio::test]
async fn a_timeout_is_a_time() {
    let server = Server::start(|_| ok("in time")).await;
    let webfetch = webfetch();
    let fetch = |timeout: Value| call(&webfetch, json!({"url": server.url("/"), "timeout": timeout}));
    for timeout in [json!(0), json!(-1), json!(-0.5), json!("0"), json!("NaN"), json!("inf")] {
        let result = fetch(timeout.clone()).await;
        assert_eq!(
            (result.output.as_str(), result.is_error),
            ("webfetch: timeout must be greater than 0", true),
            "{timeout}"
        );
    }
    assert!(server.requests().is_empty());
    for timeout in
        [json!(30), json!(1e300), json!("60.5"), json!("soon"), json!([1]), json!(false), json!(null)]
    {
        assert_eq!(fetch(timeout.clone()).await.output, "in time", "{timeout}");
    }
}

// BUILTIN-70, BUILTIN-19: cancelling ends the call and its connection, before the head and in the body
#[tokio::test]
async fn a_cancelled_call_ends_at_once() {
    let server = Server::start(|request| match request.target() {
        "/head" => Reply::Hang(Vec::new()),
        _ => Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 1024]),
    })
    .await;
    let webfetch = limited_to(0);
    for path in ["/head", "/body"] {
        let context = ToolContext::default();
        let cancel = context.cancel.clone();
        let arguments = json!({"url": server.url(path)});
        let (result, ()) = tokio::join!(call_with(&webfetch, arguments, context), async {
            server.came().await;
            cancel.cancel();
        });
        assert_eq!((result.output.as_str(), result.is_error), ("webfetch: cancelled", true));
        server.gone().await;
    }
    // One that was cancelled before sends nothing.
    let context = ToolContext::default();
    context.cancel.cancel();
    let result = call_with(&webfetch, json!({"url": server.url("/head")}), context).await;
    assert_eq!((result.output.as_str(), server.requests().len()), ("webfetch: cancelled", 2));

    // So does dropping the future.
    let url = server.url("/head");
    let running = tokio::spawn(async move { fetch(url).await });
    server.came().await;
    running.abort();
    server.gone().await;
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

// BUILTIN-71, BUILTIN-99: `web_bytes` counts what is decompressed, and what it cuts is said
#[tokio::test]
async fn long_bodies_are_cut() {
    let server = Server::start(|request| match request.target() {
        "/long" => ok("x".repeat(20_000)),
        "/exact" => ok("x".repeat(10_000)),
        "/bomb" => answer("200 OK", &["content-encoding: gzip"], gzip(&vec![b'x'; 20 * 1024 * 1024])),
        "/wide" => ok("x".to_owned() + &"é".repeat(10_000)),
        "/page" => typed("text/html", "<p>".to_owned() + &"x".repeat(9_996) + "é</p><p>more"),
        "/error" => answer("500 No", &[], "x".repeat(20_000)),
        _ => Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 4096]),
    })
    .await;
    let webfetch = limited_to(10_000);
    for format in ["markdown", "text", "html"] {
        let fetch = |path: &str| call(&webfetch, json!({"url": server.url(path), "format": format}));
        for path in ["/long", "/bomb", "/endless"] {
            let result = fetch(path).await;
            assert!(result.output == "x".repeat(10_000), "{path} {format}: {}", result.output.len());
            assert_eq!(facts(&result), json!({"status": 200, "format": format, "truncated": true}));
        }
        let result = fetch("/exact").await;
        assert_eq!((result.output.len(), facts(&result)), (10_000, json!({"status": 200, "format": format})));
        // At a character, not within one.
        let result = fetch("/wide").await;
        assert_eq!((result.output.len(), result.output.ends_with('é')), (9_999, true));
        assert_eq!(facts(&result)["truncated"], json!(true));
        assert_eq!(facts(&fetch("/error").await), json!({"status": 500}));
    }
    // A page is cut before it is converted: here in the midst of its last character.
    let result = call(&webfetch, json!({"url": server.url("/page")})).await;
    assert!(result.output == "x".repeat(9_996), "{}", result.output.len());
    assert_eq!(facts(&result)["truncated"], json!(true));

    // By default 5 MiB are read; 0 is no limit.
    let server = Server::start(|_| ok(vec![b'x'; 5 * 1024 * 1024 + 1])).await;
    for (web_bytes, length, cut) in
        [(BuiltinLimits::default().web_bytes, 5 * 1024 * 1024, true), (0, 5 * 1024 * 1024 + 1, false)]
    {
        let result = call(&limited_to(web_bytes), json!({"url": server.url("/")})).await;
        assert_eq!(result.output.len(), length);
        assert_eq!(facts(&result).get("truncated").is_some(), cut);
    }
}

// BUILTIN-103: progress is what came of what was announced
#[tokio::test]
async fn progress_is_reported() {
    for (head, total) in [("content-length: 10\r\n", Some(10.0)), ("", None)] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\nhalf").into_bytes();
        let server = Server::start(move |_| Reply::Hang(bytes.clone())).await;
        let (reporter, mut reports) = report_channel();
        let context = ToolContext { reporter, ..Default::default() };
        let cancel = context.cancel.clone();
        let webfetch = webfetch();
        let call = call_with(&webfetch, json!({"url": server.url("/")}), context);
        let (result, report) = tokio::join!(call, async {
            let report = reports.next().await;
            cancel.cancel();
            report
        });
        assert_eq!(report, Some(ToolReport::Progress { progress: 4.0, total, message: None }));
        assert_eq!(result.output, "webfetch: cancelled");
    }
    // With a listener or without, the result is the same; the last report is the whole.
    let server = Server::start(|_| typed("text/html", PAGE)).await;
    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let heard = call_with(&webfetch(), json!({"url": server.url("/")}), context).await;
    assert_eq!(heard, fetch(server.url("/")).await);
    let length = PAGE.len() as f64;
    let whole = ToolReport::Progress { progress: length, total: Some(length), message: None };
    assert_eq!(reports.take_waiting().last(), Some(&whole));
}

// BUILTIN-17, BUILTIN-13: its hints, and arguments nobody knows
#[tokio::test]
async fn it_reads_what_others_offer() {
    let hints = ToolHints { read_only: true, open_world: true, ..Default::default() };
    assert_eq!(webfetch().hints, Some(hints));
    let server = Server::start(|_| ok("x")).await;
    let result =
        call(&webfetch(), json!({"url": server.url("/"), "method": "POST", "headers": {"A": "b"}})).await;
    assert_eq!((result.output.as_str(), server.only().line()), ("x", "GET /"));
    assert_eq!(server.only().header("a"), None);
}

// BUILTIN-69: a 204 and an empty page are empty, not failures
#[tokio::test]
async fn bodies_may_be_empty() {
    let server = Server::start(|request| match request.target() {
        "/none" => Reply::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        _ => typed("text/html", ""),
    })
    .await;
    for (path, status) in [("/none", 204), ("/empty", 200)] {
        let result = fetch(server.url(path)).await;
        assert_eq!((result.output.as_str(), result.is_error), ("", false));
        assert_eq!(facts(&result), json!({"status": status, "format": "markdown"}));
    }
}

// BUILTIN-19, BUILTIN-70: a call does not wait for its conversion when it is cancelled or its time is over
#[test]
fn converting_holds_up_no_call() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    // The only thread for such work is busy.
    let busy = runtime.spawn_blocking(move || held.recv());
    runtime.block_on(async {
        let server = Server::start(|_| typed("text/html", PAGE)).await;
        let webfetch = webfetch();
        let late = call(&webfetch, json!({"url": server.url("/"), "timeout": 0.2})).await;
        assert_eq!(late.output, "webfetch: timed out after 0.2s");

        let (reporter, mut reports) = report_channel();
        let context = ToolContext { reporter, ..Default::default() };
        let cancel = context.cancel.clone();
        let running = call_with(&webfetch, json!({"url": server.url("/")}), context);
        let (cancelled, ()) = tokio::join!(running, async {
            // The body is there.
            while !matches!(reports.next().await, Some(ToolReport::Progress { progress, .. }) if progress == PAGE.len() as f64) {}
            cancel.cancel();
        });
        assert_eq!(cancelled.output, "webfetch: cancelled");
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert!(!fetch(server.url("/")).await.is_error);
    });
}

// BUILTIN-68: a hostile page cannot bring down the process
#[tokio::test]
async fn a_hostile_page_is_a_page() {
    let server = Server::start(|_| typed("text/html", "<div>".repeat(100_000) + "<ul><li>end")).await;
    for format in ["markdown", "text"] {
        let result = call(&webfetch(), json!({"url": server.url("/"), "format": format})).await;
        assert!(!result.is_error && result.output.ends_with("end"), "{}", result.output);
    }
}
