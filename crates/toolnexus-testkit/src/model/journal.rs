//! What the server has seen: requests and connections, with notification.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::request::RecordedRequest;

/// Numbers that tests wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: usize,
    pub(crate) accepted: usize,
    pub(crate) open: usize,
    pub(crate) aborted: usize,
}

pub(crate) struct Journal {
    keep: bool,
    log: Mutex<Log>,
    counts: watch::Sender<Counts>,
}

#[derive(Default)]
struct Log {
    next_index: usize,
    kept: Vec<RecordedRequest>,
}

impl Journal {
    pub(crate) fn new(keep: bool) -> Self {
        Self { keep, log: Mutex::default(), counts: watch::Sender::new(Counts::default()) }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a request that is complete now, keeps it and tells those who wait.
    pub(crate) fn record(&self, make: impl FnOnce(usize) -> RecordedRequest) -> RecordedRequest {
        let request = {
            let mut log = self.log();
            let request = make(log.next_index);
            log.next_index += 1;
            if self.keep {
                log.kept.push(request.clone());
            }
            request
        };
        self.counts.send_modify(|c| c.requests += 1);
        request
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.log().kept.clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    pub(crate) async fn wait_for(&self, enough: impl FnMut(&Counts) -> bool) {
        // The sender lives in `self`, so the channel cannot close.
        let _ = self.counts.subscribe().wait_for(enough).await;
    }
}
