//! Response bodies.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use super::state::State;
use crate::mcp::outlet::Output;

/// Any response body. An error in it cuts the connection.
pub(super) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, io::Error>;

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn stream(chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    let chunks = chunks.then(|chunk| async {
        if chunk.is_err() {
            // What came before is flushed when the stream has to be waited for.
            tokio::task::yield_now().await;
        }
        chunk
    });
    StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync()
}

/// The error that cuts the connection.
pub(super) fn cut() -> io::Error {
    io::Error::other("cut by the fixture")
}

/// The bytes of an event stream for what a script puts out.
pub(super) fn events(
    outputs: impl Stream<Item = Output> + Send + 'static,
    ids: bool,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let mut count = 0_u64;
    let mut event = move |data: &str| {
        count += 1;
        let id = if ids { format!("id: {count}\n") } else { String::new() };
        Bytes::from(format!("event: message\n{id}data: {data}\n\n"))
    };
    outputs.take_while(|output| std::future::ready(!matches!(output, Output::CloseStdout))).filter_map(
        move |output| {
            std::future::ready(match output {
                Output::Answer(data) | Output::Message(data) | Output::Line(data) => Some(Ok(event(&data))),
                Output::Bytes(bytes) => Some(Ok(Bytes::from(bytes))),
                Output::End(_) => Some(Err(cut())),
                Output::Stderr(_) | Output::CloseStdout => None,
            })
        },
    )
}

/// The same body in pieces, with a pause before each.
pub(super) fn drip(body: Body, bytes: usize, ms: u64) -> Body {
    let bytes = bytes.max(1);
    let pieces = body.into_data_stream().flat_map(move |chunk| {
        let pieces: Vec<io::Result<Bytes>> = match chunk {
            Ok(mut chunk) => {
                std::iter::from_fn(|| (!chunk.is_empty()).then(|| Ok(chunk.split_to(bytes.min(chunk.len())))))
                    .collect()
            }
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(pieces)
    });
    stream(pieces.then(move |piece| async move {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        piece
    }))
}

/// Notes that the client has gone away, unless the response is completed first.
pub(super) struct Abandonment {
    state: Arc<State>,
    request: usize,
    completed: bool,
}

impl Abandonment {
    pub(super) fn of(state: Arc<State>, request: usize) -> Self {
        Self { state, request, completed: false }
    }

    /// The response is complete, or ends by our own doing.
    pub(super) fn complete(mut self) {
        self.completed = true;
    }

    /// Keeps watch until the stream has ended or failed.
    pub(super) fn over<S>(self, chunks: S) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let watched = (Box::pin(chunks), Some(self));
        futures::stream::unfold(watched, |(mut chunks, mut watch)| async move {
            match chunks.next().await {
                Some(Ok(chunk)) => Some((Ok(chunk), (chunks, watch))),
                end => {
                    if let Some(watch) = watch.take() {
                        watch.complete();
                    }
                    end.map(|end| (end, (chunks, watch)))
                }
            }
        })
    }
}

impl Drop for Abandonment {
    fn drop(&mut self) {
        if self.completed {
            self.state.stream_ended();
        } else {
            self.state.abandon(self.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt;
    use proptest::prelude::*;

    use super::{drip, stream};

    proptest! {
        #[test]
        fn pieces_put_together_are_the_body(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
            bytes in 0_usize..50,
        ) {
            let whole = chunks.concat();
            let body = stream(futures::stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk)))));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let dripped = runtime.unwrap().block_on(drip(body, bytes, 5).collect()).unwrap().to_bytes();
            prop_assert_eq!(dripped, whole);
        }
    }
}
