//! Listings of every kind, page by page, with a guard against one that never ends.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rmcp::model::{ClientRequest, PaginatedRequestParams};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use toolnexus_core::ToolContext;
use tracing::Instrument as _;

use crate::failure::{Fault, McpFailureKind, McpPhase};
use crate::request::{Limits, span};
use crate::slot::Slot;

/// Pages of one listing.
const MAX_PAGES: usize = 1000;

/// A kind of listing.
pub(crate) struct Listing {
    pub(crate) phase: McpPhase,
    /// The key of the entries in a page.
    pub(crate) key: &'static str,
    pub(crate) request: fn(PaginatedRequestParams) -> ClientRequest,
}

/// How long a listing may take.
#[derive(Clone, Copy)]
pub(crate) struct ListingLimits {
    /// One page.
    pub(crate) page: Limits,
    /// All pages together.
    pub(crate) whole: Option<Duration>,
}

impl Listing {
    /// Gives every entry of the server's to `take`, in its order.
    pub(crate) async fn each(
        &self,
        slot: &Slot,
        limits: ListingLimits,
        context: Option<&ToolContext>,
        mut take: impl FnMut(Value),
    ) -> Result<(), Fault> {
        let began = Instant::now();
        let mut pages = Pages::default();
        let mut cursor = None;
        loop {
            let mut page = limits.page;
            if let Some(whole) = limits.whole {
                let left = Limits { total: Some(whole), ..page }.after(began.elapsed())?;
                page.total = [page.total, left.total].into_iter().flatten().min();
            }
            let page = self.fetch(slot, cursor, page, context).await?;
            page.entries.into_iter().for_each(&mut take);
            cursor = pages.next(page.next)?;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    async fn fetch(
        &self,
        slot: &Slot,
        cursor: Option<String>,
        limits: Limits,
        context: Option<&ToolContext>,
    ) -> Result<Page, Fault> {
        let span = span(&slot.server, self.phase, None);
        let list = (self.request)(PaginatedRequestParams::default().with_cursor(cursor));
        let page = slot.request(list, None, limits, context).instrument(span.clone()).await;
        page.and_then(|raw| Page::read(&raw, self.key).ok_or_else(Fault::malformed)).inspect_err(|fault| {
            span.record("error.type", fault.kind.as_str());
        })
    }
}

/// Guards a listing against a server that never ends it.
#[derive(Default)]
struct Pages {
    seen: HashSet<String>,
    count: usize,
}

impl Pages {
    /// The cursor to go on with after a page; `None` ends the listing.
    fn next(&mut self, cursor: Option<String>) -> Result<Option<String>, Fault> {
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else { return Ok(None) };
        self.count += 1;
        if self.count >= MAX_PAGES {
            let text = format!("MCP list exceeded {MAX_PAGES} pages");
            return Err(Fault::with_detail(McpFailureKind::MalformedBody, text));
        }
        if !self.seen.insert(cursor.clone()) {
            let text = format!("MCP list returned duplicate cursor: {cursor}");
            return Err(Fault::with_detail(McpFailureKind::MalformedBody, text));
        }
        Ok(Some(cursor))
    }
}

struct Page {
    entries: Vec<Value>,
    next: Option<String>,
}

impl Page {
    fn read(raw: &str, key: &str) -> Option<Self> {
        let result: HashMap<String, &RawValue> = serde_json::from_str(raw).ok()?;
        let next = match result.get("nextCursor").map(|cursor| serde_json::from_str(cursor.get())) {
            None | Some(Ok(Value::Null)) => None,
            Some(Ok(Value::String(cursor))) => Some(cursor),
            Some(_) => return None,
        };
        Some(Page { entries: serde_json::from_str(result.get(key)?.get()).ok()?, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MCP-52, case 37: the guard counts pages and remembers cursors
    #[test]
    fn a_listing_ends() {
        let mut pages = Pages::default();
        assert_eq!(pages.next(None), Ok(None));
        assert_eq!(pages.next(Some(String::new())), Ok(None));
        assert_eq!(pages.next(Some("c".into())), Ok(Some("c".into())));
        let fault = pages.next(Some("c".into())).unwrap_err();
        assert_eq!(fault.kind, McpFailureKind::MalformedBody);
        assert_eq!(fault.detail.as_deref(), Some("MCP list returned duplicate cursor: c"));

        let mut pages = Pages::default();
        for page in 1..1000 {
            assert!(pages.next(Some(page.to_string())).is_ok());
        }
        let fault = pages.next(Some("1000".into())).unwrap_err();
        assert_eq!(fault.detail.as_deref(), Some("MCP list exceeded 1000 pages"));
    }

    // MCP-52
    #[test]
    fn a_page_needs_a_list() {
        let read = |raw| Page::read(raw, "tools");
        assert!(read(r#"{"tools":[],"nextCursor":null}"#).unwrap().next.is_none());
        assert_eq!(read(r#"{"tools":[],"nextCursor":"a","x":1}"#).unwrap().next.as_deref(), Some("a"));
        for raw in
            ["{}", "[]", "null", r#"{"tools":{}}"#, r#"{"tools":null}"#, r#"{"tools":[],"nextCursor":7}"#]
        {
            assert!(read(raw).is_none(), "{raw}");
        }
    }
}
