//! The `apply_patch` tool: one text that adds, updates, moves and deletes files, all or nothing.

use std::sync::Arc;

use toolnexus_core::Tool;

use crate::builtin::{CHANGES, Face, string};
use crate::files::FileLocks;
use crate::paths::Paths;

#[allow(dead_code, reason = "comes into use with the files module")]
mod document;
#[allow(dead_code, reason = "comes into use with the files module")]
mod parse;
#[allow(dead_code, reason = "comes into use with the files module")]
mod plan;

pub(crate) fn tool(_paths: &Arc<Paths>, _locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "apply_patch",
        description: "Add, update and delete files from one Begin/End Patch text, all or nothing.",
        properties: vec![("patchText", string("The patch, from *** Begin Patch to *** End Patch"))],
        required: &["patchText"],
        hints: CHANGES,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
