//! The `read` tool.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Place, call, facts, tool};
use serde_json::{Value, json};
use toolnexus_core::{ContentPart, ToolContext, ToolResult};
use toolnexus_tools::{BuiltinLimits, BuiltinsConfig};

const LINES: &str = "alpha\nbeta\nalpha\n";

async fn window(place: &Place, offset: Value, limit: Value) -> (String, Value) {
    let result = place.call("read", json!({"path": "f.txt", "offset": offset, "limit": limit})).await;
    assert!(!result.is_error, "{}", result.output);
    let facts = facts(&result);
    (result.output, facts)
}

fn failure(text: impl ToString) -> ToolResult {
    ToolResult::failure(text)
}

// BUILTIN-13: case 8
#[tokio::test]
async fn a_path_is_required() {
    let place = Place::new();
    for arguments in [json!({}), Value::Null, json!({"path": ""}), json!({"path": null}), json!({"path": []})]
    {
        assert_eq!(place.call("read", arguments).await, failure("read: path is required"));
    }
}

// BUILTIN-16, BUILTIN-45: case 9
#[tokio::test]
async fn what_cannot_be_read_is_named_as_the_model_wrote_it() {
    let place = Place::new();
    place.write("dir/f", "");
    assert_eq!(
        place.call("read", json!({"path": "nope.md"})).await,
        failure("read: file not found: nope.md")
    );
    assert_eq!(place.call("read", json!({"path": "./dir"})).await, failure("read: ./dir is a directory"));
    assert_eq!(
        place.call("read", json!({"path": "no/such.png"})).await,
        failure("read: file not found: no/such.png")
    );
    let below_a_file = place.call("read", json!({"path": "dir/f/x"})).await;
    assert!(below_a_file.is_error && below_a_file.output.starts_with("read: "));
}

// BUILTIN-41, BUILTIN-14, BUILTIN-15
#[tokio::test]
async fn a_whole_file_comes_byte_for_byte() {
    let place = Place::new();
    let text = "\u{feff}first\r\n\n  naïve\tline\nno newline at the end";
    place.write("f.txt", text).write("empty", "").write("7", "seven");
    for arguments in [
        json!({"path": "f.txt"}),
        json!({"path": place.at("f.txt")}),
        json!({"filePath": "f.txt"}),
        json!({"file_path": "f.txt", "nonsense": 1}),
        json!({"path": "f.txt", "offset": null, "limit": true}),
    ] {
        assert_eq!(place.call("read", arguments).await, ToolResult::success(text));
    }
    assert_eq!(place.call("read", json!({"path": "empty"})).await, ToolResult::success(""));
    assert_eq!(place.call("read", json!({"path": 7})).await, ToolResult::success("seven"));
}

// BUILTIN-42, BUILTIN-43: cases 12 to 15
#[tokio::test]
async fn a_window_is_a_part_of_the_lines() {
    let place = Place::new();
    place.write("f.txt", LINES);
    let cut = |next: u64| json!({"truncated": true, "totalLines": 3, "nextOffset": next});
    for (offset, limit, output, facts) in [
        (json!(2), json!(1), "beta", cut(3)),
        (json!(1), json!(3), "alpha\nbeta\nalpha", Value::Null),
        (json!(1), json!(4), LINES, Value::Null),
        (json!(2), Value::Null, "beta\nalpha\n", Value::Null),
        (json!(99), Value::Null, "", Value::Null),
        (json!(99), json!(1), "", Value::Null),
        (json!(-5), json!(1), "alpha", cut(2)),
        (json!(0), json!(1), "alpha", cut(2)),
        (Value::Null, json!(2), "alpha\nbeta", cut(3)),
        (json!(2), json!(0), "", cut(2)),
        (json!(2), json!(-3), "", cut(2)),
        (json!(2.9), json!("1"), "beta", cut(3)),
        (json!(4), Value::Null, "", Value::Null),
        (json!(1), json!(1e300), LINES, Value::Null),
    ] {
        assert_eq!(
            window(&place, offset.clone(), limit.clone()).await,
            (output.to_owned(), facts),
            "{offset} {limit}"
        );
    }
}

// BUILTIN-42: only LF ends a line
#[tokio::test]
async fn a_carriage_return_stays_on_its_line() {
    let place = Place::new();
    place.write("f.txt", "a\r\nb\rc\r\nd");
    assert_eq!(window(&place, json!(1), json!(2)).await.0, "a\r\nb\rc\r");
}

// BUILTIN-44: case 20
#[tokio::test]
async fn a_picture_is_a_part() {
    let place = Place::new();
    let png: Vec<u8> = (0..82).collect();
    place.write("shot.png", &png);
    let result = place.call("read", json!({"path": "shot.png", "offset": 5})).await;
    assert_eq!(result.output, "shot.png (image/png, 82 bytes)");
    assert_eq!(result.parts, [ContentPart::from_base64("image/png", STANDARD.encode(&png), None)]);
    assert_eq!((result.is_error, result.metadata), (false, None));
}

// BUILTIN-44
#[tokio::test]
async fn media_types_go_by_extension_alone() {
    let place = Place::new();
    for (file, mime, kind) in [
        ("a.JPG", "image/jpeg", "image"),
        ("a.jpeg", "image/jpeg", "image"),
        ("a.gif", "image/gif", "image"),
        ("a.WebP", "image/webp", "image"),
        ("a.pdf", "application/pdf", "file"),
        ("a.mp3", "audio/mpeg", "audio"),
        ("a.wav", "audio/wav", "audio"),
    ] {
        place.write(&format!("sub/{file}"), "text\0");
        let result = place.call("read", json!({"path": format!("sub/{file}")})).await;
        assert_eq!(result.output, format!("sub/{file} ({mime}, 5 bytes)"));
        let part = serde_json::to_value(&result.parts).unwrap();
        let mut expected = json!([{"type": kind, "mimeType": mime, "data": "dGV4dAA="}]);
        if kind == "file" {
            expected[0]["name"] = json!(file);
        }
        assert_eq!(part, expected);
    }
    place.write("a.svg", "<svg/>").write("png", "text").write(".png", "dot");
    for (file, text) in [("a.svg", "<svg/>"), ("png", "text"), (".png", "dot")] {
        assert_eq!(place.call("read", json!({"path": file})).await, ToolResult::success(text));
    }
}

// BUILTIN-46: case 21
#[tokio::test]
async fn what_is_no_utf8_is_no_text() {
    let place = Place::new();
    place.write("a.txt", b"\xff\xfe\x41").write("b.txt", b"fine\nbad \xc3\n");
    let refused = failure("read: a.txt is not valid UTF-8 text");
    assert_eq!(place.call("read", json!({"path": "a.txt"})).await, refused);
    assert_eq!(place.call("read", json!({"path": "a.txt", "limit": 1})).await, refused);
    assert_eq!(place.call("read", json!({"path": "b.txt", "limit": 1})).await.output, "fine");
    assert_eq!(
        place.call("read", json!({"path": "b.txt", "offset": 2})).await,
        failure("read: b.txt is not valid UTF-8 text")
    );
}

// BUILTIN-47
#[tokio::test]
async fn a_nul_byte_near_the_start_is_binary() {
    let place = Place::new();
    place.write("b", b"ab\0c").write("far", "x".repeat(8192) + "\0").write("near", "x".repeat(8191) + "\0");
    let binary = failure("read: b is a binary file (4 bytes)");
    assert_eq!(place.call("read", json!({"path": "b"})).await, binary);
    assert_eq!(place.call("read", json!({"path": "b", "offset": 1})).await, binary);
    assert_eq!(
        place.call("read", json!({"path": "near"})).await,
        failure("read: near is a binary file (8192 bytes)")
    );
    assert!(!place.call("read", json!({"path": "far"})).await.is_error);
}

// BUILTIN-48, BUILTIN-99
#[tokio::test]
async fn large_files_are_read_by_windows() {
    let place = Place::new();
    place
        .write("f.txt", "123456789\n".repeat(10))
        .write("f.png", "x".repeat(51))
        .write("g.txt", "x".repeat(50));
    let limits = |read_bytes| BuiltinsConfig {
        limits: BuiltinLimits { read_bytes, ..Default::default() },
        ..place.config()
    };
    let read = async |read_bytes, arguments| call(&limits(read_bytes), "read", arguments).await;
    assert_eq!(
        read(50, json!({"path": "f.txt"})).await,
        failure("read: f.txt is 100 bytes, over the limit of 50; use offset and limit")
    );
    assert_eq!(
        read(50, json!({"path": "f.png", "offset": 1, "limit": 1})).await,
        failure("read: f.png is 51 bytes, over the limit of 50")
    );
    assert_eq!(read(50, json!({"path": "g.txt"})).await.output.len(), 50);
    assert_eq!(read(0, json!({"path": "f.txt"})).await.output.len(), 100);
    let window = read(50, json!({"path": "f.txt", "offset": 9, "limit": 1})).await;
    assert_eq!(window.output, "123456789");
    assert_eq!(facts(&window), json!({"truncated": true, "totalLines": 10, "nextOffset": 10}));
    assert_eq!(
        read(50, json!({"path": "f.txt", "offset": 2})).await,
        failure("read: lines 2 to 7 of f.txt are over the limit of 50 bytes; use a smaller limit")
    );
}

#[cfg(unix)]
mod unix {
    use std::time::Duration;

    use super::*;

    // BUILTIN-105
    #[tokio::test]
    async fn what_is_no_regular_file_is_not_opened() {
        let place = Place::new();
        let made = std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        std::os::unix::fs::symlink("pipe", place.path().join("link")).unwrap();
        for path in ["pipe", "socket", "link", "/dev/null"] {
            let result = place.call("read", json!({"path": path, "limit": 1})).await;
            assert_eq!(result, failure(format!("read: {path} is not a regular file")));
        }
    }

    // BUILTIN-41, BUILTIN-48: some files say that they are empty
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_file_that_says_it_is_empty_is_read_all_the_same() {
        let place = Place::new();
        let status = place.call("read", json!({"path": "/proc/self/status"})).await;
        assert!(status.output.contains(&format!("\nPid:\t{}\n", std::process::id())), "{}", status.output);
        let limits = BuiltinLimits { read_bytes: 16, ..Default::default() };
        let config = BuiltinsConfig { limits, ..place.config() };
        let limited = call(&config, "read", json!({"path": "/proc/self/status"})).await;
        assert!(limited.is_error && limited.output.ends_with("over the limit of 16; use offset and limit"));
    }

    // BUILTIN-105: links are resolved
    #[tokio::test]
    async fn a_link_to_a_file_is_that_file() {
        let place = Place::new();
        place.write("f.txt", "text");
        std::os::unix::fs::symlink("f.txt", place.path().join("link")).unwrap();
        assert_eq!(place.call("read", json!({"path": "link"})).await, ToolResult::success("text"));
    }

    /// Text, and then a hole that takes minutes to read.
    fn huge() -> Place {
        let place = Place::new();
        place.write("huge", "line\n".repeat(4000));
        let file = std::fs::OpenOptions::new().write(true).open(place.at("huge")).unwrap();
        file.set_len(256 << 30).unwrap();
        place
    }

    // BUILTIN-19, BUILTIN-48: the lines of a huge file are counted only as long as somebody waits
    #[tokio::test]
    async fn a_cancelled_read_ends() {
        let place = huge();
        let context = ToolContext::default();
        let read = tool(&place.config(), "read");
        let mut call = Box::pin(read.execute_with(json!({"path": "huge", "limit": 1}), context.clone()));
        assert!(futures::poll!(&mut call).is_pending());
        context.cancel.cancel();
        assert_eq!(call.await, failure("read: cancelled"));
    }

    // BUILTIN-19, BUILTIN-48
    #[test]
    fn a_dropped_read_frees_its_thread() {
        let place = huge();
        let read = tool(&place.config(), "read");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let next = runtime.block_on(async {
            let mut call = Box::pin(read.execute(json!({"path": "huge", "limit": 1})));
            assert!(futures::poll!(&mut call).is_pending());
            drop(call);
            // One thread does the file work, one job after the other.
            tokio::time::timeout(Duration::from_secs(20), tokio::task::spawn_blocking(|| ())).await
        });
        runtime.shutdown_background();
        assert!(next.is_ok(), "the file is still read");
    }
}
