//! What a command prints, read while it runs.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use toolnexus_core::ToolContext;

use crate::capture::{Capture, CaptureLimits, Captured};
use crate::output_pipe::{CHUNK, OutputPipe};
use crate::output_progress::OutputProgress;

/// The output of one command: both of its streams, in the order in which they were written.
pub(crate) struct CommandOutput<'a> {
    pipe: OutputPipe,
    open: bool,
    buffer: Vec<u8>,
    capture: Capture,
    progress: OutputProgress<'a>,
}

/// Output that was read and must be kept: see [`CommandOutput::keep`].
#[must_use]
pub(crate) struct Chunk(usize);

impl<'a> CommandOutput<'a> {
    /// The output that comes through `pipe`; progress is told to `context`.
    pub(crate) fn new(pipe: OutputPipe, limits: CaptureLimits, context: &'a ToolContext) -> Self {
        CommandOutput {
            pipe,
            open: true,
            buffer: vec![0; CHUNK],
            capture: Capture::new(limits),
            progress: OutputProgress::new(context),
        }
    }

    /// Waits for output; at its end, for ever. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Chunk {
        loop {
            let reading = async {
                if !self.open {
                    return pending().await;
                }
                // A pipe that cannot be read has no more to say.
                self.pipe.read(&mut self.buffer).await.unwrap_or(0)
            };
            tokio::select! {
                biased;
                read = reading => return Chunk(read),
                () = self.progress.due() => {}
            }
            self.progress.tell();
        }
    }

    /// Takes what [`CommandOutput::next`] read. Must run to its end.
    pub(crate) async fn keep(&mut self, chunk: Chunk) {
        self.open = chunk.0 != 0;
        let bytes = self.buffer.get(..chunk.0).unwrap_or_default();
        self.progress.push(bytes);
        self.capture.push(bytes).await;
    }

    /// Reads until the output ends or `time` is over.
    pub(crate) async fn read_for(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.open {
            let chunk = tokio::select! {
                biased;
                () = sleep_until(deadline) => return,
                chunk = self.next() => chunk,
            };
            self.keep(chunk).await;
        }
    }

    /// The output as text.
    pub(crate) fn finish(mut self) -> Captured {
        self.progress.tell();
        self.capture.finish()
    }
}
