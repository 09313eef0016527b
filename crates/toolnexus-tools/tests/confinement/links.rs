//! Links that lead out, wherever they stand and whoever made them.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::scene::{Expect, INSIDE, Scene, assert_no_secret};

/// A link in the base directory.
fn link(scene: &Scene, name: &str, target: &str) {
    symlink(target, scene.at("base").join(name)).unwrap();
}

// BUILTIN-27, BUILTIN-28: links to directories outside
#[tokio::test]
async fn links_to_directories_are_refused() {
    let scene = Scene::new();
    let outside = scene.text("outside");
    link(&scene, "full", &outside);
    link(&scene, "relative", "../outside");
    link(&scene, "sub/relative", "../../outside");
    link(&scene, "up", "..");
    link(&scene, "sub/up", "../..");
    link(&scene, "root", "/");
    link(&scene, "slash", "../outside/");
    link(&scene, "dots", "./sub/.././../outside/.");
    link(&scene, "evil", "../base-evil");
    link(&scene, "first", "second");
    link(&scene, "second", "sub/third");
    link(&scene, "sub/third", "../full");
    link(&scene, "through", "full/dir/..");
    link(&scene, "into", "full/dir");
    link(&scene, "missing-first", "missing/../../outside");
    for (way, path) in [
        ("a full link", "full"),
        ("a relative link", "relative"),
        ("a relative link below", "sub/relative"),
        ("a link below, by a way around", "sub/../sub/./relative"),
        ("a link, entered twice", "sub/../full"),
        ("a link behind what is not there", "missing/../full"),
        ("a link to the parent", "up/outside"),
        ("a link to the parent, twice", "up/base/up/outside"),
        ("a link to the grandparent", "sub/up/outside"),
        ("a link with a slash at its end", "slash"),
        ("a link with dots in it", "dots"),
        ("a link to a sibling with the same beginning", "evil"),
        ("a chain of links", "first"),
        ("a link through a link", "through"),
        ("a link into a directory behind a link", "into"),
        ("the parent of where a link leads", "full/../outside"),
        ("the parent of where a link leads, and back", "full/dir/../../outside"),
        ("a link, with slashes", "full///"),
        ("a link, with a dot", "full/."),
        ("a link that steps through nothing", "missing-first"),
    ] {
        scene.attack_directory(way, path, Expect::Refused).await;
    }
    scene.attack_directory("a link to the root", &format!("root{outside}"), Expect::Refused).await;
    scene.attack_directory("a link by the base's full name", &scene.text("base/full"), Expect::Refused).await;
}

// BUILTIN-27, BUILTIN-28: links to files outside, also to such as are not there yet
#[tokio::test]
async fn links_to_files_are_refused() {
    let scene = Scene::new();
    link(&scene, "full", &scene.text("outside/secret"));
    link(&scene, "relative", "../outside/secret");
    link(&scene, "sub/relative", "../../outside/secret");
    link(&scene, "chain", "chain2");
    link(&scene, "chain2", "sub/chain3");
    link(&scene, "sub/chain3", "../relative");
    link(&scene, "notebook.ipynb", "../outside/secret");
    link(&scene, "picture.png", "../outside/secret");
    link(&scene, "device", "/dev/null");
    link(&scene, "nowhere", "../outside/new.txt");
    link(&scene, "nowhere-full", &scene.text("outside/new.txt"));
    link(&scene, "nowhere-deep", "../outside/new/deep/file.txt");
    link(&scene, "nowhere-chain", "sub/nowhere");
    link(&scene, "sub/nowhere", "../nowhere");
    for path in [
        "full",
        "relative",
        "sub/relative",
        "chain",
        "notebook.ipynb",
        "picture.png",
        "device",
        "nowhere",
        "nowhere-full",
        "nowhere-deep",
        "nowhere-chain",
        "sub/nowhere",
        "./full",
        "sub/../full",
        "missing/../full",
    ] {
        scene.attack(path, path, Expect::Refused).await;
    }
    scene.attack("by the full name", &scene.text("base/full"), Expect::Refused).await;
    // As if it were a directory: refused or not found, but never followed.
    scene.attack("a link to a file as a directory", "full/x", Expect::Fails).await;
    scene.attack("a link to a file with a slash", "full/", Expect::Refused).await;
}

// BUILTIN-28: a circle ends, and ends in an error
#[tokio::test]
async fn circles_of_links_are_errors() {
    let scene = Scene::new();
    link(&scene, "self", "self");
    link(&scene, "self-below", "self-below/x");
    link(&scene, "a", "b");
    link(&scene, "b", "a");
    link(&scene, "out-and-back", "../base/out-and-back");
    for path in
        ["self", "self/x", "self-below", "a", "b", "a/x", "a/../x", "out-and-back", "out-and-back/secret"]
    {
        scene.attack(path, path, Expect::Fails).await;
    }
}

// BUILTIN-27: links into what the kernel shows of this process
#[cfg(target_os = "linux")]
#[tokio::test]
async fn links_into_proc_are_refused() {
    use std::os::fd::AsRawFd as _;

    let scene = Scene::new();
    let outside = scene.text("outside");
    let file = fs::File::open(scene.at("outside/secret")).unwrap();
    let directory = fs::File::open(scene.at("outside")).unwrap();
    link(&scene, "root", "/proc/self/root");
    link(&scene, "cwd", "/proc/self/cwd");
    link(&scene, "dir", &format!("/proc/self/fd/{}", directory.as_raw_fd()));
    link(&scene, "file", &format!("/proc/self/fd/{}", file.as_raw_fd()));
    link(&scene, "dev-file", &format!("/dev/fd/{}", file.as_raw_fd()));
    link(&scene, "stdin", "/dev/stdin");
    scene.attack_directory("the root of this process", &format!("root{outside}"), Expect::Refused).await;
    scene.attack_directory("an open directory", "dir", Expect::Refused).await;
    scene.attack_directory("the working directory", "cwd", Expect::Refused).await;
    for path in ["file", "dev-file", "stdin", "root", "cwd/Cargo.toml"] {
        scene.attack(path, path, Expect::Refused).await;
    }
}

// BUILTIN-27, BUILTIN-30: what a command put there does not lead the other tools out
#[tokio::test]
async fn a_link_that_a_command_made_is_refused() {
    let scene = Scene::new();
    let made = scene
        .call(
            "bash",
            json!({"command": "ln -s ../outside made && ln -s ../outside/secret made-file && mkdir d"}),
        )
        .await;
    assert!(!made.is_error, "{made:?}");
    scene.attack_directory("a link that was made", "made", Expect::Refused).await;
    scene.attack("a link that was made", "made-file", Expect::Refused).await;
    // A directory that was there becomes a link between two calls.
    assert!(!scene.call("write", json!({"path": "d/f", "content": "x"})).await.is_error);
    let swapped = scene.call("bash", json!({"command": "rm -r d && ln -s ../outside d"})).await;
    assert!(!swapped.is_error, "{swapped:?}");
    scene.attack_directory("a directory that became a link", "d", Expect::Refused).await;
}

// BUILTIN-27: one patch, of which a part leads out, does nothing
#[tokio::test]
async fn a_patch_is_refused_whole() {
    let scene = Scene::new();
    link(&scene, "link", "../outside");
    let before = scene.outside();
    for section in [
        "*** Add File: link/new.txt\n+x",
        "*** Add File: link/new/deep.txt\n+x",
        "*** Update File: link/secret\n@@\n- \"nbformat\": 4,",
        "*** Delete File: link/secret",
        "*** Update File: file.txt\n*** Move to: link/file.txt\n@@\n inside",
        "*** Update File: file.txt\n*** Move to: link/secret\n@@\n inside",
        "*** Update File: link/secret\n*** Move to: mine\n@@\n- \"nbformat\": 4,",
    ] {
        for order in [
            format!("*** Add File: first.txt\n+x\n{section}"),
            format!("{section}\n*** Add File: first.txt\n+x"),
            format!("*** Add File: deep/first.txt\n+x\n{section}\n*** Delete File: sub/a.txt"),
        ] {
            let text = format!("*** Begin Patch\n{order}\n*** End Patch");
            let result = scene.call("apply_patch", json!({"patchText": text})).await;
            assert!(
                result.is_error && result.output.contains("resolves outside baseDir"),
                "{text}\n{result:?}"
            );
            assert_no_secret(&result, &text);
            assert_eq!(scene.outside(), before, "{text}");
            assert!(!scene.at("base/first.txt").exists() && !scene.at("base/deep").exists(), "{text}");
            assert!(scene.at("base/sub/a.txt").exists() && !scene.at("base/mine").exists(), "{text}");
            assert_eq!(fs::read_to_string(scene.at("base/file.txt")).unwrap(), INSIDE);
        }
    }
}

// BUILTIN-55: a walk inside does not leave through the links that it meets
#[tokio::test]
async fn walks_do_not_follow_links_out() {
    let scene = Scene::new();
    link(&scene, "dir", "../outside");
    link(&scene, "file", "../outside/secret");
    link(&scene, "sub/up", "../..");
    let rows = scene.call("glob", json!({"pattern": "**"})).await;
    assert_eq!(rows.output, "file.txt\nsub/a.txt");
    for pattern in ["dir/*", "dir/**", "sub/up/outside/*", "file", "*/secret"] {
        let rows = scene.call("glob", json!({"pattern": pattern})).await;
        assert_eq!((rows.is_error, rows.output.as_str()), (false, ""), "{pattern}");
    }
    let rows = scene.call("grep", json!({"pattern": "planted|below"})).await;
    assert_eq!(rows.output, "sub/a.txt:1:below");
}

// A hard link to a file outside is a file inside: there is nothing to tell it by. What is written goes to a
// new file of that name (BUILTIN-54), so the one outside keeps its content.
#[tokio::test]
async fn a_hard_link_is_a_file_of_its_own() {
    let scene = Scene::new();
    fs::hard_link(scene.at("outside/secret"), scene.at("base/hard")).unwrap();
    let before = fs::read(scene.at("outside/secret")).unwrap();
    assert_eq!(scene.call("read", json!({"path": "hard"})).await.output.as_bytes(), before);
    let edited = scene.call("edit", json!({"path": "hard", "oldString": "nbformat", "newString": "x"})).await;
    assert!(edited.is_error, "twice in it");
    let edited = scene.call("edit", json!({"path": "hard", "oldString": ": 5", "newString": ": 4"})).await;
    assert!(!edited.is_error, "{edited:?}");
    assert_eq!(fs::read(scene.at("outside/secret")).unwrap(), before);
    assert_ne!(fs::read(scene.at("base/hard")).unwrap(), before);
}
