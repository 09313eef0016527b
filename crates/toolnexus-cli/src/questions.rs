//! Questions with answers to choose from, as the built-in tool `question` asks them.
//!
//! Such a request carries its questions as data, and its answer is `{"answers": […]}` with one entry for
//! each: a text, or a list of texts where several may be chosen. What is typed or given with a flag is
//! read here.

use serde_json::{Map, Value, json};
use toolnexus::{Answer, Request};

/// One question to a person.
#[derive(Debug, PartialEq)]
pub(crate) struct Question {
    /// A word or two that stand above it.
    pub(crate) header: Option<String>,
    pub(crate) text: String,
    /// Answers to choose from; a person may say something else.
    pub(crate) options: Vec<String>,
    /// Whether several options may be chosen.
    multiple: bool,
}

/// The questions of a request, if it is one that carries some.
pub(crate) fn questions(request: &Request) -> Option<Vec<Question>> {
    if request.kind != "question" {
        return None;
    }
    let questions = request.data.as_ref()?.get("questions")?.as_array()?;
    (!questions.is_empty()).then(|| questions.iter().map(Question::of).collect())
}

/// The answer to all questions of a request.
pub(crate) fn answered(request: &Request, answers: Vec<Value>) -> Answer {
    let data = Map::from_iter([("answers".to_owned(), Value::Array(answers))]);
    Answer { id: request.id.clone(), ok: true, data: Some(data), reason: None }
}

impl Question {
    fn of(question: &Value) -> Self {
        let text = |key: &str| question.get(key).and_then(Value::as_str).map(str::to_owned);
        let options = question.get("options").and_then(Value::as_array).into_iter().flatten();
        Question {
            header: text("header").filter(|header| !header.is_empty()),
            text: text("question").unwrap_or_default(),
            options: options
                .map(|option| option.as_str().map_or_else(|| option.to_string(), str::to_owned))
                .collect(),
            multiple: question.get("multiple") == Some(&Value::Bool(true)),
        }
    }

    /// What an answer may be.
    pub(crate) fn wanted(&self) -> String {
        match (self.options.len(), self.multiple) {
            (0, _) => "your answer".to_owned(),
            (count, false) => format!("1 to {count}, or your own answer"),
            (count, true) => format!("some of 1 to {count}, with commas, or your own answer"),
        }
    }

    /// The answer that a line is: options by their number or their text, in the order in which they
    /// were named, or other words. `None` if it is empty, or a number that is no option.
    pub(crate) fn read(&self, line: &str) -> Option<Value> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        if !self.multiple {
            return self.option(line).map(Value::String);
        }
        // A line that is an option as a whole may hold commas.
        if let Some(option) = self.named(line) {
            return Some(json!([option]));
        }
        let mut chosen: Vec<String> = Vec::new();
        for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let option = self.option(part)?;
            if !chosen.contains(&option) {
                chosen.push(option);
            }
        }
        (!chosen.is_empty()).then(|| json!(chosen))
    }

    fn option(&self, text: &str) -> Option<String> {
        if let Some(option) = self.named(text) {
            return Some(option.to_owned());
        }
        match text.parse::<usize>() {
            Ok(number) if !self.options.is_empty() => self.options.get(number.checked_sub(1)?).cloned(),
            _ => Some(text.to_owned()),
        }
    }

    /// The option of this text, in any case if none is the same.
    fn named(&self, text: &str) -> Option<&str> {
        let same = self.options.iter().find(|option| *option == text);
        let similar = || self.options.iter().find(|option| option.to_lowercase() == text.to_lowercase());
        same.or_else(similar).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: &str, questions: Value) -> Request {
        let data = Map::from_iter([("questions".to_owned(), questions)]);
        Request { id: "r".into(), kind: kind.into(), data: Some(data), ..Default::default() }
    }

    fn one(question: Value) -> Question {
        questions(&request("question", json!([question]))).unwrap().remove(0)
    }

    // BUILTIN-73, BUILTIN-74: what the tool sends, odd items included, and what it is told
    #[test]
    fn a_request_carries_its_questions() {
        let asked = request(
            "question",
            json!([{"question": "A?", "header": "H", "options": ["x", 2], "multiple": true}, {"question": 5}]),
        );
        let questions = questions(&asked).unwrap();
        assert_eq!(questions[0].header.as_deref(), Some("H"));
        assert_eq!(
            (questions[0].text.as_str(), &questions[0].options),
            ("A?", &vec!["x".into(), "2".into()])
        );
        assert_eq!((questions[1].text.as_str(), questions[1].options.len()), ("", 0));
        let answer = answered(&asked, vec![json!(["x"]), json!("why")]);
        assert_eq!((answer.id.as_str(), answer.ok), ("r", true));
        assert_eq!(Value::Object(answer.data.unwrap()), json!({"answers": [["x"], "why"]}));

        for odd in [json!([]), json!("A?"), json!(null)] {
            assert_eq!(super::questions(&request("question", odd)), None);
        }
        assert_eq!(super::questions(&request("input", json!([{"question": "A?"}]))), None);
    }

    #[test]
    fn an_option_is_chosen_by_number_or_text() {
        let question = one(json!({"question": "A?", "options": ["red", "Green", "7", "a, b"]}));
        assert_eq!(question.wanted(), "1 to 4, or your own answer");
        for (line, answer) in [
            ("1", json!("red")),
            (" 2 \n", json!("Green")),
            ("green", json!("Green")),
            ("7", json!("7")),
            ("a, b", json!("a, b")),
            ("blue, or so", json!("blue, or so")),
            ("1.5", json!("1.5")),
        ] {
            assert_eq!(question.read(line), Some(answer), "{line}");
        }
        for line in ["", " ", "0", "5", "99"] {
            assert_eq!(question.read(line), None, "{line}");
        }
        let free = one(json!({"question": "How many?"}));
        assert_eq!((free.wanted().as_str(), free.read("5")), ("your answer", Some(json!("5"))));
    }

    #[test]
    fn several_options_are_chosen_with_commas() {
        let question = one(json!({"question": "A?", "options": ["red", "green", "a, b"], "multiple": true}));
        assert_eq!(question.wanted(), "some of 1 to 3, with commas, or your own answer");
        for (line, answer) in [
            ("2", json!(["green"])),
            ("2, red,,2", json!(["green", "red"])),
            ("a, b", json!(["a, b"])),
            ("3,1", json!(["a, b", "red"])),
            ("red, pink", json!(["red", "pink"])),
        ] {
            assert_eq!(question.read(line), Some(answer), "{line}");
        }
        for line in ["", ",", "1, 9"] {
            assert_eq!(question.read(line), None, "{line}");
        }
    }
}
