//! Events of small runs.

use std::sync::Arc;

use serde_json::json;
use toolnexus_core::{Answer, Request, ToolResult};
use toolnexus_llm::run::{Args, ModelAnswer, ModelCall, RunEvent, RunStarted};
use toolnexus_llm::{FinishReason, Message, Prompt, RunStatus, Style, Usage, limits};

pub(super) fn started(run_id: &str, prompt: impl Into<Prompt>) -> RunEvent {
    RunEvent::Started(RunStarted {
        run_id: run_id.into(),
        style: Style::OpenAI,
        model: "m".into(),
        system: "SYS\n\"quoted\" ☃".into(),
        history: vec![json!({"role": "user", "content": "before\u{2028}\u{0}"})].into(),
        prompt: prompt.into(),
        max_turns: 3,
        conversation_id: Some("c".into()),
    })
}

/// The model's last word.
pub(super) fn said(text: &str) -> RunEvent {
    answered(json!({"role": "assistant", "content": text}).to_string(), text, vec![])
}

/// The model calls one tool for each of the names.
pub(super) fn called(names: &[&str]) -> RunEvent {
    // Line breaks between tokens: a provider may send them, and messages are kept as they came.
    let message = "{\n  \"role\": \"assistant\",\r\n  \"content\": null\n}".to_owned();
    let call = |name: &&str| ModelCall {
        id: format!("id-{name}"),
        name: (*name).to_owned(),
        args: Args::default(),
        ..Default::default()
    };
    answered(message, "", names.iter().map(call).collect())
}

fn answered(message: String, text: &str, calls: Vec<ModelCall>) -> RunEvent {
    RunEvent::ModelAnswered(ModelAnswer {
        message: Message::from_json(message).ok(),
        text: text.into(),
        finish_reason: if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls },
        calls,
        usage: Usage { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, ..Default::default() },
    })
}

pub(super) fn tools_started(indices: &[usize]) -> RunEvent {
    let args = vec![Args::default(); indices.len()];
    RunEvent::ToolStarted { indices: indices.to_vec(), args, media: vec![] }
}

pub(super) fn tool_finished(index: usize, output: &str) -> RunEvent {
    RunEvent::ToolFinished { index, result: Arc::new(ToolResult::success(output)) }
}

pub(super) fn suspended(index: usize, id: &str) -> RunEvent {
    let request =
        Request { id: id.into(), kind: "input".into(), prompt: "Which city?".into(), ..Default::default() };
    RunEvent::Suspended { index, request, output: "Input required".into(), in_doubt: false }
}

pub(super) fn tool_answered(id: &str) -> RunEvent {
    let answer = Answer { id: id.into(), ok: true, ..Default::default() };
    RunEvent::Answered { request_id: id.into(), answer }
}

pub(super) fn failed(error: &str) -> RunEvent {
    RunEvent::Failed { error: error.into() }
}

pub(super) fn finished() -> RunEvent {
    RunEvent::Finished { status: RunStatus::Done, limit: None, text: None }
}

pub(super) fn incomplete() -> RunEvent {
    RunEvent::Finished {
        status: RunStatus::Incomplete,
        limit: Some(limits::CONTENT_PART.into()),
        text: Some("this cannot be sent".into()),
    }
}

/// A run with an event of each kind, in the appends in which a driver might write it.
pub(super) fn whole_run(run_id: &str) -> Vec<Vec<RunEvent>> {
    let messages = vec![json!({"role": "user", "content": "shorter"})].into();
    vec![
        vec![started(run_id, "hello\n\u{1F980} \\")],
        vec![
            RunEvent::MessagesReplaced { messages },
            RunEvent::ToolsReplaced { names: vec!["ask".into(), "add".into()] },
            called(&["ask", "add"]),
            tools_started(&[0, 1]),
        ],
        vec![tool_finished(1, "3")],
        vec![suspended(0, "sus-1")],
        vec![failed("the process was told to stop")],
        vec![RunEvent::Resumed { model: None }, tool_answered("sus-1"), tools_started(&[0])],
        vec![tool_finished(0, "Oslo")],
        vec![said("It is 3 in Oslo"), finished()],
    ]
}
