//! A client that speaks HTTP/1.1 by hand, so that tests see the very bytes.
#![allow(dead_code)] // each test file uses its own part

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolnexus_testkit::model::ModelServer;

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    input: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and headers, as sent.
    pub(crate) head: String,
    /// The chunks of a chunked body, or the whole body as one.
    pub(crate) chunks: Vec<Vec<u8>>,
}

impl Response {
    pub(crate) fn body(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body()).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
    lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

pub(crate) fn post(path: &str, body: &str) -> String {
    let len = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}")
}

impl Client {
    pub(crate) async fn connect(server: &ModelServer) -> Self {
        let socket = TcpStream::connect(server.addr()).await.unwrap();
        Self { socket, input: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Posts a body to `/v1/chat/completions` and reads the answer.
    pub(crate) async fn ask(&mut self, body: &str) -> Response {
        self.send(post("/v1/chat/completions", body)).await;
        self.response().await
    }

    /// One more read; `false` at the end of the stream.
    async fn fill(&mut self) -> std::io::Result<bool> {
        Ok(self.socket.read_buf(&mut self.input).await? > 0)
    }

    pub(crate) async fn exactly(&mut self, len: usize) -> Vec<u8> {
        while self.input.len() < len {
            assert!(self.fill().await.unwrap(), "ended after {:?}", String::from_utf8_lossy(&self.input));
        }
        self.input.drain(..len).collect()
    }

    pub(crate) async fn through(&mut self, mark: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.input.windows(mark.len()).position(|w| w == mark) {
                return self.exactly(at + mark.len()).await;
            }
            assert!(self.fill().await.unwrap(), "ended after {:?}", String::from_utf8_lossy(&self.input));
        }
    }

    pub(crate) async fn head(&mut self) -> String {
        String::from_utf8(self.through(b"\r\n\r\n").await).unwrap()
    }

    /// The next chunk of a chunked body, empty at its end.
    pub(crate) async fn chunk(&mut self) -> Vec<u8> {
        let line = String::from_utf8(self.through(b"\r\n").await).unwrap();
        let size = usize::from_str_radix(line.trim(), 16).unwrap();
        let data = self.exactly(size).await;
        assert_eq!(self.exactly(2).await, b"\r\n");
        data
    }

    pub(crate) async fn response(&mut self) -> Response {
        let head = self.head().await;
        let status = head[9..12].parse().unwrap();
        let mut chunks = Vec::new();
        if header(&head, "transfer-encoding").is_some() {
            loop {
                match self.chunk().await {
                    end if end.is_empty() => break,
                    chunk => chunks.push(chunk),
                }
            }
        } else if let Some(len) = header(&head, "content-length") {
            chunks.push(self.exactly(len.parse().unwrap()).await);
        }
        Response { status, head, chunks }
    }

    /// Everything until the server closes, or the error that ends it.
    pub(crate) async fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        while self.fill().await? {}
        Ok(std::mem::take(&mut self.input))
    }

    /// Whether nothing has arrived that was not read.
    pub(crate) fn nothing_more(&mut self) -> bool {
        let mut byte = [0];
        let read = self.socket.try_read(&mut byte);
        self.input.is_empty() && read.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    }
}

/// A hang must fail the test, not stop the suite.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("hangs")
}
