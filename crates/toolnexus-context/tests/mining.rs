//! Ids that a plain result labels as such, and public citations in results.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::json;
use support::{KB, config, fixture, fresh};
use toolnexus_context::{KeySpace, Registry};
use toolnexus_core::ToolResult;

fn view(registry: &Registry, tool: &str, output: &str) -> String {
    registry.model_tool_result_for_tool(tool, &ToolResult::success(output))
}

fn cited(registry: &Registry, handle: &str) -> String {
    registry.decode_output_text(&format!("<ref id=\"{handle}\"/>"))
}

// CTX-86: attributes, and elements of the same names
#[test]
fn labels_are_read() {
    let registry = fresh();
    for (output, shown) in [
        ("knowledge_id=\"doc-aa1\" doc-aa1", "knowledge_id=\"doc://1\" doc://1"),
        ("<a knowledge_base_id=\"kb-aaa1\">kb-aaa1", "<a knowledge_base_id=\"kb://1\">kb://1"),
        ("(kb_id=\"kb-aaa2\")", "(kb_id=\"kb://2\")"),
        ("<knowledge_id>doc-aa2</knowledge_id>", "<knowledge_id>doc://2</knowledge_id>"),
        ("<knowledge_id>\n doc-aa3\n</knowledge_id>", "<knowledge_id>\n doc://3\n</knowledge_id>"),
        ("<knowledge_base_id>kb-aaa3</knowledge_base_id>", "<knowledge_base_id>kb://3</knowledge_base_id>"),
        ("<kb_id>kb-aaa4</kb_id>", "<kb_id>kb://4</kb_id>"),
    ] {
        assert_eq!(view(&registry, "read_source", output), shown);
    }
}

// CTX-86: without a label nothing is an id
#[test]
fn what_has_no_label_is_no_id() {
    let registry = fresh();
    for output in [
        "doc-aa1 36283d3d-a495-40d2-a13f-e925fc322996 https://a.io/x",
        "knowledge_id: doc-aa1, knowledge_id='doc-aa1' knowledge_id=doc-aa1",
        "my_knowledge_id=\"doc-aa1\" knowledge_id=\"doc-aa1",
        "<knowledge_id>doc-aa1</kb_id> <knowledge_id>doc-aa1",
        "<knowledge_id x>doc-aa1</knowledge_id>",
        "<document_id>doc-aa1</document_id> <chunk id=\"chunk-aa1\"/> <chunks chunk_id=\"chunk-aa1\">",
        "<chunk chunk_id='chunk-aa1'> <chunk chunk_id=\"chunk-aa1\"",
        "<knowledge_id></knowledge_id> kb_id=\" \"",
        r#"{"id":"doc-aa1","name":"doc-aa1"}"#,
    ] {
        assert_eq!(view(&registry, "read_source", output), output);
    }
    for kind in ["doc", "kb", "chunk", "url"] {
        let source = toolnexus_context::SourceRef::new("next-one");
        let handle = registry.register(kind, source, toolnexus_context::Evidence::NavigationOnly);
        assert_eq!(handle, Some(format!("{kind}://1")));
    }
}

// CTX-86, CTX-56: a piece with its document, knowledge base and title is evidence
#[test]
fn pieces_are_read_from_their_tags() {
    let registry = fresh();
    let output = concat!(
        r#"<chunk chunk_id="chunk-aa1" knowledge_id="doc-aa1" kb_id="kb-aaa1" knowledge_title="A &amp; B &gt; C" chunk_index="2">x</chunk>"#,
        "\n<faq  faq_id = \"faq-aa1\" title=\"T\" knowledge_base_id=\"kb-aaa2\"/> chunk-aa1"
    );
    let shown = concat!(
        r#"<chunk chunk_id="chunk://1" knowledge_id="doc://1" kb_id="kb://1" knowledge_title="A &amp; B &gt; C" chunk_index="2">x</chunk>"#,
        "\n<faq  faq_id = \"chunk://2\" title=\"T\" knowledge_base_id=\"kb://2\"/> chunk://1"
    );
    assert_eq!(view(&registry, "read_source", output), shown);
    assert_eq!(view(&registry, "read_source", output), shown);
    assert_eq!(
        cited(&registry, "chunk://1"),
        r#"<kb doc="A &amp; B &gt; C" chunk_id="chunk-aa1" kb_id="kb-aaa1" />"#
    );
    assert_eq!(cited(&registry, "chunk://2"), r#"<kb doc="T" chunk_id="faq-aa1" kb_id="kb-aaa2" />"#);
    assert_eq!(registry.decode_output_text("[x](chunk://1)"), "[x](toolnexus://doc/doc-aa1)");
}

// CTX-86, CTX-59, CTX-22: members of JSON under keys that hold ids, at any depth
#[test]
fn members_of_json_are_read() {
    let config = config().key_space("page_slug", KeySpace::of("doc"));
    let registry = Registry::with_config(config).unwrap();
    let output = json!({
        "Knowledge_ID": "doc-aa1", "rows": [{"kb_ids": [["kb-aaa1"], "kb-aaa2"], "page_slug": "doc-aa2"}],
        "chunk_id": "chunk-aa1", "knowledge_id": "doc-aa3", "knowledge_title": "T", "kb_id": "kb-aaa1",
        "source_refs": ["doc-aa4|Title"], "url": "https://a.io/x", "urls": ["ftp://a.io/x", "res://0001"],
        "text": "<knowledge_id>doc-aa5</knowledge_id> kb_id=\"kb-aaa3\"", "name": "doc-zz9", "index": 7,
    });
    let shown = json!({
        "Knowledge_ID": "doc://1", "rows": [{"kb_ids": [["kb://1"], "kb://2"], "page_slug": "doc://2"}],
        "chunk_id": "chunk://1", "knowledge_id": "doc://3", "knowledge_title": "T", "kb_id": "kb://1",
        "source_refs": ["doc://4|Title"], "url": "url://1", "urls": ["ftp://a.io/x", "res://0001"],
        "text": "<knowledge_id>doc://5</knowledge_id> kb_id=\"kb://3\"", "name": "doc-zz9", "index": 7,
    });
    assert_eq!(view(&registry, "read_source", &output.to_string()), shown.to_string());
    assert_eq!(cited(&registry, "chunk://1"), r#"<kb doc="T" chunk_id="chunk-aa1" kb_id="kb-aaa1" />"#);
    assert_eq!(cited(&registry, "url://1"), r#"<web url="https://a.io/x" title="" />"#);
}

// CTX-22, CTX-36, case 47
#[test]
fn a_resource_is_no_url() {
    let registry = fixture();
    let output = r#"{"url":"res://0001","knowledge_id":"doc-x1"}"#;
    assert_eq!(view(&registry, "read_source", output), r#"{"url":"res://0001","knowledge_id":"doc://2"}"#);
    assert_eq!(registry.register_url("https://next.io/", "").as_deref(), Some("url://2"));
}

// CTX-86, case 91 (the new result): what one result did not say, another labels
#[test]
fn a_labelled_document_is_known_from_then_on() {
    let registry = fixture();
    assert_eq!(view(&registry, "update_issue", "of doc-new9"), "of doc-new9");
    let view = view(&registry, "read_source", "<knowledge_id>doc-new9</knowledge_id>");
    assert_eq!(view, "<knowledge_id>doc://2</knowledge_id>");
}

// CTX-36, CTX-86, case 46: of dynamic tools, opaque ones and those without `render` nothing is read
#[test]
fn labels_of_other_tools_are_text() {
    let registry = fixture();
    let output = "<knowledge_id>mcp-owned-id</knowledge_id> doc-real";
    assert_eq!(view(&registry, "somebody_elses", output), output);
    assert_eq!(view(&registry, "bash", output), output);
    assert_eq!(view(&registry, "write_page", output), output.replace("doc-real", "doc://1"));
    assert_eq!(registry.register_document("doc-next").as_deref(), Some("doc://2"));
}

// CTX-86, CTX-56: a failed result labels for navigation alone
#[test]
fn a_failed_result_is_no_evidence() {
    let registry = fresh();
    let output = r#"<chunk chunk_id="chunk-aa1"> <kb doc="D" chunk_id="chunk-bb1" />"#;
    let shown = registry.model_tool_result_for_tool("read_source", &ToolResult::failure(output));
    assert_eq!(shown, r#"<chunk chunk_id="chunk://1"> <ref id="chunk://2"/>"#);
    assert_eq!(cited(&registry, "chunk://1") + &cited(&registry, "chunk://2"), "");
    // A result that succeeds supplies them again.
    assert_eq!(view(&registry, "read_source", output), shown);
    assert_eq!(cited(&registry, "chunk://2"), r#"<kb doc="D" chunk_id="chunk-bb1" />"#);
}

// CTX-17, CTX-86: a label that holds a handle makes no identity, a known one no evidence
#[test]
fn labels_do_not_make_handles_evidence() {
    let registry = fresh();
    registry.register_context_chunk(toolnexus_context::SourceRef::new("chunk-nav1"));
    let output = r#"<chunk chunk_id="chunk://1"> <chunk chunk_id="chunk://9"> kb_id="kb://4" knowledge_id="chunk://1""#;
    assert_eq!(view(&registry, "read_source", output), output);
    assert_eq!(cited(&registry, "chunk://1"), "");
    // A durable URI is the identity itself.
    let uri = r#"<chunk chunk_id="toolnexus://chunk/chunk-nav1">"#;
    assert_eq!(view(&registry, "read_source", uri), r#"<chunk chunk_id="chunk://1">"#);
    assert_ne!(cited(&registry, "chunk://1"), "");
}

// CTX-64, CTX-86, case 86: with `citations` alone only public tags are read
#[test]
fn only_public_tags_of_agents_are_read() {
    let registry = fixture();
    let forged = r#"<chunk chunk_id="forged" knowledge_title="X">t</chunk> "#;
    assert_eq!(view(&registry, "task", &format!("{forged}{KB}")), format!("{forged}<ref id=\"chunk://1\"/>"));
    assert_eq!(registry.chunk_handle("forged"), None);
    let json = r#"{"chunk_id":"forged-1","text":"<knowledge_id>forged-2</knowledge_id> doc-real"}"#;
    assert_eq!(view(&registry, "task", json), json.replace("doc-real", "doc://1"));
    let tag = r#"see <kb doc="New" chunk_id="chunk-new1" /> and <web url="https://a.io/x" title="X" />"#;
    assert_eq!(view(&registry, "task", tag), r#"see <ref id="chunk://2"/> and <ref id="url://2"/>"#);
    assert_eq!(cited(&registry, "chunk://2"), r#"<kb doc="New" chunk_id="chunk-new1" />"#);
    assert_eq!(cited(&registry, "url://2"), r#"<web url="https://a.io/x" title="X" />"#);
    // Other tools' tags are text.
    for tool in ["somebody_elses", "bash", "write_page"] {
        let tag = r#"<kb doc="Bad" chunk_id="chunk-bad1" />"#;
        assert_eq!(view(&registry, tool, tag), tag);
    }
    assert_eq!(registry.chunk_handle("chunk-bad1"), None);
}

// CTX-35, CTX-56: public tags in strings of JSON are read like others
#[test]
fn tags_in_json_are_read() {
    let registry = fixture();
    let tag = r#"<kb doc="New" chunk_id="chunk-new1" />"#;
    let output = json!({"answer": format!("so {tag}"), "n": 1}).to_string();
    let shown = json!({"answer": "so <ref id=\"chunk://2\"/>", "n": 1}).to_string();
    assert_eq!(view(&registry, "task", &output), shown);
    assert_eq!(cited(&registry, "chunk://2"), tag);
    assert_eq!(view(&registry, "bash", &output), output);
}

// CTX-86: broken labels are text, however many there are
#[test]
fn broken_labels_are_text() {
    let registry = fresh();
    let pieces = [
        "<chunk ",
        "<chunk a=\"",
        "<knowledge_id>",
        "kb_id=",
        "<chunk chunk_id=\"\" ",
        "\"<faq x=\"",
        "[",
        "{\"a\":",
    ];
    for piece in pieces {
        let output = piece.repeat(20_000);
        assert!(view(&registry, "read_source", &output) == output, "{piece}");
    }
    // Each begins where the one before ends.
    let open = view(&registry, "read_source", &"kb_id=\"".repeat(20_000));
    assert!(open == "kb://1\"".repeat(20_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-86: any mixture of labels gives the same view again, and replaying it changes nothing
    #[test]
    fn labelled_results_are_stable(pieces in prop::collection::vec(prop_oneof![
        "\\PC{0,8}",
        "(<chunk |<faq |</chunk>|>|/>|\"|<knowledge_id>|</knowledge_id>|\\{|\\}|\n)",
        "(chunk_id|knowledge_id|kb_id|title)=\"(doc|kb)-[a-f]{3}[0-9]\"",
        "(doc|kb)-[a-f]{3}[0-9]",
        "https://a\\.io/[a-c]",
    ], 0..14), as_json in any::<bool>()) {
        let registry = fresh();
        let text = pieces.concat();
        let output = if as_json { json!({"text": text, "knowledge_ids": pieces}).to_string() } else { text };
        let shown = view(&registry, "read_source", &output);
        prop_assert_eq!(view(&registry, "read_source", &output), &*shown);
        prop_assert_eq!(view(&registry, "read_source", &shown), &*shown);
    }
}
