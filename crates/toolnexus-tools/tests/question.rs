//! The `question` tool, called as the loop calls it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{call, tool};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolnexus_core::{Answer, Request, ToolContext, ToolHints, ToolResult, pending_of};
use toolnexus_tools::BuiltinsConfig;

async fn ask(questions: Value) -> ToolResult {
    call(&BuiltinsConfig::default(), "question", json!({"questions": questions})).await
}

async fn answered(answer: Answer) -> ToolResult {
    let context = ToolContext { answer: Some(answer), ..Default::default() };
    let questions = json!({"questions": [{"question": "Which?"}]});
    tool(&BuiltinsConfig::default(), "question").execute_with(questions, context).await
}

fn granted(data: Option<Value>) -> Answer {
    let data = data.map(|data| data.as_object().cloned().unwrap());
    Answer { id: "r".into(), ok: true, data, reason: None }
}

fn asked(result: &ToolResult) -> Request {
    pending_of(result).unwrap()
}

// BUILTIN-72, BUILTIN-73, case 39
#[tokio::test]
async fn a_question_suspends() {
    let questions = json!([{"question": "Ship it?", "options": ["yes", "no"]}]);
    let result = ask(questions.clone()).await;
    assert!(result.is_error);
    assert_eq!(result.output, "Ship it? (options: yes, no)");
    let request = asked(&result);
    assert_eq!((request.kind.as_str(), request.prompt.as_str()), ("question", result.output.as_str()));
    assert_eq!(Value::Object(request.data.clone().unwrap()), json!({"questions": questions}));
    assert_eq!((request.url, request.expires_at), (None, None));
    // The id is made anew each time.
    assert!(!request.id.is_empty());
    assert_ne!(asked(&ask(questions).await).id, request.id);
    // On the wire a request is a plain object.
    assert_eq!(result.metadata.unwrap()["pending"]["kind"], json!("question"));
}

// BUILTIN-73, case 40: the questions in order, a line each; what is not rendered stays in the data
#[tokio::test]
async fn several_questions_are_one_request() {
    let questions = json!([
        {"question": "Pick a color?", "header": "Choice", "options": ["red", "green"], "multiple": true},
        {"question": "Confirm?"},
    ]);
    let result = ask(questions.clone()).await;
    assert_eq!(result.output, "Pick a color? (options: red, green)\nConfirm?");
    assert_eq!(asked(&result).data.unwrap()["questions"], questions);
}

// BUILTIN-73: odd items
#[tokio::test]
async fn odd_questions_are_rendered_as_far_as_they_go() {
    for (questions, rendered) in [
        (json!([{"question": "A?", "options": []}]), "A?"),
        (json!([{"question": "A?", "options": "yes"}]), "A?"),
        (
            json!([{"question": "A?", "options": [1, true, null, {"k": [2]}, "x"]}]),
            "A? (options: 1, true, null, {\"k\":[2]}, x)",
        ),
        (json!([{"header": "H", "options": ["a"]}, {"question": "B?"}]), "\nB?"),
        (json!([{"question": 5}, "text", null, {"question": "B?"}]), "\n\n\nB?"),
        (json!([{"question": "two\nlines?\n"}]), "two\nlines?\n"),
    ] {
        let result = ask(questions.clone()).await;
        assert_eq!(result.output, rendered);
        assert_eq!(asked(&result).prompt, rendered);
        assert_eq!(asked(&result).data.unwrap()["questions"], questions);
    }
}

// BUILTIN-74, case 41: the answer's data as it is, keys in their order
#[tokio::test]
async fn an_answer_is_passed_on() {
    for (data, output) in [
        (Some(json!({"answers": ["red"]})), r#"{"answers":["red"]}"#),
        (Some(json!({"z": 1, "a": {"y": null, "b": "ü"}})), r#"{"z":1,"a":{"y":null,"b":"ü"}}"#),
        (Some(json!({})), "{}"),
        (None, "{}"),
    ] {
        let result = answered(granted(data)).await;
        assert_eq!((result.output.as_str(), result.is_error), (output, false));
        assert_eq!(pending_of(&result), None);
    }
}

// BUILTIN-74: a refusal asks again
#[tokio::test]
async fn a_refusal_suspends_again() {
    let result = answered(Answer { ok: false, ..granted(Some(json!({"answers": ["x"]}))) }).await;
    assert!(result.is_error);
    assert_eq!((result.output.as_str(), asked(&result).kind.as_str()), ("Which?", "question"));
}

// BUILTIN-75; BUILTIN-12, BUILTIN-13: nothing to ask is a failure, answered or not
#[tokio::test]
async fn there_must_be_questions() {
    let config = BuiltinsConfig::default();
    for arguments in [
        json!(null),
        json!({}),
        json!({"questions": null}),
        json!({"questions": []}),
        json!({"questions": "Which?"}),
        json!({"questions": {"question": "Which?"}}),
        json!({"question": "Which?"}),
    ] {
        let result = call(&config, "question", arguments.clone()).await;
        assert_eq!((result.output.as_str(), result.is_error), ("question: questions is required", true));
        assert_eq!(pending_of(&result), None, "{arguments}");
        let context = ToolContext { answer: Some(granted(None)), ..Default::default() };
        let result = tool(&config, "question").execute_with(arguments, context).await;
        assert_eq!(result.output, "question: questions is required");
    }
}

// BUILTIN-17
#[test]
fn it_only_reads() {
    let hints = ToolHints { read_only: true, ..Default::default() };
    assert_eq!(tool(&BuiltinsConfig::default(), "question").hints, Some(hints));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // BUILTIN-72, BUILTIN-73, BUILTIN-74: a line for each question, and data that comes through unchanged
    #[test]
    fn questions_and_answers_come_through(
        questions in proptest::collection::vec(("[a-z?]{0,8}", proptest::collection::vec("[a-z, ]{0,5}", 0..4)), 1..5),
        answers in proptest::collection::vec(".{0,12}", 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let given: Vec<Value> =
            questions.iter().map(|(text, options)| json!({"question": text, "options": options})).collect();
        let result = runtime.block_on(ask(given.clone().into()));
        let expected: Vec<String> = questions
            .iter()
            .map(|(text, options)| match options.is_empty() {
                true => text.clone(),
                false => format!("{text} (options: {})", options.join(", ")),
            })
            .collect();
        prop_assert_eq!(&result.output, &expected.join("\n"));
        prop_assert_eq!(&asked(&result).data.unwrap()["questions"], &Value::from(given));

        let data = Map::from_iter([("answers".to_owned(), Value::from(answers))]);
        let output = runtime.block_on(answered(granted(Some(Value::Object(data.clone()))))).output;
        prop_assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), Value::Object(data));
    }
}
