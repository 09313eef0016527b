//! What holds for every tool that touches files: races, permissions, failures in the middle.
//!
//! Some of this cannot be seen by a superuser, who may do anything, and some needs a limit that
//! a whole process has. Such a test runs itself again in a process of its own: as an ordinary
//! user, under a limit of its file sizes.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Place, call, facts};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;

/// A user and a group that own nothing.
const NOBODY: u32 = 65_534;

/// Tells a child what it is; it holds the path of the directory that its parent made.
const CHILD: &str = "TOOLNEXUS_FILES_TEST";

/// How a child is to run.
#[derive(Clone, Copy, PartialEq)]
enum As {
    /// As a user who is no superuser.
    Ordinary,
    /// The same, and no file can grow beyond some kilobytes.
    Limited,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs `body` in a process of its own, where `prepare` has made its directory beforehand as the
/// user who runs the tests. Call it as the whole of the test that is called `name`.
fn child(name: &str, how: As, prepare: impl FnOnce(&Place), body: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os(CHILD) {
        return body(Path::new(&dir));
    }
    let place = Place::new();
    prepare(&place);
    // A shell sets the limit, and hands down that its signal is ignored.
    let limit = if how == As::Limited { "trap '' XFSZ; ulimit -f 16;" } else { "" };
    let script = format!("{limit} [ -w \"${CHILD}\" ] || exit 126; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(CHILD, place.path()).current_dir("/");
    if is_root() {
        chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(126) {
        eprintln!("{name}: skipped, an ordinary user cannot run this binary or use this directory: {said}");
        return;
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Calls a tool below `base` and waits.
fn run(base: &Path, name: &str, arguments: Value) -> ToolResult {
    let config = toolnexus_tools::BuiltinsConfig { base_dir: Some(base.to_path_buf()), ..Default::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(call(&config, name, arguments))
}

fn write(base: &Path, path: &str, content: &str) -> ToolResult {
    run(base, "write", json!({"path": path, "content": content}))
}

fn edit(base: &Path, path: &str, old: &str, new: &str) -> ToolResult {
    run(base, "edit", json!({"path": path, "oldString": old, "newString": new}))
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn entries(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

fn denied(tool: &str) -> ToolResult {
    ToolResult::failure(format!("{tool}: Permission denied (os error 13)"))
}

// BUILTIN-54: no temporary file can be made, so the file itself is written
#[test]
fn a_file_in_a_directory_closed_to_writing_is_written_in_place() {
    child(
        "a_file_in_a_directory_closed_to_writing_is_written_in_place",
        As::Ordinary,
        |_| {},
        |base| {
            let dir = base.join("dir");
            let file = dir.join("f");
            fs::create_dir(&dir).unwrap();
            fs::write(&file, "a much longer old content\n").unwrap();
            fs::hard_link(&file, base.join("other")).unwrap();
            set_mode(&file, 0o640);
            set_mode(&dir, 0o500);
            let before = inode(&file);
            assert_eq!(write(base, "dir/f", "new\n").output, "Wrote 4 bytes to dir/f");
            assert_eq!(edit(base, "dir/f", "new", "newer").output, "Edited dir/f (1 replacement)");
            assert_eq!(fs::read_to_string(&file).unwrap(), "newer\n");
            assert_eq!((inode(&file), mode(&file)), (before, 0o640));
            assert_eq!(fs::read_to_string(base.join("other")).unwrap(), "newer\n", "it is the same file");
            // There is no way for a new one.
            assert_eq!(write(base, "dir/new", "x"), denied("write"));
            assert_eq!(write(base, "dir/sub/new", "x"), denied("write"));
            assert_eq!(entries(&dir), 1);
            // A file that can be written and not read.
            set_mode(&file, 0o200);
            let blind = write(base, "dir/f", "blind\n");
            assert_eq!(blind.output, "Wrote 6 bytes to dir/f");
            assert_eq!(facts(&blind)["diff"], "Binary files a/dir/f and b/dir/f differ\n");
            set_mode(&file, 0o600);
            assert_eq!(fs::read_to_string(&file).unwrap(), "blind\n");
            set_mode(&dir, 0o700);
        },
    );
}

// BUILTIN-54: in a sticky directory there can be a temporary file, and it cannot take the name
#[test]
fn a_file_of_another_in_a_sticky_directory_is_written_in_place() {
    if !is_root() && std::env::var_os(CHILD).is_none() {
        eprintln!("skipped: only a superuser can make a file of another user");
        return;
    }
    let prepare = |place: &Place| {
        place.write("dir/f", "old\n");
        set_mode(&place.path().join("dir/f"), 0o666);
        set_mode(&place.path().join("dir"), 0o1777);
    };
    child("a_file_of_another_in_a_sticky_directory_is_written_in_place", As::Ordinary, prepare, |base| {
        let file = base.join("dir/f");
        let before = inode(&file);
        assert_eq!(write(base, "dir/f", "new").output, "Wrote 3 bytes to dir/f");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!((inode(&file), entries(&base.join("dir"))), (before, 1));
    });
}

// BUILTIN-54: neither can there be a temporary file where all files are the kernel's
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_the_kernel_is_written_in_place() {
    let place = Place::new();
    let wrote = write(place.path(), "/proc/self/comm", "renamed");
    assert_eq!(wrote.output, "Wrote 7 bytes to /proc/self/comm");
    assert_eq!(run(place.path(), "read", json!({"path": "/proc/self/comm"})).output, "renamed\n");
}

// BUILTIN-49, BUILTIN-45, BUILTIN-52: what the system refuses is refused, and a file closed to
// writing stays closed though a rename could replace it
#[test]
fn closed_files_stay_closed() {
    child(
        "closed_files_stay_closed",
        As::Ordinary,
        |_| {},
        |base| {
            let file = base.join("f");
            fs::write(&file, "old\n").unwrap();
            set_mode(&file, 0o444);
            assert_eq!(write(base, "f", "new"), denied("write"));
            assert_eq!(edit(base, "f", "old", "new"), denied("edit"));
            assert_eq!(fs::read_to_string(&file).unwrap(), "old\n");
            set_mode(&file, 0o000);
            assert_eq!(run(base, "read", json!({"path": "f"})), denied("read"));
            assert_eq!(edit(base, "f", "old", "new"), denied("edit"));
            // Neither is there a way into a directory that is closed.
            fs::create_dir(base.join("dir")).unwrap();
            fs::write(base.join("dir/g"), "theirs").unwrap();
            set_mode(&base.join("dir"), 0o000);
            assert_eq!(run(base, "read", json!({"path": "dir/g"})), denied("read"));
            assert_eq!(write(base, "dir/g", "x"), denied("write"));
            assert_eq!(write(base, "dir/sub/g", "x"), denied("write"));
            assert_eq!(edit(base, "dir/g", "a", "b"), denied("edit"));
            set_mode(&base.join("dir"), 0o700);
            assert_eq!((entries(base), entries(&base.join("dir"))), (2, 1));
        },
    );
}

// BUILTIN-54: the old content stays when there is no room for the new one
#[test]
fn a_write_that_fails_in_the_middle_leaves_the_old_content() {
    child(
        "a_write_that_fails_in_the_middle_leaves_the_old_content",
        As::Limited,
        |_| {},
        |base| {
            let big = "0123456789abcde\n".repeat(4096);
            let too_large = |tool: &str| ToolResult::failure(format!("{tool}: File too large (os error 27)"));
            let dir = base.join("dir");
            fs::create_dir(&dir).unwrap();
            for file in ["dir/f", "f"] {
                fs::write(base.join(file), "old content\n").unwrap();
            }
            assert_eq!(write(base, "f", &big), too_large("write"));
            assert_eq!(edit(base, "f", "content", &big), too_large("edit"));
            assert_eq!(write(base, "a/b/new", &big), too_large("write"), "and no directory stays");
            assert_eq!(entries(base), 2);
            // In place, where the old content must be put back.
            set_mode(&dir, 0o500);
            assert_eq!(write(base, "dir/f", &big), too_large("write"));
            assert_eq!(edit(base, "dir/f", "content", &big), too_large("edit"));
            for file in ["dir/f", "f"] {
                assert_eq!(fs::read_to_string(base.join(file)).unwrap(), "old content\n");
            }
            set_mode(&dir, 0o700);
        },
    );
}

// BUILTIN-54: owner and group are kept by who may
#[test]
fn a_superuser_keeps_owner_and_group() {
    if !is_root() {
        eprintln!("skipped: only a superuser can give files away");
        return;
    }
    let place = Place::new();
    place.write("f", "old");
    let file = place.path().join("f");
    chown(&file, Some(1234), Some(5678)).unwrap();
    set_mode(&file, 0o4640);
    assert_eq!(write(place.path(), "f", "new").output, "Wrote 3 bytes to f");
    let now = fs::metadata(&file).unwrap();
    assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (1234, 5678, 0o4640));
}

// BUILTIN-54: who may not keep the owner opens the file to nobody else
#[test]
fn a_file_that_changes_hands_is_not_opened() {
    if !is_root() && std::env::var_os(CHILD).is_none() {
        eprintln!("skipped: only a superuser can make a file of another user");
        return;
    }
    let prepare = |place: &Place| {
        place.write("f", "old");
        set_mode(&place.path().join("f"), 0o4772);
    };
    child("a_file_that_changes_hands_is_not_opened", As::Ordinary, prepare, |base| {
        assert_eq!(write(base, "f", "new").output, "Wrote 3 bytes to f");
        let now = fs::metadata(base.join("f")).unwrap();
        assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (NOBODY, NOBODY, 0o722));
    });
}

#[cfg(target_os = "linux")]
mod extended {
    use rustix::fs::{XattrFlags, getxattr, setxattr};

    use super::*;

    /// The value of an attribute, or why there is none.
    fn attribute(file: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
        let mut value = vec![0; 100];
        let used = getxattr(file, name, &mut value)?;
        value.truncate(used);
        Ok(value)
    }

    // BUILTIN-54: what else belongs to the file goes along
    #[test]
    fn extended_attributes_are_kept() {
        let place = Place::new();
        place.write("f", "old");
        let file = place.path().join("f");
        if let Err(error) = setxattr(&file, "user.toolnexus", b"mine", XattrFlags::empty()) {
            eprintln!("skipped: no extended attributes here: {error}");
            return;
        }
        setxattr(&file, "user.empty", b"", XattrFlags::empty()).unwrap();
        assert_eq!(edit(place.path(), "f", "old", "new").output, "Edited f (1 replacement)");
        assert_eq!(attribute(&file, "user.toolnexus").unwrap(), b"mine");
        assert_eq!(attribute(&file, "user.empty").unwrap(), b"");
    }

    // BUILTIN-54: what the old program was allowed to do is not for the new one
    #[test]
    fn privileges_are_not_kept() {
        /// Version 2, and the leave to bind low ports.
        const PRIVILEGES: [u8; 20] = [0, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let place = Place::new();
        place.write("f", "old");
        let file = place.path().join("f");
        if let Err(error) = setxattr(&file, "security.capability", &PRIVILEGES, XattrFlags::empty()) {
            eprintln!("skipped: no privileges to give here: {error}");
            return;
        }
        assert_eq!(attribute(&file, "security.capability").unwrap(), PRIVILEGES);
        assert_eq!(write(place.path(), "f", "new").output, "Wrote 3 bytes to f");
        assert!(attribute(&file, "security.capability").is_err());
    }

    // BUILTIN-54: the access list too; without it the mode would say something else
    #[test]
    fn an_access_list_is_kept() {
        /// Version 2, then tag, permissions and id of each entry: the owner may read and write,
        /// user 1234 may read, the group nothing, the mask is to read, others nothing.
        const LIST: [(u16, u16, u32); 5] =
            [(1, 6, u32::MAX), (2, 4, 1234), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in LIST {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        let place = Place::new();
        place.write("f", "old");
        let file = place.path().join("f");
        if let Err(error) = setxattr(&file, "system.posix_acl_access", &list, XattrFlags::empty()) {
            eprintln!("skipped: no access lists here: {error}");
            return;
        }
        assert_eq!(mode(&file), 0o640, "the mask");
        assert_eq!(write(place.path(), "f", "new").output, "Wrote 3 bytes to f");
        assert_eq!(attribute(&file, "system.posix_acl_access").unwrap(), list);
        assert_eq!(mode(&file), 0o640);
    }
}

#[cfg(target_os = "linux")]
mod races {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use common::tool;
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    /// Calls `body` while `a` and `b` of a directory change places all the time.
    fn while_swapping(dir: &Path, body: impl FnOnce()) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let (a, b) = (dir.join("a"), dir.join("b"));
                    renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
                }
            });
            // Also when the body panics, so that the thread ends.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            done.store(true, Ordering::Relaxed);
            result.unwrap();
        });
    }

    // BUILTIN-27, BUILTIN-28, BUILTIN-30: a directory that is swapped for a link to outside all the time
    #[test]
    fn nothing_outside_is_touched_through_a_directory_that_is_swapped() {
        let (place, outside) = (Place::new(), Place::new());
        place.write("a/f", "mine 0\n").write("a/sub/f", "mine 0\n");
        outside.write("f", "secret\n").write("sub/f", "secret\n");
        std::os::unix::fs::symlink(outside.path(), place.path().join("b")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [read, write, edit] = ["read", "write", "edit"].map(|name| tool(&place.confined(), name));
        let base = place.path().display();
        while_swapping(place.path(), || {
            for round in 0..400 {
                for path in ["a/f", "a/sub/f", "b/f"] {
                    let outside = format!("{path} resolves outside baseDir {base}");
                    let seen = runtime.block_on(read.execute(json!({"path": path})));
                    assert!(
                        seen.output.starts_with("mine") || seen.output == format!("read: {outside}"),
                        "{seen:?}"
                    );
                    let content = format!("mine {round}\n");
                    let wrote = runtime.block_on(write.execute(json!({"path": path, "content": content})));
                    assert!(!wrote.is_error || wrote.output == format!("write: {outside}"), "{wrote:?}");
                    let change = json!({"path": path, "oldString": "mine", "newString": "mine too"});
                    let edited = runtime.block_on(edit.execute(change));
                    assert!(!edited.is_error || edited.output == format!("edit: {outside}"), "{edited:?}");
                    let new = format!("{}/made/{round}", path.split('/').next().unwrap());
                    let made = runtime.block_on(write.execute(json!({"path": new, "content": ""})));
                    let outside = format!("write: {new} resolves outside baseDir {base}");
                    assert!(!made.is_error || made.output == outside, "{made:?}");
                }
            }
        });
        assert_eq!((outside.text("f").as_str(), outside.text("sub/f").as_str()), ("secret\n", "secret\n"));
        assert_eq!((entries(outside.path()), entries(&outside.path().join("sub"))), (2, 1));
    }

    // BUILTIN-27, BUILTIN-54: a file that is swapped for a link to outside all the time
    #[test]
    fn nothing_outside_is_touched_through_a_file_that_is_swapped() {
        let (place, outside) = (Place::new(), Place::new());
        place.write("dir/a", "mine\n");
        outside.write("f", "secret\n");
        std::os::unix::fs::symlink(outside.path().join("f"), place.path().join("dir/b")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [read, write] = ["read", "write"].map(|name| tool(&place.confined(), name));
        while_swapping(&place.path().join("dir"), || {
            for _ in 0..400 {
                let seen = runtime.block_on(read.execute(json!({"path": "dir/a"})));
                assert!(seen.is_error || seen.output == "mine\n", "{seen:?}");
                runtime.block_on(write.execute(json!({"path": "dir/a", "content": "mine\n"})));
                assert_eq!(outside.text("f"), "secret\n");
            }
        });
        assert_eq!(entries(outside.path()), 1);
        assert_eq!(entries(&place.path().join("dir")), 2);
    }

    // BUILTIN-105: a file that is swapped for a FIFO all the time holds no call
    #[test]
    fn no_call_hangs_on_a_file_that_is_swapped_for_a_fifo() {
        let place = Place::new();
        place.write("a", "text\n");
        let made = Command::new("mkfifo").arg(place.path().join("b")).status();
        assert!(made.unwrap().success());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for config in [place.config(), place.confined()] {
            let [read, edit] = ["read", "edit"].map(|name| tool(&config, name));
            while_swapping(place.path(), || {
                for _ in 0..300 {
                    let seen = runtime.block_on(read.execute(json!({"path": "a"})));
                    assert!(
                        ["text\n", "read: a is not a regular file"].contains(&seen.output.as_str()),
                        "{seen:?}"
                    );
                    let change = json!({"path": "b", "oldString": "none", "newString": "x"});
                    let edited = runtime.block_on(edit.execute(change));
                    let expected = ["edit: oldString not found in b", "edit: b is not a regular file"];
                    assert!(expected.contains(&edited.output.as_str()), "{edited:?}");
                }
            });
        }
    }
}
