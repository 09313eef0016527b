//! What is said aloud.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cell::Cell;

use serde_json::{Map, Value, json};
use toolnexus_testkit::warnings::Warnings;
use toolnexus_tools::{BuiltinsConfig, HttpToolOptions, http_tool, select_builtins};

/// The warnings that `work` gives.
fn warnings(work: impl FnOnce()) -> Vec<String> {
    let warnings = Warnings::listen();
    work();
    warnings.take()
}

/// How many tools a section of a document leaves on.
fn selected(section: &Value) -> usize {
    let config = BuiltinsConfig::from_value(section).unwrap();
    select_builtins(config.as_ref()).unwrap().len()
}

// BUILTIN-104, BUILTIN-6: case 84
#[test]
fn a_toggle_that_names_nothing_is_warned_of() {
    let count = Cell::new(0);
    let heard = warnings(|| count.set(selected(&json!({"tools": {"Bash": false}}))));
    assert_eq!(count.get(), 10);
    assert_eq!(heard, ["[toolnexus] builtins.tools: no built-in named \"Bash\""]);
}

// BUILTIN-104
#[test]
fn a_key_that_means_nothing_is_warned_of() {
    let heard = warnings(|| {
        selected(&json!({"colour": 1, "limits": {"speed": 1}}));
    });
    assert_eq!(
        heard,
        [
            "[toolnexus] builtins: unknown key \"colour\"",
            "[toolnexus] builtins: unknown key \"limits.speed\""
        ]
    );
}

// BUILTIN-104: one document serves all versions
#[test]
fn names_of_the_contract_are_not_warned_of() {
    let names = [
        "bash",
        "read",
        "write",
        "edit",
        "grep",
        "glob",
        "webfetch",
        "question",
        "apply_patch",
        "todowrite",
        "bash_output",
        "kill_shell",
        "websearch",
        "notebook_edit",
    ];
    let tools: Map<String, Value> = names.into_iter().map(|name| (name.to_owned(), true.into())).collect();
    let section = json!({
        "tools": tools, "notebookEdit": true, "web": {"deny": []}, "limits": {"lineBytes": 1, "webBytes": 1}
    });
    let count = Cell::new(0);
    assert_eq!(warnings(|| count.set(selected(&section))), [""; 0]);
    assert_eq!(count.get(), 11);
}

// D23: what can be said of an HTTP tool when it is made
#[test]
fn http_tools_that_cannot_be_as_declared_are_warned_of() {
    let tool = |name: &str, header: Option<&str>| HttpToolOptions {
        name: name.into(),
        url: "http://h/".into(),
        headers: header.into_iter().map(|header| (header.to_owned(), "7".to_owned())).collect(),
        ..Default::default()
    };
    let heard = warnings(|| {
        http_tool(tool("get_weather-2", Some("X-Key")));
        http_tool(tool("get weather", None));
        http_tool(tool("t", Some("Content-Length")));
    });
    let refused = "[toolnexus] http tool \"get weather\": providers refuse this name; use 1 to 64 of A-Z, a-z, 0-9, _ and -";
    let framing =
        "[toolnexus] http tool \"t\": header \"Content-Length\" is left out; it belongs to the connection";
    assert_eq!(heard, [refused, framing]);
}
