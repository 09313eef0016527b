//! What the tests of this crate share: the fixture of the cases.
#![allow(dead_code, reason = "each test file uses its own part")]

use toolnexus_context::{Registry, RegistryConfig, ResourcePattern, SourceRef, ToolPolicy};

/// A stored resource, `res://0001` of the fixture.
pub(crate) const R: &str = "resource://AbCdEfGhIjKlMnOpQrStUv";
/// An MCP server's durable id.
pub(crate) const S: &str = "8f7a5b68-a7ab-4565-b6f3-1cae2578f040";
/// An MCP tool's durable reference.
pub(crate) const T: &str = "mcpt_123456789abcdef";
/// The public citation of `chunk-real`.
pub(crate) const KB: &str = r#"<kb doc="Doc" chunk_id="chunk-real" kb_id="kb-real" />"#;
/// A UUID.
pub(crate) const U: &str = "36283d3d-a495-40d2-a13f-e925fc322996";

/// The configuration of the fixture.
pub(crate) fn config() -> RegistryConfig {
    let policy = ToolPolicy::default;
    RegistryConfig::default()
        .resource_pattern(ResourcePattern::SummarySlug)
        .resource_pattern(ResourcePattern::LegacyStorage)
        .policy("knowledge_search", policy().id_keys(["knowledge_base_ids"]).rendered())
        .policy("list_chunks", policy().id_keys(["knowledge_id", "faq_id", "chunk_id"]).rendered())
        .policy("read_document", policy().id_keys(["id"]).kinds_of("id", ["doc", "chunk"]).rendered())
        .policy("read_source", policy().id_keys(["knowledge_id"]).rendered())
        .policy("web_fetch", policy().id_keys(["url", "urls"]).rendered())
        .policy("write_page", policy().id_keys(["source_refs"]))
        .policy("database_query", policy().text_keys(["sql"]).rendered())
        .policy("data_analysis", policy().id_keys(["knowledge_id"]))
        .policy(
            "read_issue",
            policy()
                .private_decode("issue_id", "issue")
                .private_encode("id", "issue")
                .encode_known(["issue"])
                .rendered(),
        )
        .policy("update_issue", policy().private_decode("issue_id", "issue").encode_known(["issue"]))
}

/// A registry of that configuration with nothing in it.
pub(crate) fn fresh() -> Registry {
    Registry::with_config(config()).unwrap()
}

/// The fixture F of the cases.
pub(crate) fn fixture() -> Registry {
    let registry = fresh();
    fill(&registry);
    registry
}

/// The fixture with citations turned off.
pub(crate) fn fixture_without_citations() -> Registry {
    let registry = Registry::with_config(config().citations(false)).unwrap();
    fill(&registry);
    registry
}

fn fill(registry: &Registry) {
    assert_eq!(registry.register_document("doc-real").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_knowledge_base("kb-real").as_deref(), Some("kb://1"));
    assert_eq!(registry.register_chunk(chunk("chunk-real")).as_deref(), Some("chunk://1"));
    assert_eq!(registry.register_url("https://example.com/page", "Example").as_deref(), Some("url://1"));
    assert_eq!(registry.register_issue("issue-uuid").as_deref(), Some("i1"));
    assert_eq!(registry.compact_known_text(R), "res://0001");
}

/// A piece of `doc-real`.
pub(crate) fn chunk(id: &str) -> SourceRef {
    let mut source = SourceRef::new(id);
    source.document_id = "doc-real".into();
    source.knowledge_base_id = "kb-real".into();
    source.title = "Doc".into();
    source
}
