//! The requests that wait for an answer on a wire that carries them all.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage, ServerNotification,
};

use crate::in_flight::CallsInFlight;
use crate::sync::lock;
use crate::wire::{self, Opener};

/// Requests of a server that are open at once. Further ones are not heard: who asks faster than it reads
/// the answers would fill the memory with them.
pub(crate) const MAX_ASKED: usize = 256;

type Asked = Arc<Mutex<HashSet<RequestId>>>;

/// Follows the open requests from the outgoing side, and reads what comes in for them.
pub(crate) struct OpenRequests {
    calls: Arc<CallsInFlight>,
    opener: Option<(RequestId, Opener)>,
    pending: HashSet<RequestId>,
    /// The server's own requests whose answers have not been sent yet.
    asked: Asked,
}

/// A message that is being sent. An answer closes the server's request once this is dropped.
pub(crate) struct Outgoing {
    asked: Asked,
    answers: Option<RequestId>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(id) = &self.answers {
            lock(&self.asked).remove(id);
        }
    }
}

impl OpenRequests {
    pub(crate) fn new(calls: Arc<CallsInFlight>) -> Self {
        OpenRequests { calls, opener: None, pending: HashSet::new(), asked: Asked::default() }
    }

    /// Notes a message that goes out. What is returned lives until it is sent.
    #[must_use]
    pub(crate) fn note(&mut self, message: &ClientJsonRpcMessage) -> Outgoing {
        if let ClientJsonRpcMessage::Request(request) = message {
            if let Some(opener) = Opener::of(&request.request) {
                self.opener = Some((request.id.clone(), opener));
            }
            self.pending.insert(request.id.clone());
        } else if let Some(id) = withdrawn(message) {
            self.pending.remove(id);
        }
        Outgoing { asked: Arc::clone(&self.asked), answers: wire::answered(message).cloned() }
    }

    /// The message that a [`readable`](wire::readable) text is, if anybody waits for it. An answer that no open request has
    /// asked for would end rmcp's handshake.
    pub(crate) fn read(&mut self, text: &str) -> Option<ServerJsonRpcMessage> {
        let mut message = wire::read(text, &self.calls, None, |id| {
            let (asked, opener) = self.opener.as_ref()?;
            wire::same_id(id, asked).then_some(*opener)
        })?;
        let answered = match &mut message {
            ServerJsonRpcMessage::Response(response) => Some(&mut response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_mut(),
            ServerJsonRpcMessage::Request(request) => {
                let mut asked = lock(&self.asked);
                let room = asked.len() < MAX_ASKED && asked.insert(request.id.clone());
                drop(asked);
                return room.then_some(message);
            }
            ServerJsonRpcMessage::Notification(_) => {
                if let Some(id) = taken_back(&message) {
                    lock(&self.asked).remove(id);
                }
                None
            }
        };
        if let Some(id) = answered {
            *id = self.take(id)?;
        }
        Some(message)
    }

    /// Removes the request that an answer belongs to which was too long to read: the one its
    /// beginning names, else the only one.
    pub(crate) fn take_too_long(&mut self, beginning: &[u8]) -> Option<RequestId> {
        match wire::answered_by(beginning) {
            Some(id) => self.take(&id),
            None => self.take_only(),
        }
    }

    /// Removes the one open request, if there is exactly one.
    fn take_only(&mut self) -> Option<RequestId> {
        let mut open = self.pending.iter();
        let (Some(id), None) = (open.next().cloned(), open.next()) else { return None };
        self.pending.take(&id)
    }

    /// Removes the request that an answer's id means.
    fn take(&mut self, id: &RequestId) -> Option<RequestId> {
        self.pending.take(id).or_else(|| match id {
            RequestId::String(text) => self.pending.take(&RequestId::Number(text.parse().ok()?)),
            RequestId::Number(_) => None,
        })
    }
}

/// The server's own request that a cancel notice of the server's takes back: nobody answers it.
pub(crate) fn taken_back(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    let ServerJsonRpcMessage::Notification(notification) = message else { return None };
    match &notification.notification {
        ServerNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
        _ => None,
    }
}

/// The request that a cancel notice withdraws.
pub(crate) fn withdrawn(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let ClientJsonRpcMessage::Notification(notification) = message else { return None };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // MCP-132: a server that asks without end is heard up to a limit, and again once answers are sent
    #[test]
    fn open_questions_are_limited() {
        let mut open = OpenRequests::new(Arc::default());
        let ask = |open: &mut OpenRequests, id: usize| {
            open.read(&json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}).to_string()).is_some()
        };
        let answer = |id: usize| -> ClientJsonRpcMessage {
            serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
        };
        assert!((0..MAX_ASKED).all(|id| ask(&mut open, id)));
        assert!(!ask(&mut open, 1000), "no more are heard");
        let sending = open.note(&answer(3));
        assert!(!ask(&mut open, 1000), "the answer is not sent yet");
        drop(sending);
        assert!(!ask(&mut open, 4), "open already");
        assert!(ask(&mut open, 1000) && !ask(&mut open, 1001));
        let taken_back =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
        assert!(open.read(&taken_back.to_string()).is_some());
        assert!(ask(&mut open, 1001), "nobody answers what was taken back");
    }
}
