//! Pages of the web: what a search says of them, and what was read of them.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::{Renderer, ResultView, Tag};
use crate::tables::is_web_page;
use crate::{Evidence, SourceRef};

/// `web_search_results`.
pub(super) struct WebSearch;

impl Renderer for WebSearch {
    fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>) {
        let limit = view.limits().search_evidence;
        let rows = Fields(context).rows("results");
        let pages: Vec<_> = rows.filter_map(|row| Page::of(row, true, view)).collect();
        if pages.is_empty() {
            return;
        }
        view.open(Tag::new("retrieval").attribute("type", "web").attribute("mode", "search"));
        for Page { handle, row, .. } in pages {
            view.open(Tag::new("page").attribute("id", handle).attribute("title", row.text(&["title"])));
            let evidence = Tag::new("evidence").attribute("type", "search_summary");
            view.empty(evidence.attribute("verified", false));
            let snippet = row.text(&["snippet"]);
            let content = row.text(&["content"]);
            if !snippet.is_empty() {
                view.element_up_to(limit, Tag::new("match"), &snippet);
            }
            if !content.is_empty() && content != snippet {
                view.element_up_to(limit, Tag::new("content"), &content);
            }
            let published = row.text(&["published_at"]);
            if !published.is_empty() {
                view.element_up_to(limit, Tag::new("published"), &published);
            }
            view.close();
        }
        view.close();
    }
}

/// `web_fetch_results`. Pages fail one by one.
pub(super) struct WebFetch;

impl Renderer for WebFetch {
    fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>) {
        let context = Fields(context);
        let rows = context.rows("results").chain(context.rows("pages"));
        let is_read = |row: Fields<'_>| matches!(&*row.text(&["status"]), "" | "success");
        let pages: Vec<_> = rows.filter_map(|row| Page::of(row, is_read(row), view)).collect();
        if pages.is_empty() {
            return;
        }
        let mut left = view.limits().fetch_total;
        view.open(Tag::new("retrieval").attribute("type", "web").attribute("mode", "fetch"));
        for page in &pages {
            if page.is_read { page.write_read(view, &mut left) } else { page.write_failed(view) }
        }
        view.close();
        let steps = match pages.iter().filter(|page| !page.is_read).count() {
            0 => return,
            failed if failed == pages.len() => ALL_FAILED,
            _ => SOME_FAILED,
        };
        view.line("");
        view.line("=== Next Steps ===");
        steps.iter().for_each(|step| view.line(step));
    }
}

const ALL_FAILED: [&str; 2] = [
    "- No page could be read: what they say is unverified.",
    "- Answer from what is already known, and say that the pages could not be read.",
];

const SOME_FAILED: [&str; 2] = [
    "- Use the pages with status success; what the others say is unverified.",
    "- Do not fetch a page with retryable false again.",
];

/// A page with a URL, registered.
struct Page<'c> {
    handle: String,
    row: Fields<'c>,
    /// Whether its text is here, or what a search says of it.
    is_read: bool,
}

impl<'c> Page<'c> {
    fn of(row: Fields<'c>, is_read: bool, view: &ResultView<'_>) -> Option<Self> {
        let url = row.text(&["url"]);
        let kind = view.registry().settings().roles.url?;
        if !is_web_page(&url) {
            return None;
        }
        let source = SourceRef { title: row.text(&["title"]).into_owned(), ..SourceRef::new(url) };
        let evidence = if is_read { view.evidence() } else { Evidence::NavigationOnly };
        let handle = view.registry().register_as(kind, &source, evidence)?;
        Some(Page { handle, row, is_read })
    }

    fn tag(&self) -> Tag {
        Tag::new("page").attribute("id", &self.handle).attribute("title", self.row.text(&["title"]))
    }

    fn write_read(&self, view: &mut ResultView<'_>, left: &mut usize) {
        let limits = view.limits();
        let row = self.row;
        view.open(self.tag().attribute("status", "success").attribute("view", "full"));
        let mut write = |view: &mut ResultView<'_>, limit: usize, name, text: &str| {
            if !text.is_empty() {
                *left -= view.element_up_to(limit.min(*left), Tag::new(name), text);
            }
        };
        if row.text(&["summary_status"]) == "failed" {
            let tag = Tag::new("summary_error").attribute("code", row.text(&["summary_error_code"]));
            match row.text(&["summary_error"]) {
                error if error.is_empty() => view.empty(tag),
                error => view.element(tag, &error),
            }
        } else {
            write(view, limits.fetch_summary, "summary", &row.text(&["summary"]));
        }
        write(view, limits.fetch_content, "content", &row.text(&["raw_content"]));
        view.close();
    }

    fn write_failed(&self, view: &mut ResultView<'_>) {
        let row = self.row;
        let tag = self.tag().attribute("status", row.text(&["status"]));
        let tag = tag.attribute("retryable", row.is_true("retryable"));
        view.open(tag.attribute("error_code", row.text(&["error_code"])));
        let error = row.text(&["error"]);
        if !error.is_empty() {
            view.element(Tag::new("error"), &error);
        }
        view.close();
    }
}
