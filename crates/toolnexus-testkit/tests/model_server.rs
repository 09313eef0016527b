//! What the model server records, which reply it gives, and that it leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod model_client;

use model_client::{Client, post, within};
use serde_json::json;
use toolnexus_testkit::model::{Gate, ModelServer, RefusedPort, Reply, Script, free_port_url};

fn ok() -> Script {
    Script::always(Reply::status(200).body("ok"))
}

#[tokio::test]
async fn a_request_is_kept_byte_for_byte() {
    let server = ModelServer::start(ok()).await.unwrap();
    let body = "{ \"b\":1,\"a\" : [\"\u{e9}\"] }";
    let head = format!(
        "PUT /v1/x%20y?after_id=a&b HTTP/1.1\r\nHoSt: here\r\nX-Twice: one\r\nauthorization:Bearer k \r\n\
         X-TWICE:  two\r\ncontent-LENGTH: {}\r\n\r\n",
        body.len()
    );
    let mut client = Client::connect(&server).await;
    client.send(format!("{head}{body}")).await;
    assert_eq!(client.response().await.text(), "ok");

    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((request.index(), request.connection()), (0, 0));
    assert_eq!(request.method(), "PUT");
    assert_eq!(request.path(), "/v1/x%20y?after_id=a&b");
    assert_eq!(request.head(), &head);
    assert_eq!(request.body(), body.as_bytes());
    assert_eq!(request.text(), body);
    assert_eq!(request.json(), json!({"b": 1, "a": ["é"]}));
    assert_eq!(request.json().to_string(), r#"{"b":1,"a":["é"]}"#, "key order is kept");
    let headers: Vec<_> = request.headers().iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let length = body.len().to_string();
    assert_eq!(
        headers,
        [
            ("HoSt", "here"),
            ("X-Twice", "one"),
            ("authorization", "Bearer k"),
            ("X-TWICE", "two"),
            ("content-LENGTH", length.as_str()),
        ]
    );
    assert_eq!(request.header("x-twice"), Some("one"));
    assert_eq!(request.header("Authorization"), Some("Bearer k"));
    assert_eq!(request.header("missing"), None);
    assert!(!format!("{request:?}").contains("Bearer"), "a failing assertion shows no key");
}

#[tokio::test]
async fn a_request_without_a_body_has_an_empty_one() {
    let server = ModelServer::start(ok()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send("GET /v1/models HTTP/1.1\r\n\r\n").await;
    client.response().await;
    let request = &server.requests()[0];
    assert_eq!(request.method(), "GET");
    assert_eq!(request.body(), &"");
    assert_eq!(request.json(), json!(null));
    assert!(request.json_as::<u8>().is_err());
}

#[tokio::test]
async fn a_chunked_request_is_recorded_without_its_framing() {
    let server = ModelServer::start(ok()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client
        .send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\nT: r\r\n\r\n")
        .await;
    assert_eq!(client.response().await.status, 200);
    // The connection is in step again: the next request is read from its first byte.
    assert_eq!(client.ask("second").await.status, 200);
    let requests = server.requests();
    assert_eq!(requests[0].text(), r#"{"a":1}"#);
    assert_eq!(requests[1].text(), "second");
}

#[tokio::test]
async fn a_request_may_arrive_byte_by_byte() {
    let server = ModelServer::start(ok()).await.unwrap();
    let mut client = Client::connect(&server).await;
    for byte in post("/v1", "{\"a\":1}").bytes() {
        client.send([byte]).await;
    }
    assert_eq!(client.response().await.status, 200);
    assert_eq!(server.requests()[0].json(), json!({"a": 1}));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = ModelServer::start([Reply::status(200).body("a"), Reply::status(200).body("b")]);
    let server = server.await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/1", "one") + &post("/2", "two")).await;
    assert_eq!(client.response().await.text(), "a");
    assert_eq!(client.response().await.text(), "b");
    let seen: Vec<_> = server.requests().iter().map(|r| (r.index(), r.text())).collect();
    assert_eq!(seen, [(0, "one".to_owned()), (1, "two".to_owned())]);
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let server = ModelServer::start(ok()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hi").await;
    assert_eq!(client.response().await.text(), "ok");
}

#[tokio::test]
async fn a_connection_stays_open_unless_one_side_says_close() {
    let server = ModelServer::start(
        Script::new()
            .reply(Reply::status(200))
            .reply(Reply::status(200))
            .reply(Reply::status(200).header("Connection", "close"))
            .reply(Reply::status(200)),
    );
    let server = server.await.unwrap();
    let mut client = Client::connect(&server).await;
    for _ in 0..3 {
        client.ask("{}").await;
    }
    assert_eq!(client.rest().await.unwrap(), b"", "closed after the reply that said so");
    let mut client = Client::connect(&server).await;
    client.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    client.response().await;
    assert_eq!(client.rest().await.unwrap(), b"", "closed after the request that said so");
    let connections: Vec<_> = server.requests().iter().map(|r| r.connection()).collect();
    assert_eq!(connections, [0, 0, 0, 1]);
    assert_eq!(server.accepted_connections(), 2);
    within(server.wait_for_no_connections()).await;
    assert_eq!(server.open_connections(), 0);
    assert_eq!(server.aborted(), 0);
}

#[tokio::test]
async fn what_is_not_http_is_refused_in_words() {
    let server = ModelServer::start(ok()).await.unwrap();
    for bad in [
        "\u{1}\u{2}\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut client = Client::connect(&server).await;
        client.send(bad).await;
        let response = client.response().await;
        assert_eq!(response.status, 400, "{bad:?}");
        assert!(response.text().starts_with("malformed "), "{}", response.text());
    }
    assert_eq!(server.request_count(), 0);
}

#[tokio::test]
async fn each_reply_of_a_list_serves_one_request_and_then_the_script_is_exhausted() {
    let script = Script::new()
        .reply(Reply::openai().text("one").json())
        .reply(Reply::status(429).header("Retry-After", "2").body("slow down"));
    let server = ModelServer::start(script).await.unwrap();
    // Order of arrival counts, not the connection.
    assert_eq!(Client::connect(&server).await.ask("{}").await.status, 200);
    let second = Client::connect(&server).await.ask("{}").await;
    assert_eq!(second.head, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(second.text(), "slow down");
    let third = Client::connect(&server).await.ask("{}").await;
    assert_eq!(third.status, 500);
    assert_eq!(
        third.text(),
        "script exhausted: request 2 (POST /v1/chat/completions) has no reply, the script holds 2"
    );
}

#[tokio::test]
async fn the_last_reply_can_repeat() {
    let replies = [Reply::status(503), Reply::status(200)];
    let script = Script::from(replies).repeat_last();
    let server = ModelServer::start(script).await.unwrap();
    let mut client = Client::connect(&server).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(client.ask("{}").await.status);
    }
    assert_eq!(statuses, [503, 200, 200, 200]);
}

#[tokio::test]
async fn a_responder_sees_the_request() {
    let script = Script::respond_with(|request| match request.json()["n"].as_u64() {
        Some(n) => Reply::from(Reply::openai().text(format!("{} {n}", request.index()))),
        None => Reply::status(404),
    });
    let server = ModelServer::start(script).await.unwrap();
    let mut client = Client::connect(&server).await;
    let first = client.ask(r#"{"n":7}"#).await;
    assert_eq!(first.json()["choices"][0]["message"]["content"], "0 7");
    assert_eq!(client.ask("{}").await.status, 404);
}

#[tokio::test]
async fn without_recording_requests_are_only_counted() {
    let server = ModelServer::start(ok().without_recording()).await.unwrap();
    let mut client = Client::connect(&server).await;
    for _ in 0..3 {
        client.ask("{}").await;
    }
    assert_eq!(server.request_count(), 3);
    assert!(server.requests().is_empty());
    assert!(within(server.wait_for_requests(3)).await.is_empty());
}

#[tokio::test]
async fn waiting_for_requests_ends_with_the_request_that_was_waited_for() {
    let server = ModelServer::start(ok()).await.unwrap();
    let mut client = Client::connect(&server).await;
    let (requests, ()) = within(async {
        tokio::join!(server.wait_for_requests(2), async {
            client.ask("one").await;
            client.ask("two").await;
        })
    })
    .await;
    assert_eq!(requests[1].text(), "two");
    assert_eq!(within(server.wait_for_requests(1)).await.len(), 2, "at once when they are there");
}

#[tokio::test]
async fn stopping_closes_the_listener_and_every_connection() {
    let server = ModelServer::start(Script::new().reply(Reply::hang())).await.unwrap();
    let addr = server.addr();
    let mut idle = Client::connect(&server).await;
    let mut hanging = Client::connect(&server).await;
    hanging.send(post("/", "{}")).await;
    within(server.wait_for_requests(1)).await;
    within(server.stop()).await;
    assert_eq!(idle.rest().await.unwrap(), b"");
    assert_eq!(hanging.rest().await.unwrap(), b"");
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn dropping_the_server_leaves_no_task() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let server = ModelServer::start(Reply::hang()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", "{}")).await;
    within(server.wait_for_requests(1)).await;
    assert_eq!(alive(), before + 2, "one that accepts, one for the connection");
    drop(server);
    assert_eq!(within(client.rest()).await.unwrap(), b"");
    within(async {
        while alive() > before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[test]
fn a_server_on_a_thread_needs_no_runtime_and_ends_with_its_owner() {
    use std::io::{Read, Write};
    let server = ModelServer::start_on_thread(Reply::anthropic().text("hi")).unwrap();
    let mut socket = std::net::TcpStream::connect(server.addr()).unwrap();
    socket.write_all(post("/v1/messages", "{}").as_bytes()).unwrap();
    let mut first = [0; 15];
    socket.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    assert_eq!(server.requests()[0].path(), "/v1/messages");
    let addr = server.addr();
    drop(server);
    assert!(std::net::TcpStream::connect(addr).is_err(), "the thread and its listener are gone");
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
}

#[tokio::test]
async fn a_server_on_a_thread_works_from_a_runtime_too() {
    let server = ModelServer::start_on_thread(ok()).unwrap();
    let mut client = Client::connect(&server).await;
    assert_eq!(client.ask("{}").await.text(), "ok");
    assert_eq!(within(server.wait_for_requests(1)).await.len(), 1);
    within(server.stop()).await;
    assert_eq!(client.rest().await.unwrap(), b"");
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    let gate = Gate::new();
    let held = Script::always(Reply::openai().text("ok").hold(&gate)).without_recording();
    let server = ModelServer::start_on_thread(held).unwrap();
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = Client::connect(&server).await;
        client.send(post("/", "{}")).await;
        clients.push(client);
    }
    within(gate.reached_by(200)).await;
    assert_eq!(server.open_connections(), 200);
    gate.open();
    for client in &mut clients {
        assert_eq!(within(client.response()).await.status, 200);
    }
    drop(clients);
    within(server.wait_for_no_connections()).await;
    assert_eq!((server.request_count(), server.aborted()), (200, 0));
}

#[tokio::test]
async fn nobody_listens_at_a_free_port() {
    let url = free_port_url().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/v1"), "{url}");

    let port = RefusedPort::new().unwrap();
    assert_eq!(port.base_url(), format!("http://{}/v1", port.addr()));
    let refused = tokio::net::TcpStream::connect(port.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}
