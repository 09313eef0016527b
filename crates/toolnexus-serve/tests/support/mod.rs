//! What the tests of this crate share: a client that sends exactly what it is told to.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolnexus_core::{Tool, ToolContext, ToolResult, Toolkit};
use toolnexus_serve::{McpServeConfig, ServeHandle, ServeOptions};

/// Longer than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Within [`PATIENCE`].
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("waited in vain")
}

/// A tool that gives back the text it is given.
pub(crate) fn echo() -> Tool {
    Tool::new("echo", |args: Value, _context| async move {
        ToolResult::success(args["text"].as_str().unwrap_or_default())
    })
}

/// A tool of that name and that work.
pub(crate) fn tool<F: Future<Output = ToolResult> + Send + 'static>(
    name: &str,
    work: impl Fn(ToolContext) -> F + Send + Sync + 'static,
) -> Tool {
    Tool::new(name, move |_args, context| work(context))
}

/// Options with the default profile.
pub(crate) fn mcp() -> ServeOptions {
    ServeOptions { mcp: Some(McpServeConfig::default()), ..Default::default() }
}

/// These tools, served on a port of their own.
pub(crate) async fn served(tools: impl IntoIterator<Item = Tool>, options: ServeOptions) -> ServeHandle {
    Toolkit::from_tools(tools).serve("127.0.0.1:0", options).await.unwrap()
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    fn read(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Some(Reply { status, headers, body: body.to_owned() })
    }
}

/// Sends bytes over a connection of their own and gives what comes until the server closes it.
pub(crate) async fn raw(server: &ServeHandle, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// One request.
pub(crate) async fn send(server: &ServeHandle, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut text = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    let answer = raw(server, text.as_bytes()).await;
    Reply::read(&answer).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// One `POST /mcp` of a JSON body.
pub(crate) async fn post(server: &ServeHandle, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    send(server, "POST /mcp", &all, body).await
}

/// The body of a call.
pub(crate) fn call(name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// The answer to a call whose tool said this.
pub(crate) fn said(text: &str) -> Value {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
    json!({"jsonrpc": "2.0", "id": 1, "result": result})
}

/// A request that has no end yet, on a connection that stays open.
pub(crate) async fn begin(server: &ServeHandle, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Whether somebody accepts connections there.
pub(crate) async fn listens(server: &ServeHandle) -> bool {
    TcpStream::connect(("127.0.0.1", server.port)).await.is_ok()
}
