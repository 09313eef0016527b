//! What a confined model may do: everything inside.

use std::fs;

use serde_json::{Value, json};
use toolnexus_core::ToolResult;

use crate::scene::Scene;

async fn succeeds(scene: &Scene, tool: &str, arguments: Value) -> ToolResult {
    let result = scene.call(tool, arguments.clone()).await;
    assert!(!result.is_error, "{tool} {arguments} -> {result:?}");
    result
}

fn patch(body: &str) -> Value {
    json!({"patchText": format!("*** Begin Patch\n{body}\n*** End Patch")})
}

const NOTEBOOK: &str = "{\"cells\":[]}";

/// Does everything to one file that is not there yet, by one path.
async fn full_life(scene: &Scene, path: &str) {
    succeeds(scene, "write", json!({"path": path, "content": "one\n"})).await;
    assert_eq!(succeeds(scene, "read", json!({"path": path})).await.output, "one\n", "{path}");
    succeeds(scene, "edit", json!({"path": path, "oldString": "one", "newString": "two"})).await;
    assert!(
        succeeds(scene, "grep", json!({"pattern": "two", "path": path})).await.output.ends_with(":1:two")
    );
    succeeds(scene, "apply_patch", patch(&format!("*** Update File: {path}\n@@\n-two\n+three"))).await;
    assert_eq!(succeeds(scene, "read", json!({"path": path})).await.output, "three\n", "{path}");
    succeeds(scene, "apply_patch", patch(&format!("*** Delete File: {path}"))).await;
    succeeds(scene, "apply_patch", patch(&format!("*** Add File: {path}\n+{NOTEBOOK}"))).await;
    succeeds(scene, "notebook_edit", json!({"path": path, "mode": "insert", "source": "x"})).await;
    let moved = patch(&format!("*** Update File: {path}\n*** Move to: moved\n@@\n+"));
    succeeds(scene, "apply_patch", moved).await;
    let back = patch(&format!("*** Update File: moved\n*** Move to: {path}\n@@\n+"));
    succeeds(scene, "apply_patch", back).await;
    succeeds(scene, "apply_patch", patch(&format!("*** Delete File: {path}"))).await;
    assert!(scene.call("read", json!({"path": path})).await.is_error, "{path}");
}

// BUILTIN-28: each of these is inside
#[tokio::test]
async fn every_spelling_of_a_place_inside_is_fine() {
    let scene = Scene::new();
    let base = scene.text("base");
    let before = scene.outside();
    for path in [
        "new.txt".to_owned(),
        "./new.txt".to_owned(),
        "sub/new.txt".to_owned(),
        "sub/../new.txt".to_owned(),
        "sub//new.txt".to_owned(),
        "sub/./new.txt".to_owned(),
        "a/b/c/new.txt".to_owned(),
        "....//x".to_owned(),
        ".../x".to_owned(),
        "..x".to_owned(),
        "x..".to_owned(),
        ".x".to_owned(),
        "~".to_owned(),
        "$HOME".to_owned(),
        "with space.txt".to_owned(),
        "naïve-名前.txt".to_owned(),
        "back\\slash".to_owned(),
        "..\\x".to_owned(),
        "%2e%2e".to_owned(),
        "-rf".to_owned(),
        "a\u{202e}b".to_owned(),
        "x".repeat(200),
        format!("{base}/new.txt"),
        format!("{base}/sub/../new.txt"),
        format!("{base}//new.txt"),
        format!("{base}/../base/new.txt"),
        "../base/new.txt".to_owned(),
        "sub/../../base/sub/new.txt".to_owned(),
    ] {
        if cfg!(windows) && path.contains('\\') {
            continue;
        }
        full_life(&scene, &path).await;
        assert_eq!(scene.outside(), before, "{path}");
    }
}

// BUILTIN-25: directories
#[tokio::test]
async fn every_spelling_of_a_directory_inside_is_fine() {
    let scene = Scene::new();
    let base = scene.text("base");
    for path in [".", "./", "", "sub/..", "../base", &base, &format!("{base}/"), "missing/.."] {
        let rows = succeeds(&scene, "glob", json!({"pattern": "**", "path": path})).await;
        assert_eq!(rows.output, "file.txt\nsub/a.txt", "{path}");
        let rows = succeeds(&scene, "grep", json!({"pattern": "below", "path": path})).await;
        assert_eq!(rows.output, "sub/a.txt:1:below", "{path}");
        #[cfg(unix)]
        assert_eq!(
            succeeds(&scene, "bash", json!({"command": "pwd -P", "workdir": path})).await.output.trim(),
            base
        );
    }
    let rows = succeeds(&scene, "glob", json!({"pattern": format!("{base}/sub/*")})).await;
    assert_eq!(rows.output, "sub/a.txt");
}

// BUILTIN-27, BUILTIN-54: links from inside to inside are followed, and stay links
#[cfg(unix)]
#[tokio::test]
async fn links_that_stay_inside_are_fine() {
    use std::os::unix::fs::symlink;
    let scene = Scene::new();
    let base = scene.text("base");
    for (name, target) in [
        ("dir", "sub"),
        ("dir-full", &format!("{base}/sub")),
        ("sub/self", "."),
        ("sub/up", ".."),
        ("out-and-in", "../base/sub"),
        ("chain", "dir"),
    ] {
        symlink(target, scene.at("base").join(name)).unwrap();
    }
    for path in
        ["dir/n", "dir-full/n", "sub/self/n", "sub/up/sub/n", "out-and-in/n", "chain/n", "chain/self/self/n"]
    {
        full_life(&scene, path).await;
    }
    for (link, target) in [("file-link", "file.txt"), ("file-full", &format!("{base}/file.txt"))] {
        symlink(target, scene.at("base").join(link)).unwrap();
        succeeds(&scene, "write", json!({"path": link, "content": link})).await;
        assert_eq!(fs::read_to_string(scene.at("base/file.txt")).unwrap(), link);
        assert!(fs::symlink_metadata(scene.at("base").join(link)).unwrap().is_symlink());
    }
    // To what is not there yet, but inside.
    symlink("later/new.txt", scene.at("base/later-link")).unwrap();
    succeeds(&scene, "write", json!({"path": "later-link", "content": "made"})).await;
    assert_eq!(fs::read_to_string(scene.at("base/later/new.txt")).unwrap(), "made");
}

// BUILTIN-30: a command reaches what the process reaches; the documentation says so
#[cfg(unix)]
#[tokio::test]
async fn commands_are_not_held() {
    let scene = Scene::new();
    let result = succeeds(&scene, "bash", json!({"command": "cat ../outside/secret"})).await;
    assert!(result.output.contains(crate::scene::SECRET));
}
