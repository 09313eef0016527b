//! Every recorded stream, however the network cuts it.

use std::sync::OnceLock;

use bytes::Bytes;
use proptest::prelude::*;
use toolnexus_core::Toolkit;
use toolnexus_llm::{Style, create_client};
use toolnexus_testkit::model::Reply;

use crate::recorded::{files, is_stream, read, style_of, toolkit};
use crate::support::double::{Answer, Double};
use crate::support::{drain, options, reply, server, within};

/// All recorded streams, those that end with an error among them.
fn streams() -> &'static [String] {
    static STREAMS: OnceLock<Vec<String>> = OnceLock::new();
    STREAMS.get_or_init(|| files().into_iter().filter(|file| is_stream(file)).collect())
}

/// All that a consumer hears: the events as JSON, and the error.
type Told = (Vec<String>, Option<String>);

async fn told(client: &toolnexus_llm::Client, toolkit: &Toolkit) -> Told {
    let (events, error) = within(drain(client.stream("hi", toolkit))).await;
    let events = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    (events, error.map(|error| error.to_string()))
}

async fn delivered(style: Style, pieces: Vec<Bytes>) -> Told {
    let pieces: Vec<Result<Bytes, &str>> = pieces.into_iter().map(Ok).collect();
    let double = Double::new([Answer::pieces(pieces), Answer::streamed_text(style, "ok")]);
    told(&create_client(double.options(style)), &toolkit()).await
}

// CLIENT-118: over a socket, one byte in each chunk
#[tokio::test]
async fn byte_by_byte_is_the_same() {
    assert!(streams().len() > 40, "{:?}", streams());
    for file in streams() {
        let style = style_of(file);
        let body = read(file);
        let bytes = (0..body.len()).map(|at| body.slice(at..=at));
        let server = server([Reply::raw_chunks(bytes), Reply::from(reply(style).text("ok"))]).await;
        let client = create_client(options(style, server.base_url()));
        assert_eq!(told(&client, &toolkit()).await, delivered(style, vec![body]).await, "{file}");
    }
}

// CLIENT-118: where a line ends, and where an event does
#[tokio::test]
async fn line_by_line_and_event_by_event_is_the_same() {
    for file in streams() {
        let style = style_of(file);
        let body = read(file);
        let whole = delivered(style, vec![body.clone()]).await;
        let split = |end: &str| -> Vec<Bytes> {
            let text = std::str::from_utf8(&body).unwrap();
            text.split_inclusive(end).map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect()
        };
        for end in ["\n", "\r", "\n\n", "data:", "\""] {
            assert_eq!(delivered(style, split(end)).await, whole, "{file} at {end:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..Default::default() })]

    // CLIENT-118
    #[test]
    fn cut_anywhere_is_the_same(
        file in 0..streams().len(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..24),
    ) {
        let file = &streams()[file];
        let (style, body) = (style_of(file), read(file));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| body.slice(pair[0]..pair[1])).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (cut, whole) = runtime.block_on(async {
            (delivered(style, pieces).await, delivered(style, vec![body.clone()]).await)
        });
        prop_assert_eq!(cut, whole, "{}", file);
    }
}
