//! One session with an agent: turns, one after the other.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::Agent;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, PromptRequest, PromptResponse, SessionId, SetSessionModeRequest,
    StopReason,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::AcpError;
use super::process::AgentState;
use super::prompt_text::{newest_text, whole_text};
use crate::InProcessRequest;

/// What a turn says to the agent.
pub(super) enum Said {
    Text(String),
    /// Everything if the agent has not been told before, else what is new.
    Request(InProcessRequest),
}

/// One question to the agent, and where its answer goes.
pub(super) struct Turn {
    pub(super) said: Said,
    /// Ends the turn early; without it, a caller that goes away changes nothing for the agent.
    pub(super) cancel: Option<CancellationToken>,
    /// Whether the turn's time has come.
    pub(super) begun: Arc<AtomicBool>,
    /// Receives each piece of the answer. Closed before the answer is given.
    pub(super) pieces: Option<mpsc::UnboundedSender<String>>,
    pub(super) answer: oneshot::Sender<Result<String, AcpError>>,
}

/// The turn that is on, as those see it who handle the agent's messages.
#[derive(Clone, Default)]
pub(super) struct CurrentTurn {
    open: Arc<Mutex<Option<Open>>>,
}

struct Open {
    session: SessionId,
    text: String,
    pieces: Option<mpsc::UnboundedSender<String>>,
    /// Fires when the turn is over, one way or the other.
    over: CancellationToken,
}

impl CurrentTurn {
    /// Adds a piece of the answer. What comes between turns belongs to none.
    fn push(&self, piece: &str) {
        let mut open = self.lock();
        let Some(open) = open.as_mut() else { return };
        open.text.push_str(piece);
        if let Some(pieces) = &open.pieces
            && !piece.is_empty()
        {
            // Nobody may be reading any more.
            let _ = pieces.send(piece.to_owned());
        }
    }

    /// Takes a `session/update` into account, unless it is another session's: an agent may open more
    /// of them for helpers of its own.
    pub(super) fn update(&self, params: &Value) {
        let session = params.get("sessionId").and_then(Value::as_str);
        let is_ours = |open: &Open| session.is_none_or(|session| session == &*open.session.0);
        if !self.lock().as_ref().is_some_and(is_ours) {
            return;
        }
        let update = params.get("update");
        let text_at = |pointer: &str| update?.pointer(pointer)?.as_str();
        if text_at("/sessionUpdate") == Some("agent_message_chunk")
            && text_at("/content/type") == Some("text")
            && let Some(text) = text_at("/content/text")
        {
            self.push(text);
        }
    }

    /// What fires when the turn that is on is over; `None` between turns.
    pub(super) fn over(&self) -> Option<CancellationToken> {
        self.lock().as_ref().map(|open| open.over.clone())
    }

    fn begin(&self, session: SessionId, pieces: Option<mpsc::UnboundedSender<String>>) {
        *self.lock() = Some(Open { session, text: String::new(), pieces, over: CancellationToken::new() });
    }

    /// Ends the turn and gives its text.
    fn end(&self) -> String {
        let Some(open) = self.lock().take() else { return String::new() };
        open.over.cancel();
        open.text
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open session.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) id: SessionId,
    pub(super) process: Arc<AgentState>,
    pub(super) timeout: Duration,
}

/// A prompt that was sent and not yet answered.
type Unanswered = Pin<Box<dyn Future<Output = Result<PromptResponse, agent_client_protocol::Error>> + Send>>;

/// Why a turn is no longer waited for.
enum Early {
    Cancelled,
    TooLong,
}

impl Session {
    /// Carries out turns until the connection is closed or nobody is left to ask for any.
    pub(super) async fn serve(&self, current: &CurrentTurn, mut turns: mpsc::UnboundedReceiver<Turn>) {
        // What is left of a turn that ended early: an agent takes one prompt at a time.
        let mut unanswered: Option<Unanswered> = None;
        // Whether the agent has been sent a whole conversation.
        let mut introduced = false;
        loop {
            let turn = tokio::select! {
                biased;
                () = self.connection.incoming_closed() => return,
                turn = turns.recv() => turn,
            };
            let Some(turn) = turn else { return };
            turn.begun.store(true, Ordering::SeqCst);
            // A caller that went away before its turn came wants nothing.
            if turn.answer.is_closed() {
                continue;
            }
            let deadline = Instant::now().checked_add(self.timeout);
            if let Some(rest) = &mut unanswered {
                match until(turn.cancel.as_ref(), deadline, rest).await {
                    Ok(_) => unanswered = None,
                    Err(early) => {
                        let _ = turn.answer.send(Err(self.early(&early)));
                        continue;
                    }
                }
            }
            if turn.cancel.as_ref().is_some_and(CancellationToken::is_cancelled) {
                let _ = turn.answer.send(Err(AcpError::Cancelled));
                continue;
            }
            let (text, introduces) = match turn.said {
                Said::Text(text) => (text, false),
                Said::Request(request) if introduced => (newest_text(&request), false),
                Said::Request(request) => (whole_text(&request), true),
            };
            introduced |= introduces;
            current.begin(self.id.clone(), turn.pieces);
            let prompt = PromptRequest::new(self.id.clone(), vec![ContentBlock::from(text)]);
            let mut answer: Unanswered = Box::pin(self.connection.send_request(prompt).block_task());
            let ended = until(turn.cancel.as_ref(), deadline, &mut answer).await;
            let reply = match ended {
                Ok(Ok(response)) => {
                    let text = current.end();
                    // An agent forgets what it has refused.
                    introduced &= !(introduces && response.stop_reason == StopReason::Refusal);
                    if response.stop_reason == StopReason::Cancelled {
                        Err(AcpError::Cancelled)
                    } else {
                        Ok(text)
                    }
                }
                Ok(Err(error)) => {
                    current.end();
                    // The agent may have kept nothing of it.
                    introduced &= !introduces;
                    match self.failure("session/prompt", error) {
                        Some(error) => Err(error),
                        // The caller learns from the connection's end why it is over.
                        None => return,
                    }
                }
                Err(early) => {
                    // Before its permission requests are answered, so that the agent knows why.
                    let _ = self.connection.send_notification(CancelNotification::new(self.id.clone()));
                    current.end();
                    unanswered = Some(answer);
                    Err(self.early(&early))
                }
            };
            let _ = turn.answer.send(reply);
        }
    }

    /// Changes the mode; `None` when the connection is over.
    pub(super) async fn set_mode(&self, mode: &str) -> Option<Result<(), AcpError>> {
        let request = SetSessionModeRequest::new(self.id.clone(), mode.to_owned());
        let answer = self.connection.send_request(request).block_task();
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Ok(_)) => Some(Ok(())),
            Ok(Err(error)) => self.failure("session/set_mode", error).map(Err),
            Err(_) => Some(Err(self.early(&Early::TooLong))),
        }
    }

    fn early(&self, early: &Early) -> AcpError {
        match early {
            Early::Cancelled => AcpError::Cancelled,
            Early::TooLong => AcpError::Timeout {
                command: self.process.command().to_owned(),
                timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            },
        }
    }

    fn failure(&self, method: &'static str, error: agent_client_protocol::Error) -> Option<AcpError> {
        failure(&self.process, method, error)
    }
}

/// An agent's error answer; `None` when there was no answer because the connection is over.
pub(super) fn failure(
    process: &AgentState,
    method: &'static str,
    error: agent_client_protocol::Error,
) -> Option<AcpError> {
    if agent_client_protocol::is_incoming_transport_closed(&error)
        || agent_client_protocol::is_connection_terminated(&error)
    {
        return None;
    }
    let message = match &error.data {
        Some(Value::String(detail)) => format!("{}: {detail}", error.message),
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message,
    };
    let message = process.redacted(&message);
    let message = toolnexus_core::redact::cut(&message, crate::ERROR_BODY_CAP).into_owned();
    Some(AcpError::Failed {
        command: process.command().to_owned(),
        method,
        message,
        code: error.code.value(),
    })
}

/// Waits for work no longer than until the token fires or the deadline is over.
async fn until<T>(
    cancel: Option<&CancellationToken>,
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Result<T, Early> {
    let cancelled = async {
        match cancel {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let too_long = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancelled => Err(Early::Cancelled),
        done = work => Ok(done),
        () = too_long => Err(Early::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn chunk(kind: &str, text: &str) -> Value {
        json!({"update": {"sessionUpdate": kind, "content": {"type": "text", "text": text}}})
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // CLIENT-140, CLIENT-145: the reply is the message's pieces in order, whatever is between
        // them and before and after the turn; each piece with text is told once
        #[test]
        fn a_reply_is_the_pieces_of_the_message(
            pieces in prop::collection::vec(("(?s).{0,6}", any::<bool>()), 0..12),
        ) {
            let current = CurrentTurn::default();
            current.update(&chunk("agent_message_chunk", "before"));
            let (sender, mut told) = mpsc::unbounded_channel();
            current.begin(SessionId::new("s"), Some(sender));
            let over = current.over().unwrap();
            for (text, is_thought) in &pieces {
                let kind = if *is_thought { "agent_thought_chunk" } else { "agent_message_chunk" };
                current.update(&chunk(kind, text));
            }
            prop_assert!(!over.is_cancelled());
            let reply = current.end();
            prop_assert!(over.is_cancelled() && current.over().is_none());
            current.update(&chunk("agent_message_chunk", "after"));

            let said: Vec<String> =
                pieces.into_iter().filter(|(_, is_thought)| !is_thought).map(|(text, _)| text).collect();
            prop_assert_eq!(reply, said.concat());
            let mut seen = Vec::new();
            while let Ok(piece) = told.try_recv() {
                seen.push(piece);
            }
            prop_assert_eq!(seen, said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>());
        }
    }
}
