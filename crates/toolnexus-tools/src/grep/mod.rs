//! The `grep` tool: the lines that match a regular expression.
//!
//! [`search::walk`] meets the files of a tree on several threads. Each thread has a [`FileSearch`],
//! which reads one file after the other through [`text::Text`] and gives the [`lines::Lines`] that may
//! be shown. They come together in [`FirstMatches`], which holds no more than what will be shown of
//! the files known so far and counts the rest, so the result does not depend on who was first.

mod expression;
mod first_matches;
mod lines;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use crate::args::Args;
use crate::builtin::{Face, READS, metadata, number, string};
use crate::config::BuiltinsConfig;
use crate::paths::Paths;
use crate::pattern::Pattern;
use crate::search::{self, Found, Root, Running, shown};
use first_matches::FirstMatches;
use lines::{FileSearch, Wanted};

/// How many matches are returned when the model does not say.
const DEFAULT_LIMIT: i64 = 100;

pub(crate) fn tool(cfg: &BuiltinsConfig, paths: &Arc<Paths>) -> Tool {
    let face = Face {
        name: "grep",
        description: "Search file contents with a regular expression; one path:line:text row per match.",
        properties: vec![
            ("pattern", string("A regular expression, matched against each line; (?i) ignores case")),
            ("path", string("The directory or file to search; default: the working directory")),
            ("include", string("A glob that chooses the files, such as *.rs or src/**/*.{ts,tsx}")),
            ("limit", number("How many matches to return; default 100")),
            ("context", number("How many lines to show around each match")),
            ("before", number("How many lines to show before each match")),
            ("after", number("How many lines to show after each match")),
        ],
        required: &["pattern"],
        hints: READS,
    };
    let paths = Arc::clone(paths);
    let respect_gitignore = cfg.respect_gitignore;
    let limits = cfg.limits.clone();
    face.tool(move |args, context| {
        let paths = Arc::clone(&paths);
        let line_bytes = usize::try_from(limits.line_bytes).unwrap_or(usize::MAX);
        let search_ms = limits.search_ms;
        async move {
            let request = Request::of(&args, line_bytes, respect_gitignore)?;
            search::run(&context, search_ms, move |running| request.answer(&paths, running)).await
        }
    })
}

/// What a call asks for.
struct Request {
    expression: String,
    path: String,
    include: Option<String>,
    wanted: Wanted,
    respect_gitignore: bool,
}

impl Request {
    fn of(args: &Args, line_bytes: usize, respect_gitignore: bool) -> Result<Self, String> {
        let at_least_0 = |count: i64| usize::try_from(count).unwrap_or(0);
        let around = args.count(&["context"]).unwrap_or(0);
        Ok(Request {
            expression: args.required_text(&["pattern"])?,
            path: args.text(&["path"]).unwrap_or_default(),
            include: args.text(&["include"]).filter(|include| !include.is_empty()),
            wanted: Wanted {
                limit: at_least_0(args.count(&["limit"]).unwrap_or(DEFAULT_LIMIT)),
                before: at_least_0(args.count(&["before"]).unwrap_or(around)),
                after: at_least_0(args.count(&["after"]).unwrap_or(around)),
                line_bytes,
            },
            respect_gitignore,
        })
    }

    fn answer(&self, paths: &Paths, running: &Running) -> Result<ToolResult, String> {
        let expression =
            expression::compile(&self.expression).map_err(|reason| format!("invalid regex: {reason}"))?;
        let root = Root::find(paths, &self.path)?;
        let include = self.include.as_deref().map(|include| Pattern::below(&root, include)).transpose();
        let shown_root = if self.path.is_empty() { "." } else { &self.path };
        let include = include.map_err(|refused| refused.describe("include", shown_root))?;
        let search = TreeSearch {
            root: &root,
            include: include.as_ref(),
            found: Mutex::new(FirstMatches::new(self.wanted)),
            running,
        };
        match root.only() {
            Some(name) => {
                running.visited();
                search.visit(&mut FileSearch::new(expression, self.wanted), &Found { below: name });
            }
            None => search::walk(&root, self.respect_gitignore, running, || {
                let mut files = FileSearch::new(expression.clone(), self.wanted);
                let search = &search;
                move |found| search.visit(&mut files, &found)
            })?,
        }
        search.finish()
    }
}

/// What the threads of a search have in common.
struct TreeSearch<'a> {
    root: &'a Root,
    include: Option<&'a Pattern>,
    found: Mutex<FirstMatches>,
    running: &'a Running,
}

impl TreeSearch<'_> {
    fn visit(&self, files: &mut FileSearch, file: &Found<'_>) {
        let name = file.name();
        if self.include.is_some_and(|include| !include.matches(&name)) {
            return;
        }
        let Ok(opened) = self.root.open(file.below) else { return };
        let row_path = shown(name);
        let may_show = lock(&self.found).may_show(&row_path);
        let Some(lines) = files.search(opened, may_show.then_some(&row_path), self.running) else { return };
        if lines.total > 0 || lines.too_long > 0 {
            lock(&self.found).add(row_path, file.below, lines);
        }
    }

    fn finish(self) -> Result<ToolResult, String> {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.root.check()?;
        let report = found.report()?;
        let mut facts = metadata(json!({"count": report.count}));
        if report.incomplete || report.count < report.total {
            facts.insert("truncated".into(), true.into());
            facts.insert("total".into(), report.total.into());
        }
        if report.too_long > 0 {
            facts.insert("linesNotSearchedWhole".into(), report.too_long.into());
        }
        Ok(ToolResult::success(report.rows).with_metadata(facts))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
