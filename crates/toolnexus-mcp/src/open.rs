//! The requests that wait for an answer on a wire that carries them all.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};

use crate::in_flight::CallsInFlight;
use crate::wire::{self, Opener};

/// Follows the open requests from the outgoing side, and reads what comes in for them.
pub(crate) struct OpenRequests {
    calls: Arc<CallsInFlight>,
    opener: Option<(RequestId, Opener)>,
    pending: HashSet<RequestId>,
}

impl OpenRequests {
    pub(crate) fn new(calls: Arc<CallsInFlight>) -> Self {
        OpenRequests { calls, opener: None, pending: HashSet::new() }
    }

    /// Notes a message that goes out.
    pub(crate) fn note(&mut self, message: &ClientJsonRpcMessage) {
        if let ClientJsonRpcMessage::Request(request) = message {
            if let Some(opener) = Opener::of(&request.request) {
                self.opener = Some((request.id.clone(), opener));
            }
            self.pending.insert(request.id.clone());
        } else if let Some(id) = withdrawn(message) {
            self.pending.remove(id);
        }
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
            _ => None,
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

/// The request that a cancel notice withdraws.
pub(crate) fn withdrawn(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let ClientJsonRpcMessage::Notification(notification) = message else { return None };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
        _ => None,
    }
}
