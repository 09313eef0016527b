//! Paths that lead out by what they say, and paths that only look as if they did.

use crate::scene::{Expect, Scene};

// BUILTIN-27, BUILTIN-28: each spelling of a directory outside, with every tool
#[tokio::test]
async fn directories_outside_are_refused_in_every_spelling() {
    let scene = Scene::new();
    let root = scene.text("");
    let root = root.trim_end_matches('/');
    let name = root.rsplit('/').next().unwrap();
    let many = |count: usize| "../".repeat(count);
    let ways = [
        ("the parent", "../outside".to_owned()),
        ("the parent, with dots", "./.././outside/.".to_owned()),
        ("the parent, with slashes", ".././/outside//".to_owned()),
        ("the parent, from below", "sub/../../outside".to_owned()),
        ("the parent, from below and with dots", "sub/./.././../outside".to_owned()),
        ("the parent, from what is not there", "missing/../../outside".to_owned()),
        ("the parent, from deep in what is not there", "a/b/c/../../../../outside".to_owned()),
        ("the parent, from a file", "file.txt/../../outside".to_owned()),
        ("the grandparent and back", format!("../../{name}/outside")),
        ("in and out again", "../base/../outside".to_owned()),
        ("in by the full name and out", format!("{root}/base/../outside")),
        ("in by the full name, below and out", format!("{root}/base/sub/../../outside")),
        ("the full name", format!("{root}/outside")),
        ("the full name, with slashes", format!("/{root}//outside/")),
        ("the full name, with dots", format!("{root}/./outside/.")),
        ("the full name, from far below", format!("{}{}/outside", many(100), root.trim_start_matches('/'))),
        ("above the root of all", format!("/{}{}/outside", many(5), root.trim_start_matches('/'))),
        ("a sibling with the same beginning", "../base-evil".to_owned()),
        ("a sibling with the same beginning, in full", format!("{root}/base-evil")),
        ("a name followed by a slash only", "../outside/".to_owned()),
        ("longer than any system takes", format!("{}{}../outside", "x/".repeat(3000), many(3000))),
        ("one long name, and out", format!("{}/../../outside", "x".repeat(5000))),
        ("what was a name of a file system", "file:/../../outside".to_owned()),
        ("an address, as if it were one", format!("file:///../../../{root}/../{name}/outside")),
    ];
    for (way, path) in ways {
        // The last is an address only for who takes it so: its dots lead out of the base all the same.
        scene.attack_directory(way, &path, Expect::Refused).await;
    }
}

// BUILTIN-27: what is not below is above or beside, whatever it is
#[tokio::test]
async fn single_places_outside_are_refused() {
    let scene = Scene::new();
    for path in [
        "..",
        "../",
        "../.",
        "./..",
        "sub/../..",
        "../..",
        "/",
        "//",
        "/.",
        "/..",
        "../secret",
        "../new.txt",
        "/etc/passwd",
        "/no/such/directory/file",
        "/dev/null",
        "/dev/stdin",
        "/dev/fd",
        "/dev/fd/0",
        "/proc/self/fd/0",
        "/proc/self/environ",
    ] {
        scene.attack(path, path, Expect::Refused).await;
    }
    let parent = scene.text("");
    scene.attack("the directory above, in full", parent.trim_end_matches('/'), Expect::Refused).await;
    let prefix = scene.text("bas");
    scene.attack("the beginning of the base's name", &prefix, Expect::Refused).await;
}

// BUILTIN-24, BUILTIN-28: names are names; nothing is expanded, decoded or folded
#[tokio::test]
async fn what_only_looks_like_a_way_out_stays_inside() {
    let scene = Scene::new();
    let outside = scene.text("outside");
    let ways = [
        ("a home", "~/secret".to_owned()),
        ("another's home", "~root/secret".to_owned()),
        ("a variable", "$HOME/secret".to_owned()),
        ("a variable in braces", "${HOME}/secret".to_owned()),
        ("a variable of another shell", "%USERPROFILE%/secret".to_owned()),
        ("a command", "$(pwd)/../secret".to_owned()),
        ("an address", format!("file://{outside}/secret")),
        ("an address with a host", format!("file://localhost{outside}/secret")),
        ("encoded dots", "%2e%2e/outside/secret".to_owned()),
        ("encoded slashes", "..%2foutside%2fsecret".to_owned()),
        ("encoded twice", "%252e%252e%252foutside%252fsecret".to_owned()),
        ("overlong dots", "%c0%ae%c0%ae/outside/secret".to_owned()),
        ("wide dots", "\u{ff0e}\u{ff0e}/outside/secret".to_owned()),
        ("a leader of two dots", "\u{2025}/outside/secret".to_owned()),
        ("one dot leaders", "\u{2024}\u{2024}/outside/secret".to_owned()),
        ("a division slash", "..\u{2215}outside\u{2215}secret".to_owned()),
        ("a fraction slash", "..\u{2044}outside\u{2044}secret".to_owned()),
        ("a wide slash", "..\u{ff0f}outside\u{ff0f}secret".to_owned()),
        ("a zero width space", ".\u{200b}./outside/secret".to_owned()),
        ("a text that runs the other way", "\u{202e}terces/edistuo/..".to_owned()),
        ("three dots", ".../outside/secret".to_owned()),
        ("four dots", "....//outside/secret".to_owned()),
        ("dots and a space", ".. /outside/secret".to_owned()),
        ("a dot, a space, a dot", ". ./outside/secret".to_owned()),
        ("a new line", "x\n../outside/secret".to_owned()),
        ("a tab", "\t../outside/secret".to_owned()),
        ("quotes", "\"../outside/secret\"".to_owned()),
        ("a glob", "*/../../outsid?/secret*".replace("../../", "")),
        ("an option", "--help".to_owned()),
        ("a minus", "-".to_owned()),
        ("an option with a path", format!("-C{outside}")),
        ("nothing but a space", " ".to_owned()),
    ];
    for (way, path) in ways {
        scene.attack(way, &path, Expect::Held).await;
    }
}

// BUILTIN-28: a backslash is a name's character where it separates nothing
#[tokio::test]
async fn backslashes_lead_nowhere() {
    let scene = Scene::new();
    let expect = if cfg!(windows) { Expect::Refused } else { Expect::Held };
    for path in [
        r"..\outside\secret",
        r"sub\..\..\outside\secret",
        r"..\..\..\..\..\..\Windows\win.ini",
        r"C:\Windows\win.ini",
        r"C:secret",
        r"\\?\C:\secret",
        r"\\localhost\share\secret",
        r"\secret",
    ] {
        scene.attack(path, path, expect).await;
    }
    let mixed = if cfg!(windows) { Expect::Refused } else { Expect::Held };
    scene.attack("both slashes", r"sub\../..\outside/secret", mixed).await;
}

// BUILTIN-28: no path has a NUL in it, so none is cut at one
#[tokio::test]
async fn a_nul_byte_is_an_error() {
    let scene = Scene::new();
    for path in
        ["\0", "file.txt\0", "file.txt\0/../../outside/secret", "../outside/secret\0.txt", "sub\0/a.txt"]
    {
        scene.attack("a NUL byte", path, Expect::Fails).await;
    }
}

// BUILTIN-28: upper and lower case are different names where the file system has them so
#[tokio::test]
async fn case_and_normalisation_are_the_file_systems() {
    let scene = Scene::new();
    let folds = scene.at("BASE").exists();
    let expect = if folds { Expect::Held } else { Expect::Refused };
    scene.attack("the base in capitals", "../BASE/x", expect).await;
    scene.attack("the base in capitals, in full", &scene.text("Base/x"), expect).await;
    scene.attack("the outside in capitals", "../OUTSIDE/secret", Expect::Refused).await;

    // Two names that look the same, and are the same only for some file systems.
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    std::fs::create_dir(scene.at(composed)).unwrap();
    if std::fs::create_dir(scene.at(decomposed)).is_ok() {
        let base = scene.at(composed);
        let scene = scene.based_at(base);
        scene.attack("a name that looks the same", &format!("../{decomposed}/x"), Expect::Refused).await;
        scene.attack("and in full", &scene.text(&format!("{decomposed}/x")), Expect::Refused).await;
    }
}

// BUILTIN-27: what the kernel shows of this process is outside, too
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_ways_through_proc_are_refused() {
    use std::os::fd::AsRawFd as _;

    let scene = Scene::new();
    let outside = scene.text("outside");
    let file = std::fs::File::open(scene.at("outside/secret")).unwrap();
    let directory = std::fs::File::open(scene.at("outside")).unwrap();
    let process = std::process::id();
    for path in [
        format!("/proc/self/root{outside}"),
        format!("/proc/thread-self/root{outside}"),
        format!("/proc/{process}/root{outside}"),
        format!("/proc/self/task/{process}/root{outside}"),
        format!("/proc/self/fd/{}", directory.as_raw_fd()),
        format!("/dev/fd/{}", directory.as_raw_fd()),
        "/proc/self/cwd".to_owned(),
        format!("../../../../../../../../proc/self/root{outside}"),
        "/dev/../proc/self/cwd".to_owned(),
    ] {
        scene.attack_directory("through /proc", &path, Expect::Refused).await;
    }
    for path in [
        format!("/proc/self/fd/{}", file.as_raw_fd()),
        format!("/dev/fd/{}", file.as_raw_fd()),
        "/proc/self/exe".to_owned(),
        "/proc/self/maps".to_owned(),
        "/proc/self/root".to_owned(),
    ] {
        scene.attack("through /proc", &path, Expect::Refused).await;
    }
}
