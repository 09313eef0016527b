//! The calls in flight on one connection, and what the server tells about them meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use toolnexus_core::{LogLevel, Reporter};

/// How many reports wait for a call that is not known yet: a server may report before the side
/// that sent the request has come to follow it.
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
    early: VecDeque<(i64, Progress)>,
}

impl CallsInFlight {
    /// Follows a call for as long as the returned guard lives.
    /// `started` is its last sign of life until there is another.
    pub(crate) fn follow(
        self: &Arc<Self>,
        token: i64,
        request: RequestId,
        reporter: Reporter,
        started: Instant,
    ) -> FollowedCall {
        let call = Arc::new(Call { request, last: Mutex::new(started), reporter });
        let early: Vec<Progress> = {
            let mut known = lock(&self.0);
            known.calls.insert(token, Arc::clone(&call));
            let (mine, others) =
                std::mem::take(&mut known.early).into_iter().partition(|(of, _)| *of == token);
            known.early = others;
            let mine: VecDeque<(i64, Progress)> = mine;
            mine.into_iter().map(|(_, progress)| progress).collect()
        };
        if !early.is_empty() {
            *lock(&call.last) = Instant::now();
        }
        early.iter().for_each(|progress| progress.report(&call.reporter));
        FollowedCall { calls: Arc::clone(self), token, call }
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
                    known.early.truncate(EARLY - 1);
                    known.early.push_front((token, progress));
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
            let known = lock(&self.0);
            let mut calls = known.calls.values();
            match stream_of {
                Some(request) => calls.find(|call| call.request == *request).cloned(),
                None => calls.next().filter(|_| known.calls.len() == 1).cloned(),
            }
        };
        match call {
            Some(call) => call.reporter.log(level, text),
            None => tracing::debug!(mcp.log.level = %level, "{text}"),
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
        (calls.follow(token, RequestId::Number(token + 100), reporter, Instant::now()), reports)
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
