//! Asking the person at the terminal what a suspended tool wants to know.

use std::io::{self, BufRead as _};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc};
use toolnexus::suspension::WaitFor;
use toolnexus::{Answer, Request, answer_declined, answer_output};

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
    screen.note(&format!("{} {}", paint.warn("?"), paint.bold(&plain_lines(&request.prompt))));
    if let Some(url) = request.url.as_deref().filter(|url| !request.prompt.contains(url)) {
        screen.note(&format!("  {}", plain_lines(url)));
    }
    match fields(request) {
        Some(fields) => form(request, &fields, screen, &mut lines).await,
        None => {
            screen.question(&paint.dim(hint(request)));
            let line = lines.recv().await;
            answer(request, line.as_deref())
        }
    }
}

/// What kind of answer is wanted.
fn hint(request: &Request) -> &'static str {
    match request.kind.as_str() {
        "approval" => "  y to allow, n to refuse: ",
        "authorization" => "  Enter when you are done there, n to refuse: ",
        _ => "  your answer (empty to decline): ",
    }
}

/// Reads a typed line as the answer; `None` is the end of input.
fn answer(request: &Request, line: Option<&str>) -> Answer {
    let id = request.id.as_str();
    let Some(line) = line.map(str::trim) else { return answer_declined(id, Some("cancelled")) };
    let yes = matches!(line.to_lowercase().as_str(), "y" | "yes");
    let no = matches!(line.to_lowercase().as_str(), "n" | "no");
    match request.kind.as_str() {
        // Anything but a clear yes is a no.
        "approval" if yes => Answer { id: id.into(), ok: true, ..Default::default() },
        "approval" => answer_declined(id, Some("declined")),
        "authorization" if no => answer_declined(id, Some("declined")),
        "authorization" => Answer { id: id.into(), ok: true, ..Default::default() },
        _ if line.is_empty() => answer_declined(id, Some("declined")),
        _ => answer_output(id, line),
    }
}

/// One field of a form.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    label: String,
    kind: FieldKind,
    required: bool,
}

#[derive(Debug, PartialEq)]
enum FieldKind {
    Text,
    Number,
    Integer,
    Boolean,
    Choice(Vec<String>),
}

/// The fields of a form, when the request carries the schema of a flat object.
fn fields(request: &Request) -> Option<Vec<Field>> {
    let schema = request.data.as_ref()?.get("schema")?;
    let properties = schema.get("properties")?.as_object()?;
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let fields = properties.iter().map(|(name, schema)| {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let choices: Vec<String> = schema
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let kind = match text("type") {
            _ if !choices.is_empty() => FieldKind::Choice(choices),
            Some("number") => FieldKind::Number,
            Some("integer") => FieldKind::Integer,
            Some("boolean") => FieldKind::Boolean,
            _ => FieldKind::Text,
        };
        Field {
            name: name.clone(),
            label: text("title").or_else(|| text("description")).unwrap_or(name).to_owned(),
            kind,
            required: required.contains(&name.as_str()),
        }
    });
    Some(fields.collect())
}

impl Field {
    fn question(&self) -> String {
        let wanted = match &self.kind {
            FieldKind::Text => String::new(),
            FieldKind::Number => " (a number)".into(),
            FieldKind::Integer => " (a whole number)".into(),
            FieldKind::Boolean => " (y/n)".into(),
            FieldKind::Choice(choices) => format!(" ({})", choices.join(" / ")),
        };
        let optional = if self.required { "" } else { ", empty to leave out" };
        format!("  {}{wanted}{optional}: ", self.label)
    }

    /// The value of a typed line, or `None` when it is of the wrong kind.
    fn read(&self, line: &str) -> Option<Value> {
        match &self.kind {
            FieldKind::Text => Some(Value::String(line.to_owned())),
            FieldKind::Number => {
                line.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number)
            }
            FieldKind::Integer => line.parse::<i64>().ok().map(Value::from),
            FieldKind::Boolean => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => Some(Value::Bool(true)),
                "n" | "no" | "false" => Some(Value::Bool(false)),
                _ => None,
            },
            FieldKind::Choice(choices) => {
                choices.iter().find(|choice| *choice == line).map(|choice| Value::String(choice.clone()))
            }
        }
    }
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
    Answer { id: request.id.clone(), ok: true, data: Some(data), reason: None }
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
    use serde_json::json;

    fn request(kind: &str) -> Request {
        Request { id: "r".into(), kind: kind.into(), ..Default::default() }
    }

    #[test]
    fn only_a_clear_yes_approves() {
        for (line, ok) in [("y", true), (" YES ", true), ("", false), ("n", false), ("maybe", false)] {
            assert_eq!(answer(&request("approval"), Some(line)).ok, ok, "{line}");
        }
        assert!(!answer(&request("approval"), None).ok);
    }

    #[test]
    fn a_login_is_done_unless_refused() {
        assert!(answer(&request("authorization"), Some("")).ok);
        assert_eq!(answer(&request("authorization"), Some("n")).reason.as_deref(), Some("declined"));
        assert_eq!(answer(&request("authorization"), None).reason.as_deref(), Some("cancelled"));
    }

    #[test]
    fn text_is_the_answer_and_nothing_declines() {
        let given = answer(&request("input"), Some("Zurich\n"));
        assert_eq!((given.ok, given.data.unwrap()["output"].clone()), (true, json!("Zurich")));
        assert_eq!(answer(&request("question"), Some(" ")).reason.as_deref(), Some("declined"));
    }

    #[test]
    fn a_schema_makes_a_form() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer"},
            "size": {"type": "string", "enum": ["S", "M"]},
            "news": {"type": "boolean"},
        }});
        let mut data = Map::new();
        data.insert("schema".into(), schema);
        let fields = fields(&Request { data: Some(data), ..request("input") }).unwrap();
        assert_eq!(fields.len(), 4);
        assert_eq!(fields[0].question(), "  Your name: ");
        assert_eq!(fields[1].question(), "  age (a whole number), empty to leave out: ");
        assert_eq!((fields[1].read("7"), fields[1].read("7.5")), (Some(json!(7)), None));
        assert_eq!((fields[2].read("M"), fields[2].read("L")), (Some(json!("M")), None));
        assert_eq!((fields[3].read("y"), fields[3].read("x")), (Some(json!(true)), None));
        assert_eq!(super::fields(&request("input")), None);
    }
}
