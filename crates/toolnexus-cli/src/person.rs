//! Asking the person at the terminal what a suspended tool wants to know.

use std::io::{self, BufRead as _};
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
    // What was typed before the question is no answer to it.
    while lines.try_recv().is_ok() {}
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
            typed_answer(request, lines.recv().await.as_deref())
        }
    }
}

/// Reads a typed line as the answer; `None` is the end of input. What is no answer declines.
fn typed_answer(request: &Request, line: Option<&str>) -> Answer {
    let Some(line) = line else { return answer_declined(&request.id, Some("cancelled")) };
    answer::read(request, line).unwrap_or_else(|| answer_declined(&request.id, Some("declined")))
}

/// Asks one question after the other; an empty line declines them all.
async fn survey(
    request: &Request,
    questions: &[Question],
    screen: &Screen,
    lines: &mut mpsc::UnboundedReceiver<String>,
) -> Answer {
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
            let Some(line) = lines.recv().await else {
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

async fn form(
    request: &Request,
    fields: &[Field],
    screen: &Screen,
    lines: &mut mpsc::UnboundedReceiver<String>,
) -> Answer {
    let paint = Paint::stderr();
    screen.note(&paint.dim("  Ctrl-D declines"));
    let mut data = Map::new();
    for field in fields {
        loop {
            screen.question(&plain_lines(&field.question()));
            let Some(line) = lines.recv().await else {
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

/// The lines that are typed. Reading cannot be interrupted, so one thread does it for as long as
/// the process lives.
fn typed() -> &'static Mutex<mpsc::UnboundedReceiver<String>> {
    static LINES: OnceLock<Mutex<mpsc::UnboundedReceiver<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (send, receive) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Mutex::new(receive)
    })
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
