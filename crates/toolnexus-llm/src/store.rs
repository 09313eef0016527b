//! Where conversations are kept between runs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use toolnexus_core::{BoxError, BoxFuture};

use crate::Transcript;

/// Keeps transcripts by conversation id.
///
/// `save` must be atomic for an id: a reader sees the old transcript or the new one, never a part.
/// Concurrent saves of one id: the last wins.
///
/// ```
/// use toolnexus_llm::{ConversationStore, InMemoryConversationStore, Transcript};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let store = InMemoryConversationStore::default();
/// let messages = Transcript::from(vec![serde_json::json!({"role": "user", "content": "hi"})]);
/// store.save("c", &messages).await.unwrap();
/// assert_eq!(store.get("c").await.unwrap().unwrap().len(), 1);
/// assert!(store.get("other").await.unwrap().is_none());
/// # }
/// ```
pub trait ConversationStore: Send + Sync {
    /// The transcript of `id`, or `None` for a conversation that has not begun.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>>;

    /// Replaces the transcript of `id`.
    fn save<'a>(&'a self, id: &'a str, messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// Conversations in memory, for as long as the store lives.
#[derive(Default)]
pub struct InMemoryConversationStore {
    conversations: Mutex<HashMap<String, Transcript>>,
}

impl ConversationStore for InMemoryConversationStore {
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>> {
        let found = self.conversations.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn save<'a>(&'a self, id: &'a str, messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>> {
        self.conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.to_owned(), messages.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}
