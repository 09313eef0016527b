//! The answer that flags give to an open request of a run.

use serde_json::{Map, Value};
use toolnexus::client::run::Run;
use toolnexus::{Answer, Request, answer_declined};

use super::args::AnswerArgs;
use crate::answer::{self, Field};
use crate::exit::Failure;
use crate::questions::{self, Question};

/// What the flags say.
enum Given<'a> {
    Text(&'a str),
    Json(&'a str),
    Declined(&'a str),
}

impl AnswerArgs {
    fn given(&self) -> Option<Given<'_>> {
        let text = self.answer.as_deref().map(Given::Text);
        let json = self.answer_json.as_deref().map(Given::Json);
        text.or(json).or_else(|| self.decline.as_deref().map(Given::Declined))
    }

    /// The answer to an open request of this run, if the flags give one.
    pub(crate) fn to(&self, run: &Run) -> Result<Option<Answer>, Failure> {
        let Some(given) = self.given() else { return Ok(None) };
        let request = self.request_of(run)?;
        Ok(Some(match given {
            Given::Text(text) => of_text(request, text)?,
            Given::Json(json) => of_json(request, json)?,
            Given::Declined(reason) => answer_declined(&request.id, Some(reason)),
        }))
    }

    /// The request that is answered: the only one, or the one that is named.
    fn request_of<'r>(&self, run: &'r Run) -> Result<&'r Request, Failure> {
        let open: Vec<&Request> = run.open_requests().iter().map(|open| open.request).collect();
        let wanted = self.request.as_deref();
        let found = match (open.as_slice(), wanted) {
            ([], _) => {
                return Err(Failure::usage(format!(
                    "the run \"{}\" waits for no answer: leave the answer out",
                    run.run_id()
                )));
            }
            ([only], None) => Some(*only),
            (several, Some(id)) => several.iter().copied().find(|request| request.id == id),
            (_, None) => None,
        };
        found.ok_or_else(|| {
            let problem = match wanted {
                Some(id) => format!("the run has no open request \"{id}\""),
                None => "the run waits for several answers".to_owned(),
            };
            let open: Vec<String> =
                open.iter().map(|request| format!("\n  {}  {}", request.id, request.prompt)).collect();
            Failure::usage(format!("{problem}: name one of these with --request{}", open.concat()))
        })
    }
}

/// A text is what would be typed at the terminal.
fn of_text(request: &Request, text: &str) -> Result<Answer, Failure> {
    let unclear = |wanted: &str| {
        Failure::usage(format!("--answer {text:?} is no answer to \"{}\": it takes {wanted}", request.prompt))
    };
    if let Some(questions) = questions::questions(request) {
        let [question] = questions.as_slice() else {
            return Err(unclear(&format!(
                "an answer to each question: --answer-json '{}'",
                unanswered(&questions)
            )));
        };
        let answer = question.read(text);
        let answer = answer.ok_or_else(|| unclear(&format!("{}; --decline declines", question.wanted())))?;
        return Ok(questions::answered(request, vec![answer]));
    }
    let Some(fields) = answer::fields(request) else {
        return answer::read(request, text).ok_or_else(|| match request.kind.as_str() {
            "approval" | "in_doubt" => unclear(answer::wanted(request)),
            _ => unclear("a text; --decline declines"),
        });
    };
    let [field] = fields.as_slice() else {
        return Err(unclear(&format!("a form: --answer-json '{}'", blank(&fields))));
    };
    let line = text.trim();
    let mut data = Map::new();
    if !line.is_empty() || field.required {
        let value = field.read(line).filter(|_| !line.is_empty());
        let wanted = || field.wanted().unwrap_or_else(|| "a text; --decline declines".into());
        data.insert(field.name.clone(), value.ok_or_else(|| unclear(&wanted()))?);
    }
    Ok(answer::filled(request, data))
}

/// An object is what the tool finds as the answer's data.
fn of_json(request: &Request, json: &str) -> Result<Answer, Failure> {
    let wrong = |why: String| Failure::usage(format!("--answer-json: {why}"));
    let value: Value = serde_json::from_str(json).map_err(|error| {
        wrong(format!("it is not JSON ({error}): it is an object, as in '{{\"output\": \"Zurich\"}}'"))
    })?;
    let Value::Object(data) = value else {
        return Err(wrong("it is an object, as in '{\"output\": \"Zurich\"}'".into()));
    };
    for field in answer::fields(request).unwrap_or_default() {
        let wanted = field.wanted().unwrap_or_else(|| "a text".into());
        match data.get(&field.name) {
            Some(value) if !field.takes(value) => {
                return Err(wrong(format!("\"{}\" is {value}, and it takes {wanted}", field.name)));
            }
            None if field.required => {
                return Err(wrong(format!("\"{}\" is missing: it takes {wanted}", field.name)));
            }
            _ => {}
        }
    }
    Ok(answer::filled(request, data))
}

/// `{"answers": [… , …]}`.
fn unanswered(questions: &[Question]) -> String {
    format!("{{\"answers\": [{}]}}", vec!["…"; questions.len()].join(", "))
}

/// `{"name": …, "age": …}`.
fn blank(fields: &[Field]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| format!("\"{}\": …", field.name)).collect();
    format!("{{{}}}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(properties: Value) -> Request {
        let schema = json!({"type": "object", "required": ["age"], "properties": properties});
        Request {
            id: "r".into(),
            kind: "input".into(),
            prompt: "Who?".into(),
            data: Some(Map::from_iter([("schema".to_owned(), schema)])),
            ..Default::default()
        }
    }

    fn data(answer: Result<Answer, Failure>) -> Value {
        Value::Object(answer.unwrap().data.unwrap())
    }

    fn refused(answer: Result<Answer, Failure>) -> String {
        answer.unwrap_err().message
    }

    #[test]
    fn a_text_fills_a_form_of_one_field() {
        let one = form(json!({"age": {"type": "integer"}}));
        assert_eq!(data(of_text(&one, " 7 ")), json!({"age": 7}));
        for text in ["old", ""] {
            assert!(refused(of_text(&one, text)).contains("it takes a whole number"), "{text}");
        }
        let optional = form(json!({"nick": {"type": "string"}}));
        assert_eq!(data(of_text(&optional, "")), json!({}));
        let two = form(json!({"age": {"type": "integer"}, "name": {"type": "string"}}));
        assert!(refused(of_text(&two, "7")).contains(r#"a form: --answer-json '{"age": …, "name": …}'"#));
    }

    #[test]
    fn json_is_checked_against_the_form() {
        let request = form(json!({"age": {"type": "integer"}, "name": {"type": "string"}}));
        assert_eq!(data(of_json(&request, r#"{"age": 7, "more": []}"#)), json!({"age": 7, "more": []}));
        for (json, said) in [
            (r#"{"name": "A"}"#, "\"age\" is missing: it takes a whole number"),
            (r#"{"age": "7"}"#, "\"age\" is \"7\", and it takes a whole number"),
            ("[7]", "it is an object"),
            ("{age: 7}", "it is not JSON"),
        ] {
            assert!(refused(of_json(&request, json)).contains(said), "{json}");
        }
    }

    #[test]
    fn a_text_is_what_would_be_typed() {
        let asks = |kind: &str| Request { kind: kind.into(), prompt: "Really?".into(), ..Default::default() };
        assert!(of_text(&asks("approval"), "yes").unwrap().ok);
        assert!(!of_text(&asks("in_doubt"), "n").unwrap().ok);
        assert!(refused(of_text(&asks("in_doubt"), "perhaps")).contains("y to run it again, n to leave it"));
        assert!(refused(of_text(&asks("input"), " ")).contains("--decline"));
        assert_eq!(data(of_text(&asks("input"), "Oslo")), json!({"output": "Oslo"}));
    }

    #[test]
    fn a_text_answers_one_question() {
        let asks = |questions: Value| Request {
            kind: "question".into(),
            prompt: "Which?".into(),
            data: Some(Map::from_iter([("questions".to_owned(), questions)])),
            ..Default::default()
        };
        let one = asks(json!([{"question": "Which?", "options": ["red", "green"]}]));
        assert_eq!(data(of_text(&one, "2")), json!({"answers": ["green"]}));
        assert_eq!(data(of_text(&one, "blue")), json!({"answers": ["blue"]}));
        assert!(
            refused(of_text(&one, "3")).contains("it takes 1 to 2, or your own answer; --decline declines")
        );
        let two = asks(json!([{"question": "A?"}, {"question": "B?"}]));
        assert!(refused(of_text(&two, "x")).contains(r#"--answer-json '{"answers": […, …]}'"#));
        assert_eq!(data(of_json(&two, r#"{"answers": ["x", "y"]}"#)), json!({"answers": ["x", "y"]}));
    }
}
