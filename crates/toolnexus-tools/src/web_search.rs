//! The `websearch` tool: a search engine of the host's.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxFuture, Tool, ToolResult};

use crate::builtin::{Face, READS_THE_WORLD, metadata, number, string};

/// How many hits are returned when the model does not say.
const DEFAULT_LIMIT: i64 = 10;

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

/// A search engine: takes the query, how many hits are wanted (at least 1; the model says, and may say
/// any number) and a token that fires when the call is cancelled, and gives the hits, best first, or a
/// message that says what went wrong.
///
/// Hits beyond those wanted are left out. When the token fires the call is over, and the future is
/// dropped; the token is for what it started elsewhere.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_tools::{BuiltinsConfig, WebSearchFn, WebSearchHit, select_builtins};
///
/// let search: WebSearchFn = Arc::new(|query, _limit, _cancel| {
///     Box::pin(async move {
///         let url = format!("https://en.wikipedia.org/wiki/{query}");
///         Ok(vec![WebSearchHit { title: query, url, snippet: String::new() }])
///     })
/// });
/// let config = BuiltinsConfig { web_search: Some(search), ..Default::default() };
/// assert!(select_builtins(Some(&config)).unwrap().iter().any(|tool| tool.name == "websearch"));
/// ```
pub type WebSearchFn = Arc<
    dyn Fn(String, usize, CancellationToken) -> BoxFuture<'static, Result<Vec<WebSearchHit>, String>>
        + Send
        + Sync,
>;

pub(crate) fn tool(search: WebSearchFn) -> Tool {
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
    face.tool(move |args, context| {
        let search = Arc::clone(&search);
        async move {
            let query = args.required_text(&["query"])?;
            let limit = args.count(&["limit"]).unwrap_or(DEFAULT_LIMIT).max(1);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut hits = tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err("cancelled".to_owned()),
                hits = search(query, limit, context.cancel.clone()) => hits,
            }?;
            hits.truncate(limit);
            Ok(ToolResult::success(rendered(&hits)).with_metadata(metadata(json!({"count": hits.len()}))))
        }
    })
}

fn rendered(hits: &[WebSearchHit]) -> String {
    if hits.is_empty() {
        return "(no results)".to_owned();
    }
    let hit = |(index, hit): (usize, &WebSearchHit)| {
        format!("{}. {}\n   {}\n   {}", index + 1, hit.title, hit.url, hit.snippet)
    };
    hits.iter().enumerate().map(hit).collect::<Vec<_>>().join("\n")
}
