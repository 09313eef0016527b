//! What the model sees of pages of the web, searched and fetched.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{config, fixture, fresh};
use toolnexus_context::Registry;
use toolnexus_core::ToolResult;

fn result(display_type: &str, rows: Value) -> ToolResult {
    let metadata = json!({"context": {"display_type": display_type, "results": rows}});
    ToolResult::success("plain").with_metadata(metadata.as_object().unwrap().clone())
}

fn searched(registry: &Registry, rows: Value) -> String {
    registry.model_tool_result_for_tool("web_fetch", &result("web_search_results", rows))
}

fn fetched(registry: &Registry, rows: Value) -> String {
    registry.model_tool_result_for_tool("web_fetch", &result("web_fetch_results", rows))
}

/// The text between the first such tags.
fn inside<'v>(view: &'v str, open: &str, close: &str) -> &'v str {
    let start = view.find(open).unwrap_or_else(|| panic!("{open} in {view}")) + open.len();
    let end = view[start..].find(close).unwrap_or_else(|| panic!("{close} in {view}"));
    &view[start..start + end]
}

// CTX-82, CTX-56
#[test]
fn found_pages_are_shown_without_their_urls() {
    let registry = fresh();
    let view = searched(
        &registry,
        json!([
            {"url": "https://a.io/p?x=1&y=2", "title": "A & \"B\"", "snippet": "short <b>", "content": "long of https://a.io/p?x=1&y=2", "published_at": "2026-01-02"},
            {"title": "no url", "snippet": "s"},
            {"url": "ftp://a.io/f", "snippet": "no page"},
            {"url": "https://b.io/", "snippet": "same", "content": "same"},
        ]),
    );
    assert_eq!(
        view,
        r#"<retrieval type="web" mode="search">
  <page id="url://1" title="A &amp; &#34;B&#34;">
    <evidence type="search_summary" verified="false" />
    <match>short &lt;b&gt;</match>
    <content>long of url://1</content>
    <published>2026-01-02</published>
  </page>
  <page id="url://2">
    <evidence type="search_summary" verified="false" />
    <match>same</match>
  </page>
</retrieval>"#
    );
    assert_eq!(
        registry.decode_output_text(r#"<ref id="url://1"/>"#),
        r#"<web url="https://a.io/p?x=1&amp;y=2" title="A &amp; &#34;B&#34;" />"#
    );
    assert_eq!(searched(&registry, json!([{"title": "no url"}])), "plain");
}

// CTX-82, CTX-84, case 52: the limit counts characters, and what was cut says so
#[test]
fn search_evidence_is_cut() {
    let view = searched(
        &fresh(),
        json!([{"url": "https://a.io/", "content": "é".repeat(18000), "snippet": "s".repeat(500)}]),
    );
    assert_eq!(inside(&view, "<content truncated=\"true\">", "</content>"), "é".repeat(500));
    assert_eq!(inside(&view, "<match>", "</match>"), "s".repeat(500));
    let view = searched(&fresh(), json!([{"url": "https://a.io/", "snippet": "s".repeat(501)}]));
    assert_eq!(inside(&view, "<match truncated=\"true\">", "</match>"), "s".repeat(500));
}

// CTX-84, CTX-38: what is cut in two names nothing, neither a page nor a stored resource
#[test]
fn a_name_that_is_cut_is_text() {
    let registry = fresh();
    registry.register_url("https://a.io/page", "");
    let cut = |name: &str| {
        let content = format!("{} {name}2 {}", "x".repeat(499 - name.len()), "y".repeat(600));
        let view = searched(&registry, json!([{"url": "https://b.io/", "content": content}]));
        inside(&view, "<content truncated=\"true\">", "</content>").rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(cut("https://a.io/page"), "https://a.io/page");
    assert_eq!(cut("local://a/page"), "local://a/page");
    assert_eq!(registry.decode_output_text("[x](res://0001)"), "[x]()");
    let content = format!("{} https://a.io/page y", "x".repeat(482));
    let view = searched(&registry, json!([{"url": "https://b.io/", "content": content}]));
    assert!(view.contains("x url://1</content>"), "{view}");
}

// CTX-83, case 50
#[test]
fn a_page_that_failed_is_shown_beside_one_that_did_not() {
    let registry = fresh();
    let view = fetched(
        &registry,
        json!([
            {"url": "https://a.io/one", "title": "One", "summary": "sum", "raw_content": "text of https://b.io/two"},
            {"url": "https://b.io/two", "status": "failed", "retryable": false, "error_code": "http_403", "error": "access denied"},
        ]),
    );
    let (pages, steps) = view.split_once("\n\n=== Next Steps ===\n").unwrap();
    assert_eq!(
        pages,
        r#"<retrieval type="web" mode="fetch">
  <page id="url://1" title="One" status="success" view="full">
    <summary>sum</summary>
    <content>text of url://2</content>
  </page>
  <page id="url://2" status="failed" retryable="false" error_code="http_403">
    <error>access denied</error>
  </page>
</retrieval>"#
    );
    assert!(steps.contains("success") && steps.contains("retryable false"), "{steps}");
    assert!(!view.contains("https://"), "{view}");
}

// CTX-56, CTX-83, case 92: a page that could not be read is no evidence, until it is read
#[test]
fn a_failed_page_cannot_be_cited() {
    let registry = fixture();
    let page = |status: &str| json!([{"url": "https://b.io/two", "status": status, "raw_content": "text"}]);
    assert!(fetched(&registry, page("failed")).contains("id=\"url://2\""));
    assert_eq!(registry.decode_output_text(r#"<ref id="url://2"/>"#), "");
    fetched(&registry, page("success"));
    let cited = registry.decode_output_text(r#"<ref id="url://2"/>"#);
    assert_eq!(cited, r#"<web url="https://b.io/two" title="" />"#);
    fetched(&registry, page("timeout"));
    assert_eq!(registry.decode_output_text(r#"<ref id="url://2"/>"#), cited);
}

// CTX-76, CTX-83, case 51: a fetch that failed as a whole stays structured
#[test]
fn a_failed_fetch_is_structured() {
    let registry = fresh();
    let rows = json!([
        {"url": "https://a.io/one", "status": "timeout", "retryable": true, "error_code": "timeout", "error": "too slow"},
        {"url": "https://b.io/two", "status": "failed"},
    ]);
    let mut failed = result("web_fetch_results", rows);
    failed.is_error = true;
    failed.output = String::new();
    let context = failed.metadata.as_mut().unwrap()["context"].as_object_mut().unwrap();
    context.insert("error".into(), "all page fetches failed".into());
    let view = registry.model_tool_result_for_tool("web_fetch", &failed);
    assert!(
        view.contains(r#"<page id="url://1" status="timeout" retryable="true" error_code="timeout">"#),
        "{view}"
    );
    assert!(view.contains(r#"<page id="url://2" status="failed" retryable="false">"#), "{view}");
    assert!(!view.contains("all page fetches failed"), "{view}");
    let (_, steps) = view.split_once("\n\n=== Next Steps ===\n").unwrap();
    assert!(
        steps.contains("unverified") && steps.contains("already known") && steps.contains("say"),
        "{steps}"
    );
}

// CTX-56: in a result that failed as a whole no page is evidence
#[test]
fn nothing_of_a_failed_fetch_can_be_cited() {
    let registry = fresh();
    let mut failed = result("web_fetch_results", json!([{"url": "https://a.io/one", "raw_content": "text"}]));
    failed.is_error = true;
    assert!(registry.model_tool_result_for_tool("web_fetch", &failed).contains("status=\"success\""));
    assert_eq!(registry.decode_output_text(r#"<ref id="url://1"/>"#), "");
}

// CTX-83: a summary that failed does not take the content with it
#[test]
fn a_failed_summary_keeps_the_content() {
    let page = json!([{
        "url": "https://a.io/one", "status": "success", "summary_status": "failed", "summary": "stale",
        "summary_error_code": "no_model", "raw_content": "text",
    }]);
    let view = fetched(&fresh(), page.clone());
    assert!(
        view.contains("    <summary_error code=\"no_model\" />\n    <content>text</content>\n"),
        "{view}"
    );
    assert!(!view.contains("stale") && !view.contains("Next Steps"), "{view}");
    let mut page = page;
    page[0]["summary_error"] = "no <model>".into();
    let view = fetched(&fresh(), page);
    assert!(view.contains("<summary_error code=\"no_model\">no &lt;model&gt;</summary_error>"), "{view}");
}

// CTX-83, CTX-84: a page's limits, and the limit of all of them
#[test]
fn fetched_text_is_cut() {
    let page = |name: &str| json!({"url": format!("https://a.io/{name}"), "summary": "é".repeat(5000), "raw_content": "c".repeat(9000)});
    let view = fetched(&fresh(), json!([page("1"), page("2")]));
    let (first, second) = view.split_once("url://2").unwrap();
    assert_eq!(inside(first, "<summary truncated=\"true\">", "<").chars().count(), 4000);
    assert_eq!(inside(first, "<content truncated=\"true\">", "<").len(), 8000);
    assert_eq!(inside(second, "<summary truncated=\"true\">", "<").chars().count(), 4000);
    assert_eq!(inside(second, "<content truncated=\"true\">", "<").len(), 0);
    let exact =
        json!([{"url": "https://a.io/", "summary": "s".repeat(4000), "raw_content": "c".repeat(8000)}]);
    assert!(!fetched(&fresh(), exact).contains("truncated"));
}

// CTX-84: the limits are configuration
#[test]
fn limits_are_configured() {
    let mut config = config();
    config.limits.search_evidence = 2;
    config.limits.fetch_summary = 3;
    config.limits.fetch_content = 4;
    config.limits.fetch_total = 8;
    let registry = Registry::with_config(config).unwrap();
    let row =
        json!({"url": "https://a.io/", "snippet": "abcdef", "summary": "abcdef", "raw_content": "abcdef"});
    assert!(searched(&registry, json!([row])).contains(">ab</match>"));
    let view = fetched(&registry, json!([row, row]));
    assert!(view.contains(">abc</summary>") && view.contains(">abcd</content>"), "{view}");
    assert!(view.contains(">a</summary>") && view.contains("></content>"), "{view}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-75, CTX-82, CTX-83: a page's text stays text, and a view made again is the same
    #[test]
    fn no_page_forges_a_tag(
        title in "(\\PC|[<>\"'&/\n]){0,40}",
        text in "(\\PC|[<>\"'&/\n]|</page>|=== Next Steps ===|<page id=\"url://1\">){0,20}",
        status in "(success|failed|<a b=\"c\">|)",
    ) {
        let registry = fixture();
        let rows = json!([{
            "url": "https://a.io/x", "title": format!("t{title}"), "snippet": format!("s{text}"), "content": format!("c{text}"),
            "raw_content": format!("c{text}"), "status": status, "error": format!("e{text}"), "error_code": format!("e{title}"),
        }]);
        let search = searched(&registry, rows.clone());
        prop_assert_eq!(search.matches('<').count(), 9, "{}", search);
        prop_assert_eq!(&searched(&registry, rows.clone()), &search);
        let fetch = fetched(&registry, rows.clone());
        prop_assert_eq!(fetch.matches('<').count(), 6, "{}", fetch);
        prop_assert_eq!(&fetched(&registry, rows), &fetch);
    }
}
