//! The calls in flight on one connection, and what the server tells about them meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use toolnexus_core::{LogLevel, Reporter};

/// How many reports and how many log lines wait for a call that is not known yet: a server may report
/// before the side that sent the request has come to follow it.
const EARLY: usize = 16;

/// The longest log line that is passed on, in bytes.
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

struct Call {
    request: RequestId,
    last: Mutex<Instant>,
    reporter: Reporter,
}

/// The calls in flight on one connection, by progress token. The transport tells them what it
/// reads; a call asks for its last sign of life when its idle limit runs out.
#[derive(Default)]
pub(crate) struct CallsInFlight(Mutex<Known>);

#[derive(Default)]
struct Known {
    calls: HashMap<i64, Arc<Call>>,
    /// Oldest first, as are the lines.
    early: Vec<(i64, Progress)>,
    /// The calls that are being sent, by number.
    expected: Vec<u64>,
    numbered: u64,
    early_lines: Vec<EarlyLine>,
}

/// A log line of a call that is being sent.
struct EarlyLine {
    of: LineOf,
    level: LogLevel,
    text: String,
}

enum LineOf {
    Request(RequestId),
    Expected(u64),
}

impl CallsInFlight {
    /// Announces a call before it is sent, so that what the server tells of it at once finds it.
    pub(crate) fn expect(self: &Arc<Self>) -> ExpectedCall {
        let mut known = lock(&self.0);
        known.numbered += 1;
        let number = known.numbered;
        known.expected.push(number);
        ExpectedCall { calls: Arc::clone(self), number }
    }

    /// Takes the parameters of a progress notice; an unknown token is nobody's.
    pub(crate) fn progress(&self, params: &str) {
        let Ok(progress) = serde_json::from_str::<Progress>(params) else { return };
        let Some(token) = progress.token() else { return };
        let call = {
            let mut known = lock(&self.0);
            match known.calls.get(&token) {
                Some(call) => Arc::clone(call),
                None => {
                    keep(&mut known.early, (token, progress));
                    return;
                }
            }
        };
        *lock(&call.last) = Instant::now();
        progress.report(&call.reporter);
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
            let mut known = lock(&self.0);
            let mut calls = known.calls.values();
            let (call, of) = match (stream_of, known.expected.as_slice()) {
                (Some(request), expected) => {
                    let call = calls.find(|call| call.request == *request).cloned();
                    (call, (!expected.is_empty()).then(|| LineOf::Request(request.clone())))
                }
                (None, []) => (calls.next().filter(|_| known.calls.len() == 1).cloned(), None),
                (None, [only]) if known.calls.is_empty() => (None, Some(LineOf::Expected(*only))),
                (None, _) => (None, None),
            };
            match (call, of) {
                (None, Some(of)) => {
                    keep(&mut known.early_lines, EarlyLine { of, level, text });
                    return;
                }
                (call, _) => call,
            }
        };
        match call {
            Some(call) => call.reporter.log(level, text),
            None => tracing::debug!(mcp.log.level = %level, "{text}"),
        }
    }
}

/// A call that is being sent; dropped without being followed, it is none.
pub(crate) struct ExpectedCall {
    calls: Arc<CallsInFlight>,
    number: u64,
}

impl ExpectedCall {
    /// Follows the call, which has been sent, for as long as the returned guard lives.
    pub(crate) fn follow(self, token: i64, request: RequestId, reporter: Reporter) -> FollowedCall {
        let call = Arc::new(Call { request, last: Mutex::new(Instant::now()), reporter });
        let mut known = lock(&self.calls.0);
        known.calls.insert(token, Arc::clone(&call));
        // While nobody else can report: what is kept comes before what is to come.
        for (_, progress) in known.early.extract_if(.., |(of, _)| *of == token) {
            progress.report(&call.reporter);
        }
        let mine = |line: &mut EarlyLine| match &line.of {
            LineOf::Request(request) => *request == call.request,
            LineOf::Expected(number) => *number == self.number,
        };
        for line in known.early_lines.extract_if(.., mine) {
            call.reporter.log(line.level, line.text);
        }
        drop(known);
        FollowedCall { calls: Arc::clone(&self.calls), token, call }
    }
}

impl Drop for ExpectedCall {
    fn drop(&mut self) {
        let mut known = lock(&self.calls.0);
        known.expected.retain(|number| *number != self.number);
        if known.expected.is_empty() {
            known.early_lines.clear();
        }
    }
}

/// One followed call; dropping it forgets the token.
pub(crate) struct FollowedCall {
    calls: Arc<CallsInFlight>,
    token: i64,
    call: Arc<Call>,
}

impl FollowedCall {
    /// When the call was last heard of.
    pub(crate) fn last(&self) -> Instant {
        *lock(&self.call.last)
    }
}

impl Drop for FollowedCall {
    fn drop(&mut self) {
        lock(&self.calls.0).calls.remove(&self.token);
    }
}

/// Adds to what is early; of too many, the oldest goes.
fn keep<T>(early: &mut Vec<T>, newest: T) {
    if early.len() == EARLY {
        early.remove(0);
    }
    early.push(newest);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolnexus_core::{Reports, ToolReport, report_channel};

    fn following(calls: &Arc<CallsInFlight>, token: i64) -> (FollowedCall, Reports) {
        let (reporter, reports) = report_channel();
        (calls.expect().follow(token, RequestId::Number(token + 100), reporter), reports)
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
        assert_eq!(lock(&calls.0).early.len(), EARLY);
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
        drop(second);
        calls.progress(r#"{"progressToken":2,"progress":1}"#);
        assert_eq!(second_reports.take_waiting(), []);
    }

    // MCP-186: so is a log line of a call that is being sent, while it can belong to no other
    #[test]
    fn early_log_lines_wait_for_their_call() {
        let calls = Arc::new(CallsInFlight::default());
        let said = |text: &str| json!({"level": "info", "data": text}).to_string();
        calls.log(&said("before any call"), None);
        let first = calls.expect();
        calls.log(&said("one"), None);
        calls.log(&said("two"), Some(&RequestId::Number(101)));
        let second = calls.expect();
        calls.log(&said("whose?"), None);
        let (reporter, reports) = report_channel();
        let _second = second.follow(2, RequestId::Number(102), reporter);
        assert_eq!(reports.take_waiting(), []);
        let (reporter, reports) = report_channel();
        let _first = first.follow(1, RequestId::Number(101), reporter);
        let info = |text: &str| log(LogLevel::Info, text);
        assert_eq!(reports.take_waiting(), [info("one"), info("two")]);
        // What nobody took is not the next call's.
        let failed = calls.expect();
        calls.log(&said("three"), Some(&RequestId::Number(103)));
        drop(failed);
        let (_third, reports) = following(&calls, 3);
        assert_eq!((reports.take_waiting(), lock(&calls.0).early_lines.len()), (vec![], 0));
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
}
