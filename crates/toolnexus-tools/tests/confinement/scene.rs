//! A base directory, what lies outside, and calls of every tool.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolnexus_core::{Tool, ToolResult};
use toolnexus_tools::{BuiltinsConfig, create_builtin_tools};

/// What must never be seen.
pub(crate) const SECRET: &str = "planted-7f3a9c";

/// A file that each tool could do something with: a text, a notebook, with a line for a patch.
const TRAP: &str = r#"{
 "cells": [{"cell_type": "raw", "id": "a", "metadata": {}, "source": ["planted-7f3a9c"]}],
 "nbformat": 4,
 "nbformat_minor": 5
}
"#;

/// The content of the file inside.
pub(crate) const INSIDE: &str = "inside\n";

/// What becomes of a way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Each tool says that the path resolves outside.
    Refused,
    /// Each tool fails, in whatever words.
    Fails,
    /// It is no way out: anything may happen inside.
    Held,
}

/// ```text
/// <root>/base/          the base directory: file.txt, sub/a.txt
/// <root>/base-evil/     a sibling with the same beginning: secret, a file called as the secret
/// <root>/outside/       the same, and in dir/ again
/// ```
pub(crate) struct Scene {
    root: TempDir,
    config: BuiltinsConfig,
    tools: Vec<Tool>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        // Not `/tmp` where that is a link, so that paths can be put together as text.
        let real = fs::canonicalize(root.path()).unwrap();
        for file in ["base-evil/secret", "outside/secret", "outside/dir/secret", "secret"] {
            write(&real.join(file), TRAP);
        }
        // What is called what must not be seen, either.
        for directory in ["base-evil", "outside", "outside/dir"] {
            write(&real.join(directory).join(SECRET), "");
        }
        write(&real.join("base/sub/a.txt"), "below\n");
        let config = BuiltinsConfig {
            base_dir: Some(real.join("base")),
            confine_to_base_dir: true,
            notebook_edit: true,
            ..Default::default()
        };
        let tools = create_builtin_tools(Some(&config));
        let scene = Scene { root, config, tools };
        scene.restore();
        scene
    }

    /// The same with another base directory.
    pub(crate) fn based_at(self, base_dir: impl Into<PathBuf>) -> Self {
        let config = BuiltinsConfig { base_dir: Some(base_dir.into()), ..self.config.clone() };
        let tools = create_builtin_tools(Some(&config));
        Scene { config, tools, ..self }
    }

    /// What the model may have changed inside is there again.
    fn restore(&self) {
        write(&self.at("base/file.txt"), INSIDE);
    }

    /// Something below the root of the scene.
    pub(crate) fn at(&self, below: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(below)
    }

    pub(crate) fn text(&self, below: &str) -> String {
        self.at(below).into_os_string().into_string().unwrap()
    }

    pub(crate) fn base_dir(&self) -> &Path {
        self.config.base_dir.as_deref().unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.tools.iter().find(|known| known.name == tool).unwrap().execute(arguments).await
    }

    /// The text that a tool refuses a path with.
    pub(crate) fn refusal(&self, tool: &str, path: &str) -> String {
        format!("{tool}: {path} resolves outside baseDir {}", self.base_dir().display())
    }

    /// Tries a path with every tool and looks what came of it. The outside is everything below the root
    /// but the base directory.
    pub(crate) async fn attack(&self, way: &str, path: &str, expect: Expect) {
        let before = self.outside();
        for call in calls(path) {
            self.restore();
            let result = self.call(call.tool, call.arguments.clone()).await;
            let what = format!("{way}: {} {} -> {result:?}", call.tool, call.arguments);
            assert_no_secret(&result, &what);
            assert_eq!(self.outside(), before, "{what}");
            match expect {
                Expect::Refused => {
                    assert!(result.is_error, "{what}");
                    // A patch trims the paths in it.
                    let path = if call.tool == "apply_patch" { path.trim() } else { path };
                    assert_eq!(result.output, self.refusal(call.tool, path), "{what}");
                }
                Expect::Fails => {
                    assert!(result.is_error, "{what}");
                    assert!(result.output.starts_with(&format!("{}: ", call.tool)), "{what}");
                }
                Expect::Held => {}
            }
            if expect != Expect::Held {
                assert_eq!(fs::read_to_string(self.at("base/file.txt")).unwrap(), INSIDE, "{what}");
            }
        }
    }

    /// Tries a way to the directory outside: itself, files in it, what is not there yet.
    pub(crate) async fn attack_directory(&self, way: &str, directory: &str, expect: Expect) {
        self.attack(way, directory, expect).await;
        let directory = directory.trim_end_matches('/');
        for below in ["secret", "new.txt", "new/deep/file.txt", "dir/../secret", "dir/secret"] {
            self.attack(way, &format!("{directory}/{below}"), expect).await;
        }
    }

    /// Everything below the root of the scene that is not in the base directory.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, Entry> {
        let mut found = BTreeMap::new();
        look(&self.at(""), &self.at("base"), &mut found);
        found
    }
}

/// What there is in a directory, as far as a change could be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    content: Vec<u8>,
    modified: SystemTime,
    mode: u32,
}

fn look(directory: &Path, but: &Path, found: &mut BTreeMap<PathBuf, Entry>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path == but {
            continue;
        }
        let facts = fs::symlink_metadata(&path).unwrap();
        let content = if facts.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if facts.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        #[cfg(unix)]
        let mode = std::os::unix::fs::MetadataExt::mode(&facts);
        #[cfg(not(unix))]
        let mode = u32::from(facts.permissions().readonly());
        if facts.is_dir() {
            look(&path, but, found);
        }
        found.insert(path, Entry { content, modified: facts.modified().unwrap(), mode });
    }
}

fn write(file: &Path, content: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

pub(crate) fn assert_no_secret(result: &ToolResult, what: &str) {
    let metadata = result.metadata.clone().map(|metadata| json!(metadata).to_string());
    let parts = format!("{:?}", result.parts);
    assert!(!result.output.contains(SECRET), "{what}");
    assert!(!metadata.unwrap_or_default().contains(SECRET), "{what}");
    assert!(!parts.contains(SECRET), "{what}");
}

/// One call of one tool.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
}

/// Every tool that takes a path, called with this one. None of the calls names the secret: what it says
/// it must have read.
pub(crate) fn calls(path: &str) -> Vec<Call> {
    let patch = |body: String| json!({"patchText": format!("*** Begin Patch\n{body}\n*** End Patch\n")});
    let change = "@@\n- \"nbformat\": 4,\n+ \"nbformat\": 5,";
    let calls = [
        ("read", json!({"path": path})),
        ("read", json!({"path": path, "offset": 1, "limit": 10})),
        ("glob", json!({"pattern": "**", "path": path})),
        ("grep", json!({"pattern": ".", "path": path})),
        ("grep", json!({"pattern": ".", "path": path, "include": "sec*", "context": 3})),
        ("edit", json!({"path": path, "oldString": "\"nbformat\": 4", "newString": "\"nbformat\": 5"})),
        ("notebook_edit", json!({"path": path, "mode": "insert", "source": "x"})),
        ("notebook_edit", json!({"path": path, "mode": "delete", "cellIndex": 0})),
        ("apply_patch", patch(format!("*** Update File: {path}\n{change}"))),
        ("apply_patch", patch(format!("*** Add File: {path}\n+x"))),
        ("apply_patch", patch(format!("*** Update File: file.txt\n*** Move to: {path}\n@@\n inside"))),
        ("apply_patch", patch(format!("*** Update File: {path}\n*** Move to: taken.txt\n{change}"))),
        ("apply_patch", patch(format!("*** Delete File: {path}"))),
        ("write", json!({"path": path, "content": "x"})),
        (
            "bash",
            json!({"command": "pwd -P; ls -a; cat ./*; cat dir/*; echo x > made; rm -f secret", "workdir": path}),
        ),
    ];
    calls.map(|(tool, arguments)| Call { tool, arguments }).into()
}
