//! Chunk boundaries, gates and delays: what reaches the client when.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod model_client;

use std::time::Duration;

use bytes::Bytes;
use model_client::{Client, post, within};
use proptest::prelude::*;
use toolnexus_testkit::model::{Dialect, Gate, ModelServer, Reply, Script};

async fn asked(reply: impl Into<Reply>, body: &str) -> (ModelServer, Client) {
    let server = ModelServer::start(Script::always(reply)).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/v1/chat/completions", body)).await;
    (server, client)
}

#[tokio::test]
async fn chunks_keep_their_boundaries_even_inside_a_character() {
    let reply = Reply::raw_chunks([&b"data: caf\xc3"[..], b"\xa9", b"\n", b"\n"]);
    let (_server, mut client) = asked(reply, "{}").await;
    let response = client.response().await;
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.chunks, [&b"data: caf\xc3"[..], b"\xa9", b"\n", b"\n"]);
}

#[tokio::test]
async fn payloads_become_events_of_one_chunk_each() {
    let (_server, mut client) = asked(Reply::events(["{\"a\":1}", "[DONE]"]), "{}").await;
    let chunks = client.response().await.chunks;
    assert_eq!(chunks, [&b"data: {\"a\":1}\n\n"[..], b"data: [DONE]\n\n"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any bytes in any chunks arrive as they were given; empty ones are no chunks.
    #[test]
    fn chunks_arrive_as_given(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let response = runtime.block_on(async {
            let (_server, mut client) = asked(Reply::raw_chunks(chunks.clone()), "{}").await;
            client.response().await
        });
        let sent: Vec<_> = chunks.into_iter().filter(|c| !c.is_empty()).collect();
        prop_assert_eq!(response.chunks, sent);
    }
}

#[tokio::test]
async fn a_gate_holds_the_next_chunk_back() {
    let (first, second) = (Gate::new(), Gate::new());
    let reply = Reply::stream().chunk("a").wait(&first).chunk("b").wait(&second).chunk("c");
    let (_server, mut client) = asked(reply, "{}").await;
    client.head().await;
    assert_eq!(client.chunk().await, b"a");
    within(first.reached()).await;
    assert!(client.nothing_more());
    assert!(!first.is_open());
    first.open();
    assert_eq!(client.chunk().await, b"b");
    within(second.reached()).await;
    assert!(client.nothing_more());
    second.open();
    assert_eq!(client.chunk().await, b"c");
    assert_eq!(client.chunk().await, b"", "the end of the body");
}

#[tokio::test]
async fn a_gate_works_within_a_turn_in_every_dialect() {
    for dialect in Dialect::ALL {
        let gate = Gate::new();
        let reply = Reply::model(dialect).deltas(["Hel"]).wait(&gate).deltas(["lo"]).sse();
        let whole = {
            let (_server, mut client) = asked(reply.clone(), "{}").await;
            within(gate.reached()).await;
            gate.open();
            client.response().await.text()
        };
        assert_eq!(
            whole.matches("content_block_start\n").count(),
            usize::from(dialect == Dialect::Anthropic)
        );

        // A gate stays open, so a second client is not held.
        let (_server, mut client) = asked(reply, "{}").await;
        assert_eq!(client.response().await.text(), whole);
        assert_eq!(gate.arrivals(), 2);
        within(gate.reached_by(2)).await;
    }
}

#[tokio::test]
async fn a_body_waits_where_its_stream_would() {
    let gate = Gate::new();
    let (_server, mut client) = asked(Reply::openai().text("Hel").wait(&gate).text("lo"), "{}").await;
    let head = client.head().await;
    assert!(head.contains("application/json"), "{head}");
    within(gate.reached()).await;
    assert!(client.nothing_more());
    gate.open();
    assert!(String::from_utf8(client.through(b"\"Hello\"").await).is_ok());
}

#[tokio::test]
async fn a_held_reply_sends_not_even_its_head() {
    for reply in [Reply::status(200).body("x"), Reply::openai().text("x").into()] {
        let gate = Gate::new();
        let (_server, mut client) = asked(reply.hold(&gate), "{}").await;
        within(gate.reached()).await;
        assert!(client.nothing_more());
        gate.open();
        assert_eq!(client.response().await.status, 200);
    }
}

#[tokio::test]
async fn a_gate_holds_a_connection_of_a_server_on_its_thread() {
    let gate = Gate::new();
    let reply = Reply::stream().chunk("a").wait(&gate).chunk("b");
    let server = ModelServer::start_on_thread(reply).unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", "{}")).await;
    within(gate.reached()).await;
    gate.open();
    assert_eq!(client.response().await.text(), "ab");
}

#[tokio::test(start_paused = true)]
async fn delays_follow_a_paused_clock() {
    let day = Duration::from_secs(86_400);
    let reply = Reply::stream().hold_for(day).chunk("a").delay(day).chunk("b").drip_head(16, day);
    let started = tokio::time::Instant::now();
    let (_server, mut client) = asked(reply, "{}").await;
    let response = client.response().await;
    assert_eq!(response.text(), "ab");
    let pieces = u32::try_from(response.head.len().div_ceil(16)).unwrap();
    assert!(started.elapsed() >= day * (pieces + 1));
}

#[tokio::test]
async fn the_server_notices_a_client_that_goes_away() {
    let gate = Gate::new();
    for reply in [
        Reply::hang(),
        Reply::stream().chunk("a").wait(&gate).chunk("b"),
        Reply::stream().chunk("a").delay(Duration::from_secs(86_400)),
        Reply::status(200).stall_head(),
        Reply::openai().text("Hel").then_hang().into(),
        Reply::openai().text("Hel").then_hang().sse().into(),
        Reply::status(200).fill(b'x', u64::MAX / 2),
    ] {
        let (server, client) = asked(reply, "{}").await;
        within(server.wait_for_requests(1)).await;
        drop(client);
        within(server.wait_for_aborted(1)).await;
        within(server.wait_for_no_connections()).await;
        assert_eq!(server.aborted(), 1);
    }
}

#[tokio::test]
async fn a_request_sent_during_a_wait_is_answered_afterwards() {
    let gate = Gate::new();
    let replies = [Reply::status(200).body("a").wait(&gate), Reply::status(200).body("b")];
    let server = ModelServer::start(replies).await.unwrap();
    let mut client = Client::connect(&server).await;
    client.send(post("/", "1")).await;
    within(gate.reached()).await;
    client.send(post("/", "2")).await;
    gate.open();
    assert_eq!(client.response().await.text(), "a");
    assert_eq!(client.response().await.text(), "b");
}

#[tokio::test]
async fn large_pieces_are_shared_and_not_changed() {
    let piece = Bytes::from(vec![b'x'; 200_000]);
    let reply = Reply::stream().chunk("a").chunk(piece.clone()).chunk("b");
    let (_server, mut client) = asked(reply, "{}").await;
    let chunks = client.response().await.chunks;
    assert_eq!(chunks, [&b"a"[..], &piece, b"b"]);
}
