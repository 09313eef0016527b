//! `toolnexus demo`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use std::time::{Duration, Instant};

use common::Place;

#[tokio::test]
async fn it_needs_no_key_and_no_network_and_little_time() {
    // No proxy may catch what never leaves the process.
    let place = Place::new().env("HTTP_PROXY", "http://127.0.0.1:1").env("ALL_PROXY", "http://127.0.0.1:1");
    let started = Instant::now();
    let ran = place.run(&["demo"]).await;
    let elapsed = started.elapsed();
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    assert_eq!(ran.stderr, "", "{ran:#?}");
    for text in [
        "The model is scripted",
        "mcp",
        "skill",
        "builtin",
        "native",
        "warehouse_stock(item: \"beans\")",
        "skill(name: \"stock-report\")",
        "read(path: ",
        "add_up(numbers: [12.5,8.0,17.0]) → 37.5",
        "Yes, and 4.5 kg stay on the shelf.",
        "4 turns · 4 tool calls",
        "tokens",
        "toolnexus run",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    // The number in the answer is that of the process which gave it.
    let (_, after) = ran.stdout.split_once("\"process\":").unwrap();
    let process = after.split('}').next().unwrap();
    assert!(ran.stdout.contains(&format!("(process {process})")), "{}", ran.stdout);
}

#[tokio::test]
async fn it_leaves_no_file() {
    let place = Place::new();
    assert_eq!(place.run(&["demo"]).await.code, 0);
    // Its temporary directory is the place itself.
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_hidden_server_ends_with_its_input() {
    let place = Place::new();
    let ran = place
        .run_with_stdin(&["demo-mcp-server"], "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"));
}
