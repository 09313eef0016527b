//! A function in place of a provider: what it is asked, what its answers become, how it fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::hooks::Watch;
use support::tools::{add, asking, echo, object};
use support::{MetricLog, drain, within};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Answer, BoxError, ContentPart, ToolResult, Toolkit};
use toolnexus_llm::run_log::{MemoryRunLog, RunLog as _};
use toolnexus_llm::{
    AskOptions, ClientError, ClientOptions, Generate, GenerateStream, InProcessChunk, InProcessOptions,
    InProcessRequest, InProcessResponse, InProcessToolCall, RunDurableOptions, RunOptions, RunStatus,
    StreamEvent, StreamOptions, Style, TranslateRequest, Usage, create_in_process_client,
};

const NO_STREAM: &str = "toolnexus: create_in_process_client does not support streaming — generate returns a complete answer. Use the non-streaming run, or supply an http_client that streams.";

fn options() -> ClientOptions {
    ClientOptions { model: "local".into(), ..Default::default() }
}

type Asked = Arc<Mutex<Vec<InProcessRequest>>>;

/// A model that gives these answers in turn, and what it was asked.
fn scripted(answers: impl IntoIterator<Item = InProcessResponse>) -> (Generate, Asked) {
    let answers = Mutex::new(answers.into_iter().collect::<std::collections::VecDeque<_>>());
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let generate: Generate = Arc::new(move |request| {
        kept.lock().unwrap().push(request);
        let answer = answers.lock().unwrap().pop_front().ok_or_else(|| "no answer is left".into());
        Box::pin(async move { answer })
    });
    (generate, asked)
}

fn calls(calls: impl IntoIterator<Item = InProcessToolCall>) -> InProcessResponse {
    InProcessResponse { tool_calls: calls.into_iter().collect(), ..Default::default() }
}

fn in_process(generate: Generate, client: ClientOptions) -> InProcessOptions {
    InProcessOptions { generate, generate_stream: None, client }
}

// CLIENT-131, CLIENT-132: the fields of a network mean nothing here; a key variable that is unset
// would be an error if it were looked up
#[tokio::test]
async fn it_is_asked_in_openai_shapes_and_needs_no_key() {
    let (generate, asked) = scripted(["hi".into()]);
    let client = create_in_process_client(in_process(
        generate,
        ClientOptions {
            base_url: "not a url".into(),
            api_key_env: Some("TN_SURELY_UNSET_KEY".into()),
            style: Style::Anthropic,
            system_prompt: "be brief".into(),
            request_params: object(json!({"temperature": 0})),
            body_transform: Some(Arc::new(|mut body| {
                body["seed"] = json!(7);
                body
            })),
            ..options()
        },
    ));
    let result = client.run("hello", &Toolkit::from_tools([echo()])).await.unwrap();
    assert_eq!((result.text.as_str(), result.model.as_str()), ("hi", "local"));

    let asked = asked.lock().unwrap();
    let request = &asked[0];
    assert_eq!(request.model, "local");
    assert_eq!(
        json!(request.messages),
        json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}])
    );
    let tools = request.tools.as_ref().unwrap();
    assert_eq!((&tools[0]["type"], &tools[0]["function"]["name"]), (&json!("function"), &json!("echo")));
    assert_eq!((&request.body["temperature"], &request.body["seed"]), (&json!(0), &json!(7)));
    assert_eq!(request.body["messages"], json!(request.messages));
    assert_eq!(request.newest_user_text().as_deref(), Some("hello"));
}

// CLIENT-131, CLIENT-132: no tools, no list; parts are blocks of OpenAI's
#[tokio::test]
async fn without_tools_there_is_no_list_of_them() {
    let (generate, asked) = scripted(["hi".into()]);
    let client = create_in_process_client(in_process(generate, options()));
    let parts = vec![ContentPart::text("what is "), ContentPart::text("this?")];
    client.run(parts, &Toolkit::default()).await.unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].tools, None);
    assert_eq!(asked[0].messages[0]["content"][0], json!({"type": "text", "text": "what is "}));
    assert_eq!(asked[0].newest_user_text().as_deref(), Some("what is \nthis?"));
}

// CLIENT-131, CLIENT-10: nothing is sent, so no word of an answer is taken for the key that was
#[tokio::test]
async fn no_word_is_taken_for_a_key() {
    let said = "an in-process client at in-process.invalid with my-secret-token";
    let (generate, _) = scripted([said.into()]);
    let headers = [("x-token".to_owned(), "my-secret-token".to_owned())].into_iter().collect();
    let client = create_in_process_client(in_process(generate, ClientOptions { headers, ..options() }));
    assert_eq!(within(client.run("hi", &Toolkit::default())).await.unwrap().text, said);
}

// CLIENT-133, case I1
#[tokio::test]
async fn tool_calls_run_whether_arguments_are_an_object_or_its_text() {
    for arguments in [json!({"a": 2, "b": 3}), json!(r#"{"a":2,"b":3}"#)] {
        let (generate, asked) =
            scripted([calls([InProcessToolCall::new("add", arguments.clone())]), "five".into()]);
        let client = create_in_process_client(in_process(generate, options()));
        let result = client.run("2+3?", &Toolkit::from_tools([add()])).await.unwrap();
        assert_eq!((result.text.as_str(), result.status, result.turns), ("five", RunStatus::Done, 2));
        let call = &result.tool_calls[0];
        assert_eq!((call.name.as_str(), call.output.as_str()), ("add", "5"));
        assert_eq!(json!(call.args), json!({"a": 2, "b": 3}));
        let asked = asked.lock().unwrap();
        let sent = &asked[1].messages[1]["tool_calls"][0];
        assert_eq!(sent["id"], "call_0");
        assert_eq!(sent["function"]["arguments"], r#"{"a":2,"b":3}"#, "{arguments}");
        assert_eq!(asked[1].messages[2], json!({"role": "tool", "tool_call_id": "call_0", "content": "5"}));
    }
}

// CLIENT-133: calls win over content; ids by place; text that is no JSON is passed through; null is {}
#[tokio::test]
async fn calls_win_over_content_and_get_their_ids_by_place() {
    let answer = InProcessResponse {
        content: Some("dropped".into()),
        tool_calls: vec![
            InProcessToolCall { id: Some("mine".into()), ..InProcessToolCall::new("echo", Value::Null) },
            InProcessToolCall::new("echo", json!("{\"text\": ")),
            InProcessToolCall {
                id: Some(String::new()),
                ..InProcessToolCall::new("echo", json!({"text": "x"}))
            },
        ],
        usage: None,
    };
    let (generate, asked) = scripted([answer, InProcessResponse::default()]);
    let client = create_in_process_client(in_process(generate, options()));
    let result = client.run("go", &Toolkit::from_tools([echo()])).await.unwrap();
    let (text, usage) = (result.text.as_str(), result.usage);
    assert_eq!((text, usage), ("", Usage::default()), "absent content is empty, absent usage is zero");
    let asked = asked.lock().unwrap();
    let message = &asked[1].messages[1];
    assert_eq!(message["content"], Value::Null);
    let sent: Vec<_> = message["tool_calls"].as_array().unwrap().iter().collect();
    assert_eq!([&sent[0]["id"], &sent[1]["id"], &sent[2]["id"]], ["mine", "call_1", "call_2"]);
    assert_eq!(
        [0, 1, 2].map(|at| sent[at]["function"]["arguments"].as_str().unwrap()),
        ["{}", "{\"text\": ", "{\"text\":\"x\"}"]
    );
    assert!(result.tool_calls[1].is_error, "the model is told that its arguments are cut off");
}

// CLIENT-133, case I4
#[tokio::test]
async fn a_missing_total_is_the_sum() {
    for (total, expected) in [(0, 15), (20, 20)] {
        let usage = Usage {
            prompt_tokens: 11,
            completion_tokens: 4,
            total_tokens: total,
            cache_read_tokens: 3,
            ..Default::default()
        };
        let (generate, _) = scripted([InProcessResponse { usage: Some(usage), .."hi".into() }]);
        let client = create_in_process_client(in_process(generate, options()));
        let told = client.run("hi", &Toolkit::default()).await.unwrap().usage;
        assert_eq!(told, Usage { total_tokens: expected, ..usage });
    }
}

#[derive(Debug, thiserror::Error)]
#[error("out of memory on device {0}")]
struct NoMemory(u8);

/// A model that always fails, and how often it was called.
fn failing(fail: impl Fn() -> BoxError + Send + Sync + 'static) -> (Generate, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let generate: Generate = Arc::new(move |_request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let error = fail();
        Box::pin(async move { Err(error) })
    });
    (generate, count)
}

// CLIENT-134, case I2: the paused clock shows that nothing was waited for
#[tokio::test(start_paused = true)]
async fn an_error_surfaces_at_once_with_its_own_text() {
    let (generate, count) = failing(|| NoMemory(3).into());
    let client = create_in_process_client(in_process(generate, options()));
    let began = tokio::time::Instant::now();
    let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
    assert_eq!((count.load(Ordering::Relaxed), began.elapsed().as_millis()), (1, 0));
    assert_eq!(error.to_string(), "the in-process model failed: out of memory on device 3");
    let ClientError::Generate(source) = error else { panic!("{error:?}") };
    assert_eq!(source.downcast_ref::<NoMemory>().unwrap().0, 3, "the host's own error is kept");
}

// CLIENT-134: retries are there for who asks for them
#[tokio::test(start_paused = true)]
async fn retries_can_be_asked_for() {
    let (generate, count) = failing(|| "busy".into());
    let client =
        create_in_process_client(in_process(generate, ClientOptions { retries: Some(2), ..options() }));
    let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert!(matches!(error, ClientError::Generate(_)), "{error:?}");
}

// CLIENT-134: neither a panic before the future nor one in it takes the program down
#[tokio::test]
async fn a_panic_is_an_error() {
    let at_once: Generate = Arc::new(|_request| panic!("no model loaded"));
    let later: Generate = Arc::new(|_request| Box::pin(async { panic!("no model loaded") }));
    for generate in [at_once, later] {
        let client = create_in_process_client(in_process(generate, options()));
        let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "the in-process model failed: generate panicked");
    }
}

// CLIENT-135, case I3
#[tokio::test]
async fn every_way_to_stream_is_refused_before_anything_happens() {
    let (generate, asked) = scripted(["hi".into()]);
    let client = create_in_process_client(in_process(generate, options()));
    let toolkit = Toolkit::default();
    let with_id = StreamOptions { id: "chat".into(), ..Default::default() };
    for stream in [client.stream("hi", &toolkit), client.stream_with("hi", &toolkit, with_id)] {
        let (events, error) = drain(stream).await;
        let Some(ClientError::Unsupported(text)) = error else { panic!("{error:?}") };
        assert_eq!((events.len(), text.as_str()), (0, NO_STREAM));
    }
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let on_text = AskOptions {
        on_text: Some(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        })),
        ..Default::default()
    };
    let error = client.ask_with("hi", &toolkit, "chat", on_text).await.unwrap_err();
    assert_eq!(error.to_string(), NO_STREAM);
    assert_eq!(told.load(Ordering::Relaxed), 0);
    assert_eq!(asked.lock().unwrap().len(), 0, "the model was not called");
    // CLIENT-71: each of them is a run that failed
    assert!(client.metrics().ends_with("\ntoolnexus_run_errors_total 3\n"));
    assert!(client.conversation_store().get("chat").await.unwrap().is_none(), "nothing was saved");
}

// CLIENT-117, CLIENT-136: a buffered run tells its events, no text among them
#[tokio::test]
async fn a_run_that_does_not_stream_tells_events() {
    let (generate, _) =
        scripted([calls([InProcessToolCall::new("add", json!({"a": 1, "b": 1}))]), "two".into()]);
    let client = create_in_process_client(in_process(generate, options()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let run = RunOptions {
        on_event: Some(Arc::new(move |event: &StreamEvent| {
            kept.lock()
                .unwrap()
                .push(serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned());
        })),
        ..Default::default()
    };
    client.run_with("1+1?", &Toolkit::from_tools([add()]), run).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["usage", "tool_call", "tool_result", "usage", "done"]);
}

// CLIENT-136: conversations are kept as with a network
#[tokio::test]
async fn a_conversation_is_continued() {
    let (generate, asked) = scripted(["one".into(), "two".into()]);
    let client = create_in_process_client(in_process(generate, options()));
    client.ask("first", &Toolkit::default(), "chat").await.unwrap();
    client.ask("second", &Toolkit::default(), "chat").await.unwrap();
    let asked = asked.lock().unwrap();
    let said: Vec<_> = asked[1].messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["first", "one", "second"]);
}

// CLIENT-136: suspended tools ask, and a run without a resolver halts
#[tokio::test]
async fn a_suspended_tool_asks() {
    let (tool, _) = asking("ask", "Which city?");
    let turn = || [calls([InProcessToolCall::new("ask", json!({}))]), "Oslo it is".into()];
    let (generate, _) = scripted(turn());
    let client = create_in_process_client(in_process(generate, options()));
    let halted = client.run("go", &Toolkit::from_tools([tool.clone()])).await.unwrap();
    assert_eq!((halted.status, halted.text.as_str()), (RunStatus::Pending, "Which city?"));

    let (generate, _) = scripted(turn());
    let answered = ClientOptions {
        wait_for: Some(Arc::new(|request| {
            let data = Some(object(json!({"text": "Oslo"})));
            Box::pin(async move { Ok(Answer { id: request.id, ok: true, data, reason: None }) })
        })),
        ..options()
    };
    let client = create_in_process_client(in_process(generate, answered));
    let result = client.run("go", &Toolkit::from_tools([tool])).await.unwrap();
    assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "Oslo it is"));
}

// CLIENT-136: translation goes through the same function
#[tokio::test]
async fn translation_works() {
    let (generate, asked) = scripted(["hi".into()]);
    let client = create_in_process_client(in_process(generate, options()));
    let request = TranslateRequest {
        messages: vec![json!({"role": "user", "content": "hello"})],
        ..Default::default()
    };
    let result = client.translate(request).await.unwrap();
    assert_eq!(result.text, "hi");
    assert_eq!(asked.lock().unwrap()[0].messages, [json!({"role": "user", "content": "hello"})]);
}

// CLIENT-136: hooks and metrics see what they see over a network
#[tokio::test]
async fn hooks_and_metrics_work() {
    let usage = Usage { prompt_tokens: 11, completion_tokens: 4, ..Default::default() };
    let call = calls([InProcessToolCall::new("add", json!({"a": 2, "b": 3}))]);
    let (generate, _) = scripted([InProcessResponse { usage: Some(usage), ..call }, "five".into()]);
    let (watch, hooks) = Watch::new();
    let metrics = MetricLog::default();
    let client = create_in_process_client(in_process(
        generate,
        ClientOptions { hooks: Some(hooks), on_metric: Some(metrics.sink()), ..options() },
    ));
    let toolkit = Toolkit::from_tools([add()]);
    client.run("2+3?", &toolkit).await.unwrap();
    let expected = ["before_llm", "after_llm", "before_tool", "after_tool", "before_llm", "after_llm"];
    assert_eq!(watch.order.all(), expected);
    let told = metrics.timeless();
    let kinds: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["llm", "tool", "llm", "run"]);
    assert_eq!(told[0]["model"], "local");
    assert_eq!((&told[0]["prompt_tokens"], &told[3]["total_tokens"]), (&json!(11), &json!(15)));

    // Its answers are used up; a run that cannot stream is a run too.
    let failed = client.run("again", &toolkit).await.unwrap_err().to_string();
    let (_, refused) = drain(client.stream("again", &toolkit)).await;
    let errors: Vec<_> = metrics.of("run").into_iter().skip(1).map(|run| run["error"].clone()).collect();
    assert_eq!(errors, [json!(failed), json!(refused.unwrap().to_string())]);
}

// CLIENT-135, CLIENT-136: durable runs go through it, and their streams are refused before anything
// is written
#[tokio::test]
async fn durable_runs_work_and_their_streams_are_refused() {
    let (generate, _) = scripted(["hi".into()]);
    let client = create_in_process_client(in_process(generate, options()));
    let log = Arc::new(MemoryRunLog::default());
    let named = |id: &str| RunDurableOptions { run_id: id.into(), ..RunDurableOptions::new(log.clone()) };
    let toolkit = Toolkit::default();
    let stream = client.stream_durable("hi", &toolkit, named("streamed"));
    let (events, error) = drain(stream).await;
    assert_eq!((events.len(), error.unwrap().to_string().as_str()), (0, NO_STREAM));
    assert!(log.read("streamed", 0).await.is_err(), "there is no such run");
    assert_eq!(client.run_durable("hi", &toolkit, named("whole")).await.unwrap().text, "hi");
}

// CLIENT-1, CLIENT-136: a model is required, as everywhere
#[tokio::test]
async fn a_model_has_a_name() {
    let (generate, asked) = scripted(["hi".into()]);
    let client = create_in_process_client(in_process(generate, ClientOptions::default()));
    let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("model is empty"), "{error}");
    assert!(asked.lock().unwrap().is_empty());
}

/// A model that tells when it has begun and then waits for its cancel, and who hears of that.
fn waiting() -> (Generate, oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let (begin, begun) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let ends = Mutex::new(Some((begin, end)));
    let generate: Generate = Arc::new(move |request: InProcessRequest| {
        let (begin, end) = ends.lock().unwrap().take().unwrap();
        begin.send(()).unwrap();
        // A model that works elsewhere, on a task of its own, hears of it by the token.
        tokio::spawn(async move {
            request.cancel.cancelled().await;
            let _ = end.send(());
        });
        Box::pin(std::future::pending())
    });
    (generate, begun, ended)
}

// CLIENT-100, CLIENT-102, CLIENT-136: a cancelled and a dropped run fire the request's token
#[tokio::test]
async fn the_model_hears_that_nobody_waits() {
    for dropped in [false, true] {
        let (generate, begun, ended) = waiting();
        let client = create_in_process_client(in_process(generate, options()));
        let cancel = CancellationToken::new();
        let run = RunOptions { cancel: Some(cancel.clone()), ..Default::default() };
        let toolkit = Toolkit::default();
        let mut running = Box::pin(client.run_with("hi", &toolkit, run));
        tokio::select! {
            result = &mut running => panic!("{result:?}"),
            begun = begun => begun.unwrap(),
        }
        if dropped {
            drop(running);
        } else {
            cancel.cancel();
            assert!(matches!(running.await, Err(ClientError::Cancelled)));
        }
        within(ended).await.unwrap();
    }
}

// CLIENT-103, CLIENT-136
#[tokio::test(start_paused = true)]
async fn the_deadline_holds() {
    let (generate, _begun, ended) = waiting();
    let client =
        create_in_process_client(in_process(generate, ClientOptions { timeout_ms: 50, ..options() }));
    let error = client.run("hi", &Toolkit::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "run timeout after 50ms");
    ended.await.unwrap();
}

fn streaming(turns: impl IntoIterator<Item = Vec<Result<InProcessChunk, &'static str>>>) -> InProcessOptions {
    let turns = Mutex::new(turns.into_iter().collect::<std::collections::VecDeque<_>>());
    let generate_stream: GenerateStream = Arc::new(move |_request| {
        let chunks = turns.lock().unwrap().pop_front().expect("no turn is left");
        futures::stream::iter(chunks).map(|chunk| chunk.map_err(Into::into)).boxed()
    });
    InProcessOptions {
        generate_stream: Some(generate_stream),
        ..InProcessOptions::new(options(), |_request| async { Ok("whole".into()) })
    }
}

fn texts(events: &[StreamEvent]) -> Vec<String> {
    let text = |event: &StreamEvent| match event {
        StreamEvent::Text { delta } => Some(delta.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

// CLIENT-145: each chunk is one delta; calls and usage may come at the end
#[tokio::test]
async fn a_streaming_model_streams() {
    let call = InProcessToolCall::new("add", json!({"a": 2, "b": 3}));
    let usage = Usage { prompt_tokens: 11, completion_tokens: 4, ..Default::default() };
    let client = create_in_process_client(streaming([
        vec![Ok("Let me ".into()), Ok("add.".into()), Ok(call.clone().into()), Ok(call.into())],
        vec![Ok(usage.into()), Ok("It ".into()), Ok("is ".into()), Ok("5.".into())],
    ]));
    let toolkit = Toolkit::from_tools([add()]);
    let (events, error) = drain(client.stream("2+3?", &toolkit)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["Let me ", "add.", "It ", "is ", "5."]);
    let Some(StreamEvent::Done { result }) = events.last() else { panic!("{events:?}") };
    assert_eq!((result.text.as_str(), result.usage.total_tokens), ("It is 5.", 15));
    let calls: Vec<_> =
        result.tool_calls.iter().map(|call| (call.name.as_str(), call.output.as_str())).collect();
    assert_eq!(calls, [("add", "5"), ("add", "5")]);

    let result = client.run("2+3?", &toolkit).await.unwrap();
    assert_eq!(result.text, "whole", "a run that does not stream asks the other function");
}

// CLIENT-26, CLIENT-145: a delta is told before the next chunk exists
#[tokio::test]
async fn a_delta_is_told_when_its_chunk_is_there() {
    let (sender, chunks) = tokio::sync::mpsc::channel(1);
    let chunks = Mutex::new(Some(chunks));
    let client = create_in_process_client(InProcessOptions {
        generate_stream: Some(Arc::new(move |_request| {
            let chunks = chunks.lock().unwrap().take().unwrap();
            futures::stream::unfold(chunks, |mut chunks: tokio::sync::mpsc::Receiver<&str>| async move {
                chunks.recv().await.map(|text| (Ok(text.into()), chunks))
            })
            .boxed()
        })),
        ..InProcessOptions::new(options(), |_request| async { Err("not asked".into()) })
    });
    let mut stream = client.stream("hi", &Toolkit::default());
    for text in ["a", "b", "c"] {
        sender.send(text).await.unwrap();
        let event = within(stream.next()).await.unwrap().unwrap();
        assert!(matches!(&event, StreamEvent::Text { delta } if delta == text), "{event:?}");
    }
    drop(sender);
    let (events, error) = drain(stream).await;
    assert!(error.is_none() && matches!(events.last(), Some(StreamEvent::Done { .. })), "{events:?}");
}

// CLIENT-145: what was told stays told when the model then fails or panics
#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error() {
    let client = create_in_process_client(streaming([vec![Ok("so ".into()), Err("out of memory")]]));
    let (events, error) = drain(client.stream("hi", &Toolkit::default())).await;
    assert_eq!(texts(&events), ["so "]);
    assert_eq!(error.unwrap().to_string(), "the in-process model failed: out of memory");

    // There is no turn left, so the closure panics.
    let (events, error) = drain(client.stream("hi", &Toolkit::default())).await;
    assert!(events.is_empty());
    assert_eq!(error.unwrap().to_string(), "the in-process model failed: generate_stream panicked");

    let panics_later = InProcessOptions {
        generate_stream: Some(Arc::new(|_request| {
            let first = futures::stream::iter([Ok("so ".into())]);
            first.chain(futures::stream::once(async { panic!("no model loaded") })).boxed()
        })),
        ..streaming([])
    };
    let (events, error) =
        drain(create_in_process_client(panics_later).stream("hi", &Toolkit::default())).await;
    assert_eq!(texts(&events), ["so "]);
    assert_eq!(error.unwrap().to_string(), "the in-process model failed: generate_stream panicked");
}

// CLIENT-134, CLIENT-145: a failure before the first chunk can be retried
#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_before_it_begins_is_tried_again() {
    let turns = || [vec![Err("busy")], vec![Ok("hi".into())]];
    let (events, error) =
        drain(create_in_process_client(streaming(turns())).stream("hi", &Toolkit::default())).await;
    assert!(events.is_empty());
    assert_eq!(error.unwrap().to_string(), "the in-process model failed: busy");

    let mut again = streaming(turns());
    again.client.retries = Some(1);
    let (events, error) = drain(create_in_process_client(again).stream("hi", &Toolkit::default())).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["hi"]);
}

// CLIENT-145: an empty stream is an empty answer
#[tokio::test]
async fn an_empty_stream_is_an_empty_answer() {
    let client = create_in_process_client(streaming([vec![], vec![Ok("".into())]]));
    for _ in 0..2 {
        let (events, error) = drain(client.stream("hi", &Toolkit::default())).await;
        assert!(error.is_none(), "{error:?}");
        let Some(StreamEvent::Done { result }) = events.last() else { panic!("{events:?}") };
        assert_eq!((result.text.as_str(), result.status, texts(&events).len()), ("", RunStatus::Done, 0));
    }
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::hash_map("\\PC{0,8}", "\\PC{0,12}", 0..4)
        .prop_map(|map| map.into_iter().map(|(key, value)| (key, Value::String(value))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // CLIENT-133, CLIENT-145: whatever text and arguments hold, they arrive as they are, whole and
    // in pieces
    #[test]
    fn text_and_arguments_survive(
        pieces in prop::collection::vec("(?s).{1,20}", 1..6),
        given in prop::collection::vec(arguments(), 1..4),
    ) {
        let whole = pieces.concat();
        let asked: Vec<_> =
            given.iter().map(|args| InProcessToolCall::new("keep", json!(args))).collect();
        let chunks: Vec<_> = asked.iter().cloned().map(|call| Ok(call.into())).collect();
        let said: Vec<_> = pieces.iter().cloned().map(|text| Ok(text.into())).collect();
        let (generate, _) = scripted([calls(asked), whole.clone().into()]);
        let client = create_in_process_client(InProcessOptions { generate, ..streaming([chunks, said]) });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (tool, record) = support::tools::recorded("keep", |_, _| ToolResult::success("kept"));
            let toolkit = Toolkit::from_tools([tool]);
            let buffered = client.run("go", &toolkit).await.unwrap();
            let (events, error) = drain(client.stream("go", &toolkit)).await;
            assert!(error.is_none(), "{error:?}");
            assert_eq!(buffered.text, whole);
            assert_eq!(texts(&events), pieces);
            let expected: Vec<Value> = given.iter().chain(&given).map(|args| json!(args)).collect();
            let mut seen = record.args();
            seen.sort_by_key(ToString::to_string);
            let mut expected = expected;
            expected.sort_by_key(ToString::to_string);
            assert_eq!(seen, expected);
        });
    }
}
