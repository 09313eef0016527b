//! The connection: it opens a session, hands out turns and handles what the agent sends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{Implementation, InitializeRequest, NewSessionRequest};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Handled, Lines, UntypedMessage, on_receive_notification, on_receive_request,
};
use futures::{SinkExt, StreamExt as _};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};
use tokio_util::sync::CancellationToken;
use toolnexus_process::Pipes;

use super::permission::{PermissionRequest, Permissions, outcome};
use super::process::AgentState;
use super::session::{CurrentTurn, Session, Turn, failure};
use super::{AcpError, AcpOptions};

/// How long a line of an agent may be.
const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// How long an agent that is left may take to read what was sent last.
const FAREWELL: Duration = Duration::from_millis(100);

/// Serves the connection until it is over, and tells why that is. `opened` gets the session, or is
/// dropped when the connection ends before there is one.
pub(super) async fn run(
    process: Arc<AgentState>,
    pipes: Pipes,
    options: AcpOptions,
    turns: mpsc::UnboundedReceiver<Turn>,
    opened: oneshot::Sender<Result<Session, AcpError>>,
) -> AcpError {
    let current = CurrentTurn::default();
    let (permissions, on_update) = (Permissions::of(&options), options.on_update.clone());
    let (of_updates, of_permissions) = (current.clone(), current.clone());
    let left = CancellationToken::new();
    let leaving = left.clone();
    let agent = Arc::clone(&process);
    let served = Client
        .v1()
        .name("toolnexus")
        .on_receive_notification(
            async move |message: UntypedMessage, _connection: ConnectionTo<Agent>| {
                if message.method() == "session/update" {
                    of_updates.update(message.params());
                    if let Some(hook) = &on_update
                        && catch_unwind(AssertUnwindSafe(|| hook(message.params()))).is_err()
                    {
                        tracing::warn!("[toolnexus] on_update panicked");
                    }
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: UntypedMessage, responder: Responder, connection: ConnectionTo<Agent>| {
                if request.method() != "session/request_permission" {
                    // Files and terminals were not offered.
                    return Ok(Handled::No { message: (request, responder), retry: false });
                }
                let answer = decide(permissions.clone(), of_permissions.over(), request);
                // Apart from the agent's other messages: whoever decides may take long.
                connection.spawn(async move { responder.respond(answer.await) })?;
                Ok(Handled::Yes)
            },
            on_receive_request!(),
        )
        .connect_with(lines(pipes, &process), async move |connection: ConnectionTo<Agent>| {
            match open(&agent, &options, connection).await {
                Some(Ok(session)) => {
                    let _ = opened.send(Ok(session.clone()));
                    session.serve(&current, turns).await;
                }
                Some(Err(error)) => {
                    let _ = opened.send(Err(error));
                }
                None => drop(opened),
            }
            leaving.cancel();
            Ok(())
        });
    // An agent that reads nothing must not hold up the end.
    let farewell = async {
        left.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "the connection to an ACP agent has failed");
            }
        }
        () = farewell => {}
    }
    let error = process.last_words().await;
    process.kill();
    error
}

/// Opens a session; `None` when the connection is over first.
async fn open(
    process: &Arc<AgentState>,
    options: &AcpOptions,
    connection: ConnectionTo<Agent>,
) -> Option<Result<Session, AcpError>> {
    let command = process.command();
    // The default capabilities: neither files nor terminals.
    let mut hello = InitializeRequest::new(ProtocolVersion::V1);
    hello.client_info = Some(Implementation::new("toolnexus", env!("CARGO_PKG_VERSION")));
    // An answer in another version of the protocol comes as an error.
    if let Err(error) = connection.send_request(hello).block_task().await {
        return failure(process, "initialize", error).map(Err);
    }
    let cwd = match &options.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => std::env::current_dir(),
    };
    let cwd = match cwd {
        Ok(cwd) => cwd,
        Err(error) => {
            let reason = format!("its directory is unknown: {error}");
            return Some(Err(AcpError::Spawn { command: command.to_owned(), reason }));
        }
    };
    match connection.send_request(NewSessionRequest::new(cwd)).block_task().await {
        Ok(session) => Some(Ok(Session {
            connection,
            id: session.session_id,
            process: Arc::clone(process),
            timeout: options.prompt_timeout(),
        })),
        Err(error) => failure(process, "session/new", error).map(Err),
    }
}

/// The answer to a permission request: `cancelled` at the latest when its turn is over.
async fn decide(permissions: Permissions, over: Option<CancellationToken>, request: UntypedMessage) -> Value {
    let Some(over) = over else { return outcome(None) };
    let asking = permissions.decide(PermissionRequest::read(request.params()));
    let chosen = tokio::select! {
        biased;
        () = over.cancelled() => None,
        chosen = asking => chosen,
    };
    outcome(chosen)
}

/// The agent's pipes, line by line. Lines that are no messages are left out: programs greet on
/// standard output.
fn lines(
    pipes: Pipes,
    process: &Arc<AgentState>,
) -> Lines<
    impl futures::Sink<String, Error = io::Error> + Send + 'static,
    impl futures::Stream<Item = io::Result<String>> + Send + 'static,
> {
    let outgoing = SinkExt::<String>::sink_map_err(FramedWrite::new(pipes.stdin, LinesCodec::new()), failed);
    let process = Arc::clone(process);
    let incoming =
        FramedRead::new(pipes.stdout, LinesCodec::new_with_max_length(LINE_LIMIT)).filter_map(move |line| {
            let kept = match line {
                Ok(line) if is_message(&line) => Some(Ok(line)),
                Ok(line) => {
                    if !line.trim().is_empty() {
                        process.stray_line(&line);
                    }
                    None
                }
                Err(error) => {
                    let error = failed(error);
                    process.unreadable(error.to_string());
                    Some(Err(error))
                }
            };
            std::future::ready(kept)
        });
    Lines::new(outgoing, incoming)
}

fn is_message(line: &str) -> bool {
    line.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()
}

fn failed(error: LinesCodecError) -> io::Error {
    match error {
        LinesCodecError::Io(error) => error,
        LinesCodecError::MaxLineLengthExceeded => io::Error::other("a line is longer than 64 MiB"),
    }
}
