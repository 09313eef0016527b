//! The `webfetch` tool: a page as Markdown, as text, or as it is.

use toolnexus_core::Tool;

use crate::builtin::{Face, READS_THE_WORLD, number, one_of, string};
use crate::config::BuiltinsConfig;

pub(crate) fn tool(_cfg: &BuiltinsConfig) -> Tool {
    let face = Face {
        name: "webfetch",
        description: "Fetch a URL with GET and return its body as markdown, text or raw HTML.",
        properties: vec![
            ("url", string("The http or https URL to fetch")),
            ("format", one_of(&["text", "markdown", "html"], "How to return a page; default markdown")),
            ("timeout", number("How long it may take, in seconds; default 30")),
        ],
        required: &["url"],
        hints: READS_THE_WORLD,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
