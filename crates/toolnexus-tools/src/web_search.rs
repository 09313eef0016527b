//! The `websearch` tool: a search engine of the host's.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxFuture, Tool};

use crate::builtin::{Face, READS_THE_WORLD, number, string};

/// One thing that a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSearchHit {
    /// What the page calls itself.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// A few words from it.
    pub snippet: String,
}

/// A search engine: takes the query, how many hits are wanted and a token that fires when the call is
/// cancelled, and gives the hits, best first, or a message that says what went wrong.
pub type WebSearchFn = Arc<
    dyn Fn(String, usize, CancellationToken) -> BoxFuture<'static, Result<Vec<WebSearchHit>, String>>
        + Send
        + Sync,
>;

pub(crate) fn tool(_search: WebSearchFn) -> Tool {
    let face = Face {
        name: "websearch",
        description: "Search the web; returns titles, addresses and snippets.",
        properties: vec![
            ("query", string("What to search for")),
            ("limit", number("How many results to return; default 10")),
        ],
        required: &["query"],
        hints: READS_THE_WORLD,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
