//! The `write` tool: a whole file.

use std::sync::Arc;

use toolnexus_core::Tool;

use crate::builtin::{CHANGES, Face, string};
use crate::files::FileLocks;
use crate::paths::Paths;

pub(crate) fn tool(_paths: &Arc<Paths>, _locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "write",
        description: "Create or overwrite a file; missing parent directories are created.",
        properties: vec![("path", string("The file to write")), ("content", string("The whole new content"))],
        required: &["path", "content"],
        hints: CHANGES,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
