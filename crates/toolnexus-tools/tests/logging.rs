//! What the log may hold. One test in a program of its own: it listens to all threads.

#![cfg(unix)]
// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use common::Place;
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// BUILTIN-18
#[tokio::test]
async fn output_contents_and_environment_are_never_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let place = Place::new();
    place.write("f", "content-secret").write("latin", b"content-secret\xff");
    let printed = place.call("bash", json!({"command": "printf '%s-secret' output; env; exit 3"})).await;
    assert!(printed.output.contains("output-secret"));
    place.call("bash", json!({"command": "printf '%s-secret' output; sleep 60", "timeout": 50})).await;
    assert_eq!(place.call("read", json!({"path": "f"})).await.output, "content-secret");
    assert!(place.call("read", json!({"path": "latin"})).await.is_error);
    place.call("glob", json!({"pattern": "*"})).await;

    tracing::warn!("the log is heard");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("the log is heard"));
    for secret in ["output-secret", "content-secret", &std::env::var("PATH").unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
}
