//! The `edit` tool: one exact piece of text for another.

use std::sync::Arc;

use toolnexus_core::Tool;

use crate::builtin::{CHANGES, Face, boolean, string};
use crate::files::FileLocks;
use crate::paths::Paths;

pub(crate) fn tool(_paths: &Arc<Paths>, _locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "edit",
        description: "Replace an exact piece of text in a file. It must occur exactly once unless replaceAll is true.",
        properties: vec![
            ("path", string("The file to edit")),
            ("oldString", string("The text to replace, exactly as it stands in the file")),
            ("newString", string("The text to put in its place, inserted as it is; empty deletes")),
            ("replaceAll", boolean("Whether to replace every occurrence; default false")),
        ],
        required: &["path", "oldString", "newString"],
        hints: CHANGES,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
