//! Asking the person at the terminal what a suspended tool wants to know.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::{Arc, OnceLock};

use serde_json::Map;
use tokio::sync::{Mutex, mpsc};
use toolnexus::suspension::WaitFor;
use toolnexus::{Answer, Request, answer_declined};

use crate::answer::{self, Field};
use crate::questions::{self, Question};
use crate::render::plain_lines;
use crate::screen::{Paint, Screen};

/// A resolver that asks at the terminal, one question at a time.
pub(crate) fn resolver(screen: &Screen) -> WaitFor {
    let screen = screen.clone();
    Arc::new(move |request| {
        let screen = screen.clone();
        Box::pin(async move { Ok(ask(&request, &screen).await) })
    })
}

async fn ask(request: &Request, screen: &Screen) -> Answer {
    let mut lines = typed().lock().await;
    lines.forget();
    let paint = Paint::stderr();
    if let Some(questions) = questions::questions(request) {
        return survey(request, &questions, screen, &mut lines).await;
    }
    screen.note(&format!("{} {}", paint.warn("?"), paint.bold(&plain_lines(&request.prompt))));
    if let Some(url) = request.url.as_deref().filter(|url| !request.prompt.contains(url)) {
        screen.note(&format!("  {}", plain_lines(url)));
    }
    match answer::fields(request) {
        Some(fields) => form(request, &fields, screen, &mut lines).await,
        None => {
            screen.question(&paint.dim(&format!("  {}: ", answer::wanted(request))));
            typed_answer(request, lines.next().await.as_deref())
        }
    }
}

/// Reads a typed line as the answer; `None` is the end of input. What is no answer declines.
fn typed_answer(request: &Request, line: Option<&str>) -> Answer {
    let Some(line) = line else { return answer_declined(&request.id, Some("cancelled")) };
    answer::read(request, line).unwrap_or_else(|| answer_declined(&request.id, Some("declined")))
}

/// Asks one question after the other; an empty line declines them all.
async fn survey(request: &Request, questions: &[Question], screen: &Screen, lines: &mut Lines) -> Answer {
    let paint = Paint::stderr();
    let mut answers = Vec::new();
    for question in questions {
        let header = question.header.as_deref().map(|header| format!("{}: ", plain_lines(header)));
        let text = format!("{}{}", header.unwrap_or_default(), plain_lines(&question.text));
        screen.note(&format!("{} {}", paint.warn("?"), paint.bold(&text)));
        for (at, option) in question.options.iter().enumerate() {
            screen.note(&format!("  {} {}", paint.dim(&format!("{}.", at + 1)), plain_lines(option)));
        }
        let answer = loop {
            screen.question(&paint.dim(&format!("  {} (empty to decline): ", question.wanted())));
            let Some(line) = lines.next().await else {
                return answer_declined(&request.id, Some("cancelled"));
            };
            if line.trim().is_empty() {
                return answer_declined(&request.id, Some("declined"));
            }
            if let Some(answer) = question.read(&line) {
                break answer;
            }
        };
        answers.push(answer);
    }
    questions::answered(request, answers)
}

async fn form(request: &Request, fields: &[Field], screen: &Screen, lines: &mut Lines) -> Answer {
    let paint = Paint::stderr();
    screen.note(&paint.dim("  Ctrl-D declines"));
    let mut data = Map::new();
    for field in fields {
        loop {
            screen.question(&plain_lines(&field.question()));
            let Some(line) = lines.next().await else {
                return answer_declined(&request.id, Some("declined"));
            };
            let line = line.trim();
            if line.is_empty() && !field.required {
                break;
            }
            if let Some(value) = field.read(line).filter(|_| !line.is_empty()) {
                data.insert(field.name.clone(), value);
                break;
            }
        }
    }
    answer::filled(request, data)
}

/// The lines that are typed.
struct Lines(mpsc::UnboundedReceiver<Option<String>>);

impl Lines {
    /// The next line; `None` is the end of input. On a terminal that is a Ctrl-D, behind which more
    /// may be typed: it ends one question, and not those that come after it.
    async fn next(&mut self) -> Option<String> {
        self.0.recv().await.flatten()
    }

    /// Leaves out what was typed by now: what comes before a question is no answer to it.
    fn forget(&mut self) {
        while self.0.try_recv().is_ok() {}
    }
}

/// The lines that are typed. Reading cannot be interrupted, so one thread does it for as long as
/// the process lives.
fn typed() -> &'static Mutex<Lines> {
    static LINES: OnceLock<Mutex<Lines>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (send, receive) = mpsc::unbounded_channel();
        std::thread::spawn(move || read_lines(&send));
        Mutex::new(Lines(receive))
    })
}

/// Reads lines until there can be no more. Bytes that are no UTF-8 are replaced: whoever types them
/// has still said something.
fn read_lines(send: &mpsc::UnboundedSender<Option<String>>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let Ok(read) = io::stdin().lock().read_until(b'\n', &mut line) else { return };
        let typed = (read > 0).then(|| String::from_utf8_lossy(&line).into_owned());
        // A terminal that was closed is none any more.
        let may_go_on = read > 0 || io::stdin().is_terminal();
        if send.send(typed).is_err() || !may_go_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_declines() {
        for (kind, line, ok, reason) in [
            ("approval", Some("y"), true, None),
            ("approval", Some("maybe"), false, Some("declined")),
            ("in_doubt", Some("no"), false, Some("declined")),
            ("in_doubt", Some("sure"), false, Some("declined")),
            ("question", Some(" "), false, Some("declined")),
            ("authorization", None, false, Some("cancelled")),
        ] {
            let request = Request { id: "r".into(), kind: kind.into(), ..Default::default() };
            let answer = typed_answer(&request, line);
            assert_eq!((answer.ok, answer.reason.as_deref()), (ok, reason), "{kind} {line:?}");
        }
    }
}
