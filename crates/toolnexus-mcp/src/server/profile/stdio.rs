//! A profile over a pair of pipes: one JSON-RPC message a line, one client for their whole life.
//!
//! Since there is exactly one client, it can be told things at any time, which the HTTP side of a
//! profile cannot: progress of calls that carry a token, and log lines of tools. Of the latter it
//! gets those of level `info` and above until it sets another level. A client that declares form
//! elicitation can be asked as well: `ctx.elicit` of a tool reaches the person behind it.

mod questions;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{LogLevel, ToolContext, ToolReport, Toolkit, WaitFor};

use self::questions::Questions;
use super::{Begun, McpProfile, McpServeConfig, Outcome, Reach};
use crate::server::call::CallEvent;
use crate::server::handler::{McpCallContext, ask_for_tools, elicits};
use crate::server::message::{
    self, INVALID_REQUEST, Incoming, Notification, Request, RequestId, RpcError, answer_body, error_body,
    notification_body,
};
use crate::stdio::{Line, Lines, MAX_LINE_BYTES};

/// How many lines may wait for a client that does not read. Then calls wait to be answered, and
/// what is merely told is lost.
const WAITING_LINES: usize = 256;

/// How long running calls have to end after the client has closed its side. Clients wait about two
/// seconds before they kill.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// How long calls may take to be dropped: one that blocks its thread cannot be.
const DROPPED_CALLS: Duration = Duration::from_secs(1);

/// What a client is told of the log before it says how much it wants.
const FIRST_LEVEL: LogLevel = LogLevel::Info;

/// Serves a toolkit over this process's stdin and stdout, until stdin ends.
///
/// One JSON-RPC message a line; nothing else may write to stdout meanwhile. See
/// [`McpProfile::serve_lines`].
///
/// ```no_run
/// use toolnexus_core::Toolkit;
/// use toolnexus_mcp::server::{McpServeConfig, serve_mcp_stdio};
/// # #[tokio::main] async fn main() -> std::io::Result<()> {
/// serve_mcp_stdio(&Toolkit::default(), McpServeConfig::default()).await
/// # }
/// ```
///
/// # Errors
/// Stdin cannot be read, or stdout cannot be written though its reader is there.
pub async fn serve_mcp_stdio(toolkit: &Toolkit, profile: McpServeConfig) -> io::Result<()> {
    let profile = McpProfile::new(toolkit, profile);
    profile.serve_lines(tokio::io::stdin(), tokio::io::stdout(), CancellationToken::new()).await
}

impl McpProfile {
    /// Serves one client over a pair of pipes, one JSON-RPC message a line, until `input` ends, its
    /// client stops reading `output`, or `cancel` fires.
    ///
    /// Calls run side by side, each in a task of its own. `notifications/cancelled` ends a call, which is
    /// then not answered. Calls with a progress token are reported on; log lines of tools are told
    /// from level `info` on, or from the level of the client's `logging/setLevel`. A tool's `elicit` asks
    /// a client that has declared form elicitation, which has five minutes to answer. When `input`
    /// ends, running calls have a second to end; nothing is left running when this returns or its
    /// future is dropped, but tools that block their threads.
    ///
    /// # Errors
    /// `output` cannot be written. A reader that has gone away is an ordinary end.
    pub async fn serve_lines(
        &self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        cancel: CancellationToken,
    ) -> io::Result<()> {
        let (out, lines) = mpsc::channel(WAITING_LINES);
        let mut calls = Calls { running: JoinSet::new(), tokens: HashMap::new() };
        let client = Client::new(out);
        let ended = {
            let writing = write_lines(output, lines);
            let reading = self.read_lines(input, client, &mut calls);
            tokio::pin!(writing, reading);
            tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(()),
                written = &mut writing => written,
                () = &mut reading => tokio::select! {
                    () = cancel.cancelled() => Ok(()),
                    written = writing => written,
                },
            }
        };
        calls.end().await;
        match ended {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            ended => ended,
        }
    }

    /// Takes what the client says, until it says no more and its calls have ended.
    async fn read_lines(&self, input: impl AsyncRead + Unpin, client: Client, calls: &mut Calls) {
        let mut lines = Lines::new(input, MAX_LINE_BYTES);
        loop {
            tokio::select! {
                () = calls.ended() => {}
                line = lines.next() => match line {
                    Some(Line::Whole) => self.take(&lines.line, &client, calls).await,
                    Some(Line::TooLong) => client.answer(too_long()).await,
                    None => break,
                },
            }
        }
        let last = async {
            while !calls.running.is_empty() {
                calls.ended().await;
            }
        };
        if tokio::time::timeout(LAST_CALLS, last).await.is_err() {
            calls.end().await;
        }
    }

    async fn take(&self, line: &[u8], client: &Client, calls: &mut Calls) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = match message::read(line) {
            Ok(Incoming::Notification(Notification { cancels, .. })) => {
                if let Some(id) = cancels {
                    calls.cancel(&id);
                }
                return;
            }
            Ok(Incoming::Response(response)) => return client.questions.answered(response),
            Ok(Incoming::Request(Request { id, method, params })) if method == "logging/setLevel" => {
                let answer = client.set_level(&params);
                return client.answer(answer_body(&id, &answer)).await;
            }
            message => message,
        };
        if let Ok(Incoming::Request(Request { method, params, .. })) = &message
            && method == "initialize"
        {
            client.elicits.store(elicits(params), Ordering::Relaxed);
        }
        match self.receive(message, Reach::Session) {
            Outcome::Silence => {}
            Outcome::Answer(answer) => client.answer(answer).await,
            Outcome::Call(call) => {
                let mut context = ToolContext::default();
                context.extensions.insert(McpCallContext { meta: call.meta.clone(), ..Default::default() });
                context.ask = client.asker();
                let token = context.cancel.clone();
                let id = call.id.clone();
                let task = calls.running.spawn(carry_out(call.begin(context, true), client.clone()));
                calls.tokens.insert(task.id(), (id, token));
            }
        }
    }
}

fn too_long() -> Bytes {
    let error =
        RpcError::new(INVALID_REQUEST, format!("a message may have {MAX_LINE_BYTES} bytes at the most"));
    error_body(None, &error)
}

/// The way to the client.
#[derive(Clone)]
struct Client {
    out: mpsc::Sender<Bytes>,
    /// The least level that it wants to hear of, as a number.
    level: Arc<AtomicU8>,
    /// Whether it can show a form to somebody.
    elicits: Arc<AtomicBool>,
    questions: Arc<Questions>,
}

impl Client {
    fn new(out: mpsc::Sender<Bytes>) -> Self {
        Client {
            out,
            level: Arc::new(AtomicU8::new(FIRST_LEVEL as u8)),
            elicits: Arc::default(),
            questions: Arc::default(),
        }
    }

    /// Who answers the questions of tools. `None`: nobody, calls that ask are suspended.
    fn asker(&self) -> Option<WaitFor> {
        let asks = self.elicits.load(Ordering::Relaxed);
        asks.then(|| {
            let client = self.clone();
            ask_for_tools(move |message, schema| {
                let client = client.clone();
                Box::pin(async move { client.questions.ask(&client.out, &message, &schema).await })
            })
        })
    }

    /// Waits for room. A client that is gone hears nothing.
    async fn answer(&self, line: Bytes) {
        let _ = self.out.send(line).await;
    }

    /// Never waits.
    fn tell(&self, line: Bytes) {
        let _ = self.out.try_send(line);
    }

    fn set_level(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let level = params.get("level").and_then(Value::as_str).unwrap_or_default();
        let level: LogLevel = level
            .parse()
            .map_err(|error: toolnexus_core::UnknownLogLevel| RpcError::invalid_params(error.to_string()))?;
        self.level.store(level as u8, Ordering::Relaxed);
        Ok(json!({}))
    }

    fn wants(&self, level: LogLevel) -> bool {
        level as u8 >= self.level.load(Ordering::Relaxed)
    }
}

/// The calls of a client.
struct Calls {
    running: JoinSet<()>,
    tokens: HashMap<tokio::task::Id, (RequestId, CancellationToken)>,
}

impl Calls {
    /// Returns when a call has ended; never while there is none.
    async fn ended(&mut self) {
        let task = match self.running.join_next_with_id().await {
            Some(Ok((task, ()))) => task,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        self.tokens.remove(&task);
    }

    fn cancel(&self, cancelled: &RequestId) {
        for (_, token) in self.tokens.values().filter(|(id, _)| id == cancelled) {
            token.cancel();
        }
    }

    /// Drops those that still run.
    async fn end(&mut self) {
        if tokio::time::timeout(DROPPED_CALLS, self.running.shutdown()).await.is_err() {
            tracing::warn!(
                "[toolnexus] {} tools block their threads and cannot be ended",
                self.running.len()
            );
            self.running.detach_all();
        }
    }
}

/// Runs one call to its end.
async fn carry_out(mut call: Begun, client: Client) {
    let result = loop {
        match call.next().await {
            CallEvent::Report(ToolReport::Progress { progress: done, total, message }) => {
                let params =
                    call.progress.as_mut().and_then(|told| told.notice(done, total, message.as_deref()));
                if let Some(params) = params {
                    client.tell(notification_body("notifications/progress", Some(&params)));
                }
            }
            CallEvent::Report(ToolReport::Log { level, message, .. }) if client.wants(level) => {
                let params = json!({"level": level, "data": message});
                client.tell(notification_body("notifications/message", Some(&params)));
            }
            CallEvent::Report(_) => {}
            CallEvent::Ended(result) => break result,
            // The client has cancelled it and waits for no answer.
            CallEvent::Cancelled => return,
        }
    };
    client.answer(call.end(Some(result))).await;
}

/// Writes lines until nobody sends any more.
async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Bytes>,
) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        output.write_all(&line).await?;
        output.write_all(b"\n").await?;
        if lines.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}
