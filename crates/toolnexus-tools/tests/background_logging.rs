//! What the log may hold of background shells. One test in a program of its own: it listens to all
//! threads.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/shells.rs"]
mod shells;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

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

// BUILTIN-18, BUILTIN-103: also what is told to a reporter is not logged
#[tokio::test]
async fn what_a_shell_prints_is_never_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

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

    tracing::warn!("the log is heard");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("the log is heard"));
    for secret in ["output-secret", &std::env::var("PATH").unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
}
