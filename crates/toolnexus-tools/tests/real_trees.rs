//! The file tools over trees as they are: our own sources, and a collection of what file systems hold.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Place, call, facts};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::BuiltinsConfig;

/// Calls a tool that must answer: what hangs fails here instead of holding up everything.
async fn run(place: &Place, tool: &str, arguments: Value) -> ToolResult {
    let config = BuiltinsConfig { notebook_edit: true, ..place.config() };
    let called = call(&config, tool, arguments.clone());
    let answer = tokio::time::timeout(Duration::from_secs(120), called).await;
    answer.unwrap_or_else(|_| panic!("{tool} {arguments} hangs"))
}

async fn succeeds(place: &Place, tool: &str, arguments: Value) -> ToolResult {
    let result = run(place, tool, arguments.clone()).await;
    assert!(!result.is_error, "{tool} {arguments} -> {result:?}");
    result
}

async fn fails(place: &Place, tool: &str, arguments: Value, message: &str) {
    let result = run(place, tool, arguments.clone()).await;
    assert_eq!(
        (result.is_error, result.output.as_str()),
        (true, format!("{tool}: {message}").as_str()),
        "{arguments}"
    );
}

fn patch(body: &str) -> Value {
    json!({"patchText": format!("*** Begin Patch\n{body}\n*** End Patch")})
}

mod sources {
    use super::*;

    /// Every text below, with its content, found the plain way.
    fn files(root: &Path) -> BTreeMap<String, String> {
        fn collect(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(root, &path, found);
                } else if let Ok(content) = fs::read_to_string(&path)
                    && !content.contains('\0')
                {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                    found.insert(name, content);
                }
            }
        }
        let mut found = BTreeMap::new();
        collect(root, root, &mut found);
        found
    }

    /// A copy of this crate's sources and tests, to be changed.
    fn copy() -> (Place, BTreeMap<String, String>) {
        let place = Place::new();
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for part in ["src", "tests"] {
            for (name, content) in files(&crate_root.join(part)) {
                place.write(&format!("{part}/{name}"), content);
            }
        }
        let all = files(place.path());
        assert!(all.len() > 50, "{}", all.len());
        (place, all)
    }

    // BUILTIN-41, BUILTIN-42, BUILTIN-43
    #[tokio::test]
    async fn every_source_is_read_as_it_is() {
        let (place, all) = copy();
        for (name, content) in &all {
            let whole = succeeds(&place, "read", json!({"path": name})).await;
            assert_eq!((&whole.output, whole.metadata), (content, None), "{name}");
            // Page by page, as the metadata says where to go on.
            let (mut pages, mut offset) = (Vec::new(), json!(1));
            loop {
                let page =
                    succeeds(&place, "read", json!({"path": name, "offset": offset, "limit": 97})).await;
                pages.push(page.output.clone());
                match facts(&page).get("nextOffset") {
                    Some(next) => offset = next.clone(),
                    None => break,
                }
            }
            assert_eq!(pages.join("\n").trim_end_matches('\n'), content.trim_end_matches('\n'), "{name}");
        }
    }

    // BUILTIN-57, BUILTIN-58, BUILTIN-61: as if looked for by hand
    #[tokio::test]
    async fn searches_find_what_is_there() {
        let (place, all) = copy();
        let limit = 1_000_000;
        let rows = succeeds(&place, "glob", json!({"pattern": "**", "limit": limit})).await;
        assert_eq!(rows.output.lines().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
        let rows = succeeds(&place, "glob", json!({"pattern": "src/**/mod.rs", "limit": limit})).await;
        let expected = all.keys().filter(|name| name.starts_with("src/") && name.ends_with("/mod.rs"));
        assert_eq!(rows.output.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());

        for (pattern, matches) in [
            ("BUILTIN-[0-9]+", (|line| line.contains("BUILTIN-")) as fn(&str) -> bool),
            ("^use ", |line| line.starts_with("use ")),
            ("(?i)FN MAIN", |line| line.to_lowercase().contains("fn main")),
            ("é", |line| line.contains('é')),
            ("^$", str::is_empty),
        ] {
            let rows = succeeds(&place, "grep", json!({"pattern": pattern, "limit": limit})).await;
            let mut expected = Vec::new();
            for (name, content) in &all {
                for (number, line) in (1..).zip(content.lines()) {
                    let follows = !pattern.contains("BUILTIN")
                        || line.match_indices("BUILTIN-").any(|(at, found)| {
                            line[at + found.len()..].starts_with(|next: char| next.is_ascii_digit())
                        });
                    if matches(line) && follows && line.len() < 4096 {
                        expected.push(format!("{name}:{number}:{line}"));
                    }
                }
            }
            assert_eq!(rows.output, expected.join("\n"), "{pattern}");
            assert_eq!(facts(&rows)["count"], json!(expected.len()), "{pattern}");
        }
    }

    // BUILTIN-49, BUILTIN-50, BUILTIN-82: changed and changed back, every file is what it was
    #[tokio::test]
    async fn every_source_survives_being_changed() {
        let (place, all) = copy();
        for (name, content) in &all {
            let Some(line) = content
                .lines()
                .find(|line| !line.is_empty() && content.lines().filter(|other| other == line).count() == 1)
            else {
                continue;
            };
            let changed = format!("{line} // changed");
            // With the line ends around it, the piece is there once.
            let (old, new) = (format!("{line}\n"), format!("{changed}\n"));
            if content.matches(&old).count() == 1 {
                succeeds(&place, "edit", json!({"path": name, "oldString": old, "newString": new})).await;
                assert_eq!(place.text(name), content.replacen(&old, &new, 1), "{name}");
                let back = patch(&format!("*** Update File: {name}\n@@\n-{changed}\n+{line}"));
                succeeds(&place, "apply_patch", back).await;
                assert_eq!(&place.text(name), content, "{name}");
            }
            succeeds(&place, "write", json!({"path": name, "content": content})).await;
            succeeds(
                &place,
                "apply_patch",
                patch(&format!("*** Update File: {name}\n*** Move to: {name}.moved\n@@\n {line}")),
            )
            .await;
            succeeds(
                &place,
                "apply_patch",
                patch(&format!("*** Update File: {name}.moved\n*** Move to: {name}\n@@\n {line}")),
            )
            .await;
        }
        assert_eq!(files(place.path()), all);
    }
}

mod line_endings {
    use super::*;

    const ALL: [(&str, &str); 10] = [
        ("lf", "one\ntwo\nthree\n"),
        ("crlf", "one\r\ntwo\r\nthree\r\n"),
        ("cr", "one\rtwo\rthree\r"),
        ("mixed", "one\ntwo\r\nthree\r"),
        ("open", "one\ntwo\nthree"),
        ("blank", "\n\n\n"),
        ("blank-crlf", "\r\n\r\n"),
        ("unicode", "one\u{2028}two\u{85}three\u{b}four\u{c}\n"),
        ("bom", "\u{feff}one\ntwo\n"),
        ("empty", ""),
    ];

    // BUILTIN-41, BUILTIN-42: only LF ends a line of a window, and no byte is lost
    #[tokio::test]
    async fn reads_keep_every_byte() {
        let place = Place::new();
        for (name, content) in ALL {
            place.write(name, content);
            assert_eq!(succeeds(&place, "read", json!({"path": name})).await.output, content, "{name}");
            let all = succeeds(&place, "read", json!({"path": name, "offset": 1})).await;
            assert_eq!(all.output, content, "{name}");
            for (number, line) in (1..).zip(content.split('\n')) {
                let one = succeeds(&place, "read", json!({"path": name, "offset": number, "limit": 1})).await;
                assert_eq!(one.output, line, "{name}, line {number}");
            }
        }
    }

    // BUILTIN-49, BUILTIN-50, BUILTIN-53: what an edit is not about stays as it is
    #[tokio::test]
    async fn edits_keep_the_other_bytes() {
        let place = Place::new();
        for (name, content) in ALL.into_iter().filter(|(_, content)| content.contains("two")) {
            place.write(name, content);
            let edit = json!({"path": name, "oldString": "two", "newString": "2"});
            succeeds(&place, "edit", edit).await;
            assert_eq!(place.text(name), content.replace("two", "2"), "{name}");
        }
        place.write("crlf", ALL[1].1);
        let edit = json!({"path": "crlf", "oldString": "one\ntwo\n", "newString": "1\n1b\n2\n"});
        succeeds(&place, "edit", edit).await;
        assert_eq!(place.text("crlf"), "1\r\n1b\r\n2\r\nthree\r\n");
    }

    // BUILTIN-82, BUILTIN-86: added lines get the ends of the file
    #[tokio::test]
    async fn patches_keep_the_line_ends() {
        let place = Place::new();
        for (name, after) in [
            ("lf", "one\n2\nadded\nthree\n"),
            ("crlf", "one\r\n2\r\nadded\r\nthree\r\n"),
            ("open", "one\n2\nadded\nthree"),
        ] {
            let content = ALL.into_iter().find(|(other, _)| *other == name).unwrap().1;
            place.write(name, content);
            succeeds(
                &place,
                "apply_patch",
                patch(&format!("*** Update File: {name}\n@@\n one\n-two\n+2\n+added")),
            )
            .await;
            assert_eq!(place.text(name), after, "{name}");
        }
    }

    // BUILTIN-58, BUILTIN-65: lines of a search end at LF, and a CR before it is no part of them
    #[tokio::test]
    async fn searches_see_lines() {
        let place = Place::new();
        for (name, content) in ALL {
            place.write(name, content);
        }
        let rows = succeeds(&place, "grep", json!({"pattern": "^two$"})).await;
        assert_eq!(rows.output, "bom:2:two\ncrlf:2:two\nlf:2:two\nmixed:2:two\nopen:2:two");
        let rows = succeeds(&place, "grep", json!({"pattern": "^$"})).await;
        let blank = "blank:1:\nblank:2:\nblank:3:\nblank-crlf:1:\nblank-crlf:2:";
        assert_eq!(rows.output, blank);
        let rows = succeeds(&place, "grep", json!({"pattern": "four"})).await;
        assert!(rows.output.starts_with("unicode:1:one"), "{}", rows.output);
    }
}

mod encodings {
    use super::*;

    /// A text in several encodings, and whether a search can see its ASCII part.
    fn place() -> Place {
        let place = Place::new();
        let wide = |text: &str, big: bool| -> Vec<u8> {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        };
        place
            .write("utf8.txt", "needle naïve\n")
            .write("utf16le.txt", wide("needle naïve\n", false))
            .write("utf16be.txt", wide("needle naïve\n", true))
            .write("latin1.txt", b"needle na\xefve\n")
            .write("shift-jis.txt", b"needle \x93\xfa\x96\x7b\n")
            .write("half.txt", b"needle \xe2\x82\n")
            .write("surrogate.txt", b"needle \xed\xa0\x80\n")
            .write("overlong.txt", b"needle \xc0\xaf\n")
            .write("nul.txt", b"needle\0\n");
        place
    }

    const NOT_UTF8: [&str; 5] = ["latin1.txt", "shift-jis.txt", "half.txt", "surrogate.txt", "overlong.txt"];
    const BINARY: [&str; 3] = ["utf16le.txt", "utf16be.txt", "nul.txt"];

    // BUILTIN-46, BUILTIN-47, BUILTIN-52, BUILTIN-86: said, never guessed at
    #[tokio::test]
    async fn what_is_no_utf_8_is_refused_and_kept() {
        let place = place();
        assert_eq!(succeeds(&place, "read", json!({"path": "utf8.txt"})).await.output, "needle naïve\n");
        for name in NOT_UTF8.into_iter().chain(BINARY) {
            let before = fs::read(place.path().join(name)).unwrap();
            let refused = format!("{name} is not valid UTF-8 text");
            let binary = BINARY.contains(&name);
            let seen = if binary {
                format!("{name} is a binary file ({} bytes)", before.len())
            } else {
                refused.clone()
            };
            fails(&place, "read", json!({"path": name}), &seen).await;
            fails(&place, "read", json!({"path": name, "offset": 1, "limit": 1}), &seen).await;
            if std::str::from_utf8(&before).is_err() {
                let edit = json!({"path": name, "oldString": "needle", "newString": "x"});
                fails(&place, "edit", edit, &refused).await;
                fails(&place, "apply_patch", patch(&format!("*** Update File: {name}\n@@\n+x")), &refused)
                    .await;
            }
            let cell = json!({"path": name, "mode": "insert", "source": "x"});
            fails(&place, "notebook_edit", cell, &format!("{name} is not a valid notebook")).await;
            assert_eq!(fs::read(place.path().join(name)).unwrap(), before, "{name}");
            // It can be overwritten, moved away and deleted without being understood.
            succeeds(&place, "write", json!({"path": name, "content": "new"})).await;
            fs::write(place.path().join(name), &before).unwrap();
            succeeds(&place, "apply_patch", patch(&format!("*** Delete File: {name}"))).await;
        }
    }

    // BUILTIN-65
    #[tokio::test]
    async fn searches_pass_over_binary_files_and_read_others_as_well_as_they_can() {
        let place = place();
        let rows = succeeds(&place, "grep", json!({"pattern": "needle"})).await;
        let names: Vec<&str> = rows.output.lines().map(|row| row.split(':').next().unwrap()).collect();
        let expected =
            ["half.txt", "latin1.txt", "overlong.txt", "shift-jis.txt", "surrogate.txt", "utf8.txt"];
        assert_eq!(names, expected);
        assert!(rows.output.contains("latin1.txt:1:needle na\u{fffd}ve"), "{}", rows.output);
    }
}

mod sizes {
    use super::*;

    const GIB: u64 = 1 << 30;

    // BUILTIN-42, BUILTIN-43, BUILTIN-50, BUILTIN-58
    #[tokio::test]
    async fn an_empty_file_is_a_file() {
        let place = Place::new();
        place.write("empty", "");
        for arguments in
            [json!({}), json!({"offset": 1}), json!({"offset": 5, "limit": 5}), json!({"limit": 0})]
        {
            let mut arguments = arguments;
            arguments["path"] = json!("empty");
            let result = succeeds(&place, "read", arguments).await;
            assert_eq!((result.output.as_str(), result.metadata), ("", None));
        }
        let edit = json!({"path": "empty", "oldString": "x", "newString": "y"});
        let result = run(&place, "edit", edit).await;
        assert!(result.is_error && result.output.starts_with("edit: oldString not found in empty"));
        assert_eq!(succeeds(&place, "grep", json!({"pattern": "^$"})).await.output, "");
        assert_eq!(succeeds(&place, "glob", json!({"pattern": "*"})).await.output, "empty");
        succeeds(&place, "apply_patch", patch("*** Update File: empty\n@@\n+x")).await;
        assert_eq!(place.text("empty"), "x\n");
        place.write("picture.png", "");
        let picture = succeeds(&place, "read", json!({"path": "picture.png"})).await;
        assert_eq!(picture.output, "picture.png (image/png, 0 bytes)");
    }

    /// A file of five GiB that takes no room: a text, and nothing behind it.
    fn huge(place: &Place, name: &str, head: &str) {
        place.write(name, head);
        let file = fs::OpenOptions::new().write(true).open(place.path().join(name)).unwrap();
        file.set_len(5 * GIB).unwrap();
    }

    // BUILTIN-47, BUILTIN-48, BUILTIN-98: nothing of it is held in memory, and every tool says why not
    #[tokio::test]
    async fn huge_files_are_refused_by_size() {
        let place = Place::new();
        huge(&place, "huge.txt", "one\ntwo\n");
        huge(&place, "huge.png", "");
        let bytes = 5 * GIB;
        let over = format!("huge.txt is {bytes} bytes, over the limit of {}", 16 << 20);
        fails(&place, "read", json!({"path": "huge.txt"}), &format!("{over}; use offset and limit")).await;
        let over = format!("huge.png is {bytes} bytes, over the limit of {}", 16 << 20);
        fails(&place, "read", json!({"path": "huge.png"}), &over).await;
        // There is a NUL near its start.
        let binary = format!("huge.txt is a binary file ({bytes} bytes)");
        fails(&place, "read", json!({"path": "huge.txt", "offset": 1, "limit": 1}), &binary).await;
        let most = format!("huge.txt is {bytes} bytes, over the limit of {}", 256 << 20);
        fails(&place, "edit", json!({"path": "huge.txt", "oldString": "one", "newString": "1"}), &most).await;
        fails(&place, "notebook_edit", json!({"path": "huge.txt", "mode": "insert", "source": ""}), &most)
            .await;
        fails(&place, "apply_patch", patch("*** Update File: huge.txt\n@@\n-one\n+1"), &most).await;
        assert_eq!(succeeds(&place, "grep", json!({"pattern": "one"})).await.output, "", "it is binary");
        assert_eq!(succeeds(&place, "glob", json!({"pattern": "*"})).await.output, "huge.png\nhuge.txt");
        // To replace it whole or to delete it, none of it need be known.
        let written = succeeds(&place, "write", json!({"path": "huge.txt", "content": "small"})).await;
        assert_eq!(facts(&written)["bytes"], json!(5));
        assert_eq!(place.text("huge.txt"), "small");
        succeeds(&place, "apply_patch", patch("*** Delete File: huge.png")).await;
        assert!(!place.path().join("huge.png").exists());
    }

    // BUILTIN-48: a window is found by counting, whatever stands before it, and held to the limit
    #[tokio::test]
    async fn a_window_of_a_large_file_is_read_without_the_rest() {
        let place = Place::new();
        // Beyond the part that is looked at for NULs, a gap of half a GiB, and lines behind it.
        let head = "line\n".repeat(2000);
        let mut text = head.clone();
        text.push_str("x\n");
        place.write("large.txt", &text);
        let file = fs::OpenOptions::new().write(true).open(place.path().join("large.txt")).unwrap();
        file.set_len(GIB / 2).unwrap();
        drop(file);
        let mut file = fs::OpenOptions::new().append(true).open(place.path().join("large.txt")).unwrap();
        std::io::Write::write_all(&mut file, b"\nlast but one\nlast\n").unwrap();
        drop(file);
        let last = succeeds(&place, "read", json!({"path": "large.txt", "offset": 2003, "limit": 5})).await;
        assert_eq!((last.output.as_str(), last.metadata), ("last but one\nlast\n", None));
        let first = succeeds(&place, "read", json!({"path": "large.txt", "offset": 2000, "limit": 2})).await;
        assert_eq!(first.output, "line\nx");
        assert_eq!(facts(&first), json!({"truncated": true, "totalLines": 2004, "nextOffset": 2002}));
        // The line with the gap in it is more than may be shown.
        let gap = run(&place, "read", json!({"path": "large.txt", "offset": 2002, "limit": 1})).await;
        assert!(gap.is_error && gap.output.contains("over the limit of 16777216 bytes"), "{}", gap.output);
    }

    // BUILTIN-57, BUILTIN-63: which rows survive depends on names alone
    #[tokio::test]
    async fn ten_thousand_files_in_one_directory() {
        let place = Place::new();
        for number in 0..10_000 {
            fs::write(place.path().join(format!("{number:05}.txt")), format!("number {number}\n")).unwrap();
        }
        let rows = succeeds(&place, "glob", json!({"pattern": "*"})).await;
        assert_eq!(facts(&rows), json!({"count": 100, "truncated": true, "total": 10_000}));
        let expected: Vec<String> = (0..100).map(|number| format!("{number:05}.txt")).collect();
        assert_eq!(rows.output, expected.join("\n"));
        let rows = succeeds(&place, "grep", json!({"pattern": "^number [0-9]*7$", "limit": 3})).await;
        assert_eq!(rows.output, "00007.txt:1:number 7\n00017.txt:1:number 17\n00027.txt:1:number 27");
        assert_eq!(facts(&rows), json!({"count": 3, "truncated": true, "total": 1000}));
        succeeds(&place, "edit", json!({"path": "05000.txt", "oldString": "5000", "newString": "five"}))
            .await;
        let rows = succeeds(&place, "grep", json!({"pattern": "five"})).await;
        assert_eq!(rows.output, "05000.txt:1:number five");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 10_000, "nothing was left behind");
    }
}

#[cfg(unix)]
mod names {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    // BUILTIN-49, BUILTIN-54: the longest name there can be, also for the new file beside it
    #[tokio::test]
    async fn the_longest_names_can_be_written() {
        let place = Place::new();
        let name = "n".repeat(255);
        succeeds(&place, "write", json!({"path": name, "content": "one\n"})).await;
        succeeds(&place, "write", json!({"path": name, "content": "two\n"})).await;
        succeeds(&place, "edit", json!({"path": name, "oldString": "two", "newString": "three"})).await;
        succeeds(&place, "apply_patch", patch(&format!("*** Update File: {name}\n@@\n-three\n+four"))).await;
        assert_eq!(succeeds(&place, "read", json!({"path": name})).await.output, "four\n");
        assert_eq!(succeeds(&place, "glob", json!({"pattern": "n*"})).await.output, name);
        succeeds(&place, "apply_patch", patch(&format!("*** Delete File: {name}"))).await;
        assert!(fs::read_dir(place.path()).unwrap().next().is_none());
        let longer = "n".repeat(256);
        let result = run(&place, "write", json!({"path": longer, "content": ""})).await;
        assert!(result.is_error && result.output.starts_with("write: "), "{result:?}");
    }

    // BUILTIN-56: a row is one line, whatever a file is called
    #[tokio::test]
    async fn odd_names_are_shown_on_one_line_each() {
        let place = Place::new();
        let odd: [&[u8]; 6] =
            [b"new\nline", b"bad\xff\xfe", b"tab\there", b" space ", b"quote\"'", b"colon:1:x"];
        for name in odd {
            fs::write(place.path().join(OsStr::from_bytes(name)), "needle\n").unwrap();
        }
        let rows = succeeds(&place, "glob", json!({"pattern": "*"})).await;
        assert_eq!(facts(&rows)["count"], json!(6));
        assert_eq!(rows.output.lines().count(), 6, "{}", rows.output);
        let shown =
            ["new\u{fffd}line", "bad\u{fffd}\u{fffd}", "tab\there", " space ", "quote\"'", "colon:1:x"];
        for name in shown {
            assert!(rows.output.lines().any(|row| row == name), "{name:?} in {}", rows.output);
        }
        let rows = succeeds(&place, "grep", json!({"pattern": "needle"})).await;
        assert_eq!((facts(&rows)["count"].clone(), rows.output.lines().count()), (json!(6), 6));
        // Those that can be said can be read.
        for name in ["new\nline", "tab\there", " space ", "quote\"'", "colon:1:x"] {
            assert_eq!(succeeds(&place, "read", json!({"path": name})).await.output, "needle\n", "{name:?}");
            let edit = json!({"path": name, "oldString": "needle", "newString": "pin"});
            succeeds(&place, "edit", edit).await;
        }
        fails(&place, "read", json!({"path": "bad\u{fffd}\u{fffd}"}), "file not found: bad\u{fffd}\u{fffd}")
            .await;
    }

    // BUILTIN-55: deeper than any path can say
    #[tokio::test]
    async fn the_deepest_directories_are_passed_over() {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        let place = Place::new();
        place.write("near.txt", "needle\n");
        let (name, mode) = ("d".repeat(200), Mode::from_raw_mode(0o700));
        let open = |directory: &rustix::fd::OwnedFd| {
            mkdirat(directory, &name, mode).unwrap();
            openat(directory, &name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
        };
        let mut directory =
            openat(CWD, place.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        for _ in 0..40 {
            directory = open(&directory);
        }
        let file = openat(&directory, "far.txt", OFlags::CREATE | OFlags::WRONLY, mode).unwrap();
        rustix::io::write(&file, b"needle\n").unwrap();
        drop((file, directory));

        for (tool, arguments, near) in [
            ("glob", json!({"pattern": "*.txt"}), "near.txt"),
            ("grep", json!({"pattern": "needle"}), "near.txt:1:needle"),
        ] {
            let rows = succeeds(&place, tool, arguments).await;
            assert_eq!(rows.output.lines().last(), Some(near), "{tool}");
            assert!(rows.output.lines().all(|row| row.contains("far.txt") || row == near), "{tool}");
        }
        let far: PathBuf = std::iter::repeat_n(name.as_str(), 40).collect();
        let far = far.join("far.txt").to_str().unwrap().to_owned();
        let read = run(&place, "read", json!({"path": far})).await;
        assert!(if read.is_error { read.output.starts_with("read: ") } else { read.output == "needle\n" });
        let new = far.replace("far.txt", "new/new.txt");
        let write = run(&place, "write", json!({"path": new, "content": "x"})).await;
        assert!(if write.is_error {
            write.output.starts_with("write: ")
        } else {
            write.output.starts_with("Wrote 1 ")
        });
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing was made anywhere else");
    }
}

#[cfg(unix)]
mod special {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    // BUILTIN-105, BUILTIN-55: nothing waits for the other end of a pipe
    #[tokio::test]
    async fn what_is_no_regular_file_is_not_touched() {
        let place = Place::new();
        place.write("file", "needle\n");
        assert!(Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap().success());
        let _socket = UnixListener::bind(place.path().join("socket")).unwrap();
        symlink("pipe", place.path().join("to-pipe")).unwrap();
        symlink("/dev/zero", place.path().join("to-zero")).unwrap();
        for path in ["pipe", "socket", "to-pipe", "to-zero", "/dev/zero", "/dev/null"] {
            let refused = format!("{path} is not a regular file");
            fails(&place, "read", json!({"path": path}), &refused).await;
            fails(&place, "read", json!({"path": path, "offset": 1, "limit": 1}), &refused).await;
            fails(&place, "write", json!({"path": path, "content": "x"}), &refused).await;
            fails(&place, "edit", json!({"path": path, "oldString": "a", "newString": "b"}), &refused).await;
            fails(&place, "notebook_edit", json!({"path": path, "mode": "insert", "source": "x"}), &refused)
                .await;
            fails(&place, "apply_patch", patch(&format!("*** Update File: {path}\n@@\n+x")), &refused).await;
            fails(&place, "apply_patch", patch(&format!("*** Delete File: {path}")), &refused).await;
            assert!(run(&place, "grep", json!({"pattern": "x", "path": path})).await.is_error);
            assert!(run(&place, "glob", json!({"pattern": "*", "path": path})).await.is_error);
        }
        assert_eq!(succeeds(&place, "glob", json!({"pattern": "*"})).await.output, "file");
        assert_eq!(succeeds(&place, "grep", json!({"pattern": "."})).await.output, "file:1:needle");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 5, "all are still there, and nothing else");
    }

    // BUILTIN-45, BUILTIN-49, BUILTIN-55: what may not be read is an error, and passed over in a tree
    #[tokio::test]
    async fn what_may_not_be_read_is_said() {
        let place = Place::new();
        place.write("open/file", "needle\n").write("shut/file", "needle\n").write("secret", "needle\n");
        let mode = |name: &str, mode| {
            fs::set_permissions(place.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("secret", 0o000);
        mode("shut", 0o000);
        if fs::read(place.path().join("secret")).is_ok() {
            // Nothing is shut for the superuser.
            mode("shut", 0o700);
            return;
        }
        let denied = "Permission denied (os error 13)";
        fails(&place, "read", json!({"path": "secret"}), denied).await;
        fails(&place, "read", json!({"path": "shut/file"}), denied).await;
        fails(&place, "write", json!({"path": "shut/new", "content": ""}), denied).await;
        fails(&place, "edit", json!({"path": "secret", "oldString": "needle", "newString": ""}), denied)
            .await;
        assert_eq!(succeeds(&place, "grep", json!({"pattern": "needle"})).await.output, "open/file:1:needle");
        assert_eq!(succeeds(&place, "glob", json!({"pattern": "*"})).await.output, "open/file\nsecret");
        mode("shut", 0o700);
        assert_eq!(place.text("shut/file"), "needle\n");
    }
}
