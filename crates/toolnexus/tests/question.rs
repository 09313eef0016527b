//! The built-in tool `question` in a run: asked, answered, declined, or left open.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is a test's failure report"
)]

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use toolnexus::client::{Client, InProcessOptions, InProcessResponse, InProcessToolCall};
use toolnexus::{
    Answer, BuiltinsConfig, ClientOptions, Request, RunStatus, Toolkit, ToolkitOptions, WaitFor,
    answer_declined, create_in_process_client, create_toolkit,
};

fn questions() -> Value {
    json!([
        {"question": "Pick a color?", "header": "Choice", "options": ["red", "green"]},
        {"question": "Confirm?"},
    ])
}

const PROMPT: &str = "Pick a color? (options: red, green)\nConfirm?";

type Asked = Arc<Mutex<Vec<Request>>>;

/// Remembers what was asked, and says this; no answers decline.
fn answering(answers: Option<Value>, asked: &Asked) -> Option<WaitFor> {
    let asked = Arc::clone(asked);
    Some(Arc::new(move |request: Request| {
        let answer = match &answers {
            Some(answers) => {
                let data = Map::from_iter([("answers".to_owned(), answers.clone())]);
                Answer { id: request.id.clone(), ok: true, data: Some(data), reason: None }
            }
            None => answer_declined(&request.id, Some("declined")),
        };
        asked.lock().unwrap().push(request);
        Box::pin(async move { Ok(answer) })
    }))
}

/// A model that asks first and is done when it has a result.
fn client(wait_for: Option<WaitFor>) -> Client {
    create_in_process_client(InProcessOptions::new(
        ClientOptions { model: "m".into(), wait_for, ..Default::default() },
        |request| async move {
            let answered = request.messages.iter().any(|message| message["role"] == "tool");
            Ok(match answered {
                true => InProcessResponse::text("done"),
                false => InProcessResponse {
                    tool_calls: vec![InProcessToolCall::new("question", json!({"questions": questions()}))],
                    ..Default::default()
                },
            })
        },
    ))
}

async fn toolkit(wait_for: Option<WaitFor>) -> Toolkit {
    let builtins = Some(BuiltinsConfig::default());
    create_toolkit(ToolkitOptions { builtins, wait_for, ..Default::default() }).await.unwrap()
}

// BUILTIN-72, BUILTIN-74, SUSPEND-16, SUSPEND-55, SUSPEND-56: the answer of whoever is asked, the client's
// resolver or the toolkit's, is what the model reads
#[tokio::test]
async fn an_answered_question_is_a_result() {
    for by_client in [true, false] {
        let asked = Asked::default();
        let answers = || answering(Some(json!(["green", "yes"])), &asked);
        let (of_client, of_toolkit) = if by_client { (answers(), None) } else { (None, answers()) };
        let toolkit = toolkit(of_toolkit).await;
        let result = client(of_client).run("go", &toolkit).await.unwrap();
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "done"));
        assert_eq!(result.pending, None);
        assert_eq!(result.tool_calls.len(), 1);
        let call = &result.tool_calls[0];
        assert_eq!((call.output.as_str(), call.is_error), (r#"{"answers":["green","yes"]}"#, false));
        let told = result.messages.iter().find(|message| message["role"] == "tool").unwrap();
        assert_eq!(told["content"], json!(call.output));

        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked.len(), 1);
        assert_eq!((asked[0].kind.as_str(), asked[0].prompt.as_str()), ("question", PROMPT));
        assert_eq!(Value::Object(asked[0].data.clone().unwrap()), json!({"questions": questions()}));
        toolkit.close().await;
    }
}

// BUILTIN-74, SUSPEND-20: a declined question is not asked again, and the run goes on
#[tokio::test]
async fn a_declined_question_is_an_error_result() {
    let asked = Asked::default();
    let toolkit = toolkit(None).await;
    let result = client(answering(None, &asked)).run("go", &toolkit).await.unwrap();
    assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "done"));
    let call = &result.tool_calls[0];
    assert_eq!((call.output.clone(), call.is_error), (format!("declined/expired: {PROMPT}"), true));
    assert_eq!(asked.lock().unwrap().len(), 1);
    toolkit.close().await;
}

// BUILTIN-72, SUSPEND-29, SUSPEND-31: with nobody to ask the run waits
#[tokio::test]
async fn a_question_that_nobody_answers_leaves_the_run_pending() {
    let toolkit = toolkit(None).await;
    let result = client(None).run("go", &toolkit).await.unwrap();
    assert_eq!((result.status, result.text.as_str()), (RunStatus::Pending, PROMPT));
    let request = result.pending.unwrap();
    assert_eq!((request.kind.as_str(), request.prompt.as_str()), ("question", PROMPT));
    assert_eq!(request.data.unwrap()["questions"], questions());
    let placeholder = result.messages.iter().find(|message| message["role"] == "tool").unwrap();
    assert_eq!(placeholder["content"], json!(PROMPT));
    toolkit.close().await;
}
