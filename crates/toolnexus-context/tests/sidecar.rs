//! The links of results from outside, listed below them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::json;
use support::{R, chunk, config, fixture, fixture_without_citations, fresh};
use toolnexus_context::{Registry, RegistryConfig, ToolPolicy};
use toolnexus_core::{Tool, ToolResult, ToolSource};

const START: &str = "\n\n<external_source_candidates>\n";
const END: &str = "</external_source_candidates>";

fn view(registry: &Registry, source: ToolSource, name: &str, result: &ToolResult) -> String {
    registry.model_tool_result_of(&Tool::new(name, async |_args, _context| "").source(source), result)
}

fn mcp(registry: &Registry, body: &str) -> String {
    view(registry, ToolSource::Mcp, "server_find", &ToolResult::success(body))
}

/// The handles and URLs that are listed below a body, unescaped. Of the list everything else is checked.
fn rows(view: &str, body: &str) -> Vec<(String, String)> {
    if view == body {
        return Vec::new();
    }
    let list = view.strip_prefix(body).unwrap().strip_prefix(START).unwrap().strip_suffix(END).unwrap();
    let (instruction, rows) = list.split_once('\n').unwrap();
    assert!(instruction.contains("url://N only if this result supports the claim"), "{instruction}");
    assert!(instruction.contains("does not mean that its page was read"), "{instruction}");
    assert!(instruction.contains("Do not use chunk handles"), "{instruction}");
    assert!(rows.ends_with('\n'));
    rows.lines()
        .map(|row| {
            let row = row.strip_prefix("<source id=\"").unwrap().strip_suffix("\"/>").unwrap();
            let (handle, url) = row.split_once("\" url=\"").unwrap();
            assert!(!url.contains(['"', '<', '>', '\'']), "{url}");
            (handle.to_owned(), html_escape::decode_html_entities(url).into_owned())
        })
        .collect()
}

fn urls(body: &str) -> Vec<String> {
    let registry = fresh();
    let rows = rows(&mcp(&registry, body), body);
    for (at, (handle, _)) in rows.iter().enumerate() {
        assert_eq!(*handle, format!("url://{}", at + 1));
    }
    rows.into_iter().map(|(_, url)| url).collect()
}

// CTX-97, CTX-98, case 62
#[test]
fn links_are_found_in_what_servers_write() {
    let body = concat!(
        r#"{"u":"https:\/\/example.com\/article?a=1\u0026b=2"} [x](https://example.com/article?a=1&b=2) "#,
        "[W](https://example.com/Function_(math))。 https://example.com/p?x=1&amp;y=2 ",
        "https://u:p@example.com/x https://"
    );
    let registry = fresh();
    let view = mcp(&registry, body);
    assert_eq!(
        rows(&view, body),
        [
            ("url://1", "https://example.com/article?a=1&b=2"),
            ("url://2", "https://example.com/Function_(math)"),
            ("url://3", "https://example.com/p?x=1&y=2"),
        ]
        .map(|(handle, url)| (handle.to_owned(), url.to_owned()))
    );
    for written in ["a=1&amp;b=2", "Function_(math)\"", "x=1&amp;y=2"] {
        assert!(view.contains(written), "{written} in {view}");
    }
    assert_eq!(mcp(&registry, body), view);
}

// CTX-97, case 63: no more than so many
#[test]
fn fifty_links_are_listed() {
    let body: String = (1..=60).map(|n| format!("https://a.io/{n} ")).collect();
    let found = urls(&body);
    assert_eq!(found.len(), 50);
    assert_eq!(found[49], "https://a.io/50");
    // The same page again does not count.
    let twice = body.replace("https://a.io/2 ", "https://a.io/1#part https://a.io/1 ");
    assert_eq!(urls(&twice).len(), 50);
}

// CTX-98: what ends a link
#[test]
fn a_link_ends_where_its_text_does() {
    for end in " \n\t\u{3000}<>\"'`\\，。；！？、（）【】".chars() {
        assert_eq!(urls(&format!("https://a.io/x{end}y")), ["https://a.io/x"], "{end:?}");
    }
    for tail in [".", ",", ";", "!", "?", ")", "]", "}", "...", "),", ").]}", "?!)."] {
        assert_eq!(urls(&format!("https://a.io/x{tail} y")), ["https://a.io/x"], "{tail}");
    }
    for own in ["x_(y)", "x[1]", "{x}", "x)y", "x?", "x?a=(1)"] {
        let kept = own.trim_end_matches('?');
        assert_eq!(urls(&format!("(https://a.io/{own})")), [format!("https://a.io/{kept}")], "{own}");
    }
    assert_eq!(urls("&lt;a href=&quot;https://a.io/x&quot;&gt;"), ["https://a.io/x"]);
    assert_eq!(urls("见https://a.io/x，和http://b.io。"), ["https://a.io/x", "http://b.io"]);
}

// CTX-98: a host, and nobody's name
#[test]
fn a_link_has_a_host_and_no_user() {
    for none in [
        "https://",
        "https:///x",
        "http://?x",
        "https://#x",
        "https://:80/x",
        "https://u@a.io/",
        "https://u:p@a.io",
        "http:/a.io",
        "ftp://a.io/",
        "httpx://a.io",
        "https://.",
        "https://)",
        "chunk_id",
    ] {
        assert_eq!(urls(none), [""; 0], "{none}");
    }
    assert_eq!(
        urls("https://a.io/@me https://b.io?m=a@b https://c.io#@"),
        ["https://a.io/@me", "https://b.io?m=a@b", "https://c.io#@"]
    );
    assert_eq!(urls("http http:// https://a.io:80"), ["https://a.io:80"]);
}

// CTX-98: literals of JSON are read as what they spell, also in prose with quotes of its own
#[test]
fn literals_are_unescaped() {
    assert_eq!(
        urls(r#"{"a":"\"https:\/\/a.io\/x\"","b":"x\nhttps:\/\/b.io\/y\nz"}"#),
        ["https://a.io/x", "https://b.io/y"]
    );
    assert_eq!(urls(r#"a 5" disk at "https:\/\/a.io\/x""#), ["https://a.io/x"]);
    assert_eq!(urls("\"a line\nand \"https:\\/\\/a.io\\/x\" C:\\"), ["https://a.io/x"]);
    assert_eq!(urls(r#""https://a.io/\u00e9""#), ["https://a.io/é"]);
    // Half a surrogate pair is no text: the link ends at its backslash.
    assert_eq!(urls(r#""https://a.io/x\ud800""#), ["https://a.io/x"]);
}

// CTX-98, CTX-21: one page once, by its URL without fragment
#[test]
fn a_page_is_listed_once() {
    assert_eq!(
        urls("https://a.io/x#1 https://a.io/x#2 https://a.io/x http://a.io/x"),
        ["https://a.io/x#1", "http://a.io/x"]
    );
    let registry = fixture();
    let body = "https://example.com/page#top";
    assert_eq!(rows(&mcp(&registry, body), body), [("url://1".to_owned(), body.to_owned())]);
}

// CTX-98: a long link is passed over
#[test]
fn a_link_is_not_too_long() {
    let link = |length: usize| format!("https://a.io/{}", "x".repeat(length - "https://a.io/".len()));
    assert_eq!(urls(&format!("{} {}", link(2049), link(2048))), [link(2048)]);
    let mut config = config();
    config.limits.sidecar_link_len = 20;
    config.limits.sidecar_links = 1;
    let registry = Registry::with_config(config).unwrap();
    let body = format!("{} {} https://b.io", link(21), link(20));
    assert_eq!(rows(&mcp(&registry, &body), &body), [("url://1".to_owned(), link(20))]);
}

// CTX-98: ids are no URLs, and external JSON makes no pieces
#[test]
fn ids_of_others_are_data() {
    let registry = fixture();
    let body =
        r#"{"chunk_id":"chunk-foreign","knowledge_id":"doc-foreign","url":"https://a.io/x","id":"a.io/y"}"#;
    assert_eq!(rows(&mcp(&registry, body), body), [("url://2".to_owned(), "https://a.io/x".to_owned())]);
    assert_eq!(registry.chunk_handle("chunk-foreign"), None);
    assert_eq!(registry.register_document("doc-next").as_deref(), Some("doc://2"));
}

// CTX-97: by the tool's source or policy, not by its name
#[test]
fn only_results_from_outside_have_the_list() {
    let config = config().policy("fetch_all", ToolPolicy::default().external());
    let registry = Registry::with_config(config).unwrap();
    let result = ToolResult::success("at https://a.io/x");
    let listed = |source, name: &str| view(&registry, source, name, &result).contains(START);
    for name in
        ["mcp_find", "server__find", "somebody_elses", "write_page", "webfetch", "knowledge_search", "bash"]
    {
        assert!(!listed(ToolSource::Native, name), "{name}");
    }
    for name in ["websearch", "read_mcp_resource", "call_mcp_tool", "fetch_all"] {
        assert!(listed(ToolSource::Builtin, name), "{name}");
    }
    assert!(listed(ToolSource::Mcp, "anything"));
    for name in ["discover_mcp_tools", "list_mcp_resources"] {
        assert!(!listed(ToolSource::Builtin, name) && !listed(ToolSource::Mcp, name), "{name}");
    }
    assert!(!registry.model_tool_result(&result).contains(START));
    assert!(!registry.model_tool_result_for_tool("marked", &result).contains(START));
    registry.mark_mcp_tools(["marked"]);
    assert!(registry.model_tool_result_for_tool("marked", &result).contains(START));
}

// CTX-97: otherwise nothing is added and nothing is registered
#[test]
fn without_a_list_nothing_is_registered() {
    let body = "at https://a.io/x";
    let next = |registry: &Registry| registry.register_url("https://next.io/", "");
    let off = fixture_without_citations();
    assert_eq!(mcp(&off, body), body);
    assert_eq!(next(&off).as_deref(), Some("url://2"));
    let failed = fixture();
    assert_eq!(view(&failed, ToolSource::Mcp, "find", &ToolResult::failure(body)), body);
    assert_eq!(next(&failed).as_deref(), Some("url://2"));
    let directory = fixture();
    assert_eq!(view(&directory, ToolSource::Mcp, "discover_mcp_tools", &ToolResult::success(body)), body);
    assert_eq!(next(&directory).as_deref(), Some("url://2"));
    assert_eq!(mcp(&fixture(), "no link"), "no link");
    let mut config = RegistryConfig::default();
    config.roles.url = None;
    assert_eq!(mcp(&Registry::with_config(config).unwrap(), body), body);
}

// CTX-97: the body stays opaque but for resources and URIs; the list names what the durable output does
#[test]
fn the_body_is_as_it_would_be() {
    let registry = fixture();
    let body = format!("doc-real {R} https://example.com/page toolnexus://doc/doc-real");
    let view = mcp(&registry, &body);
    let expected = "doc-real res://0001 https://example.com/page doc://1";
    assert_eq!(rows(&view, expected), [("url://1".to_owned(), "https://example.com/page".to_owned())]);
}

// CTX-73: a stored resource in a listed link is encoded like any other, and comes back
#[test]
fn listed_links_name_resources_by_handle() {
    let registry = fixture();
    let body = format!("https://a.io/{R} x");
    let view = mcp(&registry, &body);
    let listed = rows(&view, "https://a.io/res://0001 x");
    assert_eq!(listed, [("url://2".to_owned(), "https://a.io/res://0001".to_owned())]);
    assert_eq!(registry.decode_output_text("[x](url://2)"), format!("[x](https://a.io/{R})"));
}

// CTX-98, CTX-56, case 64: links are evidence without a title; a piece of a directory is not
#[test]
fn a_listed_link_can_be_cited() {
    let registry = fixture();
    assert_eq!(registry.register_context_chunk(chunk("chunk-listed")).as_deref(), Some("chunk://2"));
    mcp(&registry, "https://a.io/x");
    assert_eq!(
        registry.decode_output_text(r#"A<ref id="chunk://2"/> B<ref id="url://2"/>"#),
        r#"A B<web url="https://a.io/x" title="" />"#
    );
}

// CTX-97, CTX-38: a result that is compacted names the handles of its links at once, and so each time
#[test]
fn an_external_result_may_be_compacted() {
    let config = config().policy("fetch_all", ToolPolicy::default().external());
    let registry = Registry::with_config(config).unwrap();
    registry.register_document("doc-real");
    let result = ToolResult::success("doc-real at https://a.io/x");
    let view = registry.model_tool_result_for_tool("fetch_all", &result);
    assert_eq!(rows(&view, "doc://1 at url://1"), [("url://1".to_owned(), "https://a.io/x".to_owned())]);
    assert_eq!(registry.model_tool_result_for_tool("fetch_all", &result), view);
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "\\PC{0,10}",
        2 => "https?://[a-z]{1,3}\\.io(/[a-z(){}\\[\\].,&;]{0,8}){0,2}",
        2 => Just(" ".to_owned()),
        1 => "(https://|\"|\\\\|\\\\/|\\\\u00e9|\\\\ud800|&amp;|&lt;|&#64;|http|<source id=\"url://1\" url=\"x\"/>|\n)",
        1 => Just(format!("{END}{START}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-97, CTX-98: the body before the list is as it was, the list is the same each time, and each
    // handle leads to its page
    #[test]
    fn any_body_stays(pieces in prop::collection::vec(piece(), 0..12)) {
        let body = pieces.concat();
        let registry = Registry::new(true);
        let view = mcp(&registry, &body);
        let rows = rows(&view, &body);
        prop_assert_eq!(mcp(&registry, &body), view);
        for (handle, url) in rows {
            let known = registry.decode_output_text(&format!("[x]({handle})"));
            prop_assert_eq!(known, format!("[x]({url})"));
            prop_assert!(url.starts_with("http://") || url.starts_with("https://"));
            prop_assert!(!url.contains(|c: char| c.is_whitespace() || "<>\"'`\\，。；！？、（）【】".contains(c)));
        }
    }

    // CTX-98: a link written into JSON is found as it is
    #[test]
    fn links_in_json_are_found(path in "[a-z0-9&=?/é]{0,20}x", around in "\\PC{0,8}") {
        prop_assume!(!around.contains("http"));
        let url = format!("https://a.io/{path}");
        let body = json!({"text": format!("{around} {url} {around}"), "n": 1}).to_string();
        prop_assert_eq!(urls(&body.replace('/', "\\/")), [html_escape::decode_html_entities(&url)]);
    }
}
