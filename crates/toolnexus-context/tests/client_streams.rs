//! Streamed answers behind a boundary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use std::sync::Arc;

use client_support::{Mode, STYLES, deltas, drain, kinds, options, plain, reply, server, tool, within};
use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::json;
use support::{KB, config, fixture};
use toolnexus_core::{ToolResult, Toolkit};
use toolnexus_llm::{AskOptions, StreamEvent, StreamOptions, Style, create_client};
use toolnexus_testkit::model::Gate;

fn with_fixture() -> StreamOptions {
    StreamOptions { boundary: Some(Arc::new(fixture())), ..Default::default() }
}

// CTX-105: deltas pass the decoder, an empty output is no event, what was held back is the last delta
// before `tool_call`, `usage` and `done`, and the text of the result is that of the deltas
#[tokio::test]
async fn deltas_are_decoded_as_they_come() {
    for style in STYLES {
        let server = server([
            reply(style).deltas(["a ", "do", "c:/", "/1"]).tool_call(
                "c1",
                "note",
                json!({"note": "doc://1"}),
            ),
            reply(style).deltas(["see <ref i", "d=\"chunk", "://1\"", "/>", " and re"]),
        ])
        .await;
        let client = create_client(plain(style, &server));
        let (note, args) = tool("note", |_| ToolResult::success("noted"));
        let stream = client.stream_with("hi", &Toolkit::from_tools([note]), with_fixture());
        let (events, error) = within(drain(stream)).await;
        assert!(error.is_none(), "{error:?}");
        let real = "toolnexus://doc/doc-real";
        assert_eq!(deltas(&events), ["a ", real, "see ", KB, " and ", "re"], "{style:?}");
        assert_eq!(
            kinds(&events),
            [
                "text",
                "text",
                "usage",
                "tool_call",
                "tool_result",
                "text",
                "text",
                "text",
                "text",
                "usage",
                "done"
            ]
        );
        assert_eq!(args.all(), [json!({"note": real})]);
        let Some(StreamEvent::Done { result }) = events.last() else { panic!() };
        assert_eq!(result.text, format!("see {KB} and re"));
    }
}

// CTX-105: a function that wants the text alone gets the same
#[tokio::test]
async fn text_sinks_get_decoded_text() {
    for style in STYLES {
        let server = server([reply(style).deltas(["see toolne", "xus doc", "://", "1"])]).await;
        let client = create_client(options(style, &server, config()));
        let pieces = client_support::Seen::new();
        let kept = pieces.clone();
        let on_text = Arc::new(move |text: &str| kept.push(text.to_owned()));
        let options = AskOptions { on_text: Some(on_text), ..Default::default() };
        let toolkit = Toolkit::default();
        let ask = client.ask_with("toolnexus://doc/doc-new-1", &toolkit, "", options);
        let result = within(ask).await.unwrap();
        assert_eq!(pieces.all(), ["see toolne", "xus ", "toolnexus://doc/doc-new-1"], "{style:?}");
        assert_eq!(result.text, pieces.all().concat());
    }
}

// CTX-105: arguments are assembled raw and decoded once, however their fragments are cut. A restored
// value that holds handle text is not decoded again (CTX-42)
#[tokio::test]
async fn fragments_of_arguments_are_decoded_once() {
    for style in STYLES {
        let call = json!({"path": "local://a/doc://1", "id": "res://0001"});
        let server = server([
            reply(style).tool_call("c1", "note", json!({"id": "res://0001"})),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let (note, args) = tool("note", |_| ToolResult::success("noted"));
        let prompt = format!("the file is {} here", call["path"].as_str().unwrap());
        let stream = client.stream_with(prompt, &Toolkit::from_tools([note]), StreamOptions::default());
        let (_, error) = within(drain(stream)).await;
        assert!(error.is_none());
        assert_eq!(args.all(), [json!({"id": "local://a/doc://1"})], "{style:?}");
    }
}

// CTX-105: a cancelled stream flushes nothing into the conversation, and the next one begins anew
#[tokio::test]
async fn a_cancelled_stream_leaves_nothing_behind() {
    for style in STYLES {
        let gate = Gate::new();
        let server = server([
            reply(style).text("first"),
            reply(style).deltas(["see ", "doc:/"]).wait(&gate).text("/1"),
            reply(style).text("/1 doc://1"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let prompt = "toolnexus://doc/doc-new-1";
        Mode::Stream.tell(&client, &Toolkit::default(), prompt, "c").await;
        let before = client.conversation_store().get("c").await.unwrap().unwrap();

        let options = StreamOptions { id: "c".into(), ..Default::default() };
        let mut stream = client.stream_with("more", &Toolkit::default(), options);
        let event = within(stream.next()).await.unwrap().unwrap();
        assert_eq!(event, StreamEvent::Text { delta: "see ".into() });
        drop(stream);
        gate.open();
        let after = client.conversation_store().get("c").await.unwrap().unwrap();
        assert_eq!(before, after);

        let told = Mode::Stream.tell(&client, &Toolkit::default(), "again", "c").await;
        assert_eq!(told.result.text, format!("/1 {prompt}"), "{style:?}");
        assert!(!json!(told.result.messages).to_string().contains("see "));
    }
}

/// Text as models write it, with whole and broken tokens.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let token = prop_oneof![
        Just("doc://1".to_owned()),
        Just("doc://12".to_owned()),
        Just("kb://".to_owned()),
        Just("url://1".to_owned()),
        Just("chunk://1".to_owned()),
        Just("res://0001".to_owned()),
        Just("res://9".to_owned()),
        Just("<ref id=\"chunk://1\"/>".to_owned()),
        Just("<ref id=\"doc://1\"/>".to_owned()),
        Just("<kb doc=\"x".to_owned()),
        Just("i1".to_owned()),
        Just(" ".to_owned()),
        Just(". ".to_owned()),
        Just("](".to_owned()),
        "[a-z<>/:1é]{1,3}",
    ];
    proptest::collection::vec(token, 1..8).prop_flat_map(|tokens| {
        let text = tokens.concat();
        let chars: Vec<char> = text.chars().collect();
        let cuts = proptest::collection::vec(any::<bool>(), chars.len());
        cuts.prop_map(move |cuts| {
            let mut pieces = vec![String::new()];
            for (at, cut) in chars.iter().zip(cuts) {
                if cut {
                    pieces.push(String::new());
                }
                pieces.last_mut().unwrap().push(*at);
            }
            pieces
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // CTX-105, CTX-57: however an answer is cut, its deltas, its text and its stored message say what the
    // whole answer says
    #[test]
    fn the_cuts_of_a_stream_do_not_matter(pieces in pieces(), style in proptest::sample::select(&STYLES[..])) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (whole, events) = runtime.block_on(async {
            let server = server([reply(style).deltas([pieces.concat()]).json(), reply(style).deltas(pieces)]).await;
            let client = create_client(plain(style, &server));
            let boundary: Arc<dyn toolnexus_llm::ModelBoundary> = Arc::new(fixture());
            let options = toolnexus_llm::RunOptions { boundary: Some(boundary), ..Default::default() };
            let whole = within(client.run_with("hi", &Toolkit::default(), options)).await.unwrap();
            let (events, error) =
                within(drain(client.stream_with("hi", &Toolkit::default(), with_fixture()))).await;
            assert!(error.is_none(), "{error:?}");
            (whole, events)
        });
        let Some(StreamEvent::Done { result }) = events.last() else { panic!() };
        prop_assert_eq!(&deltas(&events).concat(), &whole.text);
        prop_assert_eq!(&result.text, &whole.text);
        prop_assert!(deltas(&events).iter().all(|delta| !delta.is_empty()));
        if style == Style::OpenAI {
            prop_assert_eq!(&result.messages[1]["content"], &whole.messages[1]["content"]);
            prop_assert_eq!(&result.messages[1]["content"], &json!(result.text));
        }
    }
}
