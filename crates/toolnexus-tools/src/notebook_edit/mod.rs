//! The `notebook_edit` tool: one cell of a Jupyter notebook.
//!
//! ```text
//! file text -> Notebook::parse -> Notebook::apply -> Notebook::text -> file text
//!                                 one cell is made    one space of indent
//!                                 anew, added, gone   and a final newline
//! ```
//!
//! Whatever the change is not about keeps its spelling: numbers, escapes, the order of members.

mod json_text;
mod notebook;

use std::sync::Arc;

use serde_json::Map;
use toolnexus_core::{Tool, ToolResult};

use crate::args::Args;
use crate::builtin::{CHANGES, Face, number, one_of, string};
use crate::files::{self, FileLocks, MOST_BYTES, Place, Version, add_diff, change_file};
use crate::paths::Paths;

use notebook::{CellName, CellType, Change, Notebook, Refused};

pub(crate) fn tool(paths: &Arc<Paths>, locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "notebook_edit",
        description: "Replace, insert or delete one cell of a Jupyter notebook.",
        properties: vec![
            ("path", string("The .ipynb file")),
            ("mode", one_of(&["replace", "insert", "delete"], "What to do with the cell; default replace")),
            ("cellId", string("The id of the cell; an inserted cell comes behind it")),
            (
                "cellIndex",
                number(
                    "The position of the cell, counted from 0, used without cellId; an inserted cell without \
                     either comes last",
                ),
            ),
            ("source", string("The new text of the cell")),
            (
                "cellType",
                one_of(
                    &["code", "markdown", "raw"],
                    "The type of an inserted cell, default code; another type for a replaced one",
                ),
            ),
        ],
        required: &["path"],
        hints: CHANGES,
    };
    let (paths, locks) = (Arc::clone(paths), Arc::clone(locks));
    face.tool(move |args, _context| {
        let (paths, locks) = (Arc::clone(&paths), Arc::clone(&locks));
        async move {
            let path = args.required_text(&["path"])?;
            let change = change(&args)?;
            change_file(paths, &locks, path, move |path, place| edit(path, place, change)).await
        }
    })
}

/// What a call asks for.
fn change(args: &Args) -> Result<Change, String> {
    let id = args.text(&["cellId"]).filter(|id| !id.is_empty()).map(CellName::Id);
    let name = id.or_else(|| args.count(&["cellIndex"]).map(CellName::Index));
    let named = || name.clone().ok_or("cellId or cellIndex is required");
    let source = || args.present_text(&["source"]);
    let cell_type = match args.text(&["cellType"]).filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => Some(
            CellType::of(&name)
                .ok_or_else(|| format!("cellType must be code, markdown or raw, not \"{name}\""))?,
        ),
    };
    match args.text(&["mode"]).as_deref() {
        None | Some("" | "replace") => Ok(Change::Replace(named()?, source()?, cell_type)),
        Some("insert") => Ok(Change::Insert(name, source()?, cell_type.unwrap_or(CellType::Code))),
        Some("delete") => Ok(Change::Delete(named()?)),
        Some(mode) => Err(format!("mode must be replace, insert or delete, not \"{mode}\"")),
    }
}

fn edit(path: &str, place: &Place, change: Change) -> Result<ToolResult, String> {
    let before = String::from_utf8(place.read()?).map_err(|_| told(path, Refused::NotANotebook))?;
    let (after, output) = edited(path, &before, change)?;
    place.replace(after.as_bytes())?;
    let mut facts = Map::new();
    add_diff(&mut facts, &[files::Change::at(path, Version::Text(&before), Version::Text(&after))]);
    Ok(ToolResult::success(output).with_metadata(facts))
}

/// The changed text of a notebook, and what to say of it.
fn edited(path: &str, text: &str, change: Change) -> Result<(String, String), String> {
    let verb = match change {
        Change::Replace(..) => "Replaced",
        Change::Insert(..) => "Inserted",
        Change::Delete(_) => "Deleted",
    };
    let told = |refused| told(path, refused);
    let mut notebook = Notebook::parse(text).map_err(told)?;
    let name = notebook.apply(change, || fastrand::u32(..)).map_err(told)?;
    Ok((notebook.text().map_err(told)?, format!("{verb} cell {name} in {path}")))
}

fn told(path: &str, refused: Refused) -> String {
    match refused {
        Refused::NotANotebook => format!("{path} is not a valid notebook"),
        Refused::TooLarge => format!("{path} would be over the limit of {MOST_BYTES} bytes"),
        Refused::CellNotFound(name) => format!("cell not found: {name}"),
        Refused::NotUnique(id, cells) => {
            format!("cell id {id} is not unique in {path} ({cells} cells); use cellIndex")
        }
    }
}
