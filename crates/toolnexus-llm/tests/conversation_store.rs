//! What every conversation store promises, and what files do on top.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use toolnexus_llm::{FileConversationStore, InMemoryConversationStore};
use toolnexus_testkit::conversation_store_suite;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_memory_keeps_its_promises() {
    conversation_store_suite(async || InMemoryConversationStore::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_files_keeps_its_promises() {
    let temporary = tempfile::tempdir().unwrap();
    let mut stores = 0;
    conversation_store_suite(async || {
        stores += 1;
        FileConversationStore::open(temporary.path().join(stores.to_string())).unwrap()
    })
    .await;
}
