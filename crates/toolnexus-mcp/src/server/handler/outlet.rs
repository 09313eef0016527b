//! Where the answer to one POST goes: whole, as long as there is nothing else to say; as an event
//! stream from the moment there is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::log::{EventLog, Reader};
use super::session::Session;

/// The first protocol revision whose clients come back to a stream that was ended for them.
const POLLING_SINCE: &str = "2025-11-25";

/// How an answer begins.
pub(super) enum Head {
    /// This is all of it.
    Whole(Bytes),
    /// More is to come.
    Events(Reader),
}

/// The answer to one POST.
pub(super) struct Outlet {
    /// The session of the request, if there are sessions.
    session: Option<Arc<Session>>,
    /// Whether the client takes an event stream.
    streams: bool,
    log: Arc<EventLog>,
    state: Mutex<State>,
}

enum State {
    Quiet(oneshot::Sender<Head>),
    Streaming,
    Done,
}

impl Outlet {
    /// An outlet, and how its answer begins. `token` is cancelled when nobody waits for it any more.
    pub(super) fn new(
        session: Option<Arc<Session>>,
        streams: bool,
        token: CancellationToken,
    ) -> (Arc<Self>, oneshot::Receiver<Head>) {
        let (sender, head) = oneshot::channel();
        let number = session.as_ref().map_or(0, |session| session.stream_number());
        let log = EventLog::new(number, token, false);
        (Arc::new(Outlet { session, streams, log, state: Mutex::new(State::Quiet(sender)) }), head)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything but the answer can be said.
    pub(super) const fn streams(&self) -> bool {
        self.streams
    }

    /// Begins the event stream, if it has not begun. False: there can be none, or it is over.
    fn open(&self) -> bool {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Done) {
            State::Quiet(head) if self.streams => {
                *state = State::Streaming;
                // Without a client the reader is dropped, which cancels the call.
                let _ = head.send(Head::Events(self.log.read(None)));
                true
            }
            State::Streaming => {
                *state = State::Streaming;
                true
            }
            other => {
                *state = other;
                false
            }
        }
    }

    /// Says something before the answer. False: nobody will hear it.
    pub(super) fn say(&self, message: Bytes) -> bool {
        self.open() && self.log.say(message)
    }

    /// Ends the stream for now; the client comes back for the rest. False: it would not.
    pub(super) fn release(&self, retry: Duration) -> bool {
        let Some(session) = &self.session else { return false };
        if session.terms.version < POLLING_SINCE || !self.open() {
            return false;
        }
        session.keep(Arc::clone(&self.log));
        self.log.release(retry)
    }

    /// Nothing more is said after this; what it was before.
    fn over(&self) -> State {
        std::mem::replace(&mut *self.lock(), State::Done)
    }

    /// Gives the answer.
    pub(super) fn finish(&self, answer: Bytes) {
        match self.over() {
            State::Quiet(head) => drop(head.send(Head::Whole(answer))),
            State::Streaming => {
                self.log.say(answer);
                self.log.end();
            }
            State::Done => {}
        }
    }

    /// Ends it for a client that has withdrawn its request. What has not begun needs an answer all
    /// the same, since HTTP knows none without.
    pub(super) fn withdraw(&self, answer: Bytes) {
        match self.over() {
            State::Quiet(head) => drop(head.send(Head::Whole(answer))),
            State::Streaming => self.log.end(),
            State::Done => {}
        }
    }

    /// Returns when the client keeps up with what it is told.
    pub(super) async fn room(&self) {
        self.log.room().await;
    }

    /// Returns when nobody waits for the answer any more.
    pub(super) async fn abandoned(&self) {
        self.log.abandoned().await;
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.log.end();
    }
}
