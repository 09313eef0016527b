//! The `grep` tool: the lines that match a regular expression.

use std::sync::Arc;

use toolnexus_core::Tool;

use crate::builtin::{Face, READS, number, string};
use crate::config::BuiltinsConfig;
use crate::paths::Paths;

pub(crate) fn tool(_cfg: &BuiltinsConfig, _paths: &Arc<Paths>) -> Tool {
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
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
