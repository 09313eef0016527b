//! A wire of your own: MCP messages as length-prefixed frames over any pair of byte streams.
//!
//! A transport owns framing and delivery, nothing else. Ids, time limits, cancelling, decoding and
//! what becomes of a result are above it, so this is all that a new wire takes.
//!
//! `cargo run -p toolnexus --example mcp_transport`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::io;
use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio_util::bytes::Bytes;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};
use tokio_util::sync::CancellationToken;
use toolnexus::mcp::transport::Session;
use toolnexus::mcp::transport::rmcp::RoleClient;
use toolnexus::mcp::transport::rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use toolnexus::mcp::transport::rmcp::transport::Transport;
use toolnexus::mcp::{LoadMcpOptions, McpConnection, McpServerConfig, server::McpProfile};
use toolnexus::{BoxError, ToolContext, Toolkit, define_tool};

/// Each message is four bytes of length and its JSON.
struct Frames<R, W> {
    read: FramedRead<R, LengthDelimitedCodec>,
    // Shared with the sendings that are under way: a sending outlives the call that makes it.
    write: Arc<Mutex<FramedWrite<W, LengthDelimitedCodec>>>,
}

impl<R, W> Transport<RoleClient> for Frames<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    /// `Err` fails the message that was sent, and nothing else.
    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let frame = serde_json::to_vec(&message)?;
            write.lock().await.send(Bytes::from(frame)).await
        }
    }

    /// The next message; `None` once the other side is gone. May be dropped at any time and asked
    /// again: whatever was read so far has to stay in `self`, as it does in `FramedRead`.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let frame = self.read.next().await?.ok()?;
            // What is no message is passed over.
            if let Ok(message) = serde_json::from_slice(&frame) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.write.lock().await.get_mut().shutdown().await
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (client_end, server_end) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(serve(server_end));

    let (read, write) = tokio::io::split(client_end);
    let wire = Frames {
        read: FramedRead::new(read, LengthDelimitedCodec::new()),
        write: Arc::new(Mutex::new(FramedWrite::new(write, LengthDelimitedCodec::new()))),
    };
    let server = McpServerConfig { name: "lab".into(), timeout_ms: 5_000, ..Default::default() };
    let lab = McpConnection::over(wire, Session::handshake(), &server, LoadMcpOptions::default()).await;
    println!("{} is {}, revision {}", lab.name(), lab.status(), lab.protocol_version().unwrap_or("?"));

    // Its tools are like any other's.
    let toolkit = Toolkit::from_tools(lab.tools().to_vec());
    for (celsius, tool) in [(21.5, "lab_fahrenheit"), (-40.0, "lab_fahrenheit")] {
        let result = toolkit.execute(tool, json!({ "celsius": celsius })).await;
        println!("{celsius} °C is {} °F", result.output);
    }
    lab.close().await;
    serving.await??;
    Ok(())
}

/// The other end: a toolkit served line by line, behind a converter of frames to lines.
async fn serve(stream: tokio::io::DuplexStream) -> io::Result<()> {
    let fahrenheit = define_tool(
        "fahrenheit",
        "Celsius to Fahrenheit",
        None,
        |args: Value, _context: ToolContext| async move {
            let celsius = args.get("celsius").and_then(Value::as_f64).ok_or("celsius must be a number")?;
            Ok::<_, BoxError>(format!("{}", celsius * 1.8 + 32.0))
        },
    );
    let profile = McpProfile::new(&Toolkit::from_tools([fahrenheit]), Default::default());

    let (read, write) = tokio::io::split(stream);
    let mut frames_in = FramedRead::new(read, LengthDelimitedCodec::new());
    let mut frames_out = FramedWrite::new(write, LengthDelimitedCodec::new());
    let (mut lines_in, input) = tokio::io::duplex(64 * 1024);
    let (output, lines_out) = tokio::io::duplex(64 * 1024);
    let to_lines = async move {
        while let Some(frame) = frames_in.next().await {
            lines_in.write_all(&frame?).await?;
            lines_in.write_all(b"\n").await?;
        }
        Ok::<_, io::Error>(())
    };
    let to_frames = async move {
        let mut lines = BufReader::new(lines_out).lines();
        while let Some(line) = lines.next_line().await? {
            // The client may be gone already.
            let _ = frames_out.send(Bytes::from(line)).await;
        }
        Ok::<_, io::Error>(())
    };
    tokio::try_join!(to_lines, to_frames, profile.serve_lines(input, output, CancellationToken::new()))?;
    Ok(())
}
