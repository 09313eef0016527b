//! The `glob` tool: the files whose path matches a pattern.

mod first_rows;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use crate::builtin::{Face, READS, metadata, number, string};
use crate::config::BuiltinsConfig;
use crate::paths::Paths;
use crate::pattern::Pattern;
use crate::search::{self, Root, Running, SHOWN_BYTES, shown};
use first_rows::FirstRows;

/// How many rows are returned when the model does not say.
const DEFAULT_LIMIT: i64 = 100;

pub(crate) fn tool(cfg: &BuiltinsConfig, paths: &Arc<Paths>) -> Tool {
    let face = Face {
        name: "glob",
        description: "List files whose path matches a glob, one relative path per row.",
        properties: vec![
            (
                "pattern",
                string(
                    "A glob such as *.md, src/**/*.rs or *.{ts,tsx}; without a slash it is matched against file names",
                ),
            ),
            ("path", string("The directory to search; default: the working directory")),
            ("limit", number("How many results to return; default 100")),
        ],
        required: &["pattern"],
        hints: READS,
    };
    let paths = Arc::clone(paths);
    let respect_gitignore = cfg.respect_gitignore;
    let search_ms = cfg.limits.search_ms;
    face.tool(move |args, context| {
        let paths = Arc::clone(&paths);
        async move {
            let pattern = args.required_text(&["pattern"])?;
            let path = args.text(&["path"]).unwrap_or_default();
            let limit = usize::try_from(args.count(&["limit"]).unwrap_or(DEFAULT_LIMIT)).unwrap_or(0);
            search::run(&context, search_ms, move |running| {
                let root = Root::find(&paths, &path)?;
                if root.only().is_some() {
                    return Err(format!("path is not a directory: {path}"));
                }
                let pattern = Pattern::below(&root, &pattern).map_err(|refused| {
                    refused.describe("pattern", if path.is_empty() { "." } else { &path })
                })?;
                list(&root, &pattern, limit, respect_gitignore, running)
            })
            .await
        }
    })
}

fn list(
    root: &Root,
    pattern: &Pattern,
    limit: usize,
    respect_gitignore: bool,
    running: &Running,
) -> Result<ToolResult, String> {
    let rows = Mutex::new(FirstRows::new(limit, SHOWN_BYTES));
    search::walk(root, respect_gitignore, running, || {
        |found: search::Found<'_>| {
            let name = found.name();
            if pattern.matches(&name) {
                let row = (shown(name), found.below.to_path_buf());
                rows.lock().unwrap_or_else(PoisonError::into_inner).add(row);
            }
        }
    })?;
    let (found, mut total) = rows.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    root.check()?;
    let mut rows = Vec::with_capacity(found.len());
    for (row, below) in found {
        if root.still_has(&below)? {
            rows.push(row);
        } else {
            total -= 1;
        }
    }
    let mut facts = metadata(json!({"count": rows.len()}));
    if rows.len() < total {
        facts.insert("truncated".into(), true.into());
        facts.insert("total".into(), total.into());
    }
    Ok(ToolResult::success(rows.join("\n")).with_metadata(facts))
}
