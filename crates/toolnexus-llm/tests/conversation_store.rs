//! What every conversation store promises, and what files do on top.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::Path;
use std::task::{Context, Waker};

use serde_json::json;
use toolnexus_core::BoxFuture;
use toolnexus_llm::{
    ConversationStore, FileConversationStore, InMemoryConversationStore, Message, Transcript,
};
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

fn transcript(text: &str) -> Transcript {
    vec![json!({"role": "user", "content": text})].into()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

// Messages stay byte for byte what the provider sent
#[tokio::test]
async fn a_file_can_be_read_by_hand() {
    let temporary = tempfile::tempdir().unwrap();
    let store = FileConversationStore::open(temporary.path()).unwrap();
    let verbatim = "{ \"role\":\"assistant\",\n  \"x\": 1e2 }";
    let messages = Transcript::from(vec![Message::from_json(verbatim).unwrap()]);
    store.save("Ann/7", &messages).await.unwrap();
    assert_eq!(names(temporary.path()), ["c-%41nn%2f7.json"]);
    let text = fs::read_to_string(temporary.path().join("c-%41nn%2f7.json")).unwrap();
    assert_eq!(text, format!("{{\"v\":1,\"id\":\"Ann/7\",\"messages\":[{verbatim}]}}"));
    let read = FileConversationStore::open(temporary.path()).unwrap().get("Ann/7").await.unwrap().unwrap();
    assert_eq!(read[0].json(), verbatim.as_bytes());
}

#[tokio::test]
async fn half_written_files_are_ignored_and_cleaned_away() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    FileConversationStore::open(dir).unwrap().save("c", &transcript("old")).await.unwrap();
    let whole = fs::read(dir.join("c-c.json")).unwrap();
    fs::write(dir.join(".tmp-1"), &whole[..20]).unwrap();
    fs::write(dir.join(".tmp-2"), "").unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    // One that somebody is writing at this moment.
    let busy = fs::File::create(dir.join(".tmp-3")).unwrap();
    busy.lock().unwrap();

    let store = FileConversationStore::open(dir).unwrap();
    assert_eq!(names(dir), [".tmp-3", "c-c.json", "notes.txt"]);
    assert!(store.get("c").await.unwrap() == Some(transcript("old")));
    store.save("c", &transcript("new")).await.unwrap();
    assert!(store.get("c").await.unwrap() == Some(transcript("new")));
    drop(busy);
    FileConversationStore::open(dir).unwrap();
    assert_eq!(names(dir), ["c-c.json", "notes.txt"]);
}

#[tokio::test]
async fn a_damaged_file_is_an_error_that_names_it() {
    let temporary = tempfile::tempdir().unwrap();
    let store = FileConversationStore::open(temporary.path()).unwrap();
    store.save("c", &transcript("hi")).await.unwrap();
    let file = temporary.path().join("c-c.json");
    let whole = fs::read(&file).unwrap();
    let other =
        String::from_utf8(whole.clone()).unwrap().replace("\"id\":\"c\"", "\"id\":\"d\"").into_bytes();
    let cut = |len: usize| whole[..len].to_vec();
    for text in [cut(0), cut(1), cut(whole.len() - 1), vec![0; 50], b"[]".to_vec(), vec![0xff; 9], other] {
        fs::write(&file, &text).unwrap();
        let error = store.get("c").await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the conversation file {} is damaged (", file.display())),
            "{error}"
        );
        assert!(error.ends_with("restore or delete it"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), text, "it is left as it is");
    }
    let newer = String::from_utf8(whole.clone()).unwrap().replace("\"v\":1", "\"v\":2");
    fs::write(&file, newer.replace("messages", "chapters")).unwrap();
    let error = store.get("c").await.unwrap_err().to_string();
    assert!(error.contains("format version 2") && error.ends_with("with a newer toolnexus"), "{error}");

    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for error in [store.get("c").await.unwrap_err(), store.save("c", &transcript("x")).await.unwrap_err()] {
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
    assert_eq!(names(temporary.path()), ["c-c.json"], "a save that failed leaves nothing");
}

#[tokio::test]
async fn troubles_with_the_directory_are_errors_that_name_it() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = FileConversationStore::open(&file).unwrap_err().to_string();
    assert!(error.starts_with(&format!("failed to open {}: ", file.display())), "{error}");

    let gone = temporary.path().join("gone");
    let store = FileConversationStore::open(&gone).unwrap();
    fs::remove_dir(&gone).unwrap();
    let error = store.save("c", &transcript("x")).await.unwrap_err().to_string();
    assert!(error.contains(gone.to_str().unwrap()), "{error}");
    assert!(store.get("c").await.unwrap().is_none());
}

// What could not be read again is not written
#[tokio::test]
async fn a_message_that_is_nested_too_deep_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let store = FileConversationStore::open(temporary.path()).unwrap();
    let nested = |levels: usize| -> Transcript {
        vec![(0..levels).fold(json!("\"[[["), |inner, _| json!([inner]))].into()
    };
    store.save("c", &nested(100)).await.unwrap();
    let error = store.save("c", &nested(101)).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "a message of the conversation \"c\" is nested deeper than 100 levels and could not be read again"
    );
    assert!(store.get("c").await.unwrap() == Some(nested(100)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_save_never_overtakes_a_later_one() {
    let temporary = tempfile::tempdir().unwrap();
    let store = FileConversationStore::open(temporary.path()).unwrap();
    for round in 0..50 {
        let (dropped, last) = (transcript(&format!("dropped {round}")), transcript(&format!("last {round}")));
        let poll_and_drop = |mut save: BoxFuture<'_, _>| {
            drop(save.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        };
        poll_and_drop(store.save("c", &dropped));
        assert!(store.get("c").await.unwrap() == Some(dropped.clone()));
        poll_and_drop(store.save("c", &dropped));
        store.save("c", &last).await.unwrap();
        assert!(store.get("c").await.unwrap() == Some(last));
    }
    assert_eq!(names(temporary.path()), ["c-c.json"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_one_directory_see_each_other() {
    let temporary = tempfile::tempdir().unwrap();
    let open = || FileConversationStore::open(temporary.path()).unwrap();
    let saves = (0..8).map(|number| {
        // Opening cleans up, which must not take away what others are writing.
        let (dir, text) = (temporary.path().to_owned(), transcript(&format!("{number}")));
        tokio::spawn(async move {
            for _ in 0..20 {
                FileConversationStore::open(&dir).unwrap().save("c", &text).await.unwrap();
            }
        })
    });
    for saved in futures::future::join_all(saves).await {
        saved.unwrap();
    }
    let seen = open().get("c").await.unwrap();
    assert!((0..8).any(|number| seen == Some(transcript(&format!("{number}")))));
    assert_eq!(names(temporary.path()), ["c-c.json"]);
}

#[cfg(unix)]
#[tokio::test]
async fn conversations_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("one/two");
    let store = FileConversationStore::open(&dir).unwrap();
    store.save("c", &transcript("hi")).await.unwrap();
    store.save("c", &transcript("again")).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("c-c.json"))), (0o700, 0o600));
}
