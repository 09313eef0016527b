//! Code of the host that uses the client it is called by, and code of the host that panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock};

use futures::FutureExt as _;
use serde_json::{Value, json};
use support::tools::fixed;
use support::{MetricLog, within};
use toolnexus_core::{BoxError, BoxFuture, Style, Tool, ToolResult, ToolSource, Toolkit};
use toolnexus_llm::run::{ModelAnswer, ModelCall};
use toolnexus_llm::{
    AskOptions, BoundarySession, Client, ClientOptions, ConversationStore, Hooks, InProcessOptions,
    InProcessRequest, InProcessResponse, InProcessToolCall, ModelBoundary, RunOptions, ToolTierOptions,
    Transcript, create_in_process_client,
};

/// A model that calls `tool` when the prompt is `outer`, and otherwise answers.
fn model(options: ClientOptions, tool: &'static str) -> Client {
    let options = ClientOptions { model: "m".into(), ..options };
    let generate = move |request: InProcessRequest| async move {
        let is_outer = request.newest_user_text().as_deref() == Some("outer");
        if is_outer && request.messages.iter().all(|message| message["role"] != "tool") {
            let tool_calls = vec![InProcessToolCall::new(tool, json!({}))];
            return Ok(InProcessResponse { tool_calls, ..Default::default() });
        }
        Ok(InProcessResponse::text("ok"))
    };
    let mut options = InProcessOptions::new(options, generate);
    options.generate_stream = Some(Arc::new(|_request| {
        use futures::StreamExt as _;
        futures::stream::iter(["o", "k"]).map(|text| Ok(text.into())).boxed()
    }));
    create_in_process_client(options)
}

fn client_of(cell: &OnceLock<Client>) -> Client {
    cell.get().unwrap().clone()
}

// CLIENT-49, CLIENT-70, CLIENT-76, CLIENT-85, CLIENT-117: hooks, sinks and tools that use the same client
#[tokio::test]
async fn every_callback_may_use_the_client_it_is_called_by() {
    let cell: Arc<OnceLock<Client>> = Arc::default();
    let toolkit = Toolkit::from_tools([fixed("other", "x")]);
    let nested_cell = Arc::clone(&cell);
    let nested_toolkit = toolkit.clone();
    toolkit.register([Tool::new("nested", move |_args, _context| {
        let (client, toolkit) = (client_of(&nested_cell), nested_toolkit.clone());
        async move {
            toolkit.register([fixed("late", "late")]);
            client.reset_tool_tiers(&toolkit);
            let inner = client.run("inner", &toolkit).await;
            ToolResult::success(inner.map_or_else(|error| error.to_string(), |result| result.text))
        }
    })]);
    let (hook_cell, hook_toolkit) = (Arc::clone(&cell), toolkit.clone());
    let metric_cell = Arc::clone(&cell);
    let (usage_cell, transform_cell) = (Arc::clone(&cell), Arc::clone(&cell));
    let transform_toolkit = toolkit.clone();
    let hooks = Hooks::default().with_before_tool(move |_| {
        let (client, toolkit) = (client_of(&hook_cell), hook_toolkit.clone());
        async move {
            client.run("from the hook", &toolkit).await?;
            Ok(None)
        }
    });
    let client = model(
        ClientOptions {
            hooks: Some(hooks),
            on_metric: Some(Arc::new(move |_| drop(client_of(&metric_cell).metrics()))),
            tool_tiers: Some(ToolTierOptions {
                budget_tokens: 1,
                usage_count: Some(Arc::new(move |_| client_of(&usage_cell).metrics().len() as u64)),
                ..Default::default()
            }),
            body_transform: Some(Arc::new(move |body| {
                drop(client_of(&transform_cell).tool_tier_plan(&transform_toolkit));
                body
            })),
            ..Default::default()
        },
        "nested",
    );
    assert!(cell.set(client.clone()).is_ok());
    let (event_client, event_toolkit) = (client.clone(), toolkit.clone());
    let options = RunOptions {
        on_event: Some(Arc::new(move |_| {
            drop(event_client.metrics());
            event_client.reset_all_tool_tiers();
            drop(event_client.tool_tier_plan(&event_toolkit));
        })),
        ..Default::default()
    };
    let result = within(client.run_with("outer", &toolkit, options)).await.unwrap();
    assert_eq!((result.text.as_str(), result.tool_calls[0].output.as_str()), ("ok", "ok"));
}

struct PanickingStore;

impl ConversationStore for PanickingStore {
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>> {
        assert!(id != "get", "the store panics");
        Box::pin(async { Ok(None) })
    }

    fn save<'a>(&'a self, _id: &'a str, _messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>> {
        panic!("the store panics")
    }
}

/// A boundary whose session panics in one of its operations.
struct PanickingBoundary(Arc<Mutex<&'static str>>);

impl PanickingBoundary {
    fn reach(&self, place: &str) {
        let here = *self.0.lock().unwrap() == place;
        assert!(!here, "the session panics");
    }
}

impl ModelBoundary for PanickingBoundary {
    fn open(&self, _style: Style) -> Box<dyn BoundarySession> {
        self.reach("open");
        Box::new(PanickingBoundary(Arc::clone(&self.0)))
    }
}

impl BoundarySession for PanickingBoundary {
    fn encode_tools(&mut self, tools: Vec<Value>) -> Vec<Value> {
        self.reach("encode_tools");
        tools
    }

    fn encode_messages(&mut self, system: &str, messages: &Transcript) -> (String, Transcript) {
        self.reach("encode_messages");
        (system.to_owned(), messages.clone())
    }

    fn decode(&mut self, answer: ModelAnswer) -> ModelAnswer {
        self.reach("decode");
        answer
    }

    fn decode_text(&mut self, piece: &str) -> String {
        self.reach("decode_text");
        piece.to_owned()
    }

    fn flush_text(&mut self) -> String {
        self.reach("flush_text");
        String::new()
    }

    fn note_result(&mut self, _call: &ModelCall, _source: Option<ToolSource>, _result: &Arc<ToolResult>) {
        self.reach("note_result");
    }
}

// CLIENT-71: a panic of the host's code leaves the client usable, and the run has its last event
#[tokio::test]
async fn a_panic_of_the_host_leaves_the_client_usable() {
    let place: Arc<Mutex<&'static str>> = Arc::default();
    let metrics = MetricLog::default();
    let reached = |here: &'static str| {
        let place = Arc::clone(&place);
        move || assert!(*place.lock().unwrap() != here, "{here} panics")
    };
    let (transform, usage, cost) =
        (reached("body_transform"), reached("usage_count"), reached("count_tokens"));
    let client = model(
        ClientOptions {
            on_metric: Some(metrics.sink()),
            body_transform: Some(Arc::new(move |body| {
                transform();
                body
            })),
            boundary: Some(Arc::new(PanickingBoundary(Arc::clone(&place)))),
            store: Some(Arc::new(PanickingStore)),
            tool_tiers: Some(ToolTierOptions {
                core: vec!["add".into()],
                budget_tokens: 1,
                usage_count: Some(Arc::new(move |_| {
                    usage();
                    0
                })),
                count_tokens: Some(Arc::new(move |_| {
                    cost();
                    1
                })),
                ..Default::default()
            }),
            ..Default::default()
        },
        "add",
    );
    let toolkit = Toolkit::from_tools([fixed("add", "5")]);
    for here in [
        "body_transform",
        "usage_count",
        "count_tokens",
        "open",
        "encode_tools",
        "encode_messages",
        "decode",
        "decode_text",
        "flush_text",
        "note_result",
        "get",
        "save",
        "on_text",
        "on_event",
    ] {
        client.reset_all_tool_tiers();
        let before = metrics.of("run").len();
        *place.lock().unwrap() = here;
        let streamed = matches!(here, "decode_text" | "flush_text" | "on_text");
        let on_text = Arc::new(move |_: &str| assert!(here != "on_text", "the sink panics"));
        let options = AskOptions { on_text: streamed.then_some(on_text as _), ..Default::default() };
        let id = if matches!(here, "get" | "save") { here } else { "" };
        let work = async {
            if here == "on_event" {
                let on_event = Arc::new(|_: &_| panic!("the sink panics"));
                let options = RunOptions { on_event: Some(on_event), ..Default::default() };
                return client.run_with("outer", &toolkit, options).await;
            }
            client.ask_with("outer", &toolkit, id, options).await
        };
        let outcome = within(AssertUnwindSafe(work).catch_unwind()).await;
        assert!(!matches!(outcome, Ok(Ok(_))), "{here}");
        let runs = metrics.of("run");
        assert_eq!(runs.len(), before + 1, "{here}");
        assert_eq!(metrics.timeless().last(), runs.last(), "{here}");
        if outcome.is_err() {
            assert_eq!(runs[before]["error"], "the run panicked", "{here}");
        }
        *place.lock().unwrap() = "";
        let result = within(client.run("outer", &toolkit)).await.unwrap();
        assert_eq!(result.text, "ok", "after a panic of {here}");
    }
}
