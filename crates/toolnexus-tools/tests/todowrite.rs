//! The `todowrite` tool.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{call, facts, tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::{ToolHints, ToolResult};
use toolnexus_tools::BuiltinsConfig;

async fn write(arguments: Value) -> ToolResult {
    call(&BuiltinsConfig::default(), "todowrite", arguments).await
}

// BUILTIN-76, case 42
#[tokio::test]
async fn the_list_is_told_back() {
    let todos = json!([
        {"id": "1", "text": "write code", "completed": true},
        {"id": "2", "text": "ship it", "completed": false},
    ]);
    let result = write(json!({"todos": todos})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("[x] write code\n[ ] ship it", false));
    assert_eq!(facts(&result), json!({"todos": todos}));
}

// BUILTIN-76, case 43: no list is an empty one, and the metadata is there all the same
#[tokio::test]
async fn no_list_is_an_empty_one() {
    for arguments in [
        json!(null),
        json!({}),
        json!({"todos": []}),
        json!({"todos": null}),
        json!({"todos": "write code"}),
        json!({"todos": {"id": "1"}}),
    ] {
        let result = write(arguments.clone()).await;
        assert_eq!((result.output.as_str(), result.is_error), ("(no todos)", false), "{arguments}");
        assert_eq!(facts(&result), json!({"todos": []}), "{arguments}");
    }
}

// BUILTIN-76: only JSON `true` is done; an id may be missing; the array stays as it was given
#[tokio::test]
async fn odd_items_are_accepted() {
    let todos = json!([
        {"text": "no id", "completed": true, "more": {"z": 1, "a": 2}},
        {"id": "2", "text": "as a word", "completed": "true"},
        {"id": "3", "text": "as a number", "completed": 1},
        {"id": "4", "text": "not said"},
        {"id": "5"},
        {"id": "6", "text": 7},
        "text",
        null,
    ]);
    let result = write(json!({"todos": todos})).await;
    let expected = "[x] no id\n[ ] as a word\n[ ] as a number\n[ ] not said\n[ ] \n[ ] 7\n[ ] \n[ ] ";
    assert_eq!((result.output.as_str(), result.is_error), (expected, false));
    assert_eq!(facts(&result)["todos"].to_string(), todos.to_string());
}

// BUILTIN-76: nothing is kept; BUILTIN-17
#[tokio::test]
async fn nothing_is_stored() {
    let todowrite = tool(&BuiltinsConfig::default(), "todowrite");
    let one = json!({"todos": [{"id": "1", "text": "one", "completed": false}]});
    assert_eq!(todowrite.execute(one).await.output, "[ ] one");
    assert_eq!(todowrite.execute(json!({})).await.output, "(no todos)");
    assert_eq!(todowrite.hints, Some(ToolHints { read_only: true, ..Default::default() }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // BUILTIN-76: one line for each item, in order
    #[test]
    fn each_item_is_a_line(items in proptest::collection::vec(("[a-z ]{0,9}", any::<bool>()), 1..9)) {
        let todos: Vec<Value> = items.iter().map(|(text, done)| json!({"id": "i", "text": text, "completed": done})).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result = runtime.block_on(write(json!({"todos": todos})));
        let lines: Vec<String> =
            items.iter().map(|(text, done)| format!("[{}] {text}", if *done { "x" } else { " " })).collect();
        prop_assert_eq!(&result.output, &lines.join("\n"));
        prop_assert_eq!(&facts(&result)["todos"], &Value::from(todos));
    }
}
