//! What somebody says as the answer to a request: the same for lines typed at the terminal and for flags.

use serde_json::{Map, Value};
use toolnexus::{Answer, Request, answer_declined, answer_output};

/// What kind of answer a request wants.
pub(crate) fn wanted(request: &Request) -> &'static str {
    match request.kind.as_str() {
        "approval" => "y to allow, n to refuse",
        "authorization" => "Enter when you are done there, n to refuse",
        "in_doubt" => "y to run it again, n to leave it",
        _ => "your answer (empty to decline)",
    }
}

/// Reads a line as the answer, unless it is none.
pub(crate) fn read(request: &Request, line: &str) -> Option<Answer> {
    let id = request.id.as_str();
    let line = line.trim();
    let yes = matches!(line.to_lowercase().as_str(), "y" | "yes");
    let no = matches!(line.to_lowercase().as_str(), "n" | "no");
    let granted = Answer { id: id.into(), ok: true, ..Default::default() };
    match request.kind.as_str() {
        "approval" | "in_doubt" if yes => Some(granted),
        "approval" | "in_doubt" | "authorization" if no => Some(answer_declined(id, Some("declined"))),
        "approval" | "in_doubt" => None,
        "authorization" => Some(granted),
        _ if line.is_empty() => None,
        _ => Some(answer_output(id, line)),
    }
}

/// The answer that a filled form is.
pub(crate) fn filled(request: &Request, data: Map<String, Value>) -> Answer {
    Answer { id: request.id.clone(), ok: true, data: Some(data), reason: None }
}

/// One field of a form.
#[derive(Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    label: String,
    kind: FieldKind,
    pub(crate) required: bool,
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
pub(crate) fn fields(request: &Request) -> Option<Vec<Field>> {
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
    pub(crate) fn question(&self) -> String {
        let wanted = self.wanted().map(|wanted| format!(" ({wanted})")).unwrap_or_default();
        let optional = if self.required { "" } else { ", empty to leave out" };
        format!("  {}{wanted}{optional}: ", self.label)
    }

    /// What may stand in it, where that is not any text.
    pub(crate) fn wanted(&self) -> Option<String> {
        match &self.kind {
            FieldKind::Text => None,
            FieldKind::Number => Some("a number".into()),
            FieldKind::Integer => Some("a whole number".into()),
            FieldKind::Boolean => Some("y/n".into()),
            FieldKind::Choice(choices) => Some(choices.join(" / ")),
        }
    }

    /// Whether a value is of the right kind.
    pub(crate) fn takes(&self, value: &Value) -> bool {
        match &self.kind {
            FieldKind::Text => value.is_string(),
            FieldKind::Number => value.is_number(),
            FieldKind::Integer => value.is_i64() || value.is_u64(),
            FieldKind::Boolean => value.is_boolean(),
            FieldKind::Choice(choices) => choices.iter().any(|choice| value == choice),
        }
    }

    /// The value of a line, or `None` when it is of the wrong kind.
    pub(crate) fn read(&self, line: &str) -> Option<Value> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(kind: &str) -> Request {
        Request { id: "r".into(), kind: kind.into(), ..Default::default() }
    }

    #[test]
    fn only_a_clear_yes_approves() {
        for kind in ["approval", "in_doubt"] {
            for (line, ok) in
                [("y", Some(true)), (" YES ", Some(true)), ("n", Some(false)), ("", None), ("maybe", None)]
            {
                assert_eq!(read(&request(kind), line).map(|answer| answer.ok), ok, "{line}");
            }
        }
    }

    #[test]
    fn a_login_is_done_unless_refused() {
        assert!(read(&request("authorization"), "").unwrap().ok);
        assert_eq!(read(&request("authorization"), "n").unwrap().reason.as_deref(), Some("declined"));
    }

    #[test]
    fn text_is_the_answer_and_nothing_is_none() {
        let given = read(&request("input"), "Zurich\n").unwrap();
        assert_eq!((given.ok, given.data.unwrap()["output"].clone()), (true, json!("Zurich")));
        assert_eq!(read(&request("question"), " "), None);
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
        let takes = |at: usize, value| fields[at].takes(&value);
        assert!(takes(0, json!("a")) && takes(1, json!(7)) && takes(2, json!("S")) && takes(3, json!(false)));
        assert!(
            !takes(0, json!(1)) && !takes(1, json!(7.5)) && !takes(2, json!("L")) && !takes(3, json!("y"))
        );
        assert_eq!(super::fields(&request("input")), None);
    }
}
