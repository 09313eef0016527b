//! HTTP tools against a server: what is sent, and what is made of the answer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a panic is the report")]

mod http_server;

use std::time::Duration;

use http_server::{Reply, Server, answer, ok};
use serde_json::{Value, json};
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_tools::{HttpBody, HttpToolOptions, ResultMode, http_tool};

fn options(url: String) -> HttpToolOptions {
    HttpToolOptions { name: "t".into(), url, ..Default::default() }
}

fn headers(given: &[(&str, &str)]) -> indexmap::IndexMap<String, String> {
    given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn call(options: HttpToolOptions, args: Value) -> ToolResult {
    // A hang must fail the test, not stop the suite.
    tokio::time::timeout(Duration::from_secs(20), http_tool(options).execute(args)).await.unwrap()
}

fn metadata(result: &ToolResult) -> Value {
    Value::Object(result.metadata.clone().unwrap_or_default())
}

// CORE-88
#[test]
fn a_declaration_becomes_a_tool() {
    let tool = http_tool(options("http://h/".into()));
    assert_eq!((tool.name.as_str(), tool.source.as_str()), ("t", "http"));
    assert_eq!(tool.input_schema, json!({"type": "object"}));
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let tool =
        http_tool(HttpToolOptions { input_schema: Some(schema.clone()), ..options("http://h/".into()) });
    assert_eq!(tool.input_schema, schema);

    for (body, name) in [(HttpBody::Json, "json"), (HttpBody::Form, "form"), (HttpBody::Raw, "raw")] {
        assert_eq!((name.parse(), body.as_str(), json!(body)), (Ok(body), name, json!(name)));
    }
    for (mode, name) in
        [(ResultMode::Text, "text"), (ResultMode::Json, "json"), (ResultMode::StatusText, "status+text")]
    {
        assert_eq!((name.parse(), mode.as_str(), json!(mode)), (Ok(mode), name, json!(name)));
    }
    let error = "xml".parse::<HttpBody>().unwrap_err().to_string();
    assert_eq!(error, "unknown body \"xml\": use json, form or raw");
}

// CORE-92, CORE-94, CORE-97, case 49
#[tokio::test]
async fn get_puts_arguments_into_the_query() {
    let server = Server::start(|_| ok("found")).await;
    let result = call(options(server.url("/search")), json!({"q": "http tool"})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("found", false));
    assert_eq!(metadata(&result), json!({"status": 200}));
    assert_eq!(server.only().line(), "GET /search?q=http%20tool");
    assert_eq!((server.only().header("content-type"), server.only().body.as_str()), (None, ""));
}

// CORE-89, CORE-95, CORE-96, case 50
#[tokio::test]
async fn post_fills_the_url_and_sends_the_rest() {
    let path = std::env::var("PATH").unwrap();
    let server = Server::start(|_| ok("")).await;
    let result = call(
        HttpToolOptions {
            method: "post".into(),
            headers: headers(&[("Authorization", "Bearer ${PATH}${TOOLNEXUS_UNSET} $PATH ${}")]),
            ..options(server.url("/issues/{issue}/comments"))
        },
        json!({"issue": "42", "text": "looks good"}),
    )
    .await;
    assert!(!result.is_error, "{result:?}");
    let request = server.only();
    assert_eq!(request.line(), "POST /issues/42/comments");
    assert_eq!(request.body, r#"{"text":"looks good"}"#);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("authorization").unwrap(), format!("Bearer {path} $PATH ${{}}"));
}

// CORE-94, CORE-95, CORE-97, cases 51 and 53
#[tokio::test]
async fn named_arguments_go_into_the_query_of_any_method() {
    let server = Server::start(|_| ok(r#"{"id":9,"state":"queued"}"#)).await;
    let jobs = HttpToolOptions {
        method: "POST".into(),
        query: vec!["priority".into()],
        result_mode: ResultMode::StatusText,
        ..options(server.url("/jobs"))
    };
    let result = call(jobs, json!({"priority": "high", "kind": "reindex"})).await;
    assert_eq!(result.output, "200\n{\"id\":9,\"state\":\"queued\"}");
    let request = server.only();
    assert_eq!(
        (request.line(), request.body.as_str()),
        ("POST /jobs?priority=high", r#"{"kind":"reindex"}"#)
    );

    let tickets = HttpToolOptions {
        method: "POST".into(),
        query: vec!["notify".into()],
        ..options(server.url("/projects/{project}/tickets"))
    };
    let args = json!({"project": "acme", "notify": true, "title": "Login fails", "body": "Since 09:00."});
    call(tickets, args).await;
    let request = &server.requests()[1];
    assert_eq!(request.target(), "/projects/acme/tickets?notify=true");
    assert_eq!(request.body, r#"{"body":"Since 09:00.","title":"Login fails"}"#);
}

// CORE-90, CORE-91, CORE-143, cases 54 and 75
#[tokio::test]
async fn values_that_do_not_fit_their_place_send_nothing() {
    let server = Server::start(|_| ok("")).await;
    call(options(server.url("/users/{id}")), json!({})).await;
    assert_eq!(server.only().target(), "/users/%7Bid%7D");
    let result = call(options(server.url("/users/{id}")), json!({"id": ".."})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("invalid value for placeholder \"id\"", true));
    let by_host = options(format!("http://{{h}}.localhost:{}/x", server.port()));
    for host in ["evil.com", "a@b"] {
        let result = call(by_host.clone(), json!({ "h": host })).await;
        assert_eq!(result.output, "invalid value for placeholder \"h\"");
    }
    assert_eq!(server.requests().len(), 1);
}

// CORE-97, case 56
#[tokio::test]
async fn json_answers_are_compact_and_sorted() {
    for (body, output) in [(r#"{"b":1, "a":2}"#, r#"{"a":2,"b":1}"#), ("plain", "plain")] {
        let server = Server::start(move |_| ok(body)).await;
        let options = HttpToolOptions { result_mode: ResultMode::Json, ..options(server.url("/")) };
        assert_eq!(call(options, json!({})).await.output, output);
    }
}

// CORE-98, case 52
#[tokio::test]
async fn an_error_status_is_a_failure_in_every_mode() {
    let server = Server::start(|_| answer("404 Not Found", &[], r#"{"error":"no such record"}"#)).await;
    for result_mode in [ResultMode::Text, ResultMode::Json, ResultMode::StatusText] {
        let result = call(HttpToolOptions { result_mode, ..options(server.url("/")) }, json!({})).await;
        assert_eq!(result.output, r#"HTTP 404: {"error":"no such record"}"#);
        assert_eq!((result.is_error, metadata(&result)), (true, json!({"status": 404})));
    }
}

// CORE-97, CORE-101: answers without a body, and heads that come before the answer
#[tokio::test]
async fn answers_may_have_no_body() {
    let server = Server::start(|request| match request.target() {
        "/early" => Reply::Bytes(
            b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
                .to_vec(),
        ),
        _ if request.line().starts_with("HEAD") => {
            Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n".to_vec())
        }
        _ => Reply::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
    })
    .await;
    let result = call(options(server.url("/")), json!({})).await;
    assert_eq!((result.output.as_str(), metadata(&result)), ("", json!({"status": 204})));
    let head = HttpToolOptions { method: "head".into(), ..options(server.url("/")) };
    let result = call(head, json!({"a": 1})).await;
    assert_eq!((result.output.as_str(), metadata(&result)), ("", json!({"status": 200})));
    assert_eq!(server.requests()[1].line(), "HEAD /?a=1");
    assert_eq!(call(options(server.url("/early")), json!({})).await.output, "ok");
}

fn gzip(body: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

// CORE-144, case 77: limits hold for what is decompressed
#[tokio::test]
async fn long_answers_are_cut() {
    let server = Server::start(|request| match request.target() {
        "/long" => ok("x".repeat(2 * 1024 * 1024)),
        "/exact" => ok("x".repeat(1024 * 1024)),
        "/bomb" => answer("200 OK", &["content-encoding: gzip"], gzip(&vec![b'x'; 50 * 1024 * 1024])),
        "/gzip" => answer("200 OK", &["content-encoding: gzip"], gzip("grüße".as_bytes())),
        "/missing" => answer("404 Not Found", &[], "é".repeat(10)),
        _ => Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 64 * 1024]),
    })
    .await;
    let cut = "x".repeat(1024 * 1024) + "\n[response cut at 1048576 bytes]";
    for path in ["/long", "/bomb", "/endless"] {
        let result = call(options(server.url(path)), json!({})).await;
        assert!(result.output == cut, "{path}: {}", result.output.len());
        assert_eq!(metadata(&result), json!({"status": 200, "truncated": true}));
    }
    // The server is told that nobody reads on.
    server.gone().await;
    let result = call(options(server.url("/exact")), json!({})).await;
    assert_eq!((result.output.len(), metadata(&result)), (1024 * 1024, json!({"status": 200})));
    assert_eq!(call(options(server.url("/gzip")), json!({})).await.output, "grüße");
    let small = HttpToolOptions { max_response_bytes: 5, ..options(server.url("/missing")) };
    assert_eq!(call(small, json!({})).await.output, "HTTP 404: éé\n[response cut at 5 bytes]");
}

const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

// CORE-99: nothing that breaks is an error of the program, and nothing half is a success
#[tokio::test]
async fn what_breaks_is_named() {
    let server = Server::start(|request| match request.target() {
        "/nothing" => Reply::Cut(Vec::new()),
        "/garbage" => Reply::Cut(b"SSH-2.0-OpenSSH_9\r\n".to_vec()),
        "/half" => Reply::Cut(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
        _ => answer("200 OK", &["content-encoding: gzip"], "no gzip"),
    })
    .await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    for (url, kind) in [
        (server.url("/nothing"), "transport"),
        (server.url("/garbage"), "transport"),
        (closed, "connect-failed"),
        // A label that is too long: no resolver needs to ask anybody.
        (format!("http://{}.invalid/?key=secret-1", "a".repeat(64)), "dns"),
    ] {
        // A proxy would resolve the name itself.
        if kind == "dns" && PROXY_VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
            continue;
        }
        let result = call(options(url), json!({})).await;
        assert_eq!(result.output, format!("HTTP transport failure: {kind}"));
        assert_eq!((result.is_error, metadata(&result)), (true, json!({ "error": kind })));
    }
    // A status that did come is not lost with its body.
    for path in ["/half", "/odd"] {
        let result = call(options(server.url(path)), json!({})).await;
        assert_eq!(result.output, "HTTP transport failure: transport");
        assert_eq!(
            (result.is_error, metadata(&result)),
            (true, json!({"error": "transport", "status": 200}))
        );
    }
}

// CORE-100, case 55: the call's limit comes before the tool's, and covers the body
#[tokio::test]
async fn a_slow_server_times_out() {
    let server = Server::start(|request| match request.target() {
        "/head" => Reply::Hang(Vec::new()),
        "/body" => Reply::Hang(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
        _ => ok("in time"),
    })
    .await;
    for path in ["/head", "/body"] {
        let result = call(HttpToolOptions { timeout_ms: 50, ..options(server.url(path)) }, json!({})).await;
        assert_eq!(result.output, "HTTP transport failure: timeout");
        assert_eq!(metadata(&result), json!({"error": "timeout"}));
        let tool = http_tool(options(server.url(path)));
        let context = ToolContext { timeout_ms: Some(50), ..Default::default() };
        let result = tool.execute_with(json!({}), context).await;
        assert_eq!(result.output, "HTTP transport failure: timeout");
    }
    let tool = http_tool(HttpToolOptions { timeout_ms: 1, ..options(server.url("/")) });
    let context = ToolContext { timeout_ms: Some(20_000), ..Default::default() };
    assert_eq!(tool.execute_with(json!({}), context).await.output, "in time");
}

// CORE-100: a cancelled call ends its connection
#[tokio::test]
async fn a_cancelled_call_ends_at_once() {
    let server = Server::start(|_| Reply::Hang(Vec::new())).await;
    let tool = http_tool(options(server.url("/")));
    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(tool.execute_with(json!({}), context), async {
        server.came().await;
        cancel.cancel();
    });
    assert_eq!(result.output, "HTTP transport failure: cancelled");
    assert_eq!(metadata(&result), json!({"error": "cancelled"}));
    server.gone().await;

    // So does one whose future is dropped.
    let call = tokio::spawn(async move { tool.execute(json!({})).await });
    server.came().await;
    call.abort();
    server.gone().await;
}

// CORE-96, CORE-146: a bad declaration shows at the call, and no value with it; case 79
#[tokio::test]
async fn a_bad_declaration_is_a_failure_of_the_call() {
    for (url, hosts, output) in [
        ("nonsense", vec![], "invalid URL for tool \"t\""),
        ("ftp://h/", vec![], "invalid URL for tool \"t\""),
        ("http://h/", vec!["a b".to_owned()], "invalid host pattern \"a b\" for tool \"t\""),
    ] {
        let hosts = toolnexus_tools::HostPolicy { deny: hosts, ..Default::default() };
        let result = call(HttpToolOptions { hosts, ..options(url.into()) }, json!({})).await;
        assert_eq!((result.output.as_str(), result.is_error), (output, true));
    }
    let server = Server::start(|_| ok("")).await;
    let declared = HttpToolOptions { headers: headers(&[("X", "a\nsecret-1")]), ..options(server.url("/")) };
    let result = call(declared, json!({})).await;
    assert_eq!(result.output, "invalid header \"X\" for tool \"t\"");
    assert!(server.requests().is_empty());

    let shown = format!(
        "{:?}",
        HttpToolOptions {
            headers: headers(&[("Authorization", "secret-1")]),
            ..options("https://user-1:secret-1@h/{a}?key=secret-1".into())
        }
    );
    assert!(shown.contains("Authorization") && shown.contains("https://h/{a}"), "{shown}");
    assert!(!shown.contains("secret-1") && !shown.contains("user-1"), "{shown}");
}

// D17: a key that is the same in every attempt of a call
#[tokio::test]
async fn an_idempotency_key_is_sent_where_it_is_wanted() {
    let server = Server::start(|_| ok("")).await;
    let declared =
        HttpToolOptions { idempotency_header: Some("Idempotency-Key".into()), ..options(server.url("/")) };
    let tool = http_tool(declared);
    let context = ToolContext { idempotency_key: Some("run/1/0".into()), ..Default::default() };
    tool.execute_with(json!({}), context).await;
    tool.execute(json!({})).await;
    let sent: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(sent, [Some("run/1/0".to_owned()), None]);
}

// CORE-88, CORE-96: user and password of the URL are sent as the header that they mean
#[tokio::test]
async fn credentials_of_the_url_are_sent_and_never_shown() {
    let server = Server::start(|_| ok("")).await;
    let url = server.url("/").replace("http://", "http://us%20er:p%40ss@");
    call(options(url.clone()), json!({})).await;
    let sent = server.requests()[0].header("authorization").map(str::to_owned);
    // "us er:p@ss"
    assert_eq!(sent.as_deref(), Some("Basic dXMgZXI6cEBzcw=="));
    let declared = HttpToolOptions { headers: headers(&[("authorization", "Bearer x")]), ..options(url) };
    assert_eq!(declared.url_for(&serde_json::Map::new()).unwrap().as_str(), server.url("/"));
    call(declared, json!({})).await;
    assert_eq!(server.requests()[1].header("authorization"), Some("Bearer x"));
}

// CORE-88: connections are kept, and calls run side by side
#[tokio::test]
async fn calls_share_connections_and_run_side_by_side() {
    let server = Server::start(|request| match request.target() {
        "/slow" => Reply::Hang(Vec::new()),
        _ => ok("quick"),
    })
    .await;
    let tool = http_tool(options(server.url("/{p}")));
    let slow = tokio::spawn({
        let tool = tool.clone();
        async move { tool.execute(json!({"p": "slow"})).await }
    });
    server.came().await;
    for _ in 0..3 {
        assert_eq!(tool.execute(json!({"p": "x"})).await.output, "quick");
    }
    slow.abort();
    server.gone().await;
    assert_eq!(server.connections(), 2);
}

// CORE-144: every encoding that is asked for is undone
#[tokio::test]
async fn compressed_answers_are_read() {
    let deflated = {
        use std::io::Write as _;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all("grüße".as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    // The one meta-block of brotli that holds "hello" uncompressed.
    let brotli = b"\x0b\x02\x80hello\x03".to_vec();
    let server = Server::start(move |request| match request.target() {
        "/deflate" => answer("200 OK", &["content-encoding: deflate"], &deflated),
        _ => answer("200 OK", &["content-encoding: br"], &brotli),
    })
    .await;
    assert_eq!(call(options(server.url("/deflate")), json!({})).await.output, "grüße");
    assert_eq!(call(options(server.url("/br")), json!({})).await.output, "hello");
    let accepted = server.requests()[0].header("accept-encoding").unwrap().to_owned();
    assert!(["gzip", "br", "deflate"].iter().all(|known| accepted.contains(known)), "{accepted}");
}

// CORE-88, CORE-95: a request, whole
#[tokio::test]
async fn a_request_reads_like_this() {
    let server = Server::start(|_| ok("")).await;
    let declared = HttpToolOptions {
        method: "PATCH".into(),
        headers: headers(&[("X-Team", "red")]),
        query: vec!["dry".into()],
        body: HttpBody::Form,
        ..options(server.url("/a b/{id}?v=1#top"))
    };
    call(declared, json!({"id": 7, "dry": true, "b": "x&y", "a": null})).await;
    let request = server.only();
    let head = request.head.replace(&server.port().to_string(), "PORT");
    insta::assert_snapshot!(format!("{}\n\n{}", head.replace('\r', ""), request.body));
}
