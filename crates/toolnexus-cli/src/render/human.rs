//! A run for people: the answer as it is written, and one line for each tool call.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use serde_json::{Map, Value};
use toolnexus::client::FinishReason;
use toolnexus::{Request, RunResult, RunStatus, StreamEvent, Toolkit, ToolkitSources as _};

use super::Render;
use super::text::{arguments, count, cut_line, duration, grouped, one_line, plain, plain_lines};
use crate::exit::Failure;
use crate::loading::Loaded;
use crate::provider::Choice;
use crate::runs::{Recorded, TakenUp};
use crate::screen::{Paint, Screen};
use crate::timing;

/// How many lines of an edit's diff are shown.
const DIFF_LINES: usize = 40;

/// How much of a tool's name is shown. Models also ask for tools that nobody has named.
const NAME_WIDTH: usize = 64;

/// Shows a run on a terminal, or as notes beside an answer that goes elsewhere.
pub(crate) struct Human {
    screen: Screen,
    paint: Paint,
    model: String,
    started: Instant,
    /// Whether text goes to stdout as it comes. Otherwise it waits until it is known to be the
    /// answer: what a model says before it calls a tool is none.
    live: bool,
    /// The text of this turn that waits.
    waiting: String,
    /// Whether this turn has written to stdout, and whether that ended with a line break.
    written: Option<bool>,
    /// What runs, in call order. Some models give two calls one id.
    calls: Vec<(String, Call)>,
}

struct Call {
    args: Map<String, Value>,
    started: Instant,
}

impl Human {
    pub(crate) fn new(screen: &Screen, live: bool) -> Self {
        Human {
            screen: screen.clone(),
            paint: screen.paint(),
            model: String::new(),
            started: Instant::now(),
            live,
            waiting: String::new(),
            written: None,
            calls: Vec::new(),
        }
    }

    /// The run begins now.
    pub(crate) fn begin(&mut self, model: &str) {
        model.clone_into(&mut self.model);
        self.started = Instant::now();
        self.wait();
    }

    fn text(&mut self, delta: &str) -> io::Result<()> {
        if !self.live {
            self.waiting.push_str(delta);
            return Ok(());
        }
        if delta.is_empty() {
            return Ok(());
        }
        if self.written.is_none() && self.spaced() {
            self.screen.note("");
        }
        self.written = Some(delta.ends_with('\n'));
        self.show(delta)
    }

    /// Writes to stdout; what a terminal would obey is shown instead.
    fn show(&self, text: &str) -> io::Result<()> {
        if self.screen.stdout_is_terminal() {
            self.screen.answer(&plain_lines(text))
        } else {
            self.screen.answer(text)
        }
    }

    /// The text so far was not the answer.
    fn set_aside(&mut self) -> io::Result<()> {
        self.end_line()?;
        let text = std::mem::take(&mut self.waiting);
        if !text.trim().is_empty() {
            self.screen.note(&self.paint.dim(plain_lines(text.trim_end()).trim_start_matches('\n')));
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        let Some(ended) = self.written.take() else { return Ok(()) };
        if !ended {
            self.screen.answer("\n")?;
        }
        if self.spaced() {
            self.screen.note("");
        }
        Ok(())
    }

    /// Whether text and notes meet on one screen, where empty lines keep them apart.
    fn spaced(&self) -> bool {
        self.live && self.screen.shares_notes()
    }

    fn call(&mut self, id: &str, args: &Map<String, Value>) {
        self.calls.push((id.to_owned(), Call { args: args.clone(), started: Instant::now() }));
    }

    fn result(
        &mut self,
        id: &str,
        name: &str,
        output: &str,
        is_error: bool,
        metadata: Option<&Map<String, Value>>,
    ) {
        // Results come in call order, so the first call of that id is the one.
        let at = self.calls.iter().position(|(open, _)| open == id);
        let call = at.map(|at| self.calls.remove(at).1);
        let name = one_line(name, NAME_WIDTH);
        let time = timing::take(id).or_else(|| call.as_ref().map(|call| call.started.elapsed()));
        let time = duration(time.unwrap_or_default());
        let args = call.map(|call| arguments(&call.args)).unwrap_or_default();
        let mark = if is_error { self.paint.bad("✗") } else { self.paint.good("✓") };
        // What is left of the line: the longer half goes to the outcome.
        let room = self.screen.width().saturating_sub(name.chars().count() + time.len() + 11).max(20);
        let args = one_line(&args, room * 2 / 5);
        let output = match one_line(output, room.saturating_sub(args.chars().count())) {
            empty if empty.is_empty() => self.paint.dim("(no output)"),
            text if is_error => self.paint.warn(&text),
            text => text,
        };
        self.screen.note(&format!(
            "{mark} {}({}) → {output} {}",
            self.paint.name(&name),
            self.paint.dim(&args),
            self.paint.dim(&format!("· {time}")),
        ));
        if let Some(diff) = metadata.and_then(|metadata| metadata.get("diff")).and_then(Value::as_str) {
            self.diff(diff);
        }
    }

    fn diff(&self, diff: &str) {
        let mut lines: Vec<String> = Vec::new();
        for line in diff.lines().take(DIFF_LINES) {
            let line = cut_line(line, self.screen.width().saturating_sub(4));
            lines.push(match line.as_bytes().first() {
                Some(b'+') => format!("    {}", self.paint.good(&line)),
                Some(b'-') => format!("    {}", self.paint.bad(&line)),
                _ => format!("    {}", self.paint.dim(&line)),
            });
        }
        let left = diff.lines().count().saturating_sub(DIFF_LINES);
        if left > 0 {
            lines.push(self.paint.dim(&format!("    … {} more", count(left, "line"))));
        }
        if !lines.is_empty() {
            self.screen.note(&lines.join("\n"));
        }
    }

    fn done(&mut self, result: &RunResult) -> io::Result<()> {
        self.screen.idle();
        let paint = self.paint.clone();
        match result.status {
            RunStatus::Done => {
                // A run that was taken up may have had its answer before: then none was written here.
                if self.live && self.written.is_some() {
                    self.end_line()?;
                } else {
                    self.waiting.clear();
                    let gap = if result.text.is_empty() || result.text.ends_with('\n') { "" } else { "\n" };
                    self.show(&format!("{}{gap}", result.text))?;
                }
            }
            RunStatus::Incomplete => {
                self.set_aside()?;
                self.screen.note(&format!("{} {}", paint.warn("incomplete:"), why_incomplete(result)));
            }
            RunStatus::Pending => {
                self.set_aside()?;
                let pending = paint.warn("pending:");
                if let Some(request) = result.pending.as_ref().filter(|_| result.open_requests.is_empty()) {
                    self.screen.note(&format!("{pending} {}", asked(request)));
                }
                for request in &result.open_requests {
                    self.screen.note(&format!("{pending} {}", asked_by(request)));
                }
            }
        }
        super::note_empty(result, &self.screen);
        match result.finish_reason {
            Some(FinishReason::Length) => {
                self.screen.note(&format!(
                    "{} the model's token limit cut the answer short",
                    paint.warn("warning:")
                ));
            }
            Some(FinishReason::ContentFilter) => {
                self.screen.note(&format!("{} the provider held the answer back", paint.warn("warning:")));
            }
            _ => {}
        }
        self.screen.note(&paint.dim(&self.summary(result)));
        Ok(())
    }

    fn summary(&self, result: &RunResult) -> String {
        let mut parts = vec![
            result.status.to_string(),
            count(result.turns as usize, "turn"),
            count(result.tool_call_count, "tool call"),
        ];
        if result.usage.total_tokens > 0 {
            parts.push(format!(
                "{} tokens ({} in, {} out)",
                grouped(result.usage.total_tokens),
                grouped(result.usage.prompt_tokens),
                grouped(result.usage.completion_tokens)
            ));
        }
        parts.push(duration(self.started.elapsed()));
        parts.join(" · ")
    }

    fn wait(&self) {
        let names = self.calls.len();
        if names == 0 {
            self.screen.busy(&format!("waiting for {}", self.model));
        } else {
            self.screen.busy(&format!("running {}", count(names, "tool")));
        }
    }
}

impl Render for Human {
    fn loaded(&mut self, loaded: &Loaded, choice: &Choice) -> io::Result<()> {
        let toolkit = &loaded.toolkit;
        for server in &loaded.failed {
            self.screen.note(&format!("{} {}", self.paint.warn("warning:"), server.text()));
        }
        let summary = format!("{} at {} · {}", choice.model, choice.host, tools_in_words(toolkit));
        self.screen.note(&self.paint.dim(&summary));
        // Without tools every text is the answer.
        self.live |= toolkit.snapshot().tools().is_empty();
        self.begin(&choice.model);
        Ok(())
    }

    fn recorded(&mut self, recorded: &Recorded, taken_up: Option<&TakenUp<'_>>) -> io::Result<()> {
        let Recorded { directory, run_id, .. } = recorded;
        let resumed = taken_up
            .map(|taken_up| format!(", resumed after {}", count(taken_up.run.turns() as usize, "turn")))
            .unwrap_or_default();
        self.screen.note(&self.paint.dim(&format!("run {run_id} in {directory}{resumed}")));
        let Some(taken_up) = taken_up else { return Ok(()) };
        for (planned, becomes) in &taken_up.in_doubt {
            let call = format!("{}({})", planned.call.name, arguments(planned.args));
            self.screen.note(&format!(
                "{} {}\n  it ran when the process ended: {}",
                self.paint.warn("in doubt:"),
                one_line(&call, self.screen.width().saturating_sub(10)),
                becomes.in_words()
            ));
        }
        for call in taken_up.awaited() {
            self.call(&call.id, &call.args);
        }
        self.wait();
        Ok(())
    }

    fn event(&mut self, event: &StreamEvent) -> io::Result<()> {
        match event {
            StreamEvent::Text { delta } => return self.text(delta),
            StreamEvent::ToolCall { id, args, .. } => {
                self.set_aside()?;
                self.call(id, args);
                self.wait();
            }
            StreamEvent::ToolResult { id, name, output, is_error, metadata, .. } => {
                self.result(id, name, output, *is_error, metadata.as_ref());
                self.wait();
            }
            StreamEvent::ToolProgress { name, progress, total, message, .. } => {
                let told = progress_in_words(name, *progress, *total, message.as_deref());
                self.screen.busy(&one_line(&told, self.screen.width().saturating_sub(4)));
            }
            StreamEvent::Pending { .. } => self.screen.idle(),
            StreamEvent::Done { result } => return self.done(result),
            _ => {}
        }
        Ok(())
    }

    fn failure(&mut self, _failure: &Failure) -> io::Result<()> {
        self.screen.idle();
        self.set_aside()
    }
}

/// `7 tools (4 builtin, 2 mcp, 1 skill), 2 skills`.
fn tools_in_words(toolkit: &Toolkit) -> String {
    let snapshot = toolkit.snapshot();
    let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in snapshot.tools() {
        *sources.entry(tool.source.as_str()).or_default() += 1;
    }
    let by_source: Vec<String> =
        sources.iter().map(|(source, number)| format!("{number} {source}")).collect();
    let mut text = count(snapshot.tools().len(), "tool");
    if !by_source.is_empty() {
        text = format!("{text} ({})", by_source.join(", "));
    }
    match toolkit.skills().map_or(0, |skills| skills.skills().len()) {
        0 => text,
        number => format!("{text}, {}", count(number, "skill")),
    }
}

/// `index: 40 %, reading` or `index: 12`.
pub(crate) fn progress_in_words(
    name: &str,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
) -> String {
    let message = message.filter(|message| !message.trim().is_empty());
    let part = total.filter(|total| *total > 0.0).map(|total| (progress / total * 100.0).clamp(0.0, 100.0));
    match (part, message) {
        (Some(part), Some(message)) => format!("{name}: {part:.0} %, {message}"),
        (Some(part), None) => format!("{name}: {part:.0} %"),
        // A number of nobody knows what says less than the words do.
        (None, Some(message)) => format!("{name}: {message}"),
        (None, None) => format!("{name}: {progress}"),
    }
}

fn why_incomplete(result: &RunResult) -> String {
    match result.limit.as_deref() {
        Some(toolnexus::client::limits::MAX_TURNS) => format!(
            "the model still wanted tools after {}; raise --max-turns or ask for less",
            count(result.turns as usize, "turn")
        ),
        Some(toolnexus::client::limits::CONTENT_PART) => plain_lines(&result.text).into_owned(),
        Some(limit) => format!("the run reached its limit {limit}"),
        None => "the run was stopped by a limit".into(),
    }
}

/// What an open request asks, for people.
fn question(request: &Request) -> String {
    let text = plain_lines(&request.prompt).into_owned();
    match request.url.as_deref().filter(|url| !request.prompt.contains(url)) {
        Some(url) => format!("{text}\n  {}", plain_lines(url)),
        None => text,
    }
}

/// The open request of a run that ends here.
fn asked(request: &Request) -> String {
    let text = question(request);
    format!("{text}\n  a tool waits for this answer; run the command in a terminal to give it")
}

/// An open request of a run that can go on, with the id by which it is answered.
pub(crate) fn asked_by(request: &Request) -> String {
    format!("{}\n  request {}", question(request), plain(&request.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_share_where_the_whole_is_known() {
        assert_eq!(progress_in_words("index", 2.0, Some(5.0), Some("reading")), "index: 40 %, reading");
        assert_eq!(progress_in_words("index", 9.0, Some(5.0), None), "index: 100 %");
        assert_eq!(progress_in_words("index", 12.5, None, Some(" ")), "index: 12.5");
        assert_eq!(progress_in_words("index", 1.0, Some(0.0), None), "index: 1");
        assert_eq!(progress_in_words("grep", 7.0, None, Some("7 files visited")), "grep: 7 files visited");
    }
}
