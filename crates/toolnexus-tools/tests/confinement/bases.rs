//! Base directories in every form.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::scene::{Expect, INSIDE, Scene, calls};

/// The ways out that depend on nothing but where the base is, and the ways that stay in.
async fn holds(scene: &Scene, what: &str) {
    let root = scene.text("");
    let root = root.trim_end_matches('/');
    for path in [
        "../outside".to_owned(),
        "sub/../../outside".to_owned(),
        "missing/../../outside".to_owned(),
        "../base-evil".to_owned(),
        format!("{root}/outside"),
        format!("{root}/base-evil"),
        format!("{root}/base/../outside"),
    ] {
        scene.attack(what, &path, Expect::Refused).await;
        scene.attack(what, &format!("{path}/secret"), Expect::Refused).await;
        scene.attack(what, &format!("{path}/new.txt"), Expect::Refused).await;
    }
    for path in ["file.txt".to_owned(), "sub/../file.txt".to_owned(), format!("{root}/base/file.txt")] {
        let result = scene.call("read", json!({"path": path})).await;
        assert_eq!((result.is_error, result.output.as_str()), (false, INSIDE), "{what}: {path}");
    }
}

// BUILTIN-24, BUILTIN-27, BUILTIN-28: the same directory by other names is the same boundary
#[tokio::test]
async fn a_base_can_be_written_in_many_ways() {
    for spelling in ["base/", "base/.", "base//", "./base", "base/sub/..", "base/../base", "outside/../base"]
    {
        let scene = Scene::new();
        let base = format!("{}{spelling}", scene.text(""));
        holds(&scene.based_at(base), spelling).await;
    }
}

// BUILTIN-24: a relative base starts where the process is
#[tokio::test]
async fn a_base_can_be_relative() {
    let scene = Scene::new();
    let here = fs::canonicalize(std::env::current_dir().unwrap()).unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let base = up.join(scene.text("base").trim_start_matches('/'));
    assert!(base.is_relative());
    holds(&scene.based_at(base), "a relative base").await;
}

// BUILTIN-28
#[cfg(unix)]
#[tokio::test]
async fn a_base_can_be_a_link() {
    use std::os::unix::fs::symlink;
    for target in ["base", "chain", "outside/../base"] {
        let scene = Scene::new();
        symlink("base", scene.at("chain")).unwrap();
        symlink(target, scene.at("link")).unwrap();
        let base = scene.at("link");
        let scene = scene.based_at(base);
        holds(&scene, target).await;
        let by_link = scene.call("read", json!({"path": scene.text("link/file.txt")})).await;
        assert_eq!(by_link.output, INSIDE, "its own name is inside");
        let out = scene.text("link/../outside");
        scene.attack_directory("out of the link", &out, Expect::Refused).await;
    }
}

// BUILTIN-24, BUILTIN-27: a base is what its name means when a call is made. A host may switch the link that
// its base is; whoever can rename the base itself has the directory above, which no tool here gives.
#[cfg(unix)]
#[tokio::test]
async fn a_base_that_is_replaced_is_the_new_boundary() {
    use std::os::unix::fs::symlink;
    let scene = Scene::new();
    fs::create_dir(scene.at("next")).unwrap();
    fs::write(scene.at("next/file.txt"), "next").unwrap();
    symlink("base", scene.at("current")).unwrap();
    let base = scene.at("current");
    let scene = scene.based_at(base);
    let read = async |path: &str| scene.call("read", json!({"path": path})).await.output;
    assert_eq!(read("file.txt").await, INSIDE);
    fs::remove_file(scene.at("current")).unwrap();
    symlink("next", scene.at("current")).unwrap();
    assert_eq!(read("file.txt").await, "next");
    let old = scene.text("base/file.txt");
    assert_eq!(read(&old).await, scene.refusal("read", &old), "what was inside is not any more");
    assert_eq!(read("../outside/secret").await, scene.refusal("read", "../outside/secret"));
}

// BUILTIN-27: nothing is inside of a base that is not there, and nothing makes one
#[tokio::test]
async fn a_base_that_is_not_there_holds_nothing() {
    let scene = Scene::new();
    let base = scene.at("not/there");
    let scene = scene.based_at(base);
    let before = scene.outside();
    for path in ["file.txt", "deep/file.txt", ".", "sub/../x"] {
        scene.attack("a missing base", path, Expect::Fails).await;
    }
    scene.attack_directory("out of a missing base", "../../outside", Expect::Fails).await;
    let result = scene.call("write", json!({"path": "file.txt", "content": "x"})).await;
    let named = format!("write: baseDir {}: ", scene.base_dir().display());
    assert!(result.output.starts_with(&named), "{}", result.output);
    assert_eq!(scene.outside(), before);
    // And below one that is a file.
    fs::write(scene.at("outside/no-directory"), "").unwrap();
    let base = scene.at("outside/no-directory");
    let scene = scene.based_at(base);
    for path in ["x", "x/y", "sub/../x/y"] {
        scene.attack("a base that is a file", path, Expect::Fails).await;
    }
}

// BUILTIN-27
#[tokio::test]
async fn confinement_without_a_base_refuses_all_tools() {
    for base in [None, Some(PathBuf::new())] {
        let config = toolnexus_tools::BuiltinsConfig {
            base_dir: base,
            confine_to_base_dir: true,
            notebook_edit: true,
            ..Default::default()
        };
        for call in calls("file.txt") {
            let result = crate::common::call(&config, call.tool, call.arguments).await;
            let expected = format!("{}: confineToBaseDir is set but baseDir is empty", call.tool);
            assert_eq!((result.is_error, result.output), (true, expected));
        }
    }
}

// BUILTIN-27: below the root lies everything
#[cfg(unix)]
#[tokio::test]
async fn the_root_holds_everything() {
    let scene = Scene::new().based_at("/");
    for path in [scene.text("base/file.txt"), format!("..{}", scene.text("base/file.txt"))] {
        let result = scene.call("read", json!({"path": path})).await;
        assert_eq!((result.is_error, result.output.as_str()), (false, INSIDE), "{path}");
    }
    let path = scene.text("base/new/file.txt");
    assert!(!scene.call("write", json!({"path": path, "content": "x"})).await.is_error);
    assert_eq!(fs::read_to_string(path).unwrap(), "x");
}
