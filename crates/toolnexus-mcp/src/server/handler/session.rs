//! The sessions of a handler, and what happens in each: calls, questions, streams, subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolnexus_core::LogLevel;

use super::log::EventLog;
use crate::server::message::RequestId;

/// How long a session may be idle.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// How many sessions a handler holds.
pub(super) const MAX_SESSIONS: usize = 10_000;

/// How many streams of one session wait for their client to come back.
const MAX_AWAY: usize = 32;

/// How many resources one session may want to hear of.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// What a client said to a question: its result, or its error.
pub(super) type Reply = Result<Value, Value>;

/// What is agreed when a session begins.
pub(super) struct Terms {
    pub(super) id: String,
    /// The id of the identity that began it.
    pub(super) owner: Option<String>,
    pub(super) version: &'static str,
    /// Whether the client can ask its person with a form.
    pub(super) elicits: bool,
}

/// One client, from `initialize` to its end.
pub(super) struct Session {
    pub(super) terms: Terms,
    /// Fires when the session ends. All that happens in it ends with it.
    pub(super) ended: CancellationToken,
    state: Mutex<State>,
}

struct State {
    last_used: Instant,
    level: Option<LogLevel>,
    counter: u64,
    calls: HashMap<u64, (RequestId, CancellationToken)>,
    questions: HashMap<RequestId, oneshot::Sender<Reply>>,
    logs: Vec<OpenLog>,
    subscriptions: HashSet<String>,
}

struct OpenLog {
    log: Arc<EventLog>,
    /// It hears what concerns the whole session.
    standing: bool,
}

impl Session {
    fn new(terms: Terms, ended: CancellationToken) -> Arc<Self> {
        let state = State {
            last_used: Instant::now(),
            level: None,
            counter: 0,
            calls: HashMap::new(),
            questions: HashMap::new(),
            logs: Vec::new(),
            subscriptions: HashSet::new(),
        };
        Arc::new(Session { terms, ended, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request that is carried out, so that its client can cancel it.
    pub(super) fn begin(self: &Arc<Self>, id: RequestId) -> InFlight {
        let token = self.ended.child_token();
        let mut state = self.lock();
        let number = state.next_number();
        state.calls.insert(number, (id, token.clone()));
        drop(state);
        InFlight { session: Arc::clone(self), number, token }
    }

    /// Cancels the requests of that id.
    pub(super) fn cancel(&self, id: &RequestId) {
        for (noted, token) in self.lock().calls.values() {
            if noted == id {
                token.cancel();
            }
        }
    }

    /// The level from which on the client wants to hear log lines.
    pub(super) fn level(&self) -> Option<LogLevel> {
        self.lock().level
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        self.lock().level = Some(level);
    }

    /// A question to the client, whose reply is awaited.
    pub(super) fn question(self: &Arc<Self>) -> Question {
        let (sender, reply) = oneshot::channel();
        let mut state = self.lock();
        let id = RequestId::number(state.next_number());
        state.questions.insert(id.clone(), sender);
        drop(state);
        Question { session: Arc::clone(self), id, reply }
    }

    /// Hands a client's reply to whoever asked. One that nobody waits for is dropped.
    pub(super) fn replied(&self, id: RequestId, reply: Reply) {
        let asker = self.lock().questions.remove(&id.of_own());
        if let Some(asker) = asker {
            let _ = asker.send(reply);
        }
    }

    /// A stream of its own for the whole session.
    pub(super) fn open_standing(&self) -> Arc<EventLog> {
        let mut state = self.lock();
        state.sweep(Instant::now());
        let log = EventLog::new(state.next_number(), self.ended.child_token(), true);
        if self.ended.is_cancelled() {
            log.end();
        }
        state.logs.push(OpenLog { log: Arc::clone(&log), standing: true });
        log
    }

    /// A number for a stream of this session.
    pub(super) fn stream_number(&self) -> u64 {
        self.lock().next_number()
    }

    /// Keeps the stream of a call for a client that will come back to it.
    pub(super) fn keep(&self, log: Arc<EventLog>) {
        let mut state = self.lock();
        state.sweep(Instant::now());
        if !state.logs.iter().any(|kept| kept.log.number() == log.number()) {
            state.logs.push(OpenLog { log, standing: false });
        }
    }

    /// The stream of that number, if its client may come back to it.
    pub(super) fn kept(&self, number: u64) -> Option<Arc<EventLog>> {
        let mut state = self.lock();
        state.sweep(Instant::now());
        state.logs.iter().find(|kept| kept.log.number() == number).map(|kept| Arc::clone(&kept.log))
    }

    /// Says something to the client on each of its standing streams.
    pub(super) fn say(&self, message: &Bytes) {
        let standing: Vec<Arc<EventLog>> = {
            let mut state = self.lock();
            state.sweep(Instant::now());
            state.logs.iter().filter(|open| open.standing).map(|open| Arc::clone(&open.log)).collect()
        };
        for log in standing {
            log.say(message.clone());
        }
    }

    /// Notes that the client wants to hear of a resource. False: it has too many.
    pub(super) fn subscribe(&self, uri: String) -> bool {
        let mut state = self.lock();
        state.subscriptions.contains(&uri)
            || (state.subscriptions.len() < MAX_SUBSCRIPTIONS && state.subscriptions.insert(uri))
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.lock().subscriptions.remove(uri);
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.lock().subscriptions.contains(uri)
    }

    fn touch(&self) {
        self.lock().last_used = Instant::now();
    }

    /// Since when nothing happens in it; `None` while something does.
    fn idle_since(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        state.sweep(now);
        let open = !state.calls.is_empty() || state.logs.iter().any(|open| open.log.is_attached());
        let away = state.logs.iter().filter_map(|open| open.log.away_since()).max();
        (!open).then(|| away.map_or(state.last_used, |away| away.max(state.last_used)))
    }

    /// Ends it, with all that happens in it.
    fn end(&self) {
        self.ended.cancel();
        let (logs, questions) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.logs), std::mem::take(&mut state.questions))
        };
        drop(questions);
        for open in logs {
            open.log.drop_all();
        }
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Forgets streams to which nobody will come back.
    fn sweep(&mut self, now: Instant) {
        let mut last = self.last_used;
        self.logs.retain(|open| {
            let kept = open.log.is_of_use(now);
            if let (false, Some(since)) = (kept, open.log.away_since()) {
                last = last.max(since);
            }
            kept
        });
        self.last_used = last;
        let away: Vec<u64> =
            self.logs.iter().filter(|open| !open.log.is_attached()).map(|open| open.log.number()).collect();
        for number in away.iter().take(away.len().saturating_sub(MAX_AWAY)) {
            if let Some(at) = self.logs.iter().position(|open| open.log.number() == *number) {
                self.logs.remove(at).log.drop_all();
            }
        }
    }
}

/// A request that is carried out.
pub(super) struct InFlight {
    session: Arc<Session>,
    number: u64,
    /// Fires when it is to end early.
    pub(super) token: CancellationToken,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        state.calls.remove(&self.number);
        state.last_used = Instant::now();
    }
}

/// A question that a client was asked.
pub(super) struct Question {
    session: Arc<Session>,
    pub(super) id: RequestId,
    reply: oneshot::Receiver<Reply>,
}

impl Question {
    /// The reply. `None`: there will be none.
    pub(super) async fn reply(&mut self) -> Option<Reply> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.session.lock().questions.remove(&self.id);
    }
}

/// Why a session could not begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSession {
    /// There are too many, and something happens in each.
    Full,
    /// Another session has that id.
    Taken,
    /// The handler is closed.
    Closed,
}

/// All sessions of a handler.
pub(super) struct Sessions {
    shutdown: CancellationToken,
    table: Mutex<Table>,
}

struct Table {
    sessions: HashMap<String, Arc<Session>>,
    swept: Instant,
}

impl Sessions {
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        let table = Table { sessions: HashMap::new(), swept: Instant::now() };
        Sessions { shutdown, table: Mutex::new(table) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session on these terms.
    pub(super) fn begin(&self, terms: Terms) -> Result<Arc<Session>, NoSession> {
        let now = Instant::now();
        let mut ended = Vec::new();
        let session = {
            let mut table = self.lock();
            if self.shutdown.is_cancelled() {
                return Err(NoSession::Closed);
            }
            // Those that nobody comes back to are not met otherwise.
            if now >= table.swept + IDLE || table.sessions.len() >= MAX_SESSIONS {
                table.swept = now;
                ended.extend(
                    table.sessions.extract_if(|_, session| is_over(session, now)).map(|(_, session)| session),
                );
            }
            if table.sessions.contains_key(&terms.id) {
                return Err(NoSession::Taken);
            }
            if table.sessions.len() >= MAX_SESSIONS {
                let idle = table.sessions.values().filter_map(|session| {
                    session.idle_since(now).map(|since| (since, session.terms.id.clone()))
                });
                let (_, longest) = idle.min_by_key(|(since, _)| *since).ok_or(NoSession::Full)?;
                ended.extend(table.sessions.remove(&longest));
            }
            let session = Session::new(terms, self.shutdown.child_token());
            table.sessions.insert(session.terms.id.clone(), Arc::clone(&session));
            session
        };
        ended.iter().for_each(|session| session.end());
        Ok(session)
    }

    /// The session of that id, which is used by asking for it.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        let session = {
            let mut table = self.lock();
            let session = Arc::clone(table.sessions.get(id)?);
            if !is_over(&session, Instant::now()) {
                session.touch();
                return Some(session);
            }
            table.sessions.remove(id);
            session
        };
        session.end();
        None
    }

    /// Ends a session. False: it was over already.
    pub(super) fn end(&self, session: &Session) -> bool {
        let there = {
            let mut table = self.lock();
            // A host may have given the id again since this session was looked up.
            let same =
                table.sessions.get(&session.terms.id).is_some_and(|known| std::ptr::eq(&**known, session));
            same && table.sessions.remove(&session.terms.id).is_some()
        };
        session.end();
        there
    }

    /// Ends all of them; none begins any more once the shutdown token has fired.
    pub(super) fn end_all(&self) {
        let all: Vec<Arc<Session>> = self.lock().sessions.drain().map(|(_, session)| session).collect();
        all.iter().for_each(|session| session.end());
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().sessions.values().map(Arc::clone).collect()
    }

    pub(super) fn count(&self) -> usize {
        let now = Instant::now();
        self.lock().sessions.values().filter(|session| !is_over(session, now)).count()
    }
}

fn is_over(session: &Session, now: Instant) -> bool {
    session.idle_since(now).is_some_and(|since| now >= since + IDLE)
}
