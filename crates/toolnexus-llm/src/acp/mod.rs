//! An agent that speaks the Agent Client Protocol (ACP) as the model of a client.
//!
//! [`AcpClient::start`] starts the agent as a child process and opens one session with it over
//! standard input and output. [`AcpClient::prompt`] asks it directly; [`AcpClient::generate`] and
//! its kin put it under an [in-process client](crate::create_in_process_client).
//!
//! ```text
//! AcpClient ── turns, one at a time ──> connection task ── JSON-RPC ──> child process
//!     ^                                   │  session/update            (own process group,
//!     └── text of the turn ───────────────┘  session/request_permission  killed on drop)
//! ```
//!
//! An agent is not a bare model: it keeps its own conversation and runs its own tools. So the
//! first request of a client sends everything (system text and messages, as text), later ones only
//! the newest user text, and the answer never asks for tools of the toolkit. Files and terminals
//! are not offered to the agent; what it may do on its own it asks permission for.

mod connection;
mod error;
mod options;
mod permission;
mod process;
mod prompt_text;
mod session;

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolnexus_core::BoxError;

pub use error::AcpError;
pub use options::{AcpOptions, OnPermission, OnUpdate};
pub use permission::{PermissionOption, PermissionRequest};

use crate::{Generate, GenerateStream, InProcessChunk, InProcessRequest, InProcessResponse};
use process::{AgentProcess, AgentState};
use session::{Said, Session, Turn};

/// A running agent and its one session. Clones share it; turns of all of them come one after the
/// other.
///
/// The agent and whatever it has started are killed when the last clone is dropped, the functions
/// made by [`generate`](AcpClient::generate) and its kin among them.
///
/// ```no_run
/// use toolnexus_llm::acp::{AcpClient, AcpOptions};
/// use toolnexus_llm::{ClientOptions, InProcessOptions, Toolkit, create_in_process_client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = AcpOptions { prompt_timeout_ms: 120_000, ..Default::default() };
/// let agent = AcpClient::start("gemini", ["--acp"], options).await?;
/// let client = create_in_process_client(InProcessOptions {
///     generate: agent.generate_ctx(),
///     generate_stream: Some(agent.generate_stream()),
///     client: ClientOptions { model: "gemini-cli".into(), ..Default::default() },
/// });
/// println!("{}", client.run("What does this directory hold?", &Toolkit::default()).await?.text);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AcpClient {
    inner: Arc<Inner>,
}

struct Inner {
    process: AgentProcess,
    _connection: AbortOnDropHandle<()>,
    turns: mpsc::UnboundedSender<Turn>,
    session: Session,
    ended: watch::Receiver<Option<AcpError>>,
}

impl AcpClient {
    /// Starts an agent and opens a session with it. Needs a tokio runtime.
    ///
    /// # Errors
    /// A command that cannot be started; an agent that ends, refuses the session, or has not
    /// opened it within `start_timeout_ms`.
    pub async fn start(
        command: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        options: AcpOptions,
    ) -> Result<Self, AcpError> {
        let (process, pipes) = AgentProcess::spawn(command.as_ref(), args, &options)?;
        let (turns, commands) = mpsc::unbounded_channel();
        let (opened, opening) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let within = options.start_timeout();
        let connection = connection::run(process.state(), pipes, options, commands, opened);
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            let error = connection.await;
            end.send_replace(Some(error));
        }));
        let session = match tokio::time::timeout(within, opening).await {
            Ok(Ok(opened)) => opened?,
            // The connection ended first.
            Ok(Err(_)) => return Err(end_of(ended, &process).await),
            Err(_) => return Err(process.start_timeout(within)),
        };
        let inner = Inner { process, _connection: connection, turns, session, ended };
        Ok(AcpClient { inner: Arc::new(inner) })
    }

    /// Sends a text as one turn and gives the text the agent answers with: its messages,
    /// concatenated, without thoughts, plans and reports of its tools.
    ///
    /// Dropping the future cancels the turn.
    ///
    /// # Errors
    /// A turn that takes longer than `prompt_timeout_ms` (it is then cancelled), that the agent answers
    /// with an error or ends as cancelled, and an agent that has ended. A refusal is an answer: the text
    /// says what the agent had to say.
    pub async fn prompt(&self, text: impl Into<String>) -> Result<String, AcpError> {
        self.inner.cancellable(Said::Text(text.into()), CancellationToken::new()).await
    }

    /// Puts the session into one of the agent's modes, for example `ask` or `code`.
    ///
    /// # Errors
    /// An agent that refuses it, does not answer within `prompt_timeout_ms`, or has ended.
    pub async fn set_mode(&self, id: &str) -> Result<(), AcpError> {
        match self.inner.session.set_mode(id).await {
            Some(result) => result,
            None => Err(self.inner.end().await),
        }
    }

    /// The agent as the model of an in-process client. Cancelling a run only stops waiting: the
    /// agent is told nothing and goes on until its turn is over.
    pub fn generate(&self) -> Generate {
        let inner = Arc::clone(&self.inner);
        Arc::new(move |request| {
            let inner = Arc::clone(&inner);
            Box::pin(async move { reply(inner.turn(Said::Request(request), None).await) })
        })
    }

    /// The agent as the model of an in-process client. When a run is cancelled, dropped or takes
    /// too long, the agent's turn is cancelled too.
    pub fn generate_ctx(&self) -> Generate {
        let inner = Arc::clone(&self.inner);
        Arc::new(move |request| {
            let inner = Arc::clone(&inner);
            Box::pin(async move {
                let cancel = request.cancel.clone();
                reply(inner.cancellable(Said::Request(request), cancel).await)
            })
        })
    }

    /// The agent as the streaming model of an in-process client: each piece of its message is one
    /// text event. Cancels as [`generate_ctx`](Self::generate_ctx) does.
    pub fn generate_stream(&self) -> GenerateStream {
        let inner = Arc::clone(&self.inner);
        Arc::new(move |request| {
            let inner = Arc::clone(&inner);
            futures::stream::once(inner.pieces(request)).flatten().boxed()
        })
    }

    /// Kills the agent and whatever it has started, and waits until it is gone.
    pub async fn close(&self) {
        self.inner.process.kill();
        self.inner.process.gone().await;
    }
}

impl Inner {
    /// A turn that ends when the token fires or the future is dropped.
    async fn cancellable(&self, said: Said, cancel: CancellationToken) -> Result<String, AcpError> {
        let cancel = cancel.child_token();
        let ends_early = cancel.clone().drop_guard();
        let reply = self.turn(said, Some(cancel)).await;
        ends_early.disarm();
        reply
    }

    async fn turn(&self, said: Said, cancel: Option<CancellationToken>) -> Result<String, AcpError> {
        let (answer, answered) = oneshot::channel();
        let queued = Queued { cancel: cancel.clone(), begun: Arc::default() };
        let begun = Arc::clone(&queued.begun);
        // A connection that has ended drops the turn, and its answer with it.
        let _ = self.turns.send(Turn { said, cancel, begun, pieces: None, answer });
        self.answer(answered, queued).await
    }

    /// The answer to a turn, which may be cancelled before its time has come.
    async fn answer(
        &self,
        answered: oneshot::Receiver<Result<String, AcpError>>,
        queued: Queued,
    ) -> Result<String, AcpError> {
        tokio::select! {
            biased;
            reply = answered => match reply {
                Ok(reply) => reply,
                Err(_) => Err(self.end().await),
            },
            () = queued.given_up() => Err(AcpError::Cancelled),
        }
    }

    /// A turn, piece by piece.
    async fn pieces(
        self: Arc<Self>,
        request: InProcessRequest,
    ) -> impl futures::Stream<Item = Result<InProcessChunk, BoxError>> + Send {
        let (sender, mut pieces) = mpsc::unbounded_channel();
        let (answer, answered) = oneshot::channel();
        let cancel = request.cancel.child_token();
        let ends_early = cancel.clone().drop_guard();
        let said = Said::Request(request);
        let queued = Queued { cancel: Some(cancel.clone()), begun: Arc::default() };
        let begun = Arc::clone(&queued.begun);
        let _ = self.turns.send(Turn { said, cancel: Some(cancel), begun, pieces: Some(sender), answer });
        let pieces = futures::stream::poll_fn(move |context| pieces.poll_recv(context));
        let pieces = pieces.take_until(queued.clone().given_up());
        let end = async move {
            let end = self.answer(answered, queued).await.err();
            // The turn is over: nothing is left to cancel.
            ends_early.disarm();
            futures::stream::iter(end.map(|error| Err(error.into())))
        };
        pieces.map(|text| Ok(InProcessChunk::Text(text))).chain(futures::stream::once(end).flatten())
    }

    /// Why the connection is over.
    async fn end(&self) -> AcpError {
        end_of(self.ended.clone(), &self.process).await
    }
}

/// A turn whose time may not have come, as its caller sees it.
#[derive(Clone)]
struct Queued {
    cancel: Option<CancellationToken>,
    begun: Arc<AtomicBool>,
}

impl Queued {
    /// Waits until the turn is cancelled before its time. One that has begun is ended by the session,
    /// which tells the agent first.
    async fn given_up(self) {
        if let Some(cancel) = &self.cancel {
            cancel.cancelled().await;
            if !self.begun.load(Ordering::SeqCst) {
                return;
            }
        }
        std::future::pending().await
    }
}

async fn end_of(mut ended: watch::Receiver<Option<AcpError>>, agent: &AgentState) -> AcpError {
    match ended.wait_for(Option::is_some).await.map(|error| error.clone()) {
        Ok(Some(error)) => error,
        // The task was dropped with its runtime.
        _ => AcpError::Closed { command: agent.command().to_owned() },
    }
}

fn reply(reply: Result<String, AcpError>) -> Result<InProcessResponse, BoxError> {
    Ok(InProcessResponse::text(reply?))
}

impl std::fmt::Debug for AcpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcpClient").field("command", &self.inner.process.command()).finish_non_exhaustive()
    }
}
