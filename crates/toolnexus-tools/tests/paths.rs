//! Where paths lead, and where they must not.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{Place, call};
use serde_json::json;
use toolnexus_core::ToolResult;
use toolnexus_tools::BuiltinsConfig;

async fn read(config: &BuiltinsConfig, path: &str) -> ToolResult {
    call(config, "read", json!({"path": path})).await
}

fn outside(place: &Place, tool: &str, path: &str) -> ToolResult {
    ToolResult::failure(format!("{tool}: {path} resolves outside baseDir {}", place.path().display()))
}

fn success(text: &str) -> ToolResult {
    ToolResult::success(text)
}

// BUILTIN-24, BUILTIN-25
#[tokio::test]
async fn relative_paths_start_at_the_base() {
    let (place, other) = (Place::new(), Place::new());
    place.write("a/f.txt", "mine");
    other.write("f.txt", "other");
    assert_eq!(read(&place.config(), "a/f.txt").await, success("mine"));
    assert_eq!(read(&place.config(), "a/../a/./f.txt").await, success("mine"));
    assert_eq!(
        read(&place.config(), &other.at("f.txt")).await,
        success("other"),
        "absolute ones are used as they are"
    );
    let bash = call(&place.config(), "bash", json!({"command": "cat f.txt", "workdir": "a"})).await;
    assert_eq!(bash.output, "mine");
    let edit = json!({"path": "a/f.txt", "oldString": "mine", "newString": "still mine"});
    assert!(!call(&place.config(), "edit", edit).await.is_error);
    let write = json!({"path": "a/g.txt", "content": "new"});
    assert!(!call(&place.config(), "write", write).await.is_error);
    assert_eq!((place.text("a/f.txt").as_str(), place.text("a/g.txt").as_str()), ("still mine", "new"));
    let write = json!({"path": other.at("g.txt"), "content": "absolute"});
    assert!(!call(&place.config(), "write", write).await.is_error);
    assert_eq!(other.text("g.txt"), "absolute");
}

// BUILTIN-24
#[tokio::test]
async fn without_a_base_the_process_directory_is_it() {
    for config in
        [BuiltinsConfig::default(), BuiltinsConfig { base_dir: Some("".into()), ..Default::default() }]
    {
        let cargo = read(&config, "Cargo.toml").await;
        assert!(cargo.output.contains("name = \"toolnexus-tools\""), "{}", cargo.output);
    }
}

// BUILTIN-24
#[tokio::test]
async fn nothing_is_expanded() {
    let place = Place::new();
    place.write("~/f", "tilde").write("$HOME/f", "variable");
    assert_eq!(read(&place.config(), "~/f").await, success("tilde"));
    assert_eq!(read(&place.config(), "$HOME/f").await, success("variable"));
}

// BUILTIN-27: case 50
#[tokio::test]
async fn what_leads_out_of_the_base_is_refused() {
    let (place, other) = (Place::new(), Place::new());
    place.write("in/f.txt", "mine");
    other.write("x", "secret");
    let config = place.confined();
    for path in
        ["../x", "in/../../x", "/etc/passwd", "missing/../../x", "in/f.txt/../../../x", &other.at("x")]
    {
        assert_eq!(read(&config, path).await, outside(&place, "read", path));
    }
    assert_eq!(read(&config, "in/f.txt").await, success("mine"));
    assert_eq!(read(&config, &place.at("in/f.txt")).await, success("mine"));
    assert_eq!(read(&config, "in/../in/f.txt").await, success("mine"));
}

// BUILTIN-27
#[tokio::test]
async fn every_path_argument_is_held_back() {
    let place = Place::new();
    let config = place.confined();
    let glob = call(&config, "glob", json!({"pattern": "*", "path": ".."})).await;
    assert_eq!(glob, outside(&place, "glob", ".."));
    let write = call(&config, "write", json!({"path": "../x", "content": ""})).await;
    assert_eq!(write, outside(&place, "write", "../x"));
    let edit = call(&config, "edit", json!({"path": "/x", "oldString": "a", "newString": "b"})).await;
    assert_eq!(edit, outside(&place, "edit", "/x"));
    let bash = call(&config, "bash", json!({"command": "pwd", "workdir": "/"})).await;
    assert_eq!(bash.output, outside(&place, "bash", "/").output);
    let inside = call(&config, "bash", json!({"command": "echo here"})).await;
    assert_eq!(inside.output, "here\n");
}

// BUILTIN-24, BUILTIN-28: only `.` and `..` are special
#[cfg(unix)]
#[tokio::test]
async fn names_of_dots_are_names() {
    let place = Place::new();
    for config in [place.config(), place.confined()] {
        for name in ["...", "d/...", "d/....", "..../x", "d/..a", "d/a.."] {
            let write = call(&config, "write", json!({"path": name, "content": name})).await;
            assert!(!write.is_error, "{}", write.output);
            assert_eq!(read(&config, name).await, success(name));
            assert_eq!(place.text(name), name);
        }
        for name in [".", "d/.", "d/..", "new/.", "new/"] {
            let write = call(&config, "write", json!({"path": name, "content": ""})).await;
            assert_eq!(write, ToolResult::failure(format!("write: {name} is a directory")));
        }
    }
}

// BUILTIN-24, D15: what no system could open is not followed, which would take minutes
#[tokio::test]
async fn a_path_without_end_is_refused() {
    let place = Place::new();
    for config in [place.config(), place.confined()] {
        for path in ["a/".repeat(500_000), "x".repeat(1_000_000)] {
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n*** End Patch");
            for (tool, arguments) in [
                ("read", json!({"path": path})),
                ("write", json!({"path": path, "content": ""})),
                ("edit", json!({"path": path, "oldString": "a", "newString": "b"})),
                ("apply_patch", json!({"patchText": patch})),
                ("glob", json!({"pattern": "*", "path": path})),
                ("grep", json!({"pattern": "x", "path": path})),
                ("bash", json!({"command": "true", "workdir": path})),
            ] {
                let result = call(&config, tool, arguments).await;
                assert!(result.is_error);
                assert_eq!(result.output, format!("{tool}: a path of 1000000 bytes is too long"));
            }
        }
    }
}

// BUILTIN-27
#[tokio::test]
async fn confinement_needs_a_base() {
    for base_dir in [None, Some("".into())] {
        let config = BuiltinsConfig { confine_to_base_dir: true, base_dir, ..Default::default() };
        for (tool, arguments) in [
            ("read", json!({"path": "x"})),
            ("write", json!({"path": "x", "content": ""})),
            ("edit", json!({"path": "x", "oldString": "a", "newString": "b"})),
            ("glob", json!({"pattern": "*"})),
            ("bash", json!({"command": "true"})),
        ] {
            let result = call(&config, tool, arguments).await;
            assert!(result.is_error);
            assert_eq!(result.output, format!("{tool}: confineToBaseDir is set but baseDir is empty"));
        }
    }
}

// BUILTIN-28: components are compared, not texts
#[tokio::test]
async fn a_sibling_of_the_same_beginning_is_outside() {
    let place = Place::new();
    place
        .write("base/f", "mine")
        .write("base-2/f", "other")
        .write("base/..../f", "dots")
        .write("base/..f", "dot file");
    let config = BuiltinsConfig {
        base_dir: Some(place.path().join("base")),
        confine_to_base_dir: true,
        ..Default::default()
    };
    let base = place.at("base");
    for path in ["../base-2/f".to_owned(), place.at("base-2/f")] {
        let refused = format!("read: {path} resolves outside baseDir {base}");
        assert_eq!(read(&config, &path).await, ToolResult::failure(refused));
    }
    assert_eq!(read(&config, "....//f").await, success("dots"));
    assert_eq!(read(&config, "..f").await, success("dot file"));
}

// BUILTIN-28
#[tokio::test]
async fn a_file_that_is_not_there_yet_is_inside() {
    let place = Place::new();
    let result = read(&place.confined(), "new/dir/f.txt").await;
    assert_eq!(result, ToolResult::failure("read: file not found: new/dir/f.txt"));
}

// BUILTIN-27: a base that is not there holds nothing, and is not made
#[tokio::test]
async fn a_base_that_is_missing_is_named() {
    let place = Place::new();
    let base = place.path().canonicalize().unwrap().join("missing");
    let config =
        BuiltinsConfig { base_dir: Some(base.clone()), confine_to_base_dir: true, ..Default::default() };
    let write = call(&config, "write", json!({"path": "x", "content": ""})).await;
    assert!(write.is_error && write.output.starts_with(&format!("write: baseDir {}: ", base.display())));
    assert!(!base.exists());
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    // BUILTIN-27, BUILTIN-28: case 50
    #[tokio::test]
    async fn a_link_out_of_the_base_is_refused() {
        let (place, other) = (Place::new(), Place::new());
        other.write("x", "secret");
        place.write("f", "mine").write("sub/f", "below");
        symlink(other.path(), place.path().join("dir")).unwrap();
        symlink(other.path().join("x"), place.path().join("file")).unwrap();
        symlink(other.path().join("not-there-yet"), place.path().join("dangling")).unwrap();
        symlink("file", place.path().join("twice")).unwrap();
        symlink("f", place.path().join("fine")).unwrap();
        symlink("../f", place.path().join("sub/up")).unwrap();
        let config = place.confined();
        for path in [
            "dir/x",
            "file",
            "dangling",
            "twice",
            "dir/new/file",
            "missing/../file",
            "sub/../dir/x",
            "dir/..",
        ] {
            assert_eq!(read(&config, path).await, outside(&place, "read", path));
        }
        assert_eq!(read(&config, "fine").await, success("mine"));
        assert_eq!(read(&config, "sub/up").await, success("mine"));
        let glob = call(&config, "glob", json!({"pattern": "*", "path": "dir"})).await;
        assert_eq!(glob, outside(&place, "glob", "dir"));
    }

    // BUILTIN-28
    #[tokio::test]
    async fn a_base_behind_a_link_is_itself_inside() {
        let place = Place::new();
        place.write("real/f", "mine");
        symlink("real", place.path().join("link")).unwrap();
        let config = BuiltinsConfig {
            base_dir: Some(place.path().join("link")),
            confine_to_base_dir: true,
            ..Default::default()
        };
        assert_eq!(read(&config, "f").await, success("mine"));
        assert_eq!(read(&config, &place.at("real/f")).await, success("mine"));
    }

    // BUILTIN-28: a circle of links ends in an error
    #[tokio::test]
    async fn a_circle_of_links_is_an_error() {
        let place = Place::new();
        symlink("b", place.path().join("a")).unwrap();
        symlink("a", place.path().join("b")).unwrap();
        let result = read(&place.confined(), "a/x").await;
        assert!(result.is_error && result.output.starts_with("read: "), "{}", result.output);
    }

    // BUILTIN-30: documented, and so
    #[tokio::test]
    async fn confinement_is_no_sandbox_for_commands() {
        let (place, other) = (Place::new(), Place::new());
        other.write("x", "reached");
        let command = format!("cat '{}'", other.at("x"));
        let result = call(&place.confined(), "bash", json!({"command": command})).await;
        assert_eq!(result.output, "reached");
    }
}
