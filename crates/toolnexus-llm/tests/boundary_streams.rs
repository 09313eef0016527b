//! Streamed text on its way through the model boundary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use support::boundary::{Handles, decoded};
use support::double::{Answer, Double};
use support::hooks::Seen;
use support::{MetricLog, deltas, done, drain, kinds, options, reply, server, within};
use toolnexus_core::Toolkit;
use toolnexus_llm::{AskOptions, ClientOptions, MetricEvent, Style, create_client};

// CLIENT-148, CLIENT-116: pieces are decoded as they come, held back where undecided, flushed before `usage`
#[tokio::test]
async fn streamed_text_is_decoded_piece_by_piece() {
    for style in support::STYLES {
        let server = server([reply(style).deltas(["se", "e h", "#", "1; x", "fn_1", " h"])]).await;
        let client = create_client(ClientOptions {
            boundary: Some(Handles::new()),
            ..options(style, server.base_url())
        });
        let (events, error) = within(drain(client.stream("hi", &Toolkit::default()))).await;
        assert!(error.is_none());
        // `#` decides nothing and is no event; the last `h` was none after all.
        assert_eq!(deltas(&events), ["se", "e ", "https://real/1 x", "lookup", " ", "h"], "{style:?}");
        let kinds = kinds(&events);
        assert_eq!(kinds[5..], ["text", "usage", "done"]);
        assert_eq!(done(&events).text, "see https://real/1 xlookup h");
    }
}

// CLIENT-148, CLIENT-128: a function that wants the text alone gets the same
#[tokio::test]
async fn on_text_gets_decoded_text() {
    let style = Style::OpenAI;
    let server = server([reply(style).deltas(["h#", "1;", "h"])]).await;
    let client =
        create_client(ClientOptions { boundary: Some(Handles::new()), ..options(style, server.base_url()) });
    let pieces = Seen::new();
    let kept = pieces.clone();
    let options = AskOptions {
        on_text: Some(Arc::new(move |text: &str| kept.push(text.to_owned()))),
        ..Default::default()
    };
    within(client.ask_with("hi", &Toolkit::default(), "", options)).await.unwrap();
    assert_eq!(pieces.all(), ["https://real/1", "h"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // CLIENT-148: however a stream is cut, its deltas are the decoded text
    #[test]
    fn the_cuts_of_a_stream_do_not_matter(pieces in proptest::collection::vec("(h|#|1|;|h#1;|fn_1|fn_|é| ){0,3}", 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let events = runtime.block_on(async {
            let mut body = String::new();
            for piece in &pieces {
                body += &format!("data: {}\n\n", json!({"choices": [{"delta": {"content": piece}}]}));
            }
            let double = Double::new([Answer::pieces([Ok(body + "data: [DONE]\n\n")])]);
            let client = create_client(ClientOptions {
                boundary: Some(Handles::new()),
                ..double.options(Style::OpenAI)
            });
            let (events, error) = drain(client.stream("hi", &Toolkit::default())).await;
            assert!(error.is_none());
            events
        });
        let whole = decoded(&pieces.concat());
        prop_assert_eq!(deltas(&events).concat(), whole.clone());
        prop_assert!(deltas(&events).iter().all(|delta| !delta.is_empty()));
        prop_assert_eq!(&done(&events).text, &whole);
    }
}

// CLIENT-148: a turn that fails to be read tells nothing of what was held back
#[tokio::test]
async fn a_broken_stream_flushes_nothing() {
    let metrics = MetricLog::default();
    let chunk = json!({"choices": [{"delta": {"content": "see h#"}}]});
    let double = Double::new([Answer::pieces([Ok(format!("data: {chunk}\n\n"))])]);
    let client = create_client(ClientOptions {
        boundary: Some(Handles::new()),
        on_metric: Some(metrics.sink()),
        ..double.options(Style::OpenAI)
    });
    let (events, error) = within(drain(client.stream("hi", &Toolkit::default()))).await;
    assert!(error.is_some());
    assert_eq!(deltas(&events), ["see "]);
    assert!(matches!(metrics.all()[0], MetricEvent::Llm { .. }));
}
