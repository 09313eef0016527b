//! The stdio wire: one JSON-RPC message a line over a child's pipes.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex, OnceCell, oneshot};
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolnexus_process::{ChildView, Pipes};

use crate::child::last_words;
use crate::failure::Fault;
use crate::in_flight::CallsInFlight;
use crate::open::OpenRequests;
use crate::wire::{self, Spoiled};

/// The longest line that is read. A longer one is passed over.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// What is read at once, and what a buffer keeps after a long line.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// What is kept of a line that is too long, to see whose answer it is.
const KEPT_BYTES: usize = 4 * 1024;

/// Why the other side is gone, once it is.
pub(crate) type Down = Arc<OnceCell<Fault>>;

/// A message could not be written: the pipe is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StdioError {
    /// The pipe is closed or broken.
    #[error("the message could not be written")]
    Write,
    /// The message has no JSON form.
    #[error("the message could not be encoded")]
    Encode,
}

/// rmcp's transport over a child's pipes.
pub(crate) struct StdioTransport {
    stdin: Arc<Mutex<ChildStdin>>,
    /// Ends when the message before is written. Sending is a task each, and tasks have no order.
    before: oneshot::Receiver<()>,
    lines: Lines<ChildStdout>,
    child: ChildView,
    open: OpenRequests,
    calls: Arc<CallsInFlight>,
    down: Down,
    _token: TaskTrackerToken,
}

impl StdioTransport {
    pub(crate) fn new(
        pipes: Pipes,
        child: ChildView,
        calls: Arc<CallsInFlight>,
        down: Down,
        token: TaskTrackerToken,
    ) -> Self {
        StdioTransport {
            stdin: Arc::new(Mutex::new(pipes.stdin)),
            before: oneshot::channel().1,
            lines: Lines::new(pipes.stdout, MAX_LINE_BYTES),
            child,
            open: OpenRequests::new(Arc::clone(&calls)),
            calls,
            down,
            _token: token,
        }
    }

    fn read_line(&mut self) -> Option<ServerJsonRpcMessage> {
        self.open.read(&wire::readable(&self.lines.line))
    }

    /// An answer that was too long to read, for the request it belongs to, if that can be told.
    fn too_long(&mut self) -> Option<ServerJsonRpcMessage> {
        tracing::warn!("[toolnexus] an MCP server wrote a line of more than {MAX_LINE_BYTES} bytes: skipped");
        self.open.take_too_long(&self.lines.line).map(|id| Spoiled::TooLong.into_message(id))
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = StdioError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.open.note(&message);
        let stdin = Arc::clone(&self.stdin);
        let nobody_reads = self.calls.have_ended() && wire::is_answer(&message);
        let (written, next) = oneshot::channel::<()>();
        let before = std::mem::replace(&mut self.before, next);
        async move {
            let _written = (written, outgoing);
            if nobody_reads {
                return Ok(());
            }
            let mut line = serde_json::to_vec(&message).map_err(|_| StdioError::Encode)?;
            line.push(b'\n');
            // Nobody sends anything: the other end is dropped.
            let _ = before.await;
            let mut stdin = stdin.lock().await;
            stdin.write_all(&line).await.map_err(|_| StdioError::Write)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        // rmcp drops this future whenever something else happens first: everything read so far
        // stays in `lines`, and waiting for the child's end can start over.
        while self.down.get().is_none() {
            let message = match self.lines.next().await {
                Some(Line::Whole) => self.read_line(),
                Some(Line::TooLong) => self.too_long(),
                None => {
                    self.calls.end();
                    self.down.get_or_init(|| last_words(&self.child)).await;
                    None
                }
            };
            if message.is_some() {
                return message;
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

pub(crate) enum Line {
    /// A line stands in [`Lines::line`].
    Whole,
    /// The first [`KEPT_BYTES`] of one stand in [`Lines::line`].
    TooLong,
}

/// Lines of a pipe. Cancel safe: a line that is not complete yet stays here.
pub(crate) struct Lines<R> {
    pipe: BufReader<R>,
    limit: usize,
    pub(crate) line: Vec<u8>,
    complete: bool,
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(pipe: R, limit: usize) -> Self {
        Lines {
            pipe: BufReader::with_capacity(READ_BUFFER_BYTES, pipe),
            limit,
            line: Vec::new(),
            complete: false,
            skipping: false,
        }
    }

    /// The next line that is not empty, the last one also without a line end; `None` once the pipe
    /// is closed.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        if std::mem::take(&mut self.complete) {
            self.line.clear();
            self.line.shrink_to(READ_BUFFER_BYTES);
        }
        loop {
            let chunk = match self.pipe.fill_buf().await {
                Ok(chunk) if !chunk.is_empty() => chunk,
                _ => return self.finish(),
            };
            let end = memchr::memchr(b'\n', chunk);
            let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            if self.line.len() + piece.len() > self.limit {
                self.skipping = true;
                self.line.truncate(KEPT_BYTES);
                self.line.shrink_to(READ_BUFFER_BYTES);
            }
            let wanted = if self.skipping { KEPT_BYTES.saturating_sub(self.line.len()) } else { piece.len() };
            self.line.extend_from_slice(piece.get(..wanted).unwrap_or(piece));
            let used = piece.len() + usize::from(end.is_some());
            self.pipe.consume(used);
            if end.is_some()
                && let Some(line) = self.finish()
            {
                return Some(line);
            }
        }
    }

    fn finish(&mut self) -> Option<Line> {
        self.complete = true;
        if std::mem::take(&mut self.skipping) {
            return Some(Line::TooLong);
        }
        (!self.line.is_empty()).then_some(Line::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;
    use tokio_util::io::StreamReader;

    const LIMIT: usize = 6;

    /// The lines of `text` when it comes in pieces of `size` bytes; `None` for one that is too long.
    fn lines(text: &str, size: usize) -> Vec<Option<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let chunks =
            text.as_bytes().chunks(size).map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk)));
        let mut lines =
            Lines::new(StreamReader::new(futures::stream::iter(chunks.collect::<Vec<_>>())), LIMIT);
        runtime.block_on(async {
            let mut all = Vec::new();
            while let Some(line) = lines.next().await {
                all.push(match line {
                    Line::Whole => Some(String::from_utf8(lines.line.clone()).unwrap()),
                    Line::TooLong => None,
                });
            }
            all
        })
    }

    // MCP-55: the last line counts without a line end, empty ones do not
    #[test]
    fn lines_are_cut_at_line_ends() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(lines("a\n\nbc\nd", 2), [some("a"), some("bc"), some("d")]);
        assert_eq!(lines("1234567\nok\n", 3), [None, some("ok")]);
        assert_eq!(lines("123456\n1234567", 100), [some("123456"), None]);
        assert!(lines("", 1).is_empty() && lines("\n\n", 1).is_empty());
    }

    proptest! {
        // MCP-55: it does not matter how the bytes are cut into chunks
        #[test]
        fn chunks_make_no_difference(text in "[a-c\n]{0,60}", size in 1_usize..9) {
            let expected: Vec<Option<String>> = text
                .split('\n')
                .filter(|line| !line.is_empty())
                .map(|line| (line.len() <= LIMIT).then(|| line.to_owned()))
                .collect();
            prop_assert_eq!(lines(&text, size), expected);
        }
    }
}
