//! What a tool tells while it works: progress and log lines.
//!
//! A tool reports through its context (`ToolContext::progress`, `ToolContext::log`), which never
//! waits and never fails. Whoever runs the tool and wants to hear makes a [`report_channel`], puts
//! its [`Reporter`] into the context and takes reports from its [`Reports`].
//!
//! Between the two lies a mailbox of bounded size rather than a queue: of progress only the newest
//! report is kept, of log lines the newest 64. A tool that reports faster than anybody listens costs
//! a little memory and no time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use serde::{Deserialize, Serialize};

/// How many log lines wait for their listener; of more, the oldest are dropped.
const WAITING_LINES: usize = 64;

/// How much a log line matters: the levels of MCP and syslog, least first.
///
/// ```
/// use toolnexus_core::LogLevel;
/// assert!(LogLevel::Error > LogLevel::Info);
/// assert_eq!("warning".parse(), Ok(LogLevel::Warning));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// Ordinary news.
    Info,
    /// Ordinary, but worth a look.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part has failed.
    Critical,
    /// Somebody must act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// All levels, least first.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }
}

impl std::fmt::Display for LogLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A level that is none of the eight.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level \"{0}\": use debug, info, notice, warning, error, critical, alert or emergency")]
pub struct UnknownLogLevel(String);

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLogLevel> {
        let known = LogLevel::ALL.into_iter().find(|level| level.as_str() == text);
        known.ok_or_else(|| UnknownLogLevel(text.to_owned()))
    }
}

/// One thing that a tool told while it worked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolReport {
    /// How far the call has come.
    Progress {
        /// What has been done, in the tool's own unit.
        progress: f64,
        /// What there is to do, in the same unit.
        total: Option<f64>,
        /// What is being done.
        message: Option<String>,
    },
    /// A line for a log.
    Log {
        /// How much it matters.
        level: LogLevel,
        /// The line.
        message: String,
        /// How many lines before this one were dropped because nobody took them in time.
        dropped: u64,
    },
}

/// The tool's end of a [`report_channel`]. The default one has no other end: everything said to it
/// is dropped.
#[derive(Clone, Default)]
pub struct Reporter(Option<Arc<Mailbox>>);

/// The listener's end of a [`report_channel`]: a stream of reports, in the order they were made but
/// for progress, of which only the newest waits. It never ends by itself; whoever ran the tool
/// takes what is left with [`Reports::take_waiting`].
pub struct Reports(Arc<Mailbox>);

/// A mailbox between a tool and whoever listens to it.
///
/// ```
/// use toolnexus_core::{ToolContext, ToolReport, report_channel};
/// let (reporter, reports) = report_channel();
/// let context = ToolContext { reporter, ..Default::default() };
/// context.progress(1.0, Some(3.0), None);
/// context.progress(2.0, Some(3.0), Some("counting"));
/// let waiting = reports.take_waiting();
/// assert_eq!(waiting, [ToolReport::Progress {
///     progress: 2.0, total: Some(3.0), message: Some("counting".into()),
/// }]);
/// ```
pub fn report_channel() -> (Reporter, Reports) {
    let mailbox = Arc::new(Mailbox::default());
    (Reporter(Some(Arc::clone(&mailbox))), Reports(mailbox))
}

#[derive(Default)]
struct Mailbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    reports: VecDeque<ToolReport>,
    lines: usize,
    /// Lines dropped since the last one that was taken.
    dropped: u64,
    /// Nobody listens any more.
    closed: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, report: ToolReport) {
        let waker = {
            let mut waiting = self.lock();
            if waiting.closed {
                return;
            }
            waiting.put(report);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Waiting {
    fn put(&mut self, report: ToolReport) {
        let is_progress = |report: &ToolReport| matches!(report, ToolReport::Progress { .. });
        if is_progress(&report) {
            self.reports.retain(|waiting| !is_progress(waiting));
        } else {
            self.lines += 1;
        }
        self.reports.push_back(report);
        if self.lines > WAITING_LINES {
            // There is at most one report of progress among them.
            let oldest = self.reports.iter().position(|waiting| !is_progress(waiting));
            oldest.and_then(|oldest| self.reports.remove(oldest));
            self.lines -= 1;
            self.dropped += 1;
        }
    }

    fn pop(&mut self) -> Option<ToolReport> {
        let mut report = self.reports.pop_front()?;
        if let ToolReport::Log { dropped, .. } = &mut report {
            self.lines -= 1;
            *dropped = std::mem::take(&mut self.dropped);
        }
        Some(report)
    }
}

impl Reporter {
    /// Whether anybody can hear what is reported: a tool may save itself the work of a message.
    pub fn is_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|mailbox| !mailbox.lock().closed)
    }

    /// Tells how far the work is. See `ToolContext::progress`.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(mailbox) = &self.0 else { return };
        // No wire can carry NaN or an infinity.
        if !progress.is_finite() {
            return;
        }
        let total = total.filter(|total| total.is_finite());
        mailbox.put(ToolReport::Progress { progress, total, message: message.map(str::to_owned) });
    }

    /// Tells a log line. See `ToolContext::log`.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        if let Some(mailbox) = &self.0 {
            mailbox.put(ToolReport::Log { level, message: message.into(), dropped: 0 });
        }
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("heard", &self.is_heard()).finish()
    }
}

impl Reports {
    /// Everything that was reported and not taken yet.
    pub fn take_waiting(&self) -> Vec<ToolReport> {
        let mut waiting = self.0.lock();
        std::iter::from_fn(|| waiting.pop()).collect()
    }
}

impl Stream for Reports {
    type Item = ToolReport;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ToolReport>> {
        let mut waiting = self.0.lock();
        match waiting.pop() {
            Some(report) => Poll::Ready(Some(report)),
            None => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let left = {
            let mut waiting = self.0.lock();
            waiting.closed = true;
            std::mem::take(&mut waiting.reports)
        };
        drop(left);
    }
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").field("waiting", &self.0.lock().reports.len()).finish()
    }
}
