//! The `notebook_edit` tool.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::fs;

use common::{Place, call, facts, tool};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::BuiltinsConfig;

/// A notebook as Jupyter writes it, with the cells `one` (code) and `two` (Markdown), and numbers
/// and escapes that no other spelling can replace.
const NOTEBOOK: &str = r#"{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "one",
   "metadata": {},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "1\n"
     ]
    }
   ],
   "source": [
    "print(1)"
   ]
  },
  {
   "cell_type": "markdown",
   "id": "two",
   "metadata": {
    "weight": 1.10
   },
   "source": [
    "Grüße \u00fc"
   ]
  }
 ],
 "metadata": {
  "big": 123456789012345678901234567890,
  "far": 1e400
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"#;

fn config(place: &Place) -> BuiltinsConfig {
    BuiltinsConfig { notebook_edit: true, ..place.config() }
}

fn place() -> Place {
    let place = Place::new();
    place.write("n.ipynb", NOTEBOOK);
    place
}

async fn edit(place: &Place, arguments: Value) -> ToolResult {
    call(&config(place), "notebook_edit", arguments).await
}

fn said(result: &ToolResult) -> (bool, &str) {
    (result.is_error, &result.output)
}

/// The cells of the notebook.
fn cells(place: &Place) -> Vec<Value> {
    // `1e400` is no number for the library.
    let text = place.text("n.ipynb").replace("1e400", "0");
    serde_json::from_str::<Value>(&text).unwrap()["cells"].as_array().unwrap().clone()
}

// BUILTIN-98
#[tokio::test]
async fn one_cell_is_replaced_and_all_else_is_kept() {
    let place = place();
    let arguments = json!({"path": "n.ipynb", "cellId": "one", "source": "a = 'é'\nb"});
    let result = edit(&place, arguments).await;
    assert_eq!(said(&result), (false, "Replaced cell one in n.ipynb"));
    let output = r#"[
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "1\n"
     ]
    }
   ]"#;
    let expected = NOTEBOOK
        .replace(r#""execution_count": 3"#, r#""execution_count": null"#)
        .replace(output, "[]")
        .replace(r#"    "print(1)""#, "    \"a = 'é'\\n\",\n    \"b\"");
    assert_eq!(place.text("n.ipynb"), expected);
}

// BUILTIN-98
#[tokio::test]
async fn cells_are_named_by_id_or_by_index() {
    let place = place();
    for (arguments, output) in [
        (json!({"mode": "replace", "cellIndex": 1, "source": "x"}), "Replaced cell 1 in n.ipynb"),
        (json!({"cellIndex": 1.9, "source": "x"}), "Replaced cell 1 in n.ipynb"),
        (json!({"cellIndex": "1", "source": "x"}), "Replaced cell 1 in n.ipynb"),
        (json!({"cellIndex": 0, "cellId": "two", "source": "x"}), "Replaced cell two in n.ipynb"),
        (json!({"cellIndex": 1, "cellId": "", "source": "x"}), "Replaced cell 1 in n.ipynb"),
        (json!({"cellIndex": 1, "cellId": null, "mode": null, "source": "x"}), "Replaced cell 1 in n.ipynb"),
    ] {
        place.write("n.ipynb", NOTEBOOK);
        let mut arguments = arguments;
        arguments["path"] = json!("n.ipynb");
        let result = edit(&place, arguments.clone()).await;
        assert_eq!(said(&result), (false, output), "{arguments}");
        assert_eq!(place.text("n.ipynb"), NOTEBOOK.replace("Grüße \\u00fc", "x"), "{arguments}");
    }
}

// BUILTIN-98
#[tokio::test]
async fn a_cell_is_inserted_where_it_belongs() {
    for (arguments, at) in [
        (json!({"cellId": "one"}), 1),
        (json!({"cellId": "two"}), 2),
        (json!({"cellIndex": 0}), 0),
        (json!({"cellIndex": 1}), 1),
        (json!({"cellIndex": 2}), 2),
        (json!({}), 2),
    ] {
        let place = place();
        let mut arguments = arguments;
        arguments["path"] = json!("n.ipynb");
        arguments["mode"] = json!("insert");
        arguments["source"] = json!("new");
        let result = edit(&place, arguments.clone()).await;
        let cells = cells(&place);
        let cell = &cells[at];
        let id = cell["id"].as_str().unwrap();
        assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        let expected = json!({
            "cell_type": "code", "execution_count": null, "id": id, "metadata": {}, "outputs": [],
            "source": ["new"]
        });
        assert_eq!((cells.len(), cell.to_string()), (3, expected.to_string()), "{arguments}");
        let named = arguments.get("cellIndex").map_or(id.to_owned(), Value::to_string);
        assert_eq!(said(&result), (false, format!("Inserted cell {named} in n.ipynb").as_str()));
        // Gone again, by its id.
        let back = edit(&place, json!({"path": "n.ipynb", "mode": "delete", "cellId": id})).await;
        assert_eq!(said(&back), (false, format!("Deleted cell {id} in n.ipynb").as_str()));
        assert_eq!(place.text("n.ipynb"), NOTEBOOK);
    }
}

// BUILTIN-98
#[tokio::test]
async fn cells_have_the_type_that_was_asked_for() {
    let place = place();
    for (cell_type, keys) in [
        ("markdown", vec!["cell_type", "id", "metadata", "source"]),
        ("raw", vec!["cell_type", "id", "metadata", "source"]),
        ("code", vec!["cell_type", "execution_count", "id", "metadata", "outputs", "source"]),
    ] {
        let arguments = json!({"path": "n.ipynb", "mode": "insert", "source": "", "cellType": cell_type});
        edit(&place, arguments).await;
        let inserted = cells(&place).pop().unwrap();
        assert_eq!(inserted["cell_type"], cell_type);
        assert_eq!(inserted.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        let arguments = json!({"path": "n.ipynb", "cellIndex": 0, "source": "s", "cellType": cell_type});
        assert!(!edit(&place, arguments).await.is_error);
        assert_eq!(cells(&place)[0].as_object().unwrap().keys().collect::<Vec<_>>(), keys);
    }
}

// BUILTIN-98: formats before 4.5 know no ids of cells
#[tokio::test]
async fn older_notebooks_get_no_ids() {
    let place = place();
    place.write("n.ipynb", r#"{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":4}"#);
    let result = edit(&place, json!({"path": "n.ipynb", "mode": "insert", "source": "x"})).await;
    assert_eq!(said(&result), (false, "Inserted cell 0 in n.ipynb"));
    assert!(cells(&place)[0].get("id").is_none());
    assert!(place.text("n.ipynb").ends_with(" \"nbformat_minor\": 4\n}\n"));
    let result = edit(&place, json!({"path": "n.ipynb", "mode": "delete", "cellIndex": 0})).await;
    assert_eq!(said(&result), (false, "Deleted cell 0 in n.ipynb"));
    assert_eq!(cells(&place), [json!(null); 0]);
}

// BUILTIN-13, BUILTIN-15, BUILTIN-98: every refusal, and a file that stays as it was
#[tokio::test]
async fn what_cannot_be_done_is_said_and_changes_nothing() {
    let place = place();
    place
        .write("text.ipynb", "hello")
        .write("list.ipynb", "[]")
        .write("old.ipynb", r#"{"worksheets":[{"cells":[]}],"nbformat":3}"#)
        .write("latin.ipynb", b"{\"cells\":[],\"a\":\"\xe9\"}")
        .write("two.ipynb", r#"{"cells":[{"id":"a"},{"id":"a"}]}"#)
        .write("dir/x", "");
    for (arguments, message) in [
        (json!(null), "path is required"),
        (json!({}), "path is required"),
        (json!({"path": ""}), "path is required"),
        (json!({"path": ["n.ipynb"]}), "path is required"),
        (json!({"path": "n.ipynb", "cellId": "one"}), "source is required"),
        (json!({"path": "n.ipynb", "cellId": "one", "source": ["x"]}), "source is required"),
        (json!({"path": "n.ipynb", "mode": "insert"}), "source is required"),
        (json!({"path": "n.ipynb", "source": "x"}), "cellId or cellIndex is required"),
        (json!({"path": "n.ipynb", "source": "x", "cellIndex": true}), "cellId or cellIndex is required"),
        (json!({"path": "n.ipynb", "mode": "delete"}), "cellId or cellIndex is required"),
        (
            json!({"path": "n.ipynb", "mode": "append", "source": "x"}),
            "mode must be replace, insert or delete, not \"append\"",
        ),
        (
            json!({"path": "n.ipynb", "cellId": "one", "source": "x", "cellType": "sql"}),
            "cellType must be code, markdown or raw, not \"sql\"",
        ),
        (json!({"path": "n.ipynb", "cellId": "three", "source": "x"}), "cell not found: three"),
        (json!({"path": "n.ipynb", "cellId": 1, "source": "x"}), "cell not found: 1"),
        (json!({"path": "n.ipynb", "cellIndex": 2, "source": "x"}), "cell not found: 2"),
        (json!({"path": "n.ipynb", "cellIndex": -1, "source": "x"}), "cell not found: -1"),
        (json!({"path": "n.ipynb", "cellIndex": -1.5, "mode": "delete"}), "cell not found: -1"),
        (json!({"path": "n.ipynb", "cellIndex": 3, "mode": "insert", "source": "x"}), "cell not found: 3"),
        (json!({"path": "n.ipynb", "cellIndex": -1, "mode": "insert", "source": "x"}), "cell not found: -1"),
        (json!({"path": "no.ipynb", "cellIndex": 0, "source": "x"}), "file not found: no.ipynb"),
        (json!({"path": "no/no.ipynb", "mode": "insert", "source": "x"}), "file not found: no/no.ipynb"),
        (json!({"path": "text.ipynb", "cellIndex": 0, "source": "x"}), "text.ipynb is not a valid notebook"),
        (json!({"path": "list.ipynb", "cellIndex": 0, "source": "x"}), "list.ipynb is not a valid notebook"),
        (json!({"path": "old.ipynb", "mode": "insert", "source": "x"}), "old.ipynb is not a valid notebook"),
        (
            json!({"path": "latin.ipynb", "mode": "insert", "source": "x"}),
            "latin.ipynb is not a valid notebook",
        ),
        (
            json!({"path": "two.ipynb", "cellId": "a", "source": "x"}),
            "cell id a is not unique in two.ipynb (2 cells); use cellIndex",
        ),
        (json!({"path": "dir", "mode": "insert", "source": "x"}), "dir is a directory"),
    ] {
        let before = common_files(&place);
        let result = edit(&place, arguments.clone()).await;
        assert_eq!(said(&result), (true, format!("notebook_edit: {message}").as_str()), "{arguments}");
        assert_eq!(common_files(&place), before, "{arguments}");
    }
}

/// Every file of the place, with its content.
fn common_files(place: &Place) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

// BUILTIN-98: the number and boolean of a model that forgot the quotes (BUILTIN-15) are their texts
#[tokio::test]
async fn a_source_without_quotes_is_its_text() {
    let place = place();
    edit(&place, json!({"path": "n.ipynb", "cellIndex": 0, "source": 42})).await;
    assert_eq!(cells(&place)[0]["source"], json!(["42"]));
    edit(&place, json!({"path": "n.ipynb", "cellIndex": 0, "source": ""})).await;
    assert_eq!(cells(&place)[0]["source"], json!([]), "an empty cell is a cell");
}

// D19
#[tokio::test]
async fn the_result_shows_what_changed() {
    let place = place();
    let result = edit(&place, json!({"path": "n.ipynb", "cellIndex": 1, "source": "x"})).await;
    let facts = facts(&result);
    assert_eq!((&facts["additions"], &facts["deletions"]), (&json!(1), &json!(1)));
    let diff = facts["diff"].as_str().unwrap();
    assert!(diff.starts_with("--- a/n.ipynb\n+++ b/n.ipynb\n@@ "), "{diff}");
    assert!(diff.contains("\n-    \"Grüße \\u00fc\"\n+    \"x\"\n"), "{diff}");
}

// BUILTIN-98: line ends and byte order mark of the file stay; the space between tokens is Jupyter's
#[tokio::test]
async fn any_layout_becomes_jupyters() {
    let place = place();
    let last = json!({"path": "n.ipynb", "mode": "delete", "cellIndex": 1});
    for (before, after) in [
        (
            "\u{feff}{\"cells\":[{},{}],\"é\":\"é\"}",
            "\u{feff}{\n \"cells\": [\n  {}\n ],\n \"é\": \"é\"\n}\n",
        ),
        (
            "{\r\n    \"z\": {}, \"cells\": [ {\"b\":1}, {} ]}",
            "{\r\n \"z\": {},\r\n \"cells\": [\r\n  {\r\n   \"b\": 1\r\n  }\r\n ]\r\n}\r\n",
        ),
    ] {
        place.write("n.ipynb", before);
        assert!(!edit(&place, last.clone()).await.is_error);
        assert_eq!(place.text("n.ipynb"), after);
    }
}

// BUILTIN-20: of one turn's edits none is lost
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_at_the_same_time_all_land() {
    let place = place();
    let tool = tool(&config(&place), "notebook_edit");
    let calls = (0..40).map(|number| {
        let tool = tool.clone();
        let arguments = json!({"path": "n.ipynb", "mode": "insert", "source": format!("cell {number}")});
        tokio::spawn(async move { tool.execute(arguments).await })
    });
    let results = futures::future::join_all(calls).await;
    assert!(results.into_iter().all(|result| !result.unwrap().is_error));
    let cells = cells(&place);
    let mut sources: Vec<_> = cells[2..].iter().map(|cell| cell["source"][0].as_str().unwrap()).collect();
    sources.sort_by_key(|source| source.trim_start_matches("cell ").parse::<u32>().unwrap());
    let expected: Vec<String> = (0..40).map(|number| format!("cell {number}")).collect();
    assert_eq!(sources, expected);
    let mut ids: Vec<_> = cells.iter().map(|cell| cell["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 42);
    // Nothing of the replacing is left behind.
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

// BUILTIN-27
#[tokio::test]
async fn it_stays_inside_the_base() {
    let (place, other) = (place(), Place::new());
    other.write("n.ipynb", NOTEBOOK);
    let config = BuiltinsConfig { notebook_edit: true, ..place.confined() };
    let path = other.at("n.ipynb");
    let arguments = json!({"path": path, "mode": "delete", "cellIndex": 0});
    let result = call(&config, "notebook_edit", arguments).await;
    let refused = format!("notebook_edit: {path} resolves outside baseDir {}", place.path().display());
    assert_eq!(result, ToolResult::failure(refused));
    assert_eq!(other.text("n.ipynb"), NOTEBOOK);
}

// BUILTIN-98, D15: fifty megabytes are edited in a bounded time
#[tokio::test]
async fn large_notebooks_are_edited() {
    let place = Place::new();
    let picture = "iVBORw0KGgo".repeat(50_000);
    let cell = |number: usize| {
        format!(
            "{{\"cell_type\":\"code\",\"execution_count\":1,\"id\":\"c{number}\",\"metadata\":{{}},\"outputs\":\
             [{{\"data\":{{\"image/png\":\"{picture}\"}}}}],\"source\":\"x\"}}"
        )
    };
    let cells: Vec<String> = (0..90).map(cell).collect();
    let text = format!("{{\"cells\":[{}],\"nbformat\":4,\"nbformat_minor\":5}}", cells.join(","));
    assert!(text.len() > 49_000_000);
    place.write("n.ipynb", &text);
    let result = edit(&place, json!({"path": "n.ipynb", "cellId": "c89", "source": "y"})).await;
    assert_eq!(said(&result), (false, "Replaced cell c89 in n.ipynb"));
    assert!(facts(&result)["diff"].as_str().unwrap().len() < 70_000);
    let after = place.text("n.ipynb");
    assert_eq!(after.matches(&picture).count(), 89);
    assert!(after.ends_with("\"y\"\n   ]\n  }\n ],\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n"));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    // BUILTIN-54: through a link to its target, with the mode of the file
    #[tokio::test]
    async fn a_link_stays_a_link_and_a_mode_stays() {
        let place = place();
        fs::set_permissions(place.path().join("n.ipynb"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("n.ipynb", place.path().join("link.ipynb")).unwrap();
        let arguments = json!({"path": "link.ipynb", "mode": "delete", "cellId": "one"});
        assert_eq!(said(&edit(&place, arguments).await), (false, "Deleted cell one in link.ipynb"));
        assert!(fs::symlink_metadata(place.path().join("link.ipynb")).unwrap().is_symlink());
        assert_eq!(cells(&place).len(), 1);
        let mode = fs::metadata(place.path().join("n.ipynb")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    // BUILTIN-105
    #[tokio::test]
    async fn only_regular_files_are_touched() {
        let place = place();
        let fifo = place.path().join("fifo.ipynb");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket.ipynb")).unwrap();
        for path in ["fifo.ipynb", "socket.ipynb", "/dev/null"] {
            let result = edit(&place, json!({"path": path, "mode": "insert", "source": "x"})).await;
            let message = format!("notebook_edit: {path} is not a regular file");
            assert_eq!(said(&result), (true, message.as_str()));
        }
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
