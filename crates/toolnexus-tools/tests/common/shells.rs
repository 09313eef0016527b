//! A registry of background shells and the tools around it.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::{BackgroundShells, BuiltinsConfig};

use crate::common::{Place, call, facts};

pub(crate) struct Shells {
    pub(crate) place: Place,
    pub(crate) registry: Arc<BackgroundShells>,
}

impl Shells {
    pub(crate) fn new() -> Self {
        Shells { place: Place::new(), registry: BackgroundShells::new() }
    }

    pub(crate) fn config(&self) -> BuiltinsConfig {
        BuiltinsConfig { background: Some(Arc::clone(&self.registry)), ..self.place.config() }
    }

    /// The same with another grace.
    pub(crate) fn with_grace(&self, kill_grace_ms: u64) -> BuiltinsConfig {
        BuiltinsConfig { kill_grace_ms: Some(kill_grace_ms), ..self.config() }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        call(&self.config(), tool, arguments).await
    }

    /// Starts a command and gives its id.
    pub(crate) async fn run(&self, command: &str) -> String {
        start(&self.config(), command).await
    }

    /// One read: the new output, and the metadata with the whole text of the status.
    pub(crate) async fn read(&self, id: &str) -> (String, Value) {
        let result = self.call("bash_output", json!({"id": id})).await;
        assert!(!result.is_error, "{}", result.output);
        let (output, status) = result.output.rsplit_once("\n[status: ").unwrap();
        let mut facts = facts(&result);
        facts["text"] = status.strip_suffix(']').unwrap().into();
        (output.to_owned(), facts)
    }

    /// Reads until the output is this.
    pub(crate) async fn until_printed(&self, id: &str, expected: &str) {
        let mut printed = String::new();
        let start = Instant::now();
        while printed != expected {
            assert!(expected.starts_with(&printed), "{printed:?} is no start of {expected:?}");
            assert!(start.elapsed() < Duration::from_secs(20), "never printed: {expected:?}");
            pause().await;
            printed += &self.read(id).await.0;
        }
    }

    /// Reads until the shell has ended: all output of that time, and how it ended.
    pub(crate) async fn until_ended(&self, id: &str) -> (String, Value) {
        let mut printed = String::new();
        let start = Instant::now();
        loop {
            let (new, facts) = self.read(id).await;
            printed += &new;
            if facts["status"] != "running" {
                return (printed, facts);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "never ended: {id}");
            pause().await;
        }
    }
}

pub(crate) async fn start(config: &BuiltinsConfig, command: &str) -> String {
    let result = call(config, "bash", json!({"command": command, "run_in_background": true})).await;
    assert!(!result.is_error, "{}", result.output);
    facts(&result)["backgroundId"].as_str().unwrap().to_owned()
}

/// A moment between two looks.
pub(crate) async fn pause() {
    tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await.unwrap();
}
