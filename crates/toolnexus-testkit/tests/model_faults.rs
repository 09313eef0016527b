//! Broken answers: what the client sees, byte for byte and through a real HTTP client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod model_client;

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use model_client::{Client, post, within};
use toolnexus_testkit::model::{ModelServer, Reply};

/// What is on the wire until the server closes.
async fn wire(reply: impl Into<Reply>, body: &str) -> String {
    let server = ModelServer::start(reply.into()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", body)).await;
    String::from_utf8(within(client.rest()).await.unwrap()).unwrap()
}

/// What a real HTTP client makes of it: status and body, or where it failed.
async fn hyper(reply: impl Into<Reply>) -> Result<(u16, Vec<u8>), &'static str> {
    let server = ModelServer::start(reply.into()).await.unwrap();
    let socket = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::post("/").body(Empty::<bytes::Bytes>::new()).unwrap();
    let outcome = within(async {
        let response = sender.send_request(request).await.map_err(|_| "head")?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|_| "body")?;
        Ok((status, body.to_bytes().to_vec()))
    })
    .await;
    connection.abort();
    outcome
}

#[tokio::test]
async fn the_whole_of_a_sound_reply_reaches_a_real_client() {
    assert_eq!(hyper(Reply::status(201).body("ab").body("c")).await, Ok((201, b"abc".to_vec())));
    assert_eq!(hyper(Reply::stream().chunk("ab").chunk("c")).await, Ok((200, b"abc".to_vec())));
    assert_eq!(hyper(Reply::status(200).body("abc").until_close()).await, Ok((200, b"abc".to_vec())));
    assert_eq!(hyper(Reply::status(204)).await, Ok((204, Vec::new())));
    let (status, body) = hyper(Reply::openai().text("hi").json()).await.unwrap();
    assert_eq!(status, 200);
    assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
}

#[tokio::test]
async fn close_and_reset_answer_nothing() {
    assert_eq!(wire(Reply::close(), "{}").await, "");
    assert_eq!(hyper(Reply::close()).await, Err("head"));

    let server = ModelServer::start(Reply::reset()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", "{}")).await;
    let error = within(client.rest()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn a_cut_body_is_an_error_for_the_client() {
    let length = Reply::status(200).body("{\"a\"").cut();
    assert_eq!(wire(length.clone(), "{}").await, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{\"a\"");
    assert_eq!(hyper(length).await, Err("body"));

    let announced = Reply::status(200).body("{\"a\"").cut().body(":1}");
    assert_eq!(wire(announced, "{}").await, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\"");

    let chunked = Reply::status(200).chunk("ab").cut();
    assert_eq!(
        wire(chunked.clone(), "{}").await,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
    );
    assert_eq!(hyper(chunked).await, Err("body"));
    assert!(hyper(Reply::stream().chunk("ab").cut_reset()).await.is_err());
}

#[tokio::test]
async fn a_turn_can_break_in_both_forms() {
    let turn = || Reply::openai().text("Hello there").cut();
    assert_eq!(hyper(turn().json()).await, Err("body"));
    assert_eq!(hyper(turn().sse()).await, Err("body"));
    let on_the_wire = wire(turn(), r#"{"stream":true}"#).await;
    assert!(on_the_wire.contains(r#"{"content":" there"}"#), "all deltas were sent: {on_the_wire}");
    assert!(!on_the_wire.contains("[DONE]") && !on_the_wire.contains("0\r\n\r\n"));

    let (status, body) = hyper(Reply::openai().text("hi").unfinished().json()).await.unwrap();
    assert_eq!(status, 200, "a clean end, but only half a document");
    assert!(serde_json::from_slice::<serde_json::Value>(&body).is_err());
}

#[tokio::test]
async fn framing_headers_of_the_test_win_and_may_lie() {
    let short = Reply::status(200).header("content-length", "2").body("abcd").header("Connection", "close");
    assert_eq!(
        wire(short, "{}").await,
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\nabcd"
    );
    let own = Reply::status(200).header("Transfer-Encoding", "chunked").body("ab");
    assert_eq!(hyper(own).await, Ok((200, b"ab".to_vec())));
}

#[tokio::test]
async fn a_raw_reply_is_exactly_its_bytes() {
    let raw = "HTTP/1.1 200 Fine\r\nX: 1\r\nX: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    assert_eq!(wire(Reply::raw(raw).cut(), "{}").await, raw);
    assert_eq!(hyper(Reply::raw(raw).cut()).await, Err("body"), "the chunk breaks off in the middle");
    assert_eq!(hyper(Reply::raw("HTTP/1.1 200 OK\r\nX").cut()).await, Err("head"));
    assert_eq!(hyper(Reply::raw("garbage\r\n\r\n").cut()).await, Err("head"));

    let server = ModelServer::start([
        Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"),
        Reply::status(200).body("b"),
    ]);
    let server = server.await.unwrap();
    let mut client = Client::connect(&server).await;
    assert_eq!(client.ask("{}").await.text(), "a");
    assert_eq!(client.ask("{}").await.text(), "b", "a sound raw reply keeps the connection");
}

#[tokio::test]
async fn a_stalled_head_never_ends() {
    let server = ModelServer::start(Reply::status(200).body("abc").stall_head()).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", "{}")).await;
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    let half = client.exactly(whole.len() / 2).await;
    assert_eq!(half, &whole.as_bytes()[..whole.len() / 2]);
    within(server.wait_for_requests(1)).await;
    assert!(client.nothing_more());
    drop(client);
    within(server.wait_for_aborted(1)).await;
}

#[tokio::test]
async fn a_body_can_stop_without_ending() {
    let server = ModelServer::start(Reply::status(200).body("ab").then_hang().body("c")).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", "{}")).await;
    assert!(client.head().await.contains("Content-Length: 3"));
    assert_eq!(client.exactly(2).await, b"ab");
    assert!(client.nothing_more());
}

#[tokio::test]
async fn a_huge_body_is_filled_without_holding_it() {
    let len = 100_001;
    let (_, body) = hyper(Reply::status(200).body("<").fill(b'x', len).body(">")).await.unwrap();
    assert_eq!(body.len() as u64, len + 2);
    assert!(body.starts_with(b"<x") && body.ends_with(b"x>"));
    assert!(body[1..body.len() - 1].iter().all(|b| *b == b'x'));
    let (_, chunked) = hyper(Reply::stream().chunk("<").fill(b'x', len).chunk(">")).await.unwrap();
    assert_eq!(chunked, body);
}

#[tokio::test]
async fn a_redirect_names_its_place() {
    assert_eq!(
        wire(Reply::redirect(307, "/v2").header("Connection", "close"), "{}").await,
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
}
