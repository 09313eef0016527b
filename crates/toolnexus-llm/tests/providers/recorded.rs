//! One recorded answer, from the socket to the request after it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use toolnexus_core::Toolkit;
use toolnexus_llm::{
    ClientError, FinishReason, RunOptions, RunResult, RunStatus, StreamEvent, StreamOptions, Style, Usage,
    create_client,
};
use toolnexus_testkit::model::Reply;

use crate::support::tools::fixed;
use crate::support::{KEY, deltas, done, drain, options, reply, server, transcript, within};

/// The folder of all recorded answers.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/providers")
}

/// All recorded answers, as they are called here.
pub(crate) fn files() -> Vec<String> {
    let providers = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let files = providers.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).unwrap());
    let mut names: Vec<String> = files
        .map(|entry| entry.unwrap().path())
        .map(|path| path.strip_prefix(folder()).unwrap().to_str().unwrap().replace('\\', "/"))
        .collect();
    names.sort();
    names
}

/// A recorded answer's bytes.
pub(crate) fn read(file: &str) -> Bytes {
    std::fs::read(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).into()
}

/// A whole recorded answer as JSON.
pub(crate) fn json_of(file: &str) -> Value {
    let bytes = read(file);
    serde_json::from_slice(bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes)).unwrap()
}

pub(crate) fn is_stream(file: &str) -> bool {
    file.ends_with(".sse")
}

/// The dialect that a folder's servers speak.
pub(crate) fn style_of(file: &str) -> Style {
    match file.split('/').next() {
        Some("anthropic") => Style::Anthropic,
        Some("gemini") => Style::Gemini,
        _ => Style::OpenAI,
    }
}

/// The tools that the recorded models know.
pub(crate) fn toolkit() -> Toolkit {
    Toolkit::from_tools([fixed("get_weather", "sunny"), fixed("get_time", "noon")])
}

/// The recorded answer as a server sends it.
pub(crate) fn answer(file: &str) -> Reply {
    let kind = match file.rsplit('.').next() {
        Some("sse") => "text/event-stream; charset=utf-8",
        Some("html") => "text/html; charset=UTF-8",
        _ => "application/json",
    };
    let reply = Reply::status(200).header("Content-Type", kind);
    if is_stream(file) { reply.chunk(read(file)) } else { reply.body(read(file)) }
}

/// A call as the model made it.
#[derive(Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: Value,
}

pub(crate) fn asked(id: &str, name: &str, args: Value) -> Asked {
    Asked { id: id.into(), name: name.into(), args }
}

/// `get_weather` for Paris.
pub(crate) fn weather(id: &str) -> Asked {
    asked(id, "get_weather", json!({"city": "Paris"}))
}

/// `get_time` without arguments.
pub(crate) fn time(id: &str) -> Asked {
    asked(id, "get_time", json!({}))
}

/// Prompt, completion, total; cache read and cache write.
pub(crate) fn usage(counts: [u64; 3], cache: [u64; 2]) -> Usage {
    Usage {
        prompt_tokens: counts[0],
        completion_tokens: counts[1],
        total_tokens: counts[2],
        cache_read_tokens: cache[0],
        cache_write_tokens: cache[1],
    }
}

/// What became of a recorded answer.
pub(crate) struct Outcome {
    style: Style,
    file: String,
    /// Text events of the recorded turn.
    pub(crate) deltas: Vec<String>,
    /// The calls of the recorded turn, as events tell them.
    pub(crate) calls: Vec<Asked>,
    /// The usage of the recorded turn.
    pub(crate) usage: Usage,
    /// The run; of a turn with calls, its second turn says `ok`.
    pub(crate) result: RunResult,
    /// The messages that the last request sent: the whole conversation and one more prompt.
    pub(crate) sent: Vec<Value>,
}

/// Lets a server give the recorded answer, says `ok` to what follows, and prompts once more.
pub(crate) async fn outcome(file: &str) -> Outcome {
    outcome_of(file, answer(file)).await
}

pub(crate) async fn outcome_of(file: &str, first: Reply) -> Outcome {
    let style = style_of(file);
    let ok = || Reply::from(reply(style).text("ok"));
    let server = server([first, ok(), ok()]).await;
    let client = create_client(options(style, server.base_url()));
    let toolkit = toolkit();
    let (events, result) = if is_stream(file) {
        let options = StreamOptions { id: "c".into(), ..Default::default() };
        let (events, error) = within(drain(client.stream_with("hi", &toolkit, options))).await;
        assert!(error.is_none(), "{file}: {error:?}");
        let result = done(&events).clone();
        (events, result)
    } else {
        let told = Arc::new(Mutex::new(Vec::new()));
        let teller = Arc::clone(&told);
        let on_event = Arc::new(move |event: &StreamEvent| teller.lock().unwrap().push(event.clone()));
        let options = RunOptions { id: "c".into(), on_event: Some(on_event), ..Default::default() };
        let result = within(client.run_with("hi", &toolkit, options)).await;
        let result = result.unwrap_or_else(|error| panic!("{file}: {error}"));
        let events = told.lock().unwrap().clone();
        (events, result)
    };
    assert_eq!(result.status, RunStatus::Done, "{file}");
    transcript::check(style, &result.messages, false).unwrap();
    // What follows in the same conversation.
    let again = within(client.ask("and?", &toolkit, "c")).await.unwrap();
    transcript::check(style, &again.messages, false).unwrap();
    let requests = server.requests();
    assert!(requests.iter().all(|request| !request.text().contains(KEY)));
    let key = if style == Style::Gemini { "contents" } else { "messages" };
    let sent = requests.last().unwrap().json()[key].as_array().unwrap().clone();
    // The whole history is sent again, as it is kept.
    assert_eq!(sent[..sent.len() - 1], values(&result)[..], "{file}");

    let first_turn = events.iter().position(|event| matches!(event, StreamEvent::Usage { .. })).unwrap();
    let StreamEvent::Usage { usage } = events[first_turn] else { unreachable!() };
    let calls = events.iter().filter_map(|event| match event {
        StreamEvent::ToolCall { id, name, args, .. } => Some(asked(id, name, args.clone().into())),
        _ => None,
    });
    Outcome {
        style,
        file: file.into(),
        deltas: deltas(&events[..first_turn]).into_iter().map(str::to_owned).collect(),
        calls: calls.collect(),
        usage,
        sent,
        result,
    }
}

fn values(result: &RunResult) -> Vec<Value> {
    result.messages.iter().map(|message| message.value().clone()).collect()
}

impl Outcome {
    /// The answer ended the run with this text.
    pub(crate) fn said(self, text: &str, finish: FinishReason) -> Self {
        let file = &self.file;
        assert_eq!((self.result.text.as_str(), self.result.turns), (text, 1), "{file}");
        assert_eq!(self.result.finish_reason, Some(finish), "{file}");
        assert!(self.calls.is_empty() && self.result.tool_calls.is_empty(), "{file}");
        self
    }

    /// The answer asked for these tools; their results went back under the ids of the calls.
    pub(crate) fn called(self, calls: &[Asked]) -> Self {
        let file = &self.file;
        assert_eq!(self.calls, calls, "{file}");
        assert_eq!((self.result.text.as_str(), self.result.turns), ("ok", 2), "{file}");
        let ran: Vec<(&str, Value)> = self
            .result
            .tool_calls
            .iter()
            .map(|record| {
                assert!(!record.is_error, "{file}: {}", record.output);
                (record.name.as_str(), Value::from(record.args.clone()))
            })
            .collect();
        let expected: Vec<(&str, Value)> =
            calls.iter().map(|call| (call.name.as_str(), call.args.clone())).collect();
        assert_eq!(ran, expected, "{file}");
        self
    }

    pub(crate) fn counted(self, counts: [u64; 3], cache: [u64; 2]) -> Self {
        assert_eq!(self.usage, usage(counts, cache), "{}", self.file);
        self
    }

    /// The message behind the prompt is this one.
    pub(crate) fn kept(self, message: &Value) -> Self {
        assert_eq!(self.result.messages[1].value(), message, "{}", self.file);
        self
    }

    /// The message behind the prompt is the provider's own, whatever it holds.
    pub(crate) fn kept_verbatim(self) -> Self {
        let recorded = json_of(&self.file);
        let message = match self.style {
            Style::Anthropic => json!({"role": "assistant", "content": recorded["content"]}),
            Style::Gemini => recorded["candidates"][0]["content"].clone(),
            Style::OpenAI => recorded["choices"][0]["message"].clone(),
        };
        assert!(message.is_object(), "{}", self.file);
        self.kept(&message)
    }

    /// The turn left no message.
    pub(crate) fn kept_nothing(self) -> Self {
        assert_eq!(self.result.messages.len(), 1, "{}", self.file);
        self
    }

    /// Text came in these pieces.
    pub(crate) fn told(self, deltas: &[&str]) -> Self {
        assert_eq!(self.deltas, deltas, "{}", self.file);
        self
    }
}

/// What a request fails with that gets this answer, whole and streamed.
pub(crate) async fn failure(style: Style, reply: Reply) -> Vec<ClientError> {
    let mut errors = Vec::new();
    for streamed in [false, true] {
        let server = server([reply.clone()]).await;
        let client = create_client(options(style, server.base_url()));
        let error = if streamed {
            within(client.stream("hi", &toolkit()).finish()).await.unwrap_err()
        } else {
            within(client.run("hi", &toolkit())).await.unwrap_err()
        };
        errors.push(error);
    }
    errors
}
