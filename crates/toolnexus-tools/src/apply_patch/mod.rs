//! The `apply_patch` tool: one text that adds, updates, moves and deletes files, all or nothing.
//!
//! ```text
//! text --Patch::parse--> sections --Plan::new--> changes --apply--> files
//!                          |            |
//!                          |            reads, through a view in which earlier sections have happened
//!                          paths --Paths::places--> places --> locks
//! ```
//!
//! Everything that can be wrong with a patch is found while planning, when nothing is written yet. A write
//! that fails afterwards is undone.
//!
//! A process that is killed while it applies a patch leaves every file whole, with its old or its new content;
//! some files may be new and others old, a moved file may be at both places, and temporary files
//! (`.toolnexus-*.tmp`) may be left beside them.

mod apply;
mod document;
mod parse;
mod plan;

use std::sync::Arc;

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use self::apply::Disk;
use self::parse::Patch;
use self::plan::Plan;
use crate::builtin::{CHANGES, Face, metadata, off_thread, string};
use crate::files::{FileLocks, add_diff};
use crate::paths::Paths;

pub(crate) fn tool(paths: &Arc<Paths>, locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "apply_patch",
        description: "Add, update and delete files from one Begin/End Patch text, all or nothing.",
        properties: vec![("patchText", string("The patch, from *** Begin Patch to *** End Patch"))],
        required: &["patchText"],
        hints: CHANGES,
    };
    let (paths, locks) = (Arc::clone(paths), Arc::clone(locks));
    face.tool(move |args, _context| {
        let (paths, locks) = (Arc::clone(&paths), Arc::clone(&locks));
        async move {
            let text = args.required_text(&["patchText", "patch", "patch_text"])?;
            // A patch borrows its text, which goes from thread to thread: it is read twice.
            let (text, disk) = off_thread(move || {
                let places = paths.places(Patch::parse(&text)?.paths())?;
                Ok((text, Disk::new(places)))
            })
            .await?;
            let guard = locks.lock(disk.real_paths()).await;
            off_thread(move || {
                let _guard = guard;
                apply_patch(&Patch::parse(&text)?, &disk)
            })
            .await
        }
    })
}

fn apply_patch(patch: &Patch<'_>, disk: &Disk) -> Result<ToolResult, String> {
    let plan = Plan::new(patch, disk)?;
    apply::apply(&plan, disk)?;
    let Plan { steps, added, updated, deleted, .. } = &plan;
    let output = format!("Applied {} file change(s): {}", steps.len(), steps.join(", "));
    let mut facts = metadata(json!({"added": added, "updated": updated, "deleted": deleted}));
    add_diff(&mut facts, &apply::shown(&plan));
    Ok(ToolResult::success(output).with_metadata(facts))
}
