//! What every conversation store promises.

use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use toolnexus_llm::{ConversationStore, Message, Transcript};

use super::works;

/// Puts a conversation store through everything that [`ConversationStore`] promises. `make_store`
/// gives a store without conversations each time.
///
/// ```
/// use toolnexus_llm::InMemoryConversationStore;
/// use toolnexus_testkit::conversation_store_suite;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// conversation_store_suite(async || InMemoryConversationStore::default()).await;
/// # }
/// ```
///
/// # Panics
/// With the promise that the store breaks.
pub async fn conversation_store_suite<S: ConversationStore + 'static>(
    mut make_store: impl AsyncFnMut() -> S,
) {
    gives_back_what_was_saved(&make_store().await).await;
    takes_any_id(&make_store().await).await;
    keeps_large_conversations(&make_store().await).await;
    is_atomic(&Arc::new(make_store().await)).await;
}

fn transcript(texts: impl IntoIterator<Item = String>) -> Transcript {
    texts.into_iter().map(|text| Message::from(json!({"role": "user", "content": text}))).collect()
}

async fn get(store: &impl ConversationStore, id: &str) -> Option<Transcript> {
    works(store.get(id).await, "getting a conversation")
}

async fn save(store: &impl ConversationStore, id: &str, messages: &Transcript) {
    works(store.save(id, messages).await, "saving a conversation");
}

async fn gives_back_what_was_saved(store: &impl ConversationStore) {
    assert!(get(store, "c").await.is_none(), "a conversation that has not begun must be None");
    let verbatim =
        "{ \"role\": \"assistant\",\n \"x\": 1e2, \"n\": 12345678901234567890, \"content\": null }";
    let verbatim = works(Message::from_json(verbatim), "a message of the suite");
    let mut messages = transcript(["☃ \"\\\n\u{0}\u{2028}".to_owned(), String::new()]);
    messages.push(verbatim);
    save(store, "c", &messages).await;
    assert!(get(store, "c").await == Some(messages.clone()), "get must give what was saved");
    assert!(get(store, "d").await.is_none(), "another conversation must not have begun");

    let shorter = transcript(["anew".to_owned()]);
    save(store, "c", &shorter).await;
    assert!(get(store, "c").await == Some(shorter), "save must replace all of the transcript");
    save(store, "c", &Transcript::new()).await;
    let empty = get(store, "c").await.is_some_and(|messages| messages.is_empty());
    assert!(empty, "a conversation that was saved empty has begun");
}

async fn takes_any_id(store: &impl ConversationStore) {
    let long = "é/".repeat(3400);
    let (longer, longest) = (format!("{long}a"), format!("{long}b"));
    let ids = [
        "", " ", "a", "A", "a ", ".", "..", "../a", "/", "/a", "a/b", "a\\b", "%61", "%2f", "a%", "a.json",
        "con", "NUL", "~", "*", "a:b", "a\n", "a\0b", "é", "e\u{301}", "🦀", &long, &longer, &longest,
    ];
    let of = |number: usize| transcript([format!("conversation {number}")]);
    for (number, id) in ids.iter().enumerate() {
        assert!(get(store, id).await.is_none(), "{id:.20?} must not have begun by another id");
        save(store, id, &of(number)).await;
    }
    for (number, id) in ids.iter().enumerate() {
        assert!(get(store, id).await == Some(of(number)), "{id:.20?} must be a conversation of its own");
    }
}

async fn keeps_large_conversations(store: &impl ConversationStore) {
    let mut large = String::new();
    for number in 0..400_000 {
        let _ = write!(large, "{number}\n\"");
    }
    let messages = transcript((0..1000).map(|number| format!("message {number}")).chain([large]));
    save(store, "c", &messages).await;
    assert!(get(store, "c").await == Some(messages), "a large conversation must come back unchanged");
}

/// Readers and writers of one conversation at once: every reader sees one of the transcripts.
async fn is_atomic<S: ConversationStore + 'static>(store: &Arc<S>) {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 6;
    // Each of another length, all messages of one transcript the same.
    let of = |number: usize| transcript(vec![format!("writer {number}"); 1 + number * 40]);
    save(store.as_ref(), "c", &of(0)).await;
    let tasks = (0..WRITERS * 2).map(|task| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                if task < WRITERS {
                    save(store.as_ref(), "c", &of(task)).await;
                    save(store.as_ref(), &format!("own {task}"), &of(task)).await;
                }
                let seen = get(store.as_ref(), "c").await;
                let whole = (0..WRITERS).any(|number| seen == Some(of(number)));
                assert!(whole, "a reader must see one of the saved transcripts, never a part: {seen:?}");
            }
        })
    });
    for ended in join_all(tasks).await {
        works(ended, "a task of the suite");
    }
    for task in 0..WRITERS {
        let own = get(store.as_ref(), &format!("own {task}")).await;
        assert!(own == Some(of(task)), "saves of other conversations at the same time must not be lost");
    }
    save(store.as_ref(), "c", &of(3)).await;
    assert!(get(store.as_ref(), "c").await == Some(of(3)), "the last save must win");
}
