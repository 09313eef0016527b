//! A directory to work in and tools to call.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use toolnexus_core::{Tool, ToolContext, ToolResult};
use toolnexus_tools::{BuiltinsConfig, create_builtin_tools};

/// A directory that goes away with the value, and is the base of the tools it makes.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The absolute path of something below, as text.
    pub(crate) fn at(&self, relative: &str) -> String {
        self.0.path().join(relative).to_str().unwrap().to_owned()
    }

    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> &Self {
        let file = self.0.path().join(relative);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        self
    }

    pub(crate) fn text(&self, relative: &str) -> String {
        fs::read_to_string(self.0.path().join(relative)).unwrap()
    }

    pub(crate) fn config(&self) -> BuiltinsConfig {
        BuiltinsConfig { base_dir: Some(self.path().to_path_buf()), ..Default::default() }
    }

    pub(crate) fn confined(&self) -> BuiltinsConfig {
        BuiltinsConfig { confine_to_base_dir: true, ..self.config() }
    }

    /// Calls a tool whose base is this directory.
    pub(crate) async fn call(&self, tool_name: &str, arguments: Value) -> ToolResult {
        call(&self.config(), tool_name, arguments).await
    }
}

pub(crate) fn tool(config: &BuiltinsConfig, name: &str) -> Tool {
    create_builtin_tools(Some(config)).into_iter().find(|tool| tool.name == name).unwrap()
}

pub(crate) async fn call(config: &BuiltinsConfig, name: &str, arguments: Value) -> ToolResult {
    tool(config, name).execute(arguments).await
}

/// A context whose host limits a call to `timeout_ms`.
pub(crate) fn limited(timeout_ms: u64) -> ToolContext {
    ToolContext { timeout_ms: Some(timeout_ms), ..Default::default() }
}

pub(crate) fn facts(result: &ToolResult) -> Value {
    result.metadata.clone().map_or(Value::Null, Value::Object)
}

/// Waits, with a bound, until something outside this process has happened.
pub(crate) fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
