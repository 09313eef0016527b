//! The `notebook_edit` tool: the cells of a Jupyter notebook.

use std::sync::Arc;

use toolnexus_core::Tool;

use crate::builtin::{CHANGES, Face, number, one_of, string};
use crate::files::FileLocks;
use crate::paths::Paths;

pub(crate) fn tool(_paths: &Arc<Paths>, _locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "notebook_edit",
        description: "Replace, insert or delete one cell of a Jupyter notebook.",
        properties: vec![
            ("path", string("The .ipynb file")),
            ("mode", one_of(&["replace", "insert", "delete"], "What to do with the cell; default replace")),
            ("cellId", string("The id of the cell; an inserted cell comes behind it")),
            ("cellIndex", number("The position of the cell, counted from 0; used without cellId")),
            ("source", string("The new text of the cell")),
            ("cellType", one_of(&["code", "markdown", "raw"], "The kind of an inserted or replaced cell")),
        ],
        required: &["path"],
        hints: CHANGES,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
