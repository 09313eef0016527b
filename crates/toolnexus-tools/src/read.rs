//! The `read` tool: a file as text, as a window of lines, or as a media part.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolnexus_core::content::mime_type_of_path;
use toolnexus_core::{ContentPart, Tool, ToolResult};

use crate::builtin::{Face, READS, metadata, number, off_thread_until_stopped, string};
use crate::config::BuiltinsConfig;
use crate::files::Place;
use crate::paths::Paths;

/// How much of a file's start is searched for a NUL byte.
const BINARY_CHECK: u64 = 8192;

/// How much is read at once when lines are counted.
const PIECE: usize = 64 * 1024;

pub(crate) fn tool(cfg: &BuiltinsConfig, paths: &Arc<Paths>) -> Tool {
    let face = Face {
        name: "read",
        description: "Read a file: UTF-8 text, whole or a window of lines. A png, jpg, jpeg, gif, webp, pdf, \
                      mp3 or wav file comes back as a media part.",
        properties: vec![
            ("path", string("The file to read")),
            ("offset", number("The first line to return, counted from 1")),
            ("limit", number("How many lines to return")),
        ],
        required: &["path"],
        hints: READS,
    };
    let paths = Arc::clone(paths);
    let limit = cfg.limits.read_bytes;
    face.tool(move |args, context| {
        let paths = Arc::clone(&paths);
        async move {
            let path = args.required_text(&["path", "filePath", "file_path"])?;
            let window = Window::new(args.count(&["offset"]), args.count(&["limit"]));
            let work = move |stop| read(&path, &paths.place(&path)?, window, limit, stop);
            off_thread_until_stopped(&context, work).await
        }
    })
}

/// Which lines are asked for.
#[derive(Clone, Copy)]
struct Window {
    /// The first line, counted from 0.
    start: u64,
    /// How many lines; `None` is all to the end.
    lines: Option<u64>,
}

impl Window {
    fn new(offset: Option<i64>, limit: Option<i64>) -> Option<Self> {
        if offset.is_none() && limit.is_none() {
            return None;
        }
        let start = offset.unwrap_or(1).max(1).unsigned_abs() - 1;
        Some(Window { start, lines: limit.map(|limit| limit.max(0).unsigned_abs()) })
    }

    /// The first line behind the window.
    fn end(self) -> u64 {
        self.lines.map_or(u64::MAX, |lines| self.start.saturating_add(lines))
    }
}

/// A file that ends in an error as soon as nobody waits for its content: to count the lines of a huge
/// one takes minutes.
struct Wanted {
    file: File,
    stop: CancellationToken,
}

impl Read for Wanted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() { Err(io::Error::other("cancelled")) } else { self.file.read(buffer) }
    }
}

/// Reads the file at `place`; messages call it `path`. A `limit` of 0 is none.
fn read(
    path: &str,
    place: &Place,
    window: Option<Window>,
    limit: u64,
    stop: CancellationToken,
) -> Result<ToolResult, String> {
    let mut file = Wanted { file: place.open()?, stop };
    let bytes = file.file.metadata().map_err(|error| error.to_string())?.len();
    let over = |bytes| limit != 0 && bytes > limit;
    if let Some(mime_type) = mime_type_of_path(path) {
        if over(bytes) {
            return Err(too_large(path, bytes, limit));
        }
        return read_media(path, file, mime_type, limit);
    }
    let advice = "; use offset and limit";
    if window.is_none() && over(bytes) {
        return Err(too_large(path, bytes, limit) + advice);
    }
    let mut head = Vec::new();
    file.by_ref().take(BINARY_CHECK).read_to_end(&mut head).map_err(|error| error.to_string())?;
    if memchr::memchr(0, &head).is_some() {
        return Err(format!("{path} is a binary file ({bytes} bytes)"));
    }
    let content = head.as_slice().chain(file);
    match window {
        Some(window) => read_window(path, BufReader::with_capacity(PIECE, content), window, limit),
        None => {
            let bytes = read_at_most(content, limit)?;
            if over(bytes.len() as u64) {
                return Err(too_large(path, bytes.len() as u64, limit) + advice);
            }
            Ok(ToolResult::success(utf8(path, bytes)?))
        }
    }
}

fn read_media(path: &str, file: impl Read, mime_type: &str, limit: u64) -> Result<ToolResult, String> {
    let bytes = read_at_most(file, limit)?;
    if limit != 0 && bytes.len() as u64 > limit {
        return Err(too_large(path, bytes.len() as u64, limit));
    }
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let part = ContentPart::from_base64(mime_type, STANDARD.encode(&bytes), name);
    let output = format!("{path} ({mime_type}, {} bytes)", bytes.len());
    Ok(ToolResult::success(output).with_parts(vec![part]))
}

/// Everything, or one byte more than `limit`: files grow, and some pretend to be empty.
fn read_at_most(content: impl Read, limit: u64) -> Result<Vec<u8>, String> {
    let most = if limit == 0 { u64::MAX } else { limit.saturating_add(1) };
    let mut bytes = Vec::new();
    content.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Reads the lines of the window and counts the others.
fn read_window(
    path: &str,
    mut content: impl BufRead,
    window: Window,
    limit: u64,
) -> Result<ToolResult, String> {
    let mut kept: Vec<u8> = Vec::new();
    let mut newlines: u64 = 0;
    let mut at_line_start = true;
    loop {
        let chunk = content.fill_buf().map_err(|error| error.to_string())?;
        if chunk.is_empty() {
            break;
        }
        let (piece, ends_line) = match memchr::memchr(b'\n', chunk) {
            Some(at) => (chunk.get(..=at).unwrap_or(chunk), true),
            None => (chunk, false),
        };
        if (window.start..window.end()).contains(&newlines) {
            kept.extend_from_slice(piece);
            if limit != 0 && kept.len() as u64 > limit {
                return Err(format!(
                    "lines {} to {} of {path} are over the limit of {limit} bytes; use a smaller limit",
                    window.start + 1,
                    newlines + 1
                ));
            }
        }
        let used = piece.len();
        content.consume(used);
        newlines += u64::from(ends_line);
        at_line_start = ends_line;
    }
    // What follows a final newline is an empty piece of the text and no line of the file.
    let total_lines = if at_line_start { newlines } else { newlines + 1 };
    if window.end() <= newlines && kept.last() == Some(&b'\n') {
        kept.pop();
    }
    let result = ToolResult::success(utf8(path, kept)?);
    if window.start < total_lines && window.end() < total_lines {
        return Ok(result.with_metadata(metadata(json!({
            "truncated": true, "totalLines": total_lines, "nextOffset": window.end() + 1
        }))));
    }
    Ok(result)
}

fn utf8(path: &str, bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| format!("{path} is not valid UTF-8 text"))
}

fn too_large(path: &str, bytes: u64, limit: u64) -> String {
    format!("{path} is {bytes} bytes, over the limit of {limit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule, said plainly: split, take, join.
    fn plainly(text: &str, window: Window) -> String {
        let lines = text.split('\n').skip(window.start as usize);
        lines.take(window.lines.map_or(usize::MAX, |lines| lines as usize)).collect::<Vec<_>>().join("\n")
    }

    proptest! {
        // BUILTIN-42, BUILTIN-43, BUILTIN-48: whatever the buffer size, the window is that of the text
        #[test]
        fn a_window_is_a_part_of_the_split_text(
            text in "[ab\r\né]{0,40}", offset in -2i64..12, limit in proptest::option::of(-2i64..12), buffer in 1usize..7,
        ) {
            let window = Window::new(Some(offset), limit).unwrap();
            let content = BufReader::with_capacity(buffer, text.as_bytes());
            let result = read_window("f", content, window, 0).unwrap();
            prop_assert_eq!(&result.output, &plainly(&text, window));

            let total = text.split_terminator('\n').count() as u64;
            match result.metadata {
                Some(facts) => {
                    prop_assert!(window.end() < total);
                    prop_assert_eq!(&facts["totalLines"], &json!(total));
                    prop_assert_eq!(&facts["nextOffset"], &json!(window.end() + 1));
                }
                None => prop_assert!(window.end() >= total || window.start >= total),
            }
        }

        // BUILTIN-43: following nextOffset to the end gives the lines of the file
        #[test]
        fn windows_put_together_are_the_file(text in "[ab\n]{0,40}", step in 1i64..5) {
            let mut lines = Vec::new();
            let mut offset = 1;
            loop {
                let window = Window::new(Some(offset), Some(step)).unwrap();
                let result = read_window("f", text.as_bytes(), window, 0).unwrap();
                lines.extend(result.output.split('\n').map(str::to_owned));
                match result.metadata {
                    Some(facts) => offset = facts["nextOffset"].as_i64().unwrap(),
                    None => break,
                }
            }
            let expected: Vec<&str> = text.split_terminator('\n').collect();
            // The last window may reach behind the final newline.
            lines.truncate(expected.len());
            prop_assert_eq!(lines, expected);
        }
    }
}
