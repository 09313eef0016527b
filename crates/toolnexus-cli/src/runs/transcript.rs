//! The events of a run, for people.

use serde_json::Value;
use toolnexus::client::run::{ModelAnswer, ModelCall, RunEvent};
use toolnexus::{Answer, Prompt};

use crate::render::{arguments, excerpt, one_line, plain};
use crate::screen::Paint;

/// How many lines of a text are shown.
const LINES: usize = 6;

/// How wide a line is at most where nothing cuts it.
const WIDEST: usize = 400;

/// The text of a prompt, with what stands for its other parts.
pub(crate) fn prompt_text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Parts(parts) => {
            let text = |part: &toolnexus::ContentPart| {
                part.view().text().map_or_else(|| format!("[{}]", part.summarize()), str::to_owned)
            };
            parts.iter().map(text).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Writes the events, each with its number.
pub(crate) struct Transcript {
    out: String,
    paint: Paint,
    width: usize,
    /// How many columns the numbers take.
    numbers: usize,
    /// The calls of the newest turn.
    calls: Vec<ModelCall>,
}

impl Transcript {
    /// The text of these events.
    pub(crate) fn of(events: &[RunEvent], width: usize) -> String {
        let mut transcript = Transcript {
            out: String::new(),
            paint: Paint::stdout(),
            width: width.min(WIDEST),
            numbers: events.len().to_string().len(),
            calls: Vec::new(),
        };
        for (at, event) in events.iter().enumerate() {
            let text = transcript.event(event);
            transcript.entry(at + 1, &text);
        }
        transcript.out
    }

    /// One entry: its lines below each other, beside the number.
    fn entry(&mut self, number: usize, lines: &[String]) {
        let mut head = format!("{number:>width$}", width = self.numbers);
        let blank = " ".repeat(head.len());
        head = self.paint.dim(&head);
        for line in lines {
            self.out.push_str(format!("{head}  {line}").trim_end());
            self.out.push('\n');
            head.clone_from(&blank);
        }
    }

    fn event(&mut self, event: &RunEvent) -> Vec<String> {
        let dim = |text: &str| vec![self.paint.dim(text)];
        match event {
            RunEvent::Started(started) => {
                let mut lines = self.titled(&self.paint.bold("prompt"), &prompt_text(&started.prompt));
                if !started.history.is_empty() {
                    let text = format!("  after a history of {} messages", started.history.len());
                    lines.push(self.paint.dim(&text));
                }
                lines
            }
            RunEvent::MessagesReplaced { messages } => {
                dim(&format!("a hook replaced the transcript: {} messages", messages.len()))
            }
            RunEvent::ToolsReplaced { names } => {
                dim(&format!("a hook replaced the tools: {}", names.join(", ")))
            }
            RunEvent::ModelAnswered(answer) => self.answered(answer),
            RunEvent::ToolStarted { indices, args, .. } => {
                let started = indices.iter().zip(args).map(|(index, args)| {
                    self.line(&format!("{} {}", self.paint.dim("▸"), self.name(*index)), &arguments(args))
                });
                started.collect()
            }
            RunEvent::ToolFinished { index, result } => {
                let mark = if result.is_error { self.paint.bad("✗") } else { self.paint.good("✓") };
                let output = if result.output.trim().is_empty() { "(no output)" } else { &result.output };
                self.titled(&format!("{mark} {}", self.name(*index)), output)
            }
            RunEvent::Suspended { index, request, .. } => {
                let title = format!("{} {}", self.paint.warn("?"), self.name(*index));
                let mut lines = self.titled(&title, &request.prompt);
                lines.push(self.paint.dim(&format!(
                    "  request {}, {}",
                    plain(&request.id),
                    plain(&request.kind)
                )));
                lines
            }
            RunEvent::Answered { request_id, answer } => {
                let title = format!("{} {}", self.paint.warn("answer to"), plain(request_id));
                self.titled(&title, &said(answer))
            }
            RunEvent::Finished { status, limit, .. } => {
                let limit = limit.as_ref().map(|limit| format!(" ({limit})")).unwrap_or_default();
                vec![self.paint.bold(&format!("{status}{limit}"))]
            }
            RunEvent::Failed { error } => self.titled(&self.paint.bad("failed"), error),
            RunEvent::Resumed { model } => {
                let model = model.as_ref().map(|model| format!(" with {}", plain(model))).unwrap_or_default();
                dim(&format!("resumed{model}"))
            }
        }
    }

    fn answered(&mut self, answer: &ModelAnswer) -> Vec<String> {
        self.calls.clone_from(&answer.calls);
        let mut lines = self.titled(&self.paint.bold("model"), &answer.text);
        for call in &answer.calls {
            lines.push(self.line(
                &format!("  calls {}", self.paint.name(&one_line(&call.name, 64))),
                &arguments(&call.args),
            ));
        }
        lines
    }

    fn name(&self, index: usize) -> String {
        let name = self.calls.get(index).map_or("a call", |call| call.name.as_str());
        self.paint.name(&one_line(name, 64))
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(self.numbers + 4).max(20)
    }

    /// A title and what belongs to it, on one line.
    fn line(&self, title: &str, text: &str) -> String {
        let used = console::measure_text_width(title) + 2;
        format!("{title}({})", one_line(text, self.room().saturating_sub(used).max(20)))
    }

    /// A title and a text: on one line if it is one, else below it.
    fn titled(&self, title: &str, text: &str) -> Vec<String> {
        let text = text.trim();
        if text.is_empty() {
            return vec![title.to_owned()];
        }
        let used = console::measure_text_width(title) + 2;
        let lines = excerpt(text, LINES, self.room());
        match lines.as_slice() {
            [only] if console::measure_text_width(only) + used <= self.room() => {
                vec![format!("{title}: {only}")]
            }
            _ => {
                let below = lines.iter().map(|line| format!("  {line}"));
                std::iter::once(format!("{title}:")).chain(below).collect()
            }
        }
    }
}

/// An answer in a few words.
fn said(answer: &Answer) -> String {
    if !answer.ok {
        return answer.reason.as_deref().unwrap_or("declined").to_owned();
    }
    match &answer.data {
        None => "yes".into(),
        Some(data) => match data.get("output") {
            Some(Value::String(text)) if data.len() == 1 => text.clone(),
            _ => Value::Object(data.clone()).to_string(),
        },
    }
}
