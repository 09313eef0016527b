//! The `edit` tool: one exact piece of text for another.
//!
//! ```text
//! oldString --found?--> once, or replaceAll ----> write the new text
//!               |  \--> several times ----------> error with their number
//!               no --> with CRLF for LF, once more
//!               no --> error, with the lines that come nearest (`nearest`)
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use crate::builtin::{CHANGES, Face, boolean, metadata, string};
use crate::files::{Change, FileLocks, MOST_BYTES, Place, Version, add_diff, change_file, nearest};
use crate::paths::Paths;

pub(crate) fn tool(paths: &Arc<Paths>, locks: &Arc<FileLocks>) -> Tool {
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
    let (paths, locks) = (Arc::clone(paths), Arc::clone(locks));
    face.tool(move |args, _context| {
        let (paths, locks) = (Arc::clone(&paths), Arc::clone(&locks));
        async move {
            let path = args.required_text(&["path", "filePath", "file_path"])?;
            let request = Request {
                old: args.required_text(&["oldString", "old_string"])?,
                new: args.present_text(&["newString", "new_string"])?,
                all: args.flag(&["replaceAll", "replace_all"]),
            };
            if request.old == request.new {
                return Err("oldString and newString are identical".to_owned());
            }
            change_file(paths, &locks, path, move |path, place| edit(path, place, &request)).await
        }
    })
}

/// What is to be replaced by what.
struct Request {
    old: String,
    new: String,
    all: bool,
}

fn edit(path: &str, place: &Place, request: &Request) -> Result<ToolResult, String> {
    let before = place.read()?;
    let before = String::from_utf8(before).map_err(|_| format!("{path} is not valid UTF-8 text"))?;
    let (after, count) = replaced(path, &before, request)?;
    place.replace(after.as_bytes())?;
    let mut facts = metadata(json!({"replacements": count}));
    add_diff(&mut facts, &[Change::at(path, Version::Text(&before), Version::Text(&after))]);
    let plural = if count == 1 { "" } else { "s" };
    Ok(ToolResult::success(format!("Edited {path} ({count} replacement{plural})")).with_metadata(facts))
}

/// The text after the edit, and how many pieces of it are new.
fn replaced(path: &str, text: &str, request: &Request) -> Result<(String, usize), String> {
    let mut old = Cow::Borrowed(request.old.as_str());
    let mut new = Cow::Borrowed(request.new.as_str());
    let mut count = occurrences(text, &old);
    if count == 0 && old.contains('\n') && !old.contains("\r\n") && text.contains("\r\n") {
        // Models write LF whatever the file has.
        (old, new) = (with_crlf(&old).into(), with_crlf(&new).into());
        count = occurrences(text, &old);
    }
    match count {
        0 => Err(not_found(path, text, &request.old)),
        1 => Ok((put_together(path, text, &old, &new, 1)?, 1)),
        _ if request.all => Ok((put_together(path, text, &old, &new, count)?, count)),
        _ => Err(format!("oldString is not unique in {path} ({count} occurrences); use replaceAll")),
    }
}

fn occurrences(text: &str, piece: &str) -> usize {
    memchr::memmem::find_iter(text.as_bytes(), piece.as_bytes()).count()
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// `text` with `new` for each of the `count` pieces `old`; a small file can grow beyond any
/// memory in this.
fn put_together(path: &str, text: &str, old: &str, new: &str, count: usize) -> Result<String, String> {
    let kept = text.len() - count * old.len();
    let bytes = (count as u64).saturating_mul(new.len() as u64).saturating_add(kept as u64);
    if bytes > MOST_BYTES.max(text.len() as u64) {
        return Err(format!("{path} would be {bytes} bytes, over the limit of {MOST_BYTES}"));
    }
    Ok(text.replace(old, new))
}

fn not_found(path: &str, text: &str, old: &str) -> String {
    let near = nearest(text, old).map(|near| format!("\n{near}")).unwrap_or_default();
    format!("oldString not found in {path}{near}")
}
