//! What a command prints, read while it runs.

use std::future::pending;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::capture::{Capture, CaptureLimits, Captured};
use crate::output_pipe::OutputPipe;

/// Bytes read at once; what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// The output of one command: both of its streams, in the order in which they were written.
pub(crate) struct CommandOutput {
    pipe: OutputPipe,
    open: bool,
    buffer: Vec<u8>,
    capture: Capture,
}

/// Output that was read and must be kept: see [`CommandOutput::keep`].
#[must_use]
pub(crate) struct Chunk(usize);

impl CommandOutput {
    /// An output, and the two ends that a command is to write to.
    pub(crate) fn new(limits: CaptureLimits) -> io::Result<(Self, Stdio, Stdio)> {
        let (pipe, writer) = OutputPipe::new()?;
        let second = writer.try_clone()?;
        let output =
            CommandOutput { pipe, open: true, buffer: vec![0; CHUNK], capture: Capture::new(limits) };
        Ok((output, writer.into(), second.into()))
    }

    /// Waits for output; at its end, for ever. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Chunk {
        if !self.open {
            return pending().await;
        }
        // A pipe that cannot be read has no more to say.
        Chunk(self.pipe.read(&mut self.buffer).await.unwrap_or(0))
    }

    /// Takes what [`CommandOutput::next`] read. Must run to its end.
    pub(crate) async fn keep(&mut self, chunk: Chunk) {
        self.open = chunk.0 != 0;
        self.capture.push(self.buffer.get(..chunk.0).unwrap_or_default()).await;
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
    pub(crate) fn finish(self) -> Captured {
        self.capture.finish()
    }
}
