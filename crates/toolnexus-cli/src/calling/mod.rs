//! A tool called from the command line: what `mcp call` and `tools call` have in common.
//!
//! `arguments` reads what the tool is given, `parts` writes images, audio and files down. Here is the call
//! itself: what the tool reports goes to stderr, what it asks to the person at the terminal, its result to
//! stdout.

mod arguments;
mod parts;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use futures::StreamExt as _;
use serde_json::{Value, json};
use toolnexus::reports::{LogLevel, ToolReport, report_channel};
use toolnexus::suspension::WaitFor;
use toolnexus::{Answer, Request, Tool, ToolContext, ToolResult, pending_of};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::list::document;
use crate::render::{cut_line, one_line, plain, plain_lines, progress_in_words};
use crate::screen::Screen;

pub(crate) use arguments::read as read_arguments;

/// How often a file or a pipe gets a line of progress at most.
const PACE: Duration = Duration::from_secs(1);

/// How many tools are named when the wanted one is not among them.
const NAMED: usize = 30;

/// How much of each name is shown there, in columns.
const LONGEST_NAME: usize = 80;

/// What becomes of a result.
#[derive(Args)]
pub(crate) struct ResultArgs {
    /// Print the whole result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Write images, audio and files of the result into this directory, as 1.png or 2-report.pdf
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// A call that is ready to be made.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a Tool,
    /// What the person calls it.
    pub(crate) name: &'a str,
    pub(crate) arguments: Value,
    /// The tool's own limit when `None`.
    pub(crate) timeout: Option<Duration>,
    /// Who answers the tool. `None`: nobody is there.
    pub(crate) wait_for: Option<WaitFor>,
    pub(crate) result: &'a ResultArgs,
}

impl Call<'_> {
    /// Makes the call and shows its result.
    pub(crate) async fn carry_out(&self, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
        let result = self.settled(screen, interrupt).await?;
        if let Some(request) = pending_of(&result) {
            return self.waits(&result, &request, screen);
        }
        self.show(&result, screen)?;
        if let Some(dir) = &self.result.output {
            for line in parts::write(&result.parts, dir)? {
                screen.note(&screen.paint().dim(&plain(&line)));
            }
        }
        Ok(if result.is_error { Exit::Failed } else { Exit::Done })
    }

    /// The result, once what the tool asked is answered; still a question where nobody is there.
    async fn settled(&self, screen: &Screen, interrupt: &Interrupt) -> Result<ToolResult, Failure> {
        let result = self.attempt(None, screen, interrupt).await?;
        let (Some(request), Some(wait_for)) = (pending_of(&result), &self.wait_for) else {
            return Ok(result);
        };
        let answer = tokio::select! {
            biased;
            () = interrupt.raised() => return Err(interrupt.failure()),
            answer = wait_for(request.clone()) => answer,
        };
        let answer = answer.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        if !answer.ok {
            return Ok(ToolResult::failure(format!("declined/expired: {}", request.prompt)));
        }
        // One answer is all that a call gets, as in a run.
        let result = self.attempt(Some(answer), screen, interrupt).await?;
        Ok(match pending_of(&result) {
            Some(again) => ToolResult::failure(format!("unresolved: {}", again.prompt)),
            None => result,
        })
    }

    async fn attempt(
        &self,
        answer: Option<Answer>,
        screen: &Screen,
        interrupt: &Interrupt,
    ) -> Result<ToolResult, Failure> {
        let (reporter, mut reports) = report_channel();
        let context = ToolContext {
            cancel: interrupt.token(),
            timeout_ms: self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            answer,
            reporter,
            ..Default::default()
        };
        screen.busy(&format!("calling {}", self.name));
        let calling = self.tool.execute_with(self.arguments.clone(), context);
        tokio::pin!(calling);
        let mut shown = Shown::default();
        let result = loop {
            tokio::select! {
                biased;
                Some(report) = reports.next() => shown.report(self.name, &report, screen),
                result = &mut calling => break result,
            }
        };
        for report in reports.take_waiting() {
            shown.report(self.name, &report, screen);
        }
        screen.idle();
        if interrupt.token().is_cancelled() { Err(interrupt.failure()) } else { Ok(result) }
    }

    /// Says that the tool asks and nobody is there to answer.
    fn waits(&self, result: &ToolResult, request: &Request, screen: &Screen) -> Result<Exit, Failure> {
        if self.result.json {
            document(screen, &json!(result))?;
        }
        let asked = match request.url.as_deref().filter(|url| !request.prompt.contains(url)) {
            Some(url) => format!("{} {url}", request.prompt),
            None => request.prompt.clone(),
        };
        let mut failure = Failure::new(Exit::Pending, format!("{} waits for an answer: {asked}", self.name));
        failure.advice = Some("call it in a terminal to give the answer".to_owned());
        Err(failure)
    }

    fn show(&self, result: &ToolResult, screen: &Screen) -> io::Result<()> {
        if self.result.json {
            return document(screen, &json!(result));
        }
        let text = if screen.stdout_is_terminal() {
            plain_lines(&result.output).into_owned()
        } else {
            result.output.clone()
        };
        if !text.is_empty() {
            let gap = if text.ends_with('\n') { "" } else { "\n" };
            screen.answer(&format!("{text}{gap}"))?;
        }
        // A result of parts alone has these lines as its text.
        let told: Vec<String> = result.parts.iter().map(|part| part.summarize()).collect();
        if self.result.output.is_none() && told.join("\n") != result.output {
            for line in told {
                let told =
                    format!("{}, in the result of --json, or in a file with --output DIR", plain(&line));
                screen.note(&screen.paint().dim(&told));
            }
        }
        Ok(())
    }
}

/// The beginning of a list of names, and how many are left out: `a, b and 3 more`.
pub(crate) fn named(names: &[&str]) -> String {
    // A name may be as long as its owner likes, and have lines.
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| cut_line(name, LONGEST_NAME)).collect();
    let shown = shown.join(", ");
    match names.len() {
        0 => "none".to_owned(),
        1..=NAMED => shown,
        more => format!("{shown} and {} more", more - NAMED),
    }
}

/// What was shown of the reports of one call.
#[derive(Default)]
struct Shown {
    last_progress: Option<Instant>,
}

impl Shown {
    /// Whether there may be another line of progress, which then counts as shown. A terminal shows them all
    /// in one place; anything else keeps them.
    fn is_time(&mut self, now: Instant) -> bool {
        let due = self.last_progress.is_none_or(|last| now.duration_since(last) >= PACE);
        if due {
            self.last_progress = Some(now);
        }
        due
    }

    fn report(&mut self, name: &str, report: &ToolReport, screen: &Screen) {
        let paint = screen.paint();
        match report {
            ToolReport::Progress { progress, total, message } => {
                let told = progress_in_words(name, *progress, *total, message.as_deref());
                if screen.has_spinner() {
                    screen.busy(&told);
                } else if self.is_time(Instant::now()) {
                    screen.note(&one_line(&told, screen.width()));
                }
            }
            ToolReport::Log { level, message, dropped } => {
                if *dropped > 0 {
                    screen.note(&paint.dim(&format!("… {dropped} lines came too fast")));
                }
                let label = format!("{level}:");
                let label = match level {
                    LogLevel::Debug | LogLevel::Info => paint.dim(&label),
                    LogLevel::Notice | LogLevel::Warning => paint.warn(&label),
                    _ => paint.bad(&label),
                };
                screen.note(&format!("{label} {}", plain_lines(message)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolnexus::{answer_declined, answer_output, pending};

    use super::*;

    /// A tool that asks for a city, and asks again when the answer is `again`.
    fn asks() -> Tool {
        Tool::new("asks", |_args, context: ToolContext| async move {
            let given = context.answer.and_then(|answer| answer.data);
            match given.as_ref().and_then(|data| data.get("output")?.as_str()) {
                Some(city) if city != "again" => ToolResult::success(format!("off to {city}")),
                _ => pending(Request {
                    kind: "input".into(),
                    prompt: "Which city?".into(),
                    ..Default::default()
                }),
            }
        })
    }

    /// Makes the call, with somebody who answers or without.
    async fn called(wait_for: Option<WaitFor>) -> Result<ToolResult, Failure> {
        let result = ResultArgs { json: false, output: None };
        let (tool, arguments) = (asks(), json!({}));
        let call = Call { tool: &tool, name: "asks", arguments, timeout: None, wait_for, result: &result };
        let (screen, interrupt) = (Screen::new(), Interrupt::default());
        let settled = call.settled(&screen, &interrupt).await?;
        match pending_of(&settled) {
            Some(request) => call.waits(&settled, &request, &screen).map(|_| settled),
            None => Ok(settled),
        }
    }

    async fn answered(answer: fn(&str) -> Answer) -> ToolResult {
        let wait_for: WaitFor = Arc::new(move |request| Box::pin(async move { Ok(answer(&request.id)) }));
        called(Some(wait_for)).await.unwrap()
    }

    // The same tool once more with the answer, and no third time
    #[tokio::test]
    async fn a_question_is_answered_once() {
        assert_eq!(answered(|id| answer_output(id, "Zurich")).await, ToolResult::success("off to Zurich"));
        assert_eq!(
            answered(|id| answer_declined(id, None)).await,
            ToolResult::failure("declined/expired: Which city?")
        );
        assert_eq!(
            answered(|id| answer_output(id, "again")).await,
            ToolResult::failure("unresolved: Which city?")
        );
    }

    #[tokio::test]
    async fn a_question_to_nobody_is_reported() {
        let failure = called(None).await.unwrap_err();
        assert_eq!(
            (failure.exit, failure.message.as_str()),
            (Exit::Pending, "asks waits for an answer: Which city?")
        );
        assert!(failure.advice.unwrap().contains("terminal"));
    }

    #[tokio::test]
    async fn a_resolver_that_fails_ends_the_call() {
        let fails: WaitFor = Arc::new(|_| Box::pin(async { Err("gone".into()) }));
        let failure = called(Some(fails)).await.unwrap_err();
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Failed, "gone"));
    }

    #[test]
    fn a_log_is_not_filled_with_progress() {
        let (mut shown, start) = (Shown::default(), Instant::now());
        let times = [0, 100, 999, 1000, 1100, 1999, 2500];
        let told: Vec<bool> =
            times.iter().map(|ms| shown.is_time(start + Duration::from_millis(*ms))).collect();
        assert_eq!(told, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn long_lists_are_cut() {
        let many = vec!["x"; NAMED + 2];
        assert!(named(&many).ends_with("x, x and 2 more"));
        assert_eq!((named(&["a", "b"]), named(&[])), ("a, b".to_owned(), "none".to_owned()));
        assert_eq!(named(&["a\nb"]), "a b");
        assert_eq!(named(&[&"x".repeat(100_000)]).chars().count(), LONGEST_NAME);
    }
}
