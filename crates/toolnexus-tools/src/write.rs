//! The `write` tool: a whole file.

use std::sync::Arc;

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use crate::builtin::{CHANGES, Face, metadata, string};
use crate::files::{Change, FileLocks, Place, Version, add_diff, change_file};
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
            change_file(paths, &locks, path, move |path, place| write(path, place, &content)).await
        }
    })
}

fn write(path: &str, place: &Place, content: &str) -> Result<ToolResult, String> {
    let old = place.file_bytes()?.map(|bytes| old_text(place, bytes));
    let (created, prepared) = place.prepare_with_parents(content.as_bytes(), None)?;
    if let Err(error) = place.commit(prepared) {
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;
    use tokio::runtime::Builder;

    use super::*;
    use crate::config::BuiltinsConfig;

    // BUILTIN-20: a call that is dropped holds its file until its work is done
    #[test]
    fn a_dropped_call_keeps_its_lock_until_it_has_written() {
        let base = tempfile::tempdir().unwrap();
        let config = BuiltinsConfig { base_dir: Some(base.path().to_path_buf()), ..Default::default() };
        let (paths, locks) = (Arc::new(Paths::of(&config)), Arc::new(FileLocks::default()));
        let write = tool(&paths, &locks);
        let real = paths.place("f").unwrap().real().to_path_buf();
        // One thread does the file work, one job after the other.
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut call = Box::pin(write.execute(json!({"path": "f", "content": "written"})));
            assert!(futures::poll!(&mut call).is_pending(), "the path is looked at");
            let (release, held) = mpsc::channel::<()>();
            let blocker = tokio::task::spawn_blocking(move || held.recv());
            let is_free = || locks.lock([real.clone()]).now_or_never().is_some();
            while is_free() {
                assert!(futures::poll!(&mut call).is_pending());
                tokio::task::yield_now().await;
            }
            drop(call);
            assert!(!is_free(), "the work still waits for the thread");
            assert!(!base.path().join("f").exists());
            release.send(()).unwrap();
            drop(locks.lock([real.clone()]).await);
            assert_eq!(std::fs::read_to_string(base.path().join("f")).unwrap(), "written");
            assert!(blocker.await.unwrap().is_ok());
        });
    }
}
