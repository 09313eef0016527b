//! A tree that changes under the tools' hands: a directory and a link to the outside take turns under one
//! name, all the time, while every tool works behind it.
//!
//! What a call says is left to chance. What must hold is that no call ever reads, changes, creates or
//! deletes anything outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::scene::{Scene, assert_no_secret, calls};

/// Swaps two entries under one name until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    /// `name` is `first` and `second` in turns; both must be there, beside it.
    fn start(name: PathBuf, first: PathBuf, second: PathBuf) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    for entry in [&first, &second] {
                        fs::rename(entry, &name).unwrap();
                        std::thread::yield_now();
                        fs::rename(&name, entry).unwrap();
                    }
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let swapper = Swapper { stop, swaps, thread: Some(thread) };
        crate::common::wait_until("the first swap", || swapper.swaps.load(Ordering::Relaxed) > 0);
        swapper
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
    fs::create_dir_all(scene.at("base/first/dir")).unwrap();
    fs::write(scene.at("base/first/secret"), "inside").unwrap();
    symlink("../outside", scene.at("base/second")).unwrap();
    let base = scene.at("base");
    let swapper = Swapper::start(base.join("swap"), base.join("first"), base.join("second"));
    hammer(&scene, &["swap", "swap/secret", "swap/new.txt", "swap/new/deep.txt", "swap/dir/secret", "."], 40)
        .await;
    drop(swapper);
}

// BUILTIN-27: a file that becomes a link
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_a_link_leads_nowhere() {
    let scene = Scene::new();
    let base = scene.at("base");
    fs::write(base.join("first"), "inside").unwrap();
    symlink("../outside/secret", base.join("second")).unwrap();
    let swapper = Swapper::start(base.join("swap"), base.join("first"), base.join("second"));
    hammer(&scene, &["swap", "."], 100).await;
    drop(swapper);
}

// BUILTIN-27: a directory that becomes a link, deep below and one of several
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_deep_below_that_becomes_a_link_leads_nowhere() {
    let scene = Scene::new();
    let deep = scene.at("base/a/b");
    fs::create_dir_all(deep.join("first/dir")).unwrap();
    symlink(scene.at("outside"), deep.join("second")).unwrap();
    let swapper = Swapper::start(deep.join("c"), deep.join("first"), deep.join("second"));
    hammer(&scene, &["a/b/c/dir/secret", "a/b/c/secret", "a/b/c/../c/new.txt", "a"], 40).await;
    drop(swapper);
}
