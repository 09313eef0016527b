//! One pipe for everything that a command prints.

use std::io::{self, PipeWriter};

/// Bytes read at once; what a pipe holds.
pub(crate) const CHUNK: usize = 64 * 1024;

/// The reading end.
pub(crate) struct OutputPipe {
    reader: platform::Reader,
}

impl OutputPipe {
    /// A pipe, and the end that a command writes to. Whoever holds a copy of that end keeps the
    /// pipe open.
    pub(crate) fn new() -> io::Result<(OutputPipe, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        Ok((OutputPipe { reader: platform::Reader::new(reader)? }, writer))
    }

    /// Waits for output and puts it into `buffer`; 0 is the end. Dropping the future loses
    /// nothing.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).await
    }
}

#[cfg(unix)]
mod platform {
    use std::io::{self, PipeReader};
    use std::os::fd::OwnedFd;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::unix::pipe::Receiver;

    pub(super) struct Reader(Receiver);

    impl Reader {
        pub(super) fn new(reader: PipeReader) -> io::Result<Self> {
            // Only this end becomes non-blocking; the command's end is another open file.
            Receiver::from_owned_fd(OwnedFd::from(reader)).map(Reader)
        }

        pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer).await
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use std::io::{self, PipeReader, Read as _};

    use tokio::sync::mpsc;

    /// Anonymous pipes cannot be waited for here, so a thread reads. It ends with the pipe, or
    /// when nobody takes what it read.
    pub(super) struct Reader {
        chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
        rest: Vec<u8>,
    }

    impl Reader {
        pub(super) fn new(mut reader: PipeReader) -> io::Result<Self> {
            let (sender, chunks) = mpsc::channel(4);
            std::thread::Builder::new().name("command output".to_owned()).spawn(move || {
                let mut buffer = vec![0; super::CHUNK];
                loop {
                    let chunk = match reader.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(read) => Ok(buffer.get(..read).unwrap_or_default().to_vec()),
                        Err(error) => Err(error),
                    };
                    let failed = chunk.is_err();
                    if sender.blocking_send(chunk).is_err() || failed {
                        return;
                    }
                }
            })?;
            Ok(Reader { chunks, rest: Vec::new() })
        }

        pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.rest.is_empty() {
                match self.chunks.recv().await {
                    Some(chunk) => self.rest = chunk?,
                    None => return Ok(0),
                }
            }
            let taken = self.rest.len().min(buffer.len());
            for (to, from) in buffer.iter_mut().zip(self.rest.drain(..taken)) {
                *to = from;
            }
            Ok(taken)
        }
    }
}
