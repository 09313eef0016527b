//! What the log may hold. One test in a program of its own: it listens to all threads.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/shells.rs"]
mod shells;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use common::Place;
use serde_json::json;
use shells::Shells;
use toolnexus_core::{ToolContext, report_channel};
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

// BUILTIN-18, BUILTIN-103: nor is it what goes to a reporter
#[tokio::test]
async fn output_contents_and_environment_are_never_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    commands().await;
    files().await;
    background_shells().await;

    tracing::warn!("the log is heard");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("the log is heard"));
    for secret in ["output-secret", "content-secret", &std::env::var("PATH").unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
}

async fn commands() {
    let place = Place::new();
    let printed = place.call("bash", json!({"command": "printf '%s-secret' output; env; exit 3"})).await;
    assert!(printed.output.contains("output-secret"));
    place.call("bash", json!({"command": "printf '%s-secret' output; sleep 60", "timeout": 50})).await;
}

async fn files() {
    let place = Place::new();
    place.write("latin", b"content-secret\xff");
    let written = json!({"path": "f", "content": "content-secret\n"});
    assert!(!place.call("write", written).await.is_error);
    assert_eq!(place.call("read", json!({"path": "f"})).await.output, "content-secret\n");
    assert!(place.call("read", json!({"path": "latin"})).await.is_error);
    assert_eq!(place.call("grep", json!({"pattern": "secret$"})).await.output, "f:1:content-secret");
    place.call("glob", json!({"pattern": "*"})).await;
    let edit = |old: &str| json!({"path": "f", "oldString": old, "newString": "my content-secret"});
    assert!(place.call("edit", edit("content secret")).await.is_error);
    assert!(!place.call("edit", edit("content-secret")).await.is_error);
    let patch = |old: &str| {
        let body = format!("*** Update File: f\n-{old}\n+content-secret");
        json!({"patchText": format!("*** Begin Patch\n{body}\n*** End Patch")})
    };
    assert!(place.call("apply_patch", patch("his content-secret")).await.is_error);
    assert!(!place.call("apply_patch", patch("my content-secret")).await.is_error);
}

async fn background_shells() {
    let shells = Shells::new();
    let id = shells.run("printf '%s-secret\\n' output; env").await;
    assert!(shells.until_ended(&id).await.0.contains("output-secret"));
    shells.run("printf '%s-secret\\n' output; sleep 600").await;
    shells.call("kill_shell", json!({"id": "bg2"})).await;
    shells.call("bash_output", json!({"id": "bg2"})).await;
    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let command = json!({"command": "printf '%s-secret\\n' output"});
    common::tool(&shells.config(), "bash").execute_with(command, context).await;
    assert_eq!(reports.take_waiting().len(), 1);
    shells.registry.close_all().await;
}
