//! The case with a tree of files, which is made once and kept beside the build.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::{WalkBuilder, WalkState};
use serde_json::json;
use toolnexus::builtins::create_builtin_tools;
use toolnexus::{BoxError, BuiltinsConfig, Tool, ToolContext};

use crate::cases::{Sides, Work};

/// Files of the tree, and of each of its directories.
const FILES: usize = 100_000;
const FILES_OF_A_DIRECTORY: usize = 25;

/// What is looked for. Of the files one in three hundred has it, once.
const PATTERN: &str = r"needle_\d+ =";
const FILES_OF_A_NEEDLE: usize = 300;
const NEEDLES: usize = FILES.div_ceil(FILES_OF_A_NEEDLE);

/// A search of the whole tree. The floor is the same crates called directly: a parallel walk, a
/// searcher for each thread, matches counted and forgotten.
pub(crate) async fn grep() -> Result<Sides, BoxError> {
    let tree = Arc::new(tokio::task::spawn_blocking(tree).await??);
    let config = BuiltinsConfig { base_dir: Some(tree.to_path_buf()), ..Default::default() };
    let grep = create_builtin_tools(Some(&config)).into_iter().find(|tool| tool.name == "grep");
    let grep: Tool = grep.ok_or("there is no tool \"grep\"")?;
    let work: Work = Box::new(move || {
        let grep = grep.clone();
        Box::pin(async move {
            let arguments = json!({"pattern": PATTERN, "limit": 100});
            let result = grep.execute_with(arguments, ToolContext::default()).await;
            let total = result.metadata.as_ref().and_then(|facts| facts.get("total")?.as_u64());
            if total == Some(NEEDLES as u64) && result.output.lines().count() == 100 {
                Ok(())
            } else {
                Err(format!("{NEEDLES} matches were expected: {}", result.output).into())
            }
        })
    });
    let floor: Work = Box::new(move || {
        let tree = Arc::clone(&tree);
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || count(&tree)).await?? {
                NEEDLES => Ok(()),
                other => Err(format!("{NEEDLES} matches were expected, {other} came").into()),
            }
        })
    });
    Ok(Sides { floor, work })
}

fn count(tree: &Path) -> Result<usize, BoxError> {
    struct Count<'a>(&'a AtomicUsize);
    impl Sink for Count<'_> {
        type Error = io::Error;
        fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> io::Result<bool> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        }
    }
    let matcher = RegexMatcherBuilder::new().line_terminator(Some(b'\n')).multi_line(true).build(PATTERN)?;
    let found = AtomicUsize::new(0);
    WalkBuilder::new(tree).standard_filters(false).build_parallel().run(|| {
        let matcher = matcher.clone();
        let mut searcher = SearcherBuilder::new().bom_sniffing(false).build();
        let found = &found;
        Box::new(move |entry| {
            if let Ok(entry) = entry
                && entry.file_type().is_some_and(|kind| kind.is_file())
                && searcher.search_path(&matcher, entry.path(), Count(found)).is_err()
            {
                return WalkState::Quit;
            }
            WalkState::Continue
        })
    });
    Ok(found.into_inner())
}

/// The tree, made unless it is there: sources of no language in directories of directories, every
/// run's the same.
fn tree() -> io::Result<PathBuf> {
    let beside_the_build = std::env::current_exe()?.parent().map(Path::to_path_buf).unwrap_or_default();
    let tree = beside_the_build.join(format!("bench-tree-{FILES}-v1"));
    let done = tree.with_extension("done");
    if done.exists() {
        return Ok(tree);
    }
    let mut random = Random(1);
    for file in 0..FILES {
        let directory = file / FILES_OF_A_DIRECTORY;
        let directory =
            tree.join(format!("part{}/area{}/unit{}", directory % 16, directory / 16 % 16, directory / 256));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(format!("file_{file}.c")), content(file, &mut random))?;
    }
    fs::write(done, "")?;
    Ok(tree)
}

/// Between one and thirty kilobytes, more often few than many.
fn content(file: usize, random: &mut Random) -> String {
    const WORDS: [&str; 16] = [
        "int",
        "struct device",
        "return",
        "if (value)",
        "static",
        "const char",
        "for (i = 0; i < n; i++)",
        "flags",
        "buffer",
        "->next",
        "= NULL;",
        "lock",
        "/* see below */",
        "sizeof",
        "goto out;",
        "unsigned long",
    ];
    let share = random.below(1000);
    let length = 1000 + 29_000 * share * share / 1_000_000;
    let mut text = String::with_capacity(length + 80);
    while text.len() < length {
        text.push_str(if random.below(3) == 0 { "\t\t" } else { "\t" });
        for _ in 0..random.below(9) {
            text.push_str(WORDS.get(random.below(WORDS.len())).copied().unwrap_or_default());
            text.push(' ');
        }
        text.push('\n');
    }
    if file.is_multiple_of(FILES_OF_A_NEEDLE) {
        text.push_str(&format!("\tneedle_{file} = 1;\n"));
    }
    text
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
