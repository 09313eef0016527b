//! The `glob` tool: the files whose path matches a pattern.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Tool, ToolResult};

use crate::builtin::{Face, READS, metadata, number, string};
use crate::config::BuiltinsConfig;
use crate::paths::Paths;
use crate::pattern::{Pattern, without_dot};
use crate::search::{self, FirstRows};

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
            search::run(&context, search_ms, move |stop| {
                let named = paths.resolve(&path)?;
                let root = search::root(&named).ok_or_else(|| format!("path not found: {path}"))?;
                if !root.is_dir() {
                    return Err(format!("path is not a directory: {path}"));
                }
                let pattern = relative_to(&[&named, &root], &pattern).ok_or_else(|| {
                    format!("pattern must be relative to {}", if path.is_empty() { "." } else { &path })
                })?;
                let pattern = compile(pattern, &root)?;
                Ok(list(&root, &pattern, limit, respect_gitignore, &stop))
            })
            .await
        }
    })
}

fn list(
    root: &Path,
    pattern: &Pattern,
    limit: usize,
    respect_gitignore: bool,
    stop: &CancellationToken,
) -> ToolResult {
    let mut rows = FirstRows::new(limit);
    search::walk(root, respect_gitignore, stop, |found| {
        if pattern.matches(&found.relative) {
            rows.add(found.relative);
        }
    });
    let (rows, total) = rows.finish();
    let mut facts = metadata(json!({"count": rows.len()}));
    if rows.len() < total {
        facts.insert("truncated".into(), true.into());
        facts.insert("total".into(), total.into());
    }
    ToolResult::success(rows.join("\n")).with_metadata(facts)
}

/// The pattern below a directory that goes by several names. `None`: it leads elsewhere.
fn relative_to<'a>(names: &[&Path], pattern: &'a str) -> Option<&'a str> {
    if !Path::new(pattern).is_absolute() {
        return Some(without_dot(pattern));
    }
    let below = names.iter().find_map(|name| {
        let rest = pattern.strip_prefix(name.to_str()?.trim_end_matches(['/', '\\']))?;
        rest.strip_prefix(['/', '\\'])
    });
    below.map(|below| below.trim_start_matches('/')).filter(|below| !below.is_empty())
}

fn compile(pattern: &str, root: &Path) -> Result<Pattern, String> {
    Pattern::new(pattern).or_else(|why| {
        // A file may be called what no pattern can be.
        let named = std::fs::symlink_metadata(root.join(pattern)).is_ok_and(|found| found.is_file());
        if named { Ok(Pattern::literal(pattern)) } else { Err(format!("invalid pattern: {why}")) }
    })
}
