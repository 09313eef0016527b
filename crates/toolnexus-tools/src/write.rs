//! The `write` tool: a whole file.

use std::sync::Arc;

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use crate::builtin::{CHANGES, Face, metadata, off_thread, string};
use crate::files::{Change, FileLocks, Place, Version, add_diff};
use crate::paths::Paths;

/// Bytes of the largest old content that the diff of an overwritten file is made from.
const MOST_COMPARED: u64 = 16 * 1024 * 1024;

pub(crate) fn tool(paths: &Arc<Paths>, locks: &Arc<FileLocks>) -> Tool {
    let face = Face {
        name: "write",
        description: "Create or overwrite a file; missing parent directories are created.",
        properties: vec![("path", string("The file to write")), ("content", string("The whole new content"))],
        required: &["path", "content"],
        hints: CHANGES,
    };
    let (paths, locks) = (Arc::clone(paths), Arc::clone(locks));
    face.tool(move |args, _context| {
        let (paths, locks) = (Arc::clone(&paths), Arc::clone(&locks));
        async move {
            let path = args.required_text(&["path", "filePath", "file_path"])?;
            let content = args.literal_text("content")?;
            let (path, place) = off_thread(move || paths.place(&path).map(|place| (path, place))).await?;
            let guard = locks.lock([place.real().to_path_buf()]).await;
            off_thread(move || {
                let _guard = guard;
                write(&path, &place, &content)
            })
            .await
        }
    })
}

fn write(path: &str, place: &Place, content: &str) -> Result<ToolResult, String> {
    let old = place.file_bytes()?.map(|bytes| old_text(place, bytes));
    let created = place.create_parents()?;
    if let Err(error) = place.replace(content.as_bytes()) {
        created.undo();
        return Err(error);
    }
    let before = match &old {
        None => Version::Absent,
        Some(None) => Version::Opaque,
        Some(Some(text)) => Version::Text(text),
    };
    let mut facts = metadata(json!({"bytes": content.len()}));
    add_diff(&mut facts, &[Change::at(path, before, Version::Text(content))]);
    Ok(ToolResult::success(format!("Wrote {} bytes to {path}", content.len())).with_metadata(facts))
}

/// What is about to be overwritten, for the diff alone: a file need not be readable for that.
fn old_text(place: &Place, bytes: u64) -> Option<String> {
    if bytes > MOST_COMPARED {
        return None;
    }
    String::from_utf8(place.read().ok()?).ok()
}
