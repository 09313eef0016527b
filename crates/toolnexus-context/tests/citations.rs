//! What an answer may cite, and how citations come and go: from sources to public tags, and from history back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{KB, S, chunk, config, fixture, fresh};
use toolnexus_context::{CitationFormat, CitedSource, Evidence, Registry, SourceRef};
use toolnexus_core::ToolResult;
use toolnexus_llm::Message;

/// Whether an answer may cite the handle.
fn is_citable(registry: &Registry, handle: &str) -> bool {
    !registry.decode_output_text(&format!("<ref id=\"{handle}\"/>")).is_empty()
}

/// The text of a message of this role as the model sees it.
fn shown(registry: &Registry, role: &str, text: &str) -> String {
    let message = Message::from(json!({"role": role, "content": text}));
    let encoded = registry.encode_messages(&[message]);
    encoded.iter().find(|message| message.role() == role).unwrap().value()["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn found(rows: Value) -> ToolResult {
    let metadata = json!({"context": {"display_type": "search_results", "results": rows}});
    ToolResult::success("found").with_metadata(metadata.as_object().unwrap().clone())
}

// CTX-56, CTX-52, cases 39, 40: the handle of a piece that was listed becomes citable when it is read, under its
// old number, and stays so
#[test]
fn evidence_comes_and_never_goes() {
    let registry = fixture();
    assert_eq!(registry.register_context_chunk(chunk("chunk-2")).as_deref(), Some("chunk://2"));
    assert_eq!(registry.decode_output_text("chunk://2"), "toolnexus://doc/doc-real");
    assert!(!is_citable(&registry, "chunk://2"));
    let row = json!([{"chunk_id": "chunk-2", "knowledge_id": "doc-real", "content": "text"}]);
    let view = registry.model_tool_result_for_tool("knowledge_search", &found(row));
    assert!(view.contains(r#"<chunk id="chunk://2""#), "{view}");
    let tag = KB.replace("chunk-real", "chunk-2");
    assert_eq!(registry.decode_output_text(r#"<ref id="chunk://2"/> chunk://2"#), format!("{tag} {tag}"));
    registry.register_context_chunk(chunk("chunk-2"));
    shown(&registry, "assistant", &tag);
    assert!(is_citable(&registry, "chunk://2"));
}

// CTX-56: what is current evidence
#[test]
fn retrieved_sources_are_citable() {
    let registry = fresh();
    registry.register_chunk(SourceRef::new("chunk-1"));
    registry.register_url("https://a.io/1", "");
    registry.register_sources(&[SourceRef { document_id: "doc-2".into(), ..SourceRef::new("chunk-2") }]);
    registry.register("url", SourceRef::new("https://a.io/2"), Evidence::Current);
    registry.model_tool_result_for_tool(
        "knowledge_search",
        &found(json!([{"chunk_id": "chunk-3", "content": "x"}])),
    );
    let cited = ToolResult::success(r#"it says <kb doc="D" chunk_id="chunk-4" />"#);
    registry.model_tool_result_for_tool("task", &cited);
    registry.model_tool_result_for_tool(
        "knowledge_search",
        &ToolResult::success(r#"<chunk chunk_id="chunk-5">"#),
    );
    registry.mark_mcp_tools(["search"]);
    registry.model_tool_result_for_tool("search", &ToolResult::success("see https://a.io/3"));
    for handle in
        ["chunk://1", "chunk://2", "chunk://3", "chunk://4", "chunk://5", "url://1", "url://2", "url://3"]
    {
        assert!(is_citable(&registry, handle), "{handle}");
    }
    // Kinds that are not citable are not, however they were retrieved.
    assert_eq!(registry.decode_output_text("doc://1"), "toolnexus://doc/doc-2");
    assert!(!is_citable(&registry, "doc://1"));
}

// CTX-56: what is for navigation alone
#[test]
fn sources_that_were_only_named_are_not_citable() {
    let registry = fresh();
    registry.register_context_chunk(SourceRef::new("chunk-1"));
    registry.register("url", SourceRef::new("https://a.io/1"), Evidence::NavigationOnly);
    let history = [
        json!({"role": "user", "content": "read toolnexus://chunk/chunk-2"}),
        json!({"role": "assistant", "content": r#"as <kb doc="D" chunk_id="chunk-3" /> says"#, "tool_calls": [
            {"id": "1", "type": "function", "function":
                {"name": "list_chunks", "arguments": r#"{"chunk_id":"chunk-4"}"#}},
            {"id": "2", "type": "function", "function": {"name": "knowledge_search", "arguments": "{}"}}]}),
        json!({"role": "tool", "tool_call_id": "1", "content": "none"}),
        json!({"role": "tool", "tool_call_id": "2", "content": r#"<chunk chunk_id="chunk-5">"#}),
    ];
    registry.encode_messages(&history.map(Message::from));
    let failed = ToolResult::failure(r#"no such thing: <kb doc="D" chunk_id="chunk-6" />"#);
    let view = registry.model_tool_result_for_tool("knowledge_search", &failed);
    assert_eq!(view, r#"no such thing: <ref id="chunk://6"/>"#);
    registry.image_sources_note(&["chunk-7".into()], 0);
    for (number, id) in (1..=6).map(|number| (number, format!("chunk-{number}"))) {
        let handle = registry.chunk_handle(&id).unwrap_or_else(|| panic!("{id} is not registered"));
        assert!(!is_citable(&registry, &handle), "{number}: {handle}");
        // It may still be used in arguments.
        assert_eq!(registry.decode_output_text(&format!("/{handle}")), format!("/{id}"));
    }
    assert!(!is_citable(&registry, "url://1"));
    assert_eq!(registry.chunk_handle("chunk-7"), None);
}

// CTX-35, CTX-70, case 41
#[test]
fn citations_in_history_become_compact() {
    let registry = fixture();
    let text = concat!(
        r#"Knowledge <kb doc="A &amp; B.pdf" chunk_id="c-real" kb_id="kb-real" />; "#,
        r#"web <web url="https://e.com/a?x=1&amp;y=2" title="E &amp; M" />"#,
    );
    let compact = r#"Knowledge <ref id="chunk://2"/>; web <ref id="url://2"/>"#;
    assert_eq!(shown(&registry, "assistant", text), compact);
    assert_eq!(registry.decode_output_text(compact), "Knowledge ; web ", "until they are read");
    registry.register_chunk(SourceRef::new("c-real"));
    registry.register_url("https://e.com/a?x=1&y=2#part", "");
    assert_eq!(registry.decode_output_text(compact), text);
}

// CTX-70: the tags, exactly
#[test]
fn public_tags_are_written_exactly() {
    let registry = fresh();
    registry.register_chunk(SourceRef {
        title: r#"<A> & "B's""#.into(),
        knowledge_base_id: "k&1".into(),
        ..SourceRef::new(r#"c<'">&1"#)
    });
    registry.register_chunk(SourceRef::new("chunk-2"));
    registry.register_url("https://a.io/?x=1&y='2'#z", "T & \"U\"");
    registry.register_url("https://b.io/", "");
    assert_eq!(
        registry.decode_output_text(
            r#"<ref id="chunk://1"/><ref id="chunk://2"/><ref id="url://1"/><ref id="url://2"/>"#
        ),
        concat!(
            r#"<kb doc="&lt;A&gt; &amp; &#34;B&#39;s&#34;" chunk_id="c&lt;&#39;&#34;&gt;&amp;1" kb_id="k&amp;1" />"#,
            r#"<kb doc="" chunk_id="chunk-2" />"#,
            r#"<web url="https://a.io/?x=1&amp;y=&#39;2&#39;#z" title="T &amp; &#34;U&#34;" />"#,
            r#"<web url="https://b.io/" title="" />"#,
        )
    );
}

// CTX-70, CTX-54: a format of the application's takes the place of `<web …>`: then that is ordinary text, and the
// new tag is dropped when the model writes it
#[test]
fn formats_are_replaced_by_kind() {
    let link = CitationFormat::new(
        "cite",
        |source| format!("<cite u=\"{}\">", source.id),
        |tag| {
            let mut cited = CitedSource::default();
            cited.id = tag.split('"').nth(1)?.to_owned();
            cited.title = "read back".into();
            Some(cited)
        },
    );
    let registry = Registry::with_config(config().citation_format("url", link)).unwrap();
    registry.register_url("https://a.io/1", "");
    assert_eq!(
        registry.decode_output_text(r#"<ref id="url://1"/> <web url="x"> <cite u="x"> </CITE>"#),
        r#"<cite u="https://a.io/1"> <web url="x">  "#
    );
    assert_eq!(
        shown(&registry, "assistant", r#"<Cite u="https://a.io/1"> <cite> <web url="https://a.io/5" />"#),
        r#"<ref id="url://1"/> <cite> <web url="https://a.io/5" />"#
    );
}

// CTX-1, CTX-2, CTX-35: an answer goes into the history of another execution, which numbers for itself
#[test]
fn an_answer_crosses_executions_by_its_durable_form() {
    let registry = fixture();
    let answer = registry.decode_output_text(r#"A <ref id="chunk://1"/>, see doc://1 and url://1."#);
    let next = fresh();
    next.register_chunk(SourceRef::new(S));
    next.register_document("other-document");
    let encoded = shown(&next, "assistant", &answer);
    assert_eq!(encoded, r#"A <ref id="chunk://2"/>, see doc://2 and https://example.com/page."#);
    assert_eq!(
        next.decode_output_text(&encoded),
        "A , see toolnexus://doc/doc-real and https://example.com/page."
    );
    next.register_chunk(chunk("chunk-real"));
    assert_eq!(next.decode_output_text(&encoded), answer);
}
