//! One event stream: what is said into it, and the body that carries it.
//!
//! An [`EventLog`] is a bounded mailbox. Whoever has something to say puts it in and never waits; the
//! [`Reader`], which is the body of an HTTP answer, takes it out as fast as its client reads. A client
//! that lets too much pile up loses its stream.
//!
//! A log that may be *resumed* keeps what it has delivered for a while, and outlives its reader: the
//! client comes back with the id of the last event it saw, and reads on behind it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::server::sse::{Event, KEEP_ALIVE, WAITING_EVENTS, keep_alive};

/// How many delivered events a log keeps for a client that lost them on the way.
const KEPT_EVENTS: usize = 256;

/// How many events may wait before a call's reports are held back, and drop what is out of date.
const BUSY_EVENTS: usize = 64;

/// How many bytes of them hold reports back as well: a client chooses the size of what marks them.
const BUSY_BYTES: usize = 1024 * 1024;

/// How many bytes of delivered events a log keeps.
const KEPT_BYTES: usize = 1024 * 1024;

/// How long a client may stay away from a stream that it can resume.
pub(super) const AWAY: Duration = Duration::from_secs(300);

/// What is said on one event stream.
pub(super) struct EventLog {
    /// Part of the ids of its events. Unique in a session.
    number: u64,
    /// Fires when nobody will read what is said.
    gone: CancellationToken,
    state: Mutex<State>,
    /// A reader came or went.
    readers: Notify,
    /// There is room for reports again.
    drained: Notify,
}

struct State {
    events: VecDeque<Bytes>,
    /// The number of the first event of those.
    first: u64,
    /// The number of the event that is read next.
    next: u64,
    /// The bytes of the events before `next`.
    kept_bytes: usize,
    /// The bytes of the others.
    waiting_bytes: usize,
    resumable: bool,
    /// No more will be said.
    ended: bool,
    /// Who reads. A reader of another number has been superseded.
    reader: u64,
    attached: bool,
    /// The reader leaves when it has read what waits.
    released: bool,
    /// Since when nobody reads any more.
    away_since: Option<Instant>,
    waker: Option<Waker>,
}

impl EventLog {
    /// A log that nobody reads yet. `gone` is cancelled when nobody will read it any more.
    pub(super) fn new(number: u64, gone: CancellationToken, resumable: bool) -> Arc<Self> {
        Arc::new(EventLog {
            number,
            gone,
            state: Mutex::new(State {
                events: VecDeque::new(),
                first: 1,
                next: 1,
                kept_bytes: 0,
                waiting_bytes: 0,
                resumable,
                ended: false,
                reader: 0,
                attached: false,
                released: false,
                away_since: None,
                waker: None,
            }),
            readers: Notify::new(),
            drained: Notify::new(),
        })
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body that carries the log, behind the event of number `after`; without that, what was not
    /// read yet. It takes the place of any other.
    pub(super) fn read(self: &Arc<Self>, after: Option<u64>) -> Reader {
        let (reader, superseded) = {
            let mut state = self.lock();
            state.reader += 1;
            (state.attached, state.released, state.away_since) = (true, false, None);
            if let Some(after) = after {
                state.rewind(after.saturating_add(1));
            }
            (state.reader, state.waker.take())
        };
        wake(superseded);
        // Who comes back may have skipped what waited.
        self.drained.notify_waiters();
        self.readers.notify_waiters();
        Reader { log: Arc::clone(self), reader, silence: Box::pin(sleep(KEEP_ALIVE)) }
    }

    /// Says a message. False: nobody will read it.
    pub(super) fn say(&self, message: Bytes) -> bool {
        self.put(None, message)
    }

    /// Says nothing, so that the client learns an id with which it can come back, and when it should.
    pub(super) fn prime(&self, retry: Option<Duration>) -> bool {
        self.put(retry, Bytes::new())
    }

    fn put(&self, retry: Option<Duration>, data: Bytes) -> bool {
        let (said, waker) = {
            let mut state = self.lock();
            if state.ended || self.gone.is_cancelled() {
                return false;
            }
            let said = state.waiting() < WAITING_EVENTS;
            if said {
                let number = state.first + state.events.len() as u64;
                let id = state.resumable.then(|| format!("{}-{number}", self.number));
                let event = Event { id, retry, data }.encode();
                state.waiting_bytes += event.len();
                state.events.push_back(event);
            } else {
                state.ended = true;
                state.clear();
            }
            (said, state.waker.take())
        };
        if !said {
            self.gone.cancel();
        }
        wake(waker);
        said
    }

    /// Ends the stream behind what has been said.
    pub(super) fn end(&self) {
        let waker = {
            let mut state = self.lock();
            state.ended = true;
            state.waker.take()
        };
        wake(waker);
    }

    /// Ends the stream at once: what has not been read is dropped.
    pub(super) fn drop_all(&self) {
        self.gone.cancel();
        let waker = {
            let mut state = self.lock();
            state.ended = true;
            state.clear();
            state.waker.take()
        };
        wake(waker);
    }

    /// Sends the reader away behind what has been said; its client may come back for the rest.
    pub(super) fn release(&self, retry: Duration) -> bool {
        self.lock().resumable = true;
        if !self.prime(Some(retry)) {
            return false;
        }
        let waker = {
            let mut state = self.lock();
            state.released = true;
            state.waker.take()
        };
        wake(waker);
        true
    }

    /// Whether a client reads it now.
    pub(super) fn is_attached(&self) -> bool {
        self.lock().attached
    }

    /// Since when no client reads it any more; `None` while one does, and before the first.
    pub(super) fn away_since(&self) -> Option<Instant> {
        self.lock().away_since
    }

    /// Whether a client may still come and read it.
    pub(super) fn is_of_use(&self, now: Instant) -> bool {
        let state = self.lock();
        let expected = state.away_since.is_none_or(|since| state.resumable && now < since + AWAY);
        expected && !self.gone.is_cancelled()
    }

    /// Returns when so little waits that more may be told, which a tool does faster than a network.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if !self.lock().is_busy() {
                return;
            }
            drained.await;
        }
    }

    /// Returns when nobody will read what is said: the client is gone for good, or away for too long.
    pub(super) async fn abandoned(&self) {
        loop {
            let changed = self.readers.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let deadline = self.away_since().map(|since| since + AWAY);
            let too_long = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.gone.cancelled() => return,
                () = too_long => {
                    self.gone.cancel();
                    return;
                }
                () = changed => {}
            }
        }
    }
}

impl State {
    fn waiting(&self) -> usize {
        let said = self.first + self.events.len() as u64;
        usize::try_from(said.saturating_sub(self.next)).unwrap_or(usize::MAX)
    }

    /// Whether so much waits that only answers and questions may still be added.
    fn is_busy(&self) -> bool {
        self.waiting() >= BUSY_EVENTS || self.waiting_bytes >= BUSY_BYTES
    }

    fn clear(&mut self) {
        self.events.clear();
        (self.kept_bytes, self.waiting_bytes) = (0, 0);
    }

    fn at(&self, number: u64) -> Option<&Bytes> {
        self.events.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn take(&mut self) -> Option<Bytes> {
        let event = self.at(self.next)?.clone();
        self.next += 1;
        self.kept_bytes += event.len();
        self.waiting_bytes -= event.len();
        let (events, bytes) = if self.resumable { (KEPT_EVENTS, KEPT_BYTES) } else { (0, 0) };
        while self.next - self.first > events as u64 || self.kept_bytes > bytes {
            let Some(dropped) = self.events.pop_front() else { break };
            self.kept_bytes -= dropped.len();
            self.first += 1;
        }
        Some(event)
    }

    /// Goes back, or on, to the event of this number, or to the nearest that is kept.
    fn rewind(&mut self, number: u64) {
        let end = self.first + self.events.len() as u64;
        self.next = number.clamp(self.first, end);
        let delivered = usize::try_from(self.next - self.first).unwrap_or(usize::MAX);
        self.kept_bytes = self.events.iter().take(delivered).map(Bytes::len).sum();
        self.waiting_bytes = self.events.iter().skip(delivered).map(Bytes::len).sum();
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The body of an event stream: encoded events, and comments where there is silence.
pub(super) struct Reader {
    log: Arc<EventLog>,
    reader: u64,
    silence: Pin<Box<Sleep>>,
}

impl Stream for Reader {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let event = {
            let mut state = this.log.lock();
            if state.reader != this.reader {
                return Poll::Ready(None);
            }
            let was_busy = state.is_busy();
            match state.take() {
                Some(event) => {
                    if was_busy && !state.is_busy() {
                        this.log.drained.notify_waiters();
                    }
                    Some(event)
                }
                None if state.ended || state.released => return Poll::Ready(None),
                None => {
                    state.waker = Some(cx.waker().clone());
                    None
                }
            }
        };
        let chunk = match event {
            Some(event) => event,
            None => {
                futures::ready!(this.silence.as_mut().poll(cx));
                keep_alive()
            }
        };
        this.silence.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(Some(chunk))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        {
            let mut state = self.log.lock();
            if state.reader != self.reader {
                return;
            }
            state.attached = false;
            state.away_since = Some(Instant::now());
            state.waker = None;
            if !state.resumable {
                self.log.gone.cancel();
            }
        }
        self.log.readers.notify_waiters();
    }
}

/// Takes the id of an event apart: the number of its log, and its own.
pub(super) fn event_id(text: &str) -> Option<(u64, u64)> {
    let (log, event) = text.split_once('-')?;
    Some((number(log)?, number(event)?))
}

/// As this side writes numbers, and in no other way.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, StreamExt as _};
    use proptest::prelude::*;

    fn log(resumable: bool) -> (Arc<EventLog>, CancellationToken) {
        let gone = CancellationToken::new();
        (EventLog::new(3, gone.clone(), resumable), gone)
    }

    fn read(reader: &mut Reader) -> Option<String> {
        let chunk = reader.next().now_or_never()??;
        Some(String::from_utf8(chunk.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn what_is_said_is_read_in_order() {
        let (log, gone) = log(false);
        let mut reader = log.read(None);
        assert!(log.say("a".into()) && log.say("b".into()));
        assert_eq!(read(&mut reader).unwrap(), "data: a\n\n");
        assert_eq!(read(&mut reader).unwrap(), "data: b\n\n");
        assert_eq!(read(&mut reader), None);
        assert!(log.say("c".into()));
        log.end();
        assert!(!log.say("d".into()));
        assert_eq!(reader.next().await.unwrap(), "data: c\n\n");
        assert_eq!(reader.next().await, None);
        assert!(!gone.is_cancelled());
        drop(reader);
        assert!(gone.is_cancelled());
    }

    // MCP-190
    #[tokio::test]
    async fn a_stream_that_nobody_reads_is_closed() {
        for resumable in [false, true] {
            let (log, gone) = log(resumable);
            let mut reader = log.read(None);
            assert!((0..WAITING_EVENTS).all(|_| log.say("x".into())));
            assert!(!gone.is_cancelled());
            assert!(!log.say("one too many".into()));
            assert!(gone.is_cancelled());
            assert_eq!(reader.next().await, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_comes_back_for_the_rest() {
        let (log, gone) = log(false);
        let mut reader = log.read(None);
        assert!(log.say("a".into()));
        assert!(log.release(Duration::from_millis(500)));
        assert_eq!(reader.next().await.unwrap(), "data: a\n\n");
        assert_eq!(reader.next().await.unwrap(), "id: 3-2\nretry: 500\ndata: \n\n");
        assert_eq!(reader.next().await, None);
        drop(reader);
        assert!(log.say("b".into()) && log.say("c".into()));
        log.end();
        let mut reader = log.read(Some(2));
        assert_eq!(reader.next().await.unwrap(), "id: 3-3\ndata: b\n\n");
        // The line broke before that was there: once more.
        let mut again = log.read(Some(2));
        assert_eq!(reader.next().await, None);
        drop(reader);
        assert_eq!(again.next().await.unwrap(), "id: 3-3\ndata: b\n\n");
        assert_eq!(again.next().await.unwrap(), "id: 3-4\ndata: c\n\n");
        assert_eq!(again.next().await, None);
        assert!(log.is_attached() && !gone.is_cancelled());
        drop(again);
        assert!(log.is_of_use(Instant::now()));
        tokio::time::advance(AWAY).await;
        assert!(!log.is_of_use(Instant::now()));
        log.abandoned().await;
        assert!(gone.is_cancelled());
    }

    #[tokio::test]
    async fn what_was_read_is_kept_within_bounds() {
        let (log, _gone) = log(true);
        let mut reader = log.read(None);
        for _ in 0..KEPT_EVENTS * 2 {
            assert!(log.say("x".into()));
            assert!(read(&mut reader).is_some());
        }
        assert_eq!(log.lock().events.len(), KEPT_EVENTS);
        let large = Bytes::from(vec![b'y'; KEPT_BYTES / 2]);
        for _ in 0..4 {
            assert!(log.say(large.clone()));
            assert!(read(&mut reader).is_some());
        }
        let state = log.lock();
        assert!(state.kept_bytes <= KEPT_BYTES);
        assert_eq!(state.kept_bytes, state.events.iter().map(Bytes::len).sum::<usize>());
    }

    // MCP-189: a few large events are as much as many small ones
    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes_too() {
        let (log, _gone) = log(true);
        let mut reader = log.read(None);
        let large = Bytes::from(vec![b'y'; BUSY_BYTES / 2]);
        assert!(log.say(large.clone()));
        assert!(log.room().now_or_never().is_some());
        assert!(log.say(large.clone()));
        let mut room = Box::pin(log.room());
        assert!(room.as_mut().now_or_never().is_none());
        assert!(read(&mut reader).is_some());
        assert!(room.now_or_never().is_some());
        // An answer is never held back.
        assert!(log.say(large.clone()) && log.say(large));
        assert!(log.room().now_or_never().is_none());
        log.drop_all();
        assert_eq!(log.lock().waiting_bytes, 0);
    }

    // MCP-189: who skips what waited has room again
    #[tokio::test]
    async fn a_client_that_skips_ahead_gets_reports_again() {
        let (log, _gone) = log(true);
        let _first = log.read(None);
        assert!((0..BUSY_EVENTS).all(|_| log.say("x".into())));
        let mut room = Box::pin(log.room());
        assert!(room.as_mut().now_or_never().is_none());
        let _second = log.read(Some(u64::MAX));
        assert!(room.now_or_never().is_some());
        assert_eq!(log.lock().waiting_bytes, 0);
    }

    proptest! {
        #[test]
        fn ids_of_events_are_read_as_written(log in any::<u64>(), event in any::<u64>(), other in ".{0,12}") {
            prop_assert_eq!(event_id(&format!("{log}-{event}")), Some((log, event)));
            if let Some((log, event)) = event_id(&other) {
                prop_assert_eq!(format!("{log}-{event}"), other);
            }
        }

        // Whatever is read, lost and asked for again, nothing is skipped and nothing is made up.
        #[test]
        fn a_client_misses_nothing(steps in proptest::collection::vec(0..4_u8, 1..80)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _inside = runtime.enter();
            let (log, _gone) = log(true);
            let mut reader = log.read(None);
            let (mut said, mut seen) = (0, 0);
            for step in steps {
                match step {
                    0 | 1 => {
                        said += 1;
                        prop_assert!(log.say(Bytes::from(said.to_string())));
                    }
                    2 => if let Some(event) = read(&mut reader) {
                        seen += 1;
                        prop_assert_eq!(event, format!("id: 3-{seen}\ndata: {seen}\n\n"));
                    },
                    _ => {
                        // What the last event read was lost on the way.
                        seen = seen.max(1) - 1;
                        reader = log.read(Some(seen));
                    }
                }
            }
            while let Some(event) = read(&mut reader) {
                seen += 1;
                prop_assert_eq!(event, format!("id: 3-{seen}\ndata: {seen}\n\n"));
            }
            prop_assert_eq!(seen, said);
        }
    }
}
