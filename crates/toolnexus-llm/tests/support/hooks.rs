//! What the tests of hooks share: hooks that note what they are given, errors that can be recognised.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolnexus_core::{Answer as RequestAnswer, BoxError, Tool, Toolkit, WaitFor, answer_declined};
use toolnexus_llm::{
    AfterLlmEvent, AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, ClientError, ClientOptions, Hooks,
    Message, RunResult, Style, create_client,
};
use toolnexus_testkit::model::ModelReply;

use super::double::{Answer, Double};
use super::{reply, within};

/// Keeps what hooks were given.
pub(crate) struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Seen(Arc::clone(&self.0))
    }
}

impl<T: Clone> Seen<T> {
    pub(crate) fn new() -> Self {
        Seen(Arc::default())
    }

    pub(crate) fn push(&self, value: T) {
        self.0.lock().unwrap().push(value);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// What all four hooks were given.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) before_llm: Seen<BeforeLlmEvent>,
    pub(crate) after_llm: Seen<AfterLlmEvent>,
    pub(crate) before_tool: Seen<BeforeToolEvent>,
    pub(crate) after_tool: Seen<AfterToolEvent>,
    /// The names of the hooks in the order of their calls.
    pub(crate) order: Seen<&'static str>,
}

impl Watch {
    /// Hooks that note everything and change nothing.
    pub(crate) fn new() -> (Self, Hooks) {
        let watch = Watch {
            before_llm: Seen::new(),
            after_llm: Seen::new(),
            before_tool: Seen::new(),
            after_tool: Seen::new(),
            order: Seen::new(),
        };
        let [a, b, c, d] = [(); 4].map(|()| watch.clone());
        let hooks = Hooks::default()
            .with_before_llm(move |event| {
                a.order.push("before_llm");
                a.before_llm.push(event);
                async { Ok(None) }
            })
            .with_after_llm(move |event| {
                b.order.push("after_llm");
                b.after_llm.push(event);
                async { Ok(()) }
            })
            .with_before_tool(move |event| {
                c.order.push("before_tool");
                c.before_tool.push(event);
                async { Ok(None) }
            })
            .with_after_tool(move |event| {
                d.order.push("after_tool");
                d.after_tool.push(event);
                async { Ok(None) }
            });
        (watch, hooks)
    }
}

/// A turn that calls `add` with 2 and 3, and the answer to its result.
pub(crate) fn adding(style: Style) -> [ModelReply; 2] {
    [
        reply(style).tool_call("c1", "add", json!({"a": 2, "b": 3})).usage(10, 5),
        reply(style).text("2 + 3 = 5").usage(15, 6),
    ]
}

/// A turn that calls these tools (ids 1, 2, …, each with its own name as argument), then `ok`.
pub(crate) fn calling(style: Style, tools: &[&str]) -> [ModelReply; 2] {
    let mut turn = reply(style);
    for (at, name) in tools.iter().enumerate() {
        turn = turn.tool_call((at + 1).to_string(), *name, json!({"of": name}));
    }
    [turn, reply(style).text("ok")]
}

/// Runs these tools in one turn of OpenAI's style over a transport without sockets.
pub(crate) async fn run_tools(
    tools: Vec<Tool>,
    change: impl FnOnce(ClientOptions) -> ClientOptions,
) -> Result<RunResult, ClientError> {
    let style = Style::OpenAI;
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let ids = ["1", "2", "3", "4"];
    let calls: Vec<_> =
        ids.iter().zip(&names).map(|(id, name)| (*id, name.as_str(), json!({"of": name}))).collect();
    let double = Double::new([Answer::calls(style, &calls), Answer::text(style, "ok")]);
    let client = create_client(change(double.options(style)));
    within(client.run("hi", &Toolkit::from_tools(tools))).await
}

pub(crate) fn with_hooks(hooks: Hooks) -> impl FnOnce(ClientOptions) -> ClientOptions {
    move |options| ClientOptions { hooks: Some(hooks), ..options }
}

/// A resolver that answers every request ok, or declines it.
pub(crate) fn answering(ok: bool) -> WaitFor {
    Arc::new(move |request| {
        Box::pin(async move {
            Ok(if ok {
                RequestAnswer { id: request.id, ok: true, ..Default::default() }
            } else {
                answer_declined(&request.id, None)
            })
        })
    })
}

pub(crate) fn outputs(result: &RunResult) -> Vec<&str> {
    result.tool_calls.iter().map(|record| record.output.as_str()).collect()
}

/// The texts of the tool results in a message, in any style.
pub(crate) fn result_texts(style: Style, messages: &[Message]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let values = messages.iter().map(|message| message.value());
    match style {
        Style::OpenAI => values.filter(|m| m["role"] == "tool").map(|m| text(&m["content"])).collect(),
        Style::Anthropic => values
            .filter_map(|message| message["content"].as_array())
            .flatten()
            .filter(|block| block["type"] == "tool_result")
            .map(|block| text(&block["content"]))
            .collect(),
        Style::Gemini => values
            .filter_map(|message| message["parts"].as_array())
            .flatten()
            .filter_map(|part| part.get("functionResponse"))
            .map(|response| text(&response["response"]["output"]))
            .collect(),
    }
}

/// An error that can be told from all others.
#[derive(Debug, PartialEq)]
pub(crate) struct Veto(pub(crate) u32);

impl std::fmt::Display for Veto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "veto {}", self.0)
    }
}

impl std::error::Error for Veto {}

pub(crate) fn veto(number: u32) -> BoxError {
    Box::new(Veto(number))
}

/// The hook that failed, and its own error.
pub(crate) fn hook_error(error: &ClientError) -> (&'static str, Option<&Veto>) {
    let ClientError::Hook { hook, source } = error else { panic!("{error:?}") };
    // The same through the standard chain.
    let chained = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Veto>());
    assert_eq!(chained, source.downcast_ref::<Veto>());
    (hook, source.downcast_ref())
}
