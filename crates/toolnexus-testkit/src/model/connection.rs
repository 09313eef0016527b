//! One connection: requests in, prepared answers out.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::exchange::{Exchange, Pause, Step};
use super::journal::Journal;
use super::request::RecordedRequest;
use super::script::Script;

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) script: Script,
    pub(crate) journal: Journal,
}

/// Serves a connection until one side closes it.
pub(crate) async fn serve(shared: Arc<Shared>, socket: TcpStream, number: usize, open: OpenGuard) {
    let mut connection = Connection { socket, input: BytesMut::new(), number };
    while let Ok(true) = connection.exchange(&shared).await {}
    // Counted as closed only when the socket is.
    drop(connection);
    drop(open);
}

/// Counts a connection as open for as long as it lives, however its task ends.
pub(crate) struct OpenGuard(Arc<Shared>);

impl OpenGuard {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        shared.journal.update(|c| {
            c.accepted += 1;
            c.open += 1;
        });
        Self(shared)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.journal.update(|c| c.open -= 1);
    }
}

struct Connection {
    socket: TcpStream,
    /// Bytes read and not yet consumed.
    input: BytesMut,
    number: usize,
}

/// The head of a request, as far as framing needs it.
struct RequestHead {
    method: String,
    path: String,
    len: usize,
    body: BodyFraming,
    close: bool,
    expects_continue: bool,
}

#[derive(Clone, Copy)]
enum BodyFraming {
    Length(usize),
    Chunked,
}

impl Connection {
    /// One request and its answer. `false` or an error ends the connection.
    async fn exchange(&mut self, shared: &Shared) -> io::Result<bool> {
        let head = match self.read_head().await {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return self.refuse(&error.to_string()).await;
            }
            Err(error) => return Err(error),
        };
        if head.expects_continue {
            self.socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let head_bytes = self.input.split_to(head.len).freeze();
        let body = match self.read_body(head.body).await {
            Ok(body) => body,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return self.refuse(&error.to_string()).await;
            }
            Err(error) => return Err(error),
        };
        let number = self.number;
        let request = shared
            .journal
            .record(|index| RecordedRequest::new(index, number, head.method, head.path, head_bytes, body));
        let answer = shared.script.answer(&request);
        drop(request);
        match self.send(&answer).await {
            Ok(alive) => Ok(alive && !head.close),
            Err(error) => {
                shared.journal.update(|c| c.aborted += 1);
                Err(error)
            }
        }
    }

    async fn refuse(&mut self, reason: &str) -> io::Result<bool> {
        let len = reason.len();
        let text = format!(
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\
             Connection: close\r\n\r\n{reason}"
        );
        self.socket.write_all(text.as_bytes()).await?;
        Ok(false)
    }

    async fn send(&mut self, answer: &Exchange) -> io::Result<bool> {
        for step in answer.steps.iter() {
            match step {
                Step::Write(bytes) => self.socket.write_all(bytes).await?,
                Step::Repeat { block, times } => {
                    for _ in 0..*times {
                        self.socket.write_all(block).await?;
                    }
                }
                Step::Pause(pause) => self.pause(pause).await?,
                Step::Close { reset } => {
                    if *reset {
                        self.socket.set_zero_linger()?;
                    }
                    return Ok(false);
                }
            }
        }
        Ok(answer.keep_alive)
    }

    /// Waits, and fails as soon as the client is gone.
    async fn pause(&mut self, pause: &Pause) -> io::Result<()> {
        let mut over = pin!(async {
            match pause {
                Pause::Gate(gate) => gate.pass().await,
                Pause::Delay(delay) => tokio::time::sleep(*delay).await,
                Pause::Forever => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                biased;
                () = &mut over => return Ok(()),
                // A pipelined request stays in the buffer for later.
                read = read_more(&mut self.socket, &mut self.input) => if read? == 0 {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                },
            }
        }
    }

    /// Reads more input; an end of stream here is an unfinished request.
    async fn fill(&mut self) -> io::Result<()> {
        match read_more(&mut self.socket, &mut self.input).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// `None` when the client closes between requests.
    async fn read_head(&mut self) -> io::Result<Option<RequestHead>> {
        loop {
            if let Some(head) = parse_head(&self.input)? {
                return Ok(Some(head));
            }
            if read_more(&mut self.socket, &mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn read_body(&mut self, framing: BodyFraming) -> io::Result<Bytes> {
        match framing {
            BodyFraming::Length(len) => {
                self.input.reserve(len.saturating_sub(self.input.len()));
                while self.input.len() < len {
                    self.fill().await?;
                }
                Ok(self.input.split_to(len).freeze())
            }
            BodyFraming::Chunked => self.read_chunks().await,
        }
    }

    async fn read_chunks(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let (at, size) = loop {
                match httparse::parse_chunk_size(&self.input) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) => self.fill().await?,
                    Err(_) => return Err(invalid("malformed chunk size in the request body")),
                }
            };
            let _ = self.input.split_to(at);
            let size = usize::try_from(size).map_err(|_| invalid("chunk too large"))?;
            if size == 0 {
                return self.read_trailers().await.map(|()| body.freeze());
            }
            while self.input.len() < size + 2 {
                self.fill().await?;
            }
            body.extend_from_slice(&self.input.split_to(size));
            let _ = self.input.split_to(2);
        }
    }

    async fn read_trailers(&mut self) -> io::Result<()> {
        loop {
            match self.input.windows(2).position(|w| w == b"\r\n") {
                Some(end) => {
                    let _ = self.input.split_to(end + 2);
                    if end == 0 {
                        return Ok(());
                    }
                }
                None => self.fill().await?,
            }
        }
    }
}

/// One read; 0 is the end of the stream.
async fn read_more(socket: &mut TcpStream, input: &mut BytesMut) -> io::Result<usize> {
    // Enough for a small request in one read, little for a thousand idle connections.
    const ROOM: usize = 4 * 1024;
    if input.capacity() == input.len() {
        input.reserve(ROOM);
    }
    socket.read_buf(input).await
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

fn parse_head(input: &[u8]) -> io::Result<Option<RequestHead>> {
    const MAX_HEADERS: usize = 256;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(input) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(invalid(format!("malformed request head: {error}"))),
    };
    let mut head = RequestHead {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        len,
        body: BodyFraming::Length(0),
        close: parsed.version == Some(0),
        expects_continue: false,
    };
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        if header.name.eq_ignore_ascii_case("content-length") {
            let len = value.trim().parse();
            let len = len.map_err(|_| invalid(format!("malformed content-length: {value}")))?;
            head.body = BodyFraming::Length(len);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            head.body = BodyFraming::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.close = value.eq_ignore_ascii_case("close");
        } else if header.name.eq_ignore_ascii_case("expect") {
            head.expects_continue = value.eq_ignore_ascii_case("100-continue");
        }
    }
    Ok(Some(head))
}
