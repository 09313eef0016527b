//! The calls in flight on one connection, and what the server tells and asks about them meanwhile.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{LogLevel, Reporter};

use crate::clock::Clock;
use crate::sync::lock;

/// How many reports wait for a call that is not known yet: a server may report before the side
/// that sent the request has come to follow it.
const EARLY: usize = 16;

/// How many questions of one server wait for the host at once.
pub(crate) const MAX_QUESTIONS: usize = 64;

/// The longest log line, or message of a progress report, that is passed on, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// How far a call has come, as its server says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    progress_token: Value,
    /// Absent or odd: a sign of life all the same.
    #[serde(default)]
    progress: Value,
    #[serde(default)]
    total: Value,
    #[serde(default)]
    message: Value,
}

impl Progress {
    fn token(&self) -> Option<i64> {
        match &self.progress_token {
            Value::Number(token) => token.as_i64(),
            Value::String(token) => token.parse().ok(),
            _ => None,
        }
    }

    /// Without what nobody is told: it may be kept for a while.
    fn bounded(self) -> Self {
        let number = |value: Value| if value.is_number() { value } else { Value::Null };
        let message = match self.message {
            Value::String(mut text) => {
                text.truncate(text.floor_char_boundary(MAX_LINE_BYTES));
                text.shrink_to_fit();
                Value::String(text)
            }
            _ => Value::Null,
        };
        Progress {
            progress_token: Value::Null,
            progress: number(self.progress),
            total: number(self.total),
            message,
        }
    }

    fn report(&self, reporter: &Reporter) {
        if let Some(progress) = self.progress.as_f64() {
            reporter.progress(progress, self.total.as_f64(), self.message.as_str());
        }
    }
}

/// A line of a server's log.
#[derive(Deserialize)]
struct LogLine {
    #[serde(default)]
    level: Value,
    #[serde(default)]
    data: Value,
}

/// One call: who it is, who is told what its server reports, and its time.
struct Call {
    request: RequestId,
    reporter: Reporter,
    clock: Arc<Clock>,
}

/// The calls in flight on one connection, by progress token, and the questions that the server has
/// put to the host meanwhile. The transport tells what it reads.
#[derive(Default)]
pub(crate) struct CallsInFlight {
    known: Mutex<Known>,
    /// A call has begun or ended.
    changed: Notify,
    ended: CancellationToken,
    /// The server has announced other tools.
    tools_changed: Notify,
}

#[derive(Default)]
struct Known {
    calls: HashMap<i64, Arc<Call>>,
    /// Calls that are being sent, by number: their tokens are not known yet.
    starting: Vec<u64>,
    next_start: u64,
    early: VecDeque<(Whose, Report)>,
    /// The questions that are open, by number.
    questions: BTreeMap<u64, Option<RequestId>>,
    next_question: u64,
}

/// What came before its call was known.
enum Report {
    Progress(Box<Progress>),
    Log(LogLevel, String),
}

/// Which call a report belongs to.
#[derive(PartialEq)]
enum Whose {
    Token(i64),
    StreamOf(RequestId),
    /// By the number it is sent under.
    Started(u64),
}

impl Report {
    fn tell(self, call: &Call) {
        match self {
            Report::Progress(progress) => {
                call.clock.touch();
                progress.report(&call.reporter);
            }
            Report::Log(level, text) => call.reporter.log(level, text),
        }
    }
}

/// Whether a question with that cause may be `call`'s.
fn may_be_of(cause: &Option<RequestId>, call: &Call) -> bool {
    cause.as_ref().is_none_or(|cause| *cause == call.request)
}

impl Known {
    fn keep_early(&mut self, whose: Whose, report: Report) {
        self.early.truncate(EARLY - 1);
        self.early.push_front((whose, report));
    }
}

impl CallsInFlight {
    /// Counts a call in that is about to be sent.
    pub(crate) fn start(self: &Arc<Self>, clock: Arc<Clock>) -> StartingCall {
        let mut known = lock(&self.known);
        let number = known.next_start;
        known.next_start += 1;
        known.starting.push(number);
        drop(known);
        StartingCall { calls: Arc::clone(self), number, clock }
    }

    /// Takes the parameters of a progress notice; an unknown token is nobody's.
    pub(crate) fn progress(&self, params: &str) {
        let Ok(progress) = serde_json::from_str::<Progress>(params) else { return };
        let Some(token) = progress.token() else { return };
        let progress = progress.bounded();
        let report = Report::Progress(Box::new(progress));
        let call = {
            let mut known = lock(&self.known);
            match known.calls.get(&token) {
                Some(call) => Arc::clone(call),
                None => return known.keep_early(Whose::Token(token), report),
            }
        };
        report.tell(&call);
    }

    /// Takes the parameters of a log notice. It belongs to the request whose own stream brought it;
    /// where streams are shared, to the only call there is.
    pub(crate) fn log(&self, params: &str, stream_of: Option<&RequestId>) {
        let Ok(line) = serde_json::from_str::<LogLine>(params) else { return };
        let level = line.level.as_str().and_then(|level| level.parse().ok()).unwrap_or(LogLevel::Info);
        let mut text = match line.data {
            Value::String(text) => text,
            other => other.to_string(),
        };
        text.truncate(text.floor_char_boundary(MAX_LINE_BYTES));
        let call = {
            let mut known = lock(&self.known);
            let mut calls = known.calls.values();
            let (call, whose) = match (stream_of, &known.starting[..]) {
                (Some(request), starting) => {
                    let whose = (!starting.is_empty()).then(|| Whose::StreamOf(request.clone()));
                    (calls.find(|call| call.request == *request).cloned(), whose)
                }
                (None, []) => (calls.next().filter(|_| known.calls.len() == 1).cloned(), None),
                (None, [only]) if known.calls.is_empty() => (None, Some(Whose::Started(*only))),
                (None, _) => (None, None),
            };
            if let (None, Some(whose)) = (&call, whose) {
                return known.keep_early(whose, Report::Log(level, text));
            }
            call
        };
        match call {
            Some(call) => Report::Log(level, text).tell(&call),
            None => tracing::debug!(mcp.log.level = %level, "{text}"),
        }
    }

    /// Opens a question to the host, raised by the request `cause` if the wire tells. Until it is
    /// dropped the clocks of the calls that may have raised it stand still. `None`: more than enough
    /// are open.
    pub(crate) fn question(self: &Arc<Self>, cause: Option<RequestId>) -> Option<Question> {
        let known = lock(&self.known);
        (known.questions.len() < MAX_QUESTIONS).then(|| self.open(known, cause))
    }

    /// Stops the clock of one call, whose request somebody signs in for.
    pub(crate) fn hold(self: &Arc<Self>, request: RequestId) -> Question {
        self.open(lock(&self.known), Some(request))
    }

    fn open(self: &Arc<Self>, mut known: MutexGuard<'_, Known>, cause: Option<RequestId>) -> Question {
        let number = known.next_question;
        known.next_question += 1;
        known.calls.values().filter(|call| may_be_of(&cause, call)).for_each(|call| call.clock.hold());
        known.questions.insert(number, cause);
        drop(known);
        Question { calls: Arc::clone(self), number }
    }

    /// Notes that nothing comes or goes any more.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Notes that the server's tools are others now.
    pub(crate) fn note_tools_changed(&self) {
        self.tools_changed.notify_one();
    }

    /// Ends when that was noted since the last time, however often.
    pub(crate) async fn tools_changed(&self) {
        self.tools_changed.notified().await;
    }

    /// Ends with the connection.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether the connection has ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// A call that is being sent.
pub(crate) struct StartingCall {
    calls: Arc<CallsInFlight>,
    number: u64,
    clock: Arc<Clock>,
}

impl StartingCall {
    /// Follows the call, now that it has a token, for as long as the returned guard lives.
    pub(crate) fn follow(self, token: i64, request: RequestId, reporter: Reporter) -> FollowedCall {
        let call = Arc::new(Call { request, reporter, clock: Arc::clone(&self.clock) });
        let mut known = lock(&self.calls.known);
        known.calls.insert(token, Arc::clone(&call));
        known.questions.values().filter(|cause| may_be_of(cause, &call)).for_each(|_| call.clock.hold());
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut known.early).into_iter().partition(|(whose, _)| match whose {
                Whose::Token(of) => *of == token,
                Whose::StreamOf(request) => *request == call.request,
                Whose::Started(number) => *number == self.number,
            });
        known.early = others;
        // Before anybody else can tell what came later. The newest stands first.
        mine.into_iter().rev().for_each(|(_, report)| report.tell(&call));
        drop(known);
        FollowedCall { calls: Arc::clone(&self.calls), token, call }
    }
}

impl Drop for StartingCall {
    fn drop(&mut self) {
        let mut known = lock(&self.calls.known);
        known.starting.retain(|number| *number != self.number);
        if known.starting.is_empty() {
            // A log line that nobody has claimed by now is nobody's.
            known.early.retain(|(whose, _)| matches!(whose, Whose::Token(_)));
        }
        drop(known);
        self.calls.changed.notify_waiters();
    }
}

/// One followed call; dropping it forgets the token.
pub(crate) struct FollowedCall {
    calls: Arc<CallsInFlight>,
    token: i64,
    call: Arc<Call>,
}

impl Drop for FollowedCall {
    fn drop(&mut self) {
        let mut known = lock(&self.calls.known);
        if known.calls.get(&self.token).is_some_and(|call| Arc::ptr_eq(call, &self.call)) {
            known.calls.remove(&self.token);
        }
        drop(known);
        self.calls.changed.notify_waiters();
    }
}

/// A question of the server's that waits for the host.
pub(crate) struct Question {
    calls: Arc<CallsInFlight>,
    number: u64,
}

impl Question {
    /// Ends when the question has lost its point: the call that raised it is over, or, where the
    /// wire does not tell which one that is, all calls are.
    pub(crate) async fn moot(&self) {
        loop {
            let changed = self.calls.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_moot() {
                return;
            }
            changed.await;
        }
    }

    fn is_moot(&self) -> bool {
        let known = lock(&self.calls.known);
        let Some(cause) = known.questions.get(&self.number) else { return true };
        known.starting.is_empty() && !known.calls.values().any(|call| may_be_of(cause, call))
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut known = lock(&self.calls.known);
        let Some(cause) = known.questions.remove(&self.number) else { return };
        known.calls.values().filter(|call| may_be_of(&cause, call)).for_each(|call| call.clock.release());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use futures::FutureExt as _;
    use serde_json::json;
    use tokio::time::advance;
    use toolnexus_core::{Reports, ToolReport, report_channel};

    use crate::request::Limits;

    fn following(calls: &Arc<CallsInFlight>, token: i64) -> (FollowedCall, Reports) {
        let (reporter, reports) = report_channel();
        (started(calls).follow(token, RequestId::Number(token + 100), reporter), reports)
    }

    fn started(calls: &Arc<CallsInFlight>) -> StartingCall {
        calls.start(Arc::new(Clock::new(Limits { idle: Duration::from_secs(10), total: None })))
    }

    fn progress(progress: f64, total: Option<f64>, message: Option<&str>) -> ToolReport {
        ToolReport::Progress { progress, total, message: message.map(str::to_owned) }
    }

    fn log(level: LogLevel, message: &str) -> ToolReport {
        ToolReport::Log { level, message: message.into(), dropped: 0 }
    }

    // MCP-186: a report before its call is followed is kept for it, of unknown calls only a few
    #[test]
    fn early_reports_wait_for_their_call() {
        let calls = Arc::new(CallsInFlight::default());
        for token in 0..100 {
            calls.progress(&json!({"progressToken": token, "progress": token}).to_string());
        }
        assert_eq!(lock(&calls.known).early.len(), EARLY);
        let (_call, reports) = following(&calls, 99);
        assert_eq!(reports.take_waiting(), [progress(99.0, None, None)]);
        let (_call, reports) = following(&calls, 0);
        assert_eq!(reports.take_waiting(), []);
    }

    // MCP-186
    #[test]
    fn progress_goes_to_the_call_of_its_token() {
        let calls = Arc::new(CallsInFlight::default());
        let (_first, first_reports) = following(&calls, 1);
        let (second, second_reports) = following(&calls, 2);
        calls.progress(r#"{"progressToken":1,"progress":1,"total":2,"message":"half"}"#);
        calls.progress(r#"{"progressToken":"2","progress":0.5}"#);
        assert_eq!(first_reports.take_waiting(), [progress(1.0, Some(2.0), Some("half"))]);
        assert_eq!(second_reports.take_waiting(), [progress(0.5, None, None)]);
        // Odd notices are signs of life and nothing else.
        for odd in [r#"{"progressToken":1}"#, r#"{"progressToken":1,"progress":"x"}"#, "{}", "[]", "nonsense"]
        {
            calls.progress(odd);
        }
        assert_eq!(first_reports.take_waiting(), []);
        let long =
            json!({"progressToken": 1, "progress": 1, "total": [], "message": "é".repeat(MAX_LINE_BYTES)});
        calls.progress(&long.to_string());
        let message = "é".repeat(MAX_LINE_BYTES / 2);
        assert_eq!(first_reports.take_waiting(), [progress(1.0, None, Some(&message))]);
        drop(second);
        calls.progress(r#"{"progressToken":2,"progress":1}"#);
        assert_eq!(second_reports.take_waiting(), []);
    }

    // MCP-186
    #[test]
    fn a_log_line_goes_to_the_call_it_can_only_belong_to() {
        let calls = Arc::new(CallsInFlight::default());
        let (_first, first_reports) = following(&calls, 1);
        calls.log(r#"{"level":"warning","data":"shared"}"#, None);
        assert_eq!(first_reports.take_waiting(), [log(LogLevel::Warning, "shared")]);

        let (_second, second_reports) = following(&calls, 2);
        calls.log(r#"{"level":"warning","data":"whose?"}"#, None);
        calls.log(r#"{"level":"loud","data":{"a":[1]}}"#, Some(&RequestId::Number(102)));
        calls.log(r#"{"data":"nobody's"}"#, Some(&RequestId::Number(7)));
        assert_eq!(first_reports.take_waiting(), []);
        assert_eq!(second_reports.take_waiting(), [log(LogLevel::Info, r#"{"a":[1]}"#)]);

        let long = json!({"level": "error", "data": "é".repeat(MAX_LINE_BYTES)}).to_string();
        calls.log(&long, Some(&RequestId::Number(101)));
        let [ToolReport::Log { message, .. }] = &first_reports.take_waiting()[..] else { panic!() };
        assert_eq!(message.len(), MAX_LINE_BYTES);
    }

    // MCP-186: a line that comes before its call is followed waits for it, and for no other
    #[test]
    fn early_lines_wait_for_their_call() {
        let calls = Arc::new(CallsInFlight::default());
        let starting = started(&calls);
        calls.log(r#"{"data":"its stream"}"#, Some(&RequestId::Number(7)));
        calls.log(r#"{"data":"the only call"}"#, None);
        calls.log(r#"{"data":"another stream"}"#, Some(&RequestId::Number(8)));
        let (reporter, reports) = report_channel();
        let call = starting.follow(1, RequestId::Number(7), reporter);
        let told = [log(LogLevel::Info, "its stream"), log(LogLevel::Info, "the only call")];
        assert_eq!(reports.take_waiting(), told);

        // Two calls: nobody knows whose it is.
        drop(call);
        let (second, third) = (started(&calls), started(&calls));
        calls.log(r#"{"data":"whose?"}"#, None);
        let (reporter, reports) = report_channel();
        let _call = second.follow(2, RequestId::Number(8), reporter);
        drop(third);
        assert_eq!(reports.take_waiting(), []);
        // What its call has not come for is forgotten.
        drop(started(&calls));
        calls.log(r#"{"data":"late"}"#, Some(&RequestId::Number(9)));
        assert!(lock(&calls.known).early.is_empty());
    }

    // A server that asks without end gets no further than this
    #[tokio::test]
    async fn questions_are_limited() {
        let calls = Arc::new(CallsInFlight::default());
        let mut open: Vec<Question> = (0..MAX_QUESTIONS).map(|_| question(&calls, None)).collect();
        assert!(calls.question(None).is_none());
        open.pop();
        assert!(calls.question(None).is_some());
    }

    fn question(calls: &Arc<CallsInFlight>, cause: Option<i64>) -> Question {
        calls.question(cause.map(RequestId::Number)).unwrap()
    }

    fn is_moot(question: &Question) -> bool {
        question.moot().now_or_never().is_some()
    }

    // MCP-99
    #[tokio::test]
    async fn a_question_lives_as_long_as_what_may_have_raised_it() {
        let calls = Arc::new(CallsInFlight::default());
        assert!(is_moot(&question(&calls, None)) && is_moot(&question(&calls, Some(101))));

        let starting = started(&calls);
        let (of_first, of_any) = (question(&calls, Some(101)), question(&calls, None));
        assert!(!is_moot(&of_first) && !is_moot(&of_any), "its call may be the one that is being sent");
        let first = starting.follow(1, RequestId::Number(101), Reporter::default());
        let second = following(&calls, 2).0;
        assert!(!is_moot(&of_first) && !is_moot(&of_any));

        let waits = of_any.moot();
        tokio::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        drop(first);
        assert!(is_moot(&of_first) && waits.as_mut().now_or_never().is_none());
        drop(second);
        waits.await;
    }

    // MCP-91: a call is held by its own questions, and by those that may be its own
    #[tokio::test(start_paused = true)]
    async fn questions_hold_the_clocks_of_their_calls() {
        let calls = Arc::new(CallsInFlight::default());
        let of = |number: i64| {
            let clock = Arc::new(Clock::new(Limits { idle: Duration::from_secs(10), total: None }));
            let starting = calls.start(Arc::clone(&clock));
            (starting.follow(number, RequestId::Number(number), Reporter::default()), clock)
        };
        let has_expired = |clock: &Clock| clock.expired().now_or_never().is_some();
        let ((_first, first), (_second, second)) = (of(1), of(2));
        let own = question(&calls, Some(1));
        advance(Duration::from_secs(20)).await;
        assert!(!has_expired(&first) && has_expired(&second));

        let anybodys = question(&calls, None);
        let (_third, third) = of(3);
        advance(Duration::from_secs(20)).await;
        assert!(!has_expired(&first) && !has_expired(&third), "one that begins meanwhile too");
        drop(own);
        assert!(!has_expired(&first));
        drop(anybodys);
        assert!(!has_expired(&first) && !has_expired(&third));
        advance(Duration::from_secs(10)).await;
        assert!(has_expired(&first) && has_expired(&third));
    }
}
