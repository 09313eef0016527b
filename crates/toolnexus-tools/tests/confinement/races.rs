//! A tree that changes under the tools' hands: a directory and a link to the outside take turns under one
//! name, all the time, while every tool works behind it.
//!
//! What a call says is left to chance. What must hold is that no call ever reads, changes, creates or
//! deletes anything outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde_json::json;

use crate::scene::{Scene, assert_no_secret, calls};

/// What stands under the name while the link does not.
#[derive(Clone, Copy)]
enum Innocent {
    Directory,
    File,
}

/// Makes a name one thing and another in turns until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    /// `name` is something innocent and a link to `outside` in turns. Whatever the tools do to it in between
    /// is swept away.
    fn start(name: PathBuf, innocent: Innocent, outside: PathBuf) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
            move || {
                let next = name.with_extension("next");
                while !stop.load(Ordering::Relaxed) {
                    sweep(&next);
                    match innocent {
                        Innocent::Directory => {
                            fs::create_dir_all(next.join("dir")).unwrap();
                            fs::write(next.join("secret"), "inside").unwrap();
                        }
                        Innocent::File => fs::write(&next, "inside").unwrap(),
                    }
                    swap(&next, &name);
                    sweep(&next);
                    symlink(&outside, &next).unwrap();
                    swap(&next, &name);
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        crate::common::wait_until("the first swap", || swaps.load(Ordering::Relaxed) > 0);
        Swapper { stop, thread: Some(thread) }
    }
}

/// Puts `next` under `name`, whatever is there; `next` may be lost to a tool that was faster.
fn swap(next: &Path, name: &Path) {
    sweep(name);
    let _ = fs::rename(next, name);
    std::thread::yield_now();
}

/// Removes what is there, following no link. It is moved away first; a call that holds a directory may
/// still put something into it.
fn sweep(path: &Path) {
    let trash = path.with_extension("trash");
    while fs::rename(path, &trash).is_ok() || fs::symlink_metadata(&trash).is_ok() {
        let _ = match fs::symlink_metadata(&trash) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&trash),
            _ => fs::remove_file(&trash),
        };
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Calls every tool but `bash` again and again with these paths. A command's working directory is entered by
/// the system, by its path; what a command may reach is not promised anyway (BUILTIN-30).
async fn hammer(scene: &Scene, paths: &[&str], rounds: usize) {
    let before = scene.outside();
    for round in 0..rounds {
        for path in paths {
            for call in calls(path).into_iter().filter(|call| call.tool != "bash") {
                let result = scene.call(call.tool, call.arguments.clone()).await;
                assert_no_secret(&result, &format!("round {round}: {} {}", call.tool, call.arguments));
            }
        }
        assert_eq!(scene.outside(), before, "round {round}");
    }
}

// BUILTIN-27: a directory on the way that becomes a link
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_becomes_a_link_leads_nowhere() {
    let scene = Scene::new();
    let swapper = Swapper::start(scene.at("base/swap"), Innocent::Directory, scene.at("outside"));
    hammer(&scene, &["swap", "swap/secret", "swap/new.txt", "swap/new/deep.txt", "swap/dir/secret", "."], 20)
        .await;
    drop(swapper);
}

// BUILTIN-27: a file that becomes a link
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_a_link_leads_nowhere() {
    let scene = Scene::new();
    let swapper = Swapper::start(scene.at("base/swap"), Innocent::File, scene.at("outside/secret"));
    hammer(&scene, &["swap", "."], 60).await;
    drop(swapper);
}

// BUILTIN-27: a file that becomes a link to what is not there yet
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_a_link_to_nothing_creates_nothing() {
    let scene = Scene::new();
    let swapper = Swapper::start(scene.at("base/swap"), Innocent::File, scene.at("outside/new.txt"));
    hammer(&scene, &["swap", "sub/../swap"], 60).await;
    drop(swapper);
}

// BUILTIN-27: a directory that becomes a link, deep below
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_deep_below_that_becomes_a_link_leads_nowhere() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("base/a/b")).unwrap();
    let swapper = Swapper::start(scene.at("base/a/b/c"), Innocent::Directory, scene.at("outside"));
    hammer(&scene, &["a/b/c/dir/secret", "a/b/c/secret", "a/b/c/../c/new.txt", "a"], 20).await;
    drop(swapper);
}

// BUILTIN-27, BUILTIN-55: a walk that meets the link while it is a directory
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_names_nothing_of_the_outside() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("base/a/b")).unwrap();
    let swapper = Swapper::start(scene.at("base/a/b/c"), Innocent::Directory, scene.at("outside"));
    for round in 0..300 {
        for (tool, arguments) in
            [("glob", json!({"pattern": "**"})), ("grep", json!({"pattern": "planted", "path": "a"}))]
        {
            let result = scene.call(tool, arguments).await;
            assert_no_secret(&result, &format!("round {round}: {result:?}"));
        }
    }
    drop(swapper);
}
