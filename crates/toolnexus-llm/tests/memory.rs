//! Conversation memory: stores, ids, and conversations in the caller's hands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::json;
use support::double::{Answer, Double};
use support::tools::{add, asking, stuck};
use support::{CONTENT_STYLES, STYLES, within};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxError, BoxFuture, ContentPart, Toolkit};
use toolnexus_llm::{
    AskOptions, ClientError, ClientOptions, ConversationStore, InMemoryConversationStore, Message,
    RunOptions, RunStatus, StreamEvent, StreamOptions, Style, Transcript, create_client,
};

fn message(role: &str, content: &str) -> Message {
    Message::from(json!({"role": role, "content": content}))
}

/// A store that tells what it is asked and can be made to fail.
#[derive(Default)]
struct Spy {
    inner: InMemoryConversationStore,
    log: Mutex<Vec<String>>,
    fail_get: bool,
    fail_save: bool,
}

impl Spy {
    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl ConversationStore for Spy {
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>> {
        self.log.lock().unwrap().push(format!("get {id}"));
        if self.fail_get {
            return Box::pin(async { Err("the disk is on fire".into()) });
        }
        self.inner.get(id)
    }

    fn save<'a>(&'a self, id: &'a str, messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>> {
        self.log.lock().unwrap().push(format!("save {id} {}", messages.len()));
        if self.fail_save {
            return Box::pin(async { Err("the disk is full".into()) });
        }
        self.inner.save(id, messages)
    }
}

fn with_spy(spy: Spy, options: ClientOptions) -> (Arc<Spy>, ClientOptions) {
    let spy = Arc::new(spy);
    let store: Arc<dyn ConversationStore> = Arc::<Spy>::clone(&spy);
    (spy, ClientOptions { store: Some(store), ..options })
}

// CLIENT-127, CLIENT-126, case A1
#[tokio::test]
async fn ask_continues_a_conversation() {
    for style in CONTENT_STYLES {
        let double = Double::new([Answer::text(style, "one"), Answer::text(style, "two")]);
        let client = create_client(double.options(style));
        client.ask("x", &Toolkit::default(), "c").await.unwrap();
        let result = client.ask("x", &Toolkit::default(), "c").await.unwrap();
        assert_eq!(double.body(0)["messages"].as_array().unwrap().len(), 1);
        assert_eq!(double.body(1)["messages"].as_array().unwrap().len(), 3);
        let stored = client.conversation_store().get("c").await.unwrap().unwrap();
        assert_eq!(stored.len(), 4);
        assert_eq!(stored, result.messages);
    }
}

// CLIENT-127, case A2: without an id, ask is run
#[tokio::test]
async fn ask_without_an_id_touches_no_store() {
    let style = Style::OpenAI;
    let double =
        Double::new([Answer::text(style, "one"), Answer::text(style, "two"), Answer::text(style, "3")]);
    let (spy, options) = with_spy(Spy::default(), double.options(style));
    let client = create_client(options);
    client.ask("x", &Toolkit::default(), "").await.unwrap();
    client.run("x", &Toolkit::default()).await.unwrap();
    client
        .run_with(
            "x",
            &Toolkit::default(),
            RunOptions { history: vec![message("user", "h")].into(), ..Default::default() },
        )
        .await
        .unwrap();
    assert_eq!(spy.log(), [""; 0]);
    assert_eq!(double.body(1)["messages"].as_array().unwrap().len(), 1);
}

// CLIENT-130, case A3
#[tokio::test]
async fn a_conversation_keeps_its_own_transcript() {
    let style = Style::OpenAI;
    let double = Double::new([
        Answer::text(style, "one"),
        Answer::text(style, "other"),
        Answer::status(400, &[], "no"),
        Answer::text(style, "two"),
        Answer::text(style, "fresh"),
    ]);
    let (spy, options) = with_spy(Spy::default(), double.options(style));
    let client = create_client(ClientOptions { system_prompt: "SYS".into(), ..options });
    let toolkit = Toolkit::default();

    let mut conversation = client.conversation(&toolkit);
    assert!(conversation.messages().is_empty());
    conversation.send("a").await.unwrap();
    assert_eq!(conversation.messages().len(), 3);
    assert_eq!(conversation.messages()[0].role(), "system");

    // Two are independent.
    let mut other = client.conversation(&toolkit);
    other.send("b").await.unwrap();
    assert_eq!((conversation.messages().len(), other.messages().len()), (3, 3));

    // On an error it stays as it was.
    let before = conversation.messages().to_vec();
    conversation.send("c").await.unwrap_err();
    assert_eq!(*conversation.messages(), before);

    // It never touches the store, also when an id is given.
    conversation.send_with("d", RunOptions { id: "x".into(), ..Default::default() }).await.unwrap();
    assert_eq!(conversation.messages().len(), 5);
    assert_eq!(double.body(3)["messages"].as_array().unwrap().len(), 4);
    conversation.reset();
    assert_eq!(conversation.messages().len(), 0);
    let empty = RunOptions { id: "x".into(), ..Default::default() };
    conversation.send_with("e", empty).await.unwrap();
    assert_eq!(double.body(4)["messages"].as_array().unwrap().len(), 2);
    assert_eq!(spy.log(), [""; 0]);
}

// CLIENT-126, case A4
#[tokio::test]
async fn the_store_can_be_read_and_written_directly() {
    let style = Style::OpenAI;
    let double = Double::new([Answer::text(style, "ok")]);
    let client = create_client(double.options(style));
    let store = client.conversation_store();
    store.save("id2", &vec![message("user", "h1"), message("assistant", "h2")].into()).await.unwrap();
    client.ask("x", &Toolkit::default(), "id2").await.unwrap();
    assert_eq!(double.body(0)["messages"][0]["content"], "h1");
    assert_eq!(store.get("id2").await.unwrap().unwrap().len(), 4);
}

// CLIENT-126
#[tokio::test]
async fn stores_are_shared_only_where_the_same_one_is_given() {
    let own = create_client(ClientOptions::default());
    own.conversation_store().save("c", &vec![message("user", "x")].into()).await.unwrap();
    assert!(own.clone().conversation_store().get("c").await.unwrap().is_some());
    assert!(create_client(ClientOptions::default()).conversation_store().get("c").await.unwrap().is_none());

    let given: Arc<dyn ConversationStore> = Arc::new(InMemoryConversationStore::default());
    let options = || ClientOptions { store: Some(Arc::clone(&given)), ..Default::default() };
    for client in [create_client(options()), create_client(options())] {
        assert!(Arc::ptr_eq(&client.conversation_store(), &given));
    }
}

// CLIENT-125: copies in and out
#[tokio::test]
async fn the_memory_store_is_not_changed_through_what_it_gave() {
    let store = InMemoryConversationStore::default();
    let mut mine = Transcript::from(vec![message("user", "x")]);
    store.save("c", &mine).await.unwrap();
    mine.push(message("user", "y"));
    let mut got = store.get("c").await.unwrap().unwrap();
    assert_eq!(got.len(), 1);
    got.pop();
    assert_eq!(store.get("c").await.unwrap().unwrap().len(), 1);
}

// CLIENT-129: a failed load sends nothing, a failed save is told
#[tokio::test]
async fn store_failures_are_errors() {
    let style = Style::OpenAI;
    let double = Double::new([Answer::text(style, "ok"), Answer::streamed_text(style, "ok")]);
    let (spy, options) = with_spy(Spy { fail_get: true, ..Default::default() }, double.options(style));
    let client = create_client(options);
    let error = client.ask("x", &Toolkit::default(), "c").await.unwrap_err();
    assert!(matches!(error, ClientError::Store(_)), "{error:?}");
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    let stream =
        client.stream_with("x", &Toolkit::default(), StreamOptions { id: "c".into(), ..Default::default() });
    let (events, error) = support::drain(stream).await;
    assert!(events.is_empty() && matches!(error, Some(ClientError::Store(_))));
    assert_eq!((double.count(), spy.log()), (0, vec!["get c".to_owned(), "get c".to_owned()]));

    let (_, options) = with_spy(Spy { fail_save: true, ..Default::default() }, double.options(style));
    let client = create_client(options);
    let error = client.ask("x", &Toolkit::default(), "c").await.unwrap_err();
    assert!(
        matches!(error, ClientError::Store(_)) && error.to_string().contains("the disk is full"),
        "{error}"
    );
    let stream =
        client.stream_with("x", &Toolkit::default(), StreamOptions { id: "c".into(), ..Default::default() });
    let (events, error) = support::drain(stream).await;
    assert!(matches!(error, Some(ClientError::Store(_))));
    assert!(events.iter().all(|event| !matches!(event, StreamEvent::Done { .. })));
}

// CLIENT-127: an explicit history wins, and is saved under the id
#[tokio::test]
async fn a_given_history_wins_over_the_stored_one() {
    let style = Style::OpenAI;
    let double =
        Double::new([Answer::text(style, "a"), Answer::text(style, "b"), Answer::streamed_text(style, "c")]);
    let (spy, options) = with_spy(Spy::default(), double.options(style));
    let client = create_client(options);
    client.ask("x", &Toolkit::default(), "c").await.unwrap();
    let run =
        RunOptions { history: vec![message("user", "mine")].into(), id: "c".into(), ..Default::default() };
    client.run_with("y", &Toolkit::default(), run).await.unwrap();
    assert_eq!(double.body(1)["messages"][0]["content"], "mine");
    assert_eq!(spy.log(), ["get c", "save c 2", "save c 3"]);
    let options =
        StreamOptions { history: vec![message("user", "mine")].into(), id: "c".into(), ..Default::default() };
    client.stream_with("z", &Toolkit::default(), options).finish().await.unwrap();
    assert_eq!(spy.log()[3..], ["save c 3"]);
}

// CLIENT-127
#[tokio::test]
async fn run_with_an_id_is_ask() {
    let style = Style::Anthropic;
    let double = Double::new([Answer::text(style, "a"), Answer::text(style, "b")]);
    let client = create_client(double.options(style));
    for _ in 0..2 {
        let run = RunOptions { id: "c".into(), ..Default::default() };
        client.run_with("x", &Toolkit::default(), run).await.unwrap();
    }
    assert_eq!(double.body(1)["messages"].as_array().unwrap().len(), 3);
}

// CLIENT-127, SUSPEND-33: pending and incomplete runs are saved like any other
#[tokio::test]
async fn every_returned_result_is_saved() {
    for style in STYLES {
        let call = |name: &str| Answer::calls(style, &[("1", name, json!({"a": 1, "b": 1}))]);
        let double = Double::new([call("ask"), call("add")]);
        let client = create_client(ClientOptions { max_turns: 1, ..double.options(style) });
        let (ask, _) = asking("ask", "Which city?");
        let toolkit = Toolkit::from_tools([ask, add()]);
        for (id, status) in [("p", RunStatus::Pending), ("i", RunStatus::Incomplete)] {
            let result = client.ask("x", &toolkit, id).await.unwrap();
            assert_eq!(result.status, status);
            let stored = client.conversation_store().get(id).await.unwrap().unwrap();
            assert_eq!(stored, result.messages);
            assert_eq!(stored.len(), 3);
        }
    }
}

// CLIENT-127, CLIENT-112: what ends in an error, or cannot be sent, is not saved
#[tokio::test]
async fn errors_and_refused_prompts_are_not_saved() {
    let style = Style::OpenAI;
    let double = Double::new([
        Answer::text(style, "good"),
        Answer::status(400, &[], "no"),
        Answer::status(200, &[], "no JSON"),
        Answer::text(style, "still there"),
    ]);
    let (spy, options) = with_spy(Spy::default(), double.options(style));
    let client = create_client(options);
    let toolkit = Toolkit::default();
    let store = client.conversation_store();
    client.ask("x", &toolkit, "c").await.unwrap();
    client.ask("y", &toolkit, "c").await.unwrap_err();
    client.ask("z", &toolkit, "c").await.unwrap_err();
    assert_eq!(store.get("c").await.unwrap().unwrap().len(), 2);

    let unsendable = vec![ContentPart::from_link("application/pdf", "https://h/x.pdf", None)];
    let result = client.ask(unsendable, &toolkit, "c").await.unwrap();
    assert_eq!((result.status, result.limit.as_deref()), (RunStatus::Incomplete, Some("contentPart")));
    assert_eq!(store.get("c").await.unwrap().unwrap().len(), 2);
    assert_eq!(double.count(), 3);
    assert_eq!(spy.log()[..2], ["get c", "save c 2"]);
    assert!(spy.log()[2..].iter().all(|entry| entry == "get c"), "{:?}", spy.log());
    client.ask("on we go", &toolkit, "c").await.unwrap();
    assert_eq!(store.get("c").await.unwrap().unwrap().len(), 4);
}

// CLIENT-101: a cancelled run saves nothing
#[tokio::test]
async fn a_cancelled_run_is_not_saved() {
    let style = Style::OpenAI;
    let double = Double::new([Answer::calls(style, &[("1", "slow", json!({}))])]);
    let (spy, options) = with_spy(Spy::default(), double.options(style));
    let client = create_client(options);
    let slow = stuck("slow");
    let cancel = CancellationToken::new();
    let ask = AskOptions { cancel: Some(cancel.clone()), ..Default::default() };
    let toolkit = Toolkit::from_tools([slow.tool]);
    let run = client.ask_with("x", &toolkit, "c", ask);
    let canceller = async {
        slow.started.await.unwrap();
        cancel.cancel();
    };
    let (result, ()) = within(async { tokio::join!(run, canceller) }).await;
    assert!(matches!(result, Err(ClientError::Cancelled)));
    assert_eq!(spy.log(), ["get c"]);
}

// CLIENT-101: also one that is cancelled by the last thing it tells
#[tokio::test]
async fn a_run_cancelled_at_its_end_is_not_saved() {
    for style in STYLES {
        for kind in ["usage", "pending"] {
            let answer = match kind {
                "usage" => Answer::text(style, "ok"),
                _ => Answer::calls(style, &[("1", "ask", json!({}))]),
            };
            let double = Double::new([answer]);
            let (spy, options) = with_spy(Spy::default(), double.options(style));
            let (ask, _) = asking("ask", "?");
            let cancel = CancellationToken::new();
            let from_event = cancel.clone();
            let run = RunOptions {
                id: "c".into(),
                cancel: Some(cancel),
                on_event: Some(Arc::new(move |event: &StreamEvent| {
                    if support::kinds(std::slice::from_ref(event)) == [kind] {
                        from_event.cancel();
                    }
                })),
                ..Default::default()
            };
            let error =
                create_client(options).run_with("x", &Toolkit::from_tools([ask]), run).await.unwrap_err();
            assert!(matches!(error, ClientError::Cancelled), "{error:?}");
            assert_eq!(spy.log(), ["get c"]);
        }
    }
}

// CLIENT-128: saved before `done` is yielded, not when it was asked for
#[tokio::test]
async fn a_stream_saves_before_its_last_event() {
    for style in STYLES {
        let double = Double::new([Answer::streamed_text(style, "one"), Answer::streamed_text(style, "two")]);
        let (spy, options) = with_spy(Spy::default(), double.options(style));
        let client = create_client(options);
        let options = || StreamOptions { id: "c".into(), ..Default::default() };
        let mut stream = client.stream_with("x", &Toolkit::default(), options());
        assert_eq!(spy.log(), [""; 0], "nothing happens before the first poll");
        while let Some(event) = stream.next().await {
            let saved = spy.log().len() == 2;
            match event.unwrap() {
                StreamEvent::Done { .. } => assert!(saved),
                _ => assert!(!saved),
            }
        }
        let result = client.stream_with("y", &Toolkit::default(), options()).finish().await.unwrap();
        assert_eq!(result.messages.len(), 4);
        assert_eq!(spy.log(), ["get c", "save c 2", "get c", "save c 4"]);
    }
}

// CLIENT-128: streams, hands on every delta, and returns the result
#[tokio::test]
async fn ask_can_hand_on_its_text() {
    for style in CONTENT_STYLES {
        let double =
            Double::new([Answer::streamed_text(style, "Hello"), Answer::streamed_text(style, "again")]);
        let client = create_client(double.options(style));
        let heard = Arc::new(Mutex::new(Vec::new()));
        for prompt in ["x", "y"] {
            let sink = Arc::clone(&heard);
            let ask = AskOptions {
                on_text: Some(Arc::new(move |text: &str| sink.lock().unwrap().push(text.to_owned()))),
                ..Default::default()
            };
            client.ask_with(prompt, &Toolkit::default(), "c", ask).await.unwrap();
        }
        assert_eq!(*heard.lock().unwrap(), ["Hello", "again"]);
        assert_eq!(double.body(0)["stream"], true);
        assert_eq!(client.conversation_store().get("c").await.unwrap().unwrap().len(), 4);
    }
}

// CLIENT-127: concurrent conversations do not mix
#[tokio::test]
async fn conversations_are_apart() {
    let style = Style::OpenAI;
    let double = Double::new([Answer::text(style, "1"), Answer::text(style, "2"), Answer::text(style, "3")]);
    let client = create_client(double.options(style));
    let toolkit = Toolkit::default();
    let (a, b) = tokio::join!(client.ask("for a", &toolkit, "a"), client.ask("for b", &toolkit, "b"));
    assert_eq!(a.unwrap().messages[0]["content"], "for a");
    assert_eq!(b.unwrap().messages[0]["content"], "for b");
    let result = client.ask("more", &toolkit, "b").await.unwrap();
    assert_eq!(result.messages[0]["content"], "for b");
    assert_eq!(result.messages.len(), 4);
}
