//! What the HTTP fixture knows, shared by its connections and its handle.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::{HttpEffect, HttpFault, RecordedHttpRequest};
use crate::mcp::outlet::{Outlet, Output};

/// How long a handle waits for what is to come.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) requests: Vec<RecordedHttpRequest>,
    pub(super) connections: usize,
    sessions: Vec<Session>,
    sessions_issued: usize,
    /// How many requests each fault has concerned, by its place.
    fault_counts: Vec<usize>,
    standing: Vec<Outlet>,
    /// What waits for a standing stream.
    unsent: Vec<Output>,
}

#[derive(Debug)]
struct Session {
    id: String,
    requests: usize,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Inner) -> T) -> T {
        read(&self.lock())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let value = change(&mut self.lock());
        self.changed.send_replace(());
        value
    }

    /// Waits until `ready` gives a value, at most ten seconds of real time.
    ///
    /// A thread keeps the time: under a paused tokio clock a timer would fire at once.
    pub(super) async fn wait_until<T>(
        &self,
        what: &str,
        mut ready: impl FnMut(&Inner) -> Option<T>,
    ) -> io::Result<T> {
        let mut changed = self.changed.subscribe();
        let (_still_waiting, done) = std::sync::mpsc::channel::<()>();
        let (alarm, mut late) = oneshot::channel();
        std::thread::spawn(move || {
            // Ends early when the waiting ends and the sender goes.
            let _ = done.recv_timeout(PATIENCE);
            let _ = alarm.send(());
        });
        loop {
            if let Some(value) = self.read(&mut ready) {
                return Ok(value);
            }
            tokio::select! {
                _ = changed.changed() => {}
                _ = &mut late => {
                    let seen: Vec<_> = self.read(|state| state.requests.iter().map(summary).collect());
                    let text = format!("no {what} within 10 s; the requests are {seen:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            }
        }
    }

    /// Records a request; the number under which it is kept.
    pub(super) fn record(&self, request: RecordedHttpRequest) -> usize {
        self.change(|state| {
            state.requests.push(request);
            state.requests.len() - 1
        })
    }

    pub(super) fn abandon(&self, number: usize) {
        self.change(|state| state.requests.get_mut(number).map(|request| request.abandoned = true));
    }

    /// Counts a connection in; it is counted out on drop.
    pub(super) fn connect(&self) -> Connected<'_> {
        self.change(|state| state.connections += 1);
        Connected(self)
    }

    /// What goes wrong with this request.
    pub(super) fn effect<'a>(
        &self,
        faults: &'a [HttpFault],
        request: &RecordedHttpRequest,
    ) -> Option<&'a HttpEffect> {
        self.change(|state| {
            state.fault_counts.resize(faults.len(), 0);
            faults.iter().zip(&mut state.fault_counts).find_map(|(fault, count)| {
                if !fault.concerns(&request.method, request.rpc_method()) {
                    return None;
                }
                *count += 1;
                fault.effect(*count - 1)
            })
        })
    }

    pub(super) fn issue_session(&self) -> String {
        self.change(|state| {
            state.sessions_issued += 1;
            let id = format!("session-{}", state.sessions_issued);
            state.sessions.push(Session { id: id.clone(), requests: 0 });
            id
        })
    }

    /// Takes a request of that session; whether the session is known. The first session ever is
    /// forgotten after `limit` requests.
    pub(super) fn use_session(&self, id: &str, limit: Option<usize>) -> bool {
        self.change(|state| {
            let Some(place) = state.sessions.iter().position(|session| session.id == id) else {
                return false;
            };
            let Some(session) = state.sessions.get_mut(place) else { return false };
            if id == "session-1" && limit.is_some_and(|limit| session.requests >= limit) {
                state.sessions.remove(place);
                return false;
            }
            session.requests += 1;
            true
        })
    }

    pub(super) fn end_session(&self, id: &str) {
        self.change(|state| state.sessions.retain(|session| session.id != id));
    }

    pub(super) fn forget_sessions(&self) {
        self.change(|state| state.sessions.clear());
    }

    pub(super) fn sessions(&self) -> Vec<String> {
        self.read(|state| state.sessions.iter().map(|session| session.id.clone()).collect())
    }

    /// Opens a standing stream, which first gets what has waited for it.
    pub(super) fn stand(&self, outlet: Outlet) {
        self.change(|state| {
            for output in state.unsent.drain(..) {
                outlet.put(output);
            }
            state.standing.push(outlet);
        });
    }

    /// Puts something out on every standing stream.
    pub(super) fn push(&self, output: Output) {
        self.change(|state| {
            state.standing.retain(Outlet::is_open);
            if state.standing.is_empty() {
                state.unsent.push(output);
                return;
            }
            for outlet in &state.standing {
                outlet.put(output.clone());
            }
        });
    }

    pub(super) fn end_standing(&self) {
        self.change(|state| state.standing.clear());
    }

    /// Tells the waiting that a stream has ended.
    pub(super) fn stream_ended(&self) {
        self.change(|_| ());
    }
}

impl Inner {
    pub(super) fn standing_streams(&self) -> usize {
        self.standing.iter().filter(|outlet| outlet.is_open()).count()
    }
}

/// An open connection.
pub(super) struct Connected<'a>(&'a State);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.connections -= 1);
    }
}

fn summary(request: &RecordedHttpRequest) -> String {
    format!("{} {} {}", request.method, request.path, request.rpc_method().unwrap_or_default())
}
