//! Admission: how many requests are under way at once on a connection, and who waits for how long.
//!
//! A connection has *slots*. A request takes one before it is sent, or waits for one in the order of
//! arrival; when too many wait already it is refused as busy. The time of a request runs from the
//! moment it asks for a slot.
//!
//! A [`AdmissionSlot`] is not given back by the caller, it *ends*: the caller holds it, and so does everything
//! in the transport that still works on the request, since it travels with the message. When a call
//! times out or is dropped, the slot lives on with the notice that withdraws it, with the exchange in
//! flight and with the stream that was to bring the answer; the next request is admitted once the
//! last of them has let go. That is how two requests never overlap on a serialized session.
//!
//! Answers to the server and cancel notices take no slot: whatever waits for them holds one already.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{ConcurrencyPolicy, McpServerConfig};
use crate::failure::{Fault, McpFailureKind};

/// How many requests are under way at once over HTTP when nothing says otherwise.
const DEFAULT_POOL: usize = 8;

/// How many requests wait when nothing says otherwise.
const DEFAULT_QUEUE: usize = 64;

/// The slots of one connection and the queue for them.
#[derive(Debug)]
pub(crate) struct Admission {
    /// `None`: as many as there are.
    slots: Option<Arc<Semaphore>>,
    waiting: AtomicUsize,
    queue: usize,
}

impl Admission {
    /// `pipe`: whether everything goes through one pipe, which has no exchanges to run out of.
    pub(crate) fn new(policy: ConcurrencyPolicy, pipe: bool, config: &McpServerConfig) -> Self {
        // A pool of nothing would wait for ever.
        let pool = config.pool_size.filter(|size| *size > 0);
        let slots = match policy {
            ConcurrencyPolicy::Serialized => Some(1),
            ConcurrencyPolicy::Stateless | ConcurrencyPolicy::Pooled if pipe => pool,
            ConcurrencyPolicy::Stateless | ConcurrencyPolicy::Pooled => Some(pool.unwrap_or(DEFAULT_POOL)),
        };
        Admission {
            slots: slots.map(|slots| Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)))),
            waiting: AtomicUsize::new(0),
            queue: config.queue_limit.unwrap_or(DEFAULT_QUEUE),
        }
    }

    /// A slot, if one is free and nobody waits.
    pub(crate) fn admit_at_once(&self) -> Option<AdmissionSlot> {
        match &self.slots {
            None => Some(AdmissionSlot::default()),
            // A freed slot goes to whoever waits first, so none is free while anybody waits.
            Some(slots) => Arc::clone(slots).try_acquire_owned().ok().map(AdmissionSlot::of_permit),
        }
    }

    /// A slot, in the order of asking. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`McpFailureKind::Busy`], at once, when as many wait as may.
    pub(crate) async fn admit(&self) -> Result<AdmissionSlot, Fault> {
        if let Some(slot) = self.admit_at_once() {
            return Ok(slot);
        }
        let Some(slots) = &self.slots else { return Ok(AdmissionSlot::default()) };
        let _place = Place::take(&self.waiting, self.queue)?;
        // Nobody closes it.
        let permit = Arc::clone(slots).acquire_owned().await.map_err(|_| Fault::closed())?;
        Ok(AdmissionSlot::of_permit(permit))
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, limit: usize) -> Result<Self, Fault> {
        let more = |waiting: usize| (waiting < limit).then_some(waiting + 1);
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Place(waiting)),
            Err(_) => Err(Fault::new(McpFailureKind::Busy)),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A slot that is taken for as long as a clone of it lives. The default takes none.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionSlot(Option<Arc<OwnedSemaphorePermit>>);

impl AdmissionSlot {
    fn of_permit(permit: OwnedSemaphorePermit) -> Self {
        AdmissionSlot(Some(Arc::new(permit)))
    }

    /// Lets the slot travel with a request.
    pub(crate) fn ride(&self, request: &mut ClientRequest) {
        if self.0.is_some() {
            request.extensions_mut().insert(self.clone());
        }
    }

    /// Lets the slot travel with a notification.
    pub(crate) fn ride_notification(&self, notification: &mut ClientNotification) {
        if self.0.is_some() {
            notification.extensions_mut().insert(self.clone());
        }
    }

    /// The slot that travels with a message.
    pub(crate) fn of(message: &ClientJsonRpcMessage) -> Self {
        let extensions = match message {
            ClientJsonRpcMessage::Request(request) => request.request.extensions(),
            ClientJsonRpcMessage::Notification(notification) => notification.notification.extensions(),
            _ => return AdmissionSlot::default(),
        };
        extensions.get::<AdmissionSlot>().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::poll;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::Poll;

    use ConcurrencyPolicy::{Pooled, Serialized, Stateless};

    fn admission(
        policy: ConcurrencyPolicy,
        pool_size: Option<usize>,
        queue_limit: Option<usize>,
    ) -> Admission {
        Admission::new(policy, false, &McpServerConfig { pool_size, queue_limit, ..Default::default() })
    }

    /// How many requests an idle connection takes at once, up to 100.
    fn at_once(admission: &Admission) -> usize {
        let taken: Vec<AdmissionSlot> = (0..100).map_while(|_| admission.admit_at_once()).collect();
        taken.len()
    }

    // MCP-135: how many each policy lets in, through a pipe and over exchanges
    #[test]
    fn policies_and_their_sizes() {
        let all = 100;
        for (policy, pool_size, through_pipe, over_exchanges) in [
            (Stateless, None, all, 8),
            (Stateless, Some(3), 3, 3),
            (Stateless, Some(20), 20, 20),
            (Pooled, None, all, 8),
            (Pooled, Some(2), 2, 2),
            (Pooled, Some(0), all, 8),
            (Serialized, None, 1, 1),
            (Serialized, Some(5), 1, 1),
        ] {
            let config = McpServerConfig { pool_size, ..Default::default() };
            let sizes = [true, false].map(|pipe| at_once(&Admission::new(policy, pipe, &config)));
            assert_eq!(sizes, [through_pipe, over_exchanges], "{policy:?}, {pool_size:?}");
        }
    }

    // MCP-136: a queue has its length, and what is over is refused at once
    #[tokio::test]
    async fn a_queue_has_an_end() {
        for (configured, length) in [(None, 64), (Some(2), 2), (Some(0), 0)] {
            let admission = admission(Serialized, None, configured);
            let first = admission.admit().await.unwrap();
            let mut waiting: Vec<_> = (0..length).map(|_| Box::pin(admission.admit())).collect();
            for wait in &mut waiting {
                assert!(poll!(wait).is_pending());
            }
            let refused = admission.admit().now_or_never().unwrap();
            assert_eq!(refused.unwrap_err().kind, McpFailureKind::Busy);
            // MCP-138: whoever leaves makes room
            if waiting.pop().is_some() {
                let mut late = Box::pin(admission.admit());
                assert!(poll!(&mut late).is_pending());
            }
            drop((first, waiting));
            assert_eq!(at_once(&admission), 1, "nothing is left behind");
        }
    }

    // MCP-131: a slot ends with its last holder
    #[tokio::test]
    async fn a_slot_ends_with_its_last_holder() {
        let admission = admission(Serialized, None, None);
        let slot = admission.admit().await.unwrap();
        let with_the_transport = slot.clone();
        let mut next = Box::pin(admission.admit());
        drop(slot);
        assert!(poll!(&mut next).is_pending());
        drop(with_the_transport);
        assert!(poll!(&mut next).is_ready());
    }

    #[derive(Debug, Clone)]
    enum Happens {
        Asks,
        Leaves(usize),
        Ends(usize),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            3 => Just(Happens::Asks),
            1 => (0_usize..8).prop_map(Happens::Leaves),
            2 => (0_usize..8).prop_map(Happens::Ends),
        ]
    }

    proptest! {
        // MCP-135, MCP-136, MCP-138: whatever happens, no more than the pool are in, they come in in
        // the order of asking, and no slot is lost
        #[test]
        fn the_queue_is_fair(pool in 1_usize..4, queue in 0_usize..5, events in prop::collection::vec(happens(), 0..40)) {
            let admission = admission(Pooled, Some(pool), Some(queue));
            type Asking<'a> = Pin<Box<dyn Future<Output = Result<AdmissionSlot, Fault>> + 'a>>;
            let mut waiting: VecDeque<Asking<'_>> = VecDeque::new();
            let mut inside: Vec<AdmissionSlot> = Vec::new();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            for event in events {
                match event {
                    Happens::Asks => {
                        let mut asking: Asking<'_> = Box::pin(admission.admit());
                        let room = inside.len() < pool && waiting.is_empty();
                        match asking.as_mut().poll(&mut context) {
                            Poll::Ready(Ok(slot)) => {
                                prop_assert!(room);
                                inside.push(slot);
                            }
                            Poll::Ready(Err(fault)) => {
                                prop_assert_eq!(fault.kind, McpFailureKind::Busy);
                                prop_assert!(!room && waiting.len() == queue);
                            }
                            Poll::Pending => {
                                prop_assert!(!room && waiting.len() < queue);
                                waiting.push_back(asking);
                            }
                        }
                    }
                    Happens::Leaves(at) => drop(waiting.remove(at)),
                    Happens::Ends(at) if at < inside.len() => {
                        drop(inside.remove(at));
                        if let Some(mut first) = waiting.pop_front() {
                            match first.as_mut().poll(&mut context) {
                                Poll::Ready(Ok(slot)) => inside.push(slot),
                                other => prop_assert!(false, "the first one waits: {:?}", other),
                            }
                        }
                    }
                    Happens::Ends(_) => {}
                }
                prop_assert!(inside.len() <= pool);
                prop_assert!(waiting.is_empty() || inside.len() == pool);
            }
            drop((waiting, inside));
            prop_assert_eq!(at_once(&admission), pool);
        }
    }
}
