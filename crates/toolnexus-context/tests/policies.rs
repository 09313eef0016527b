//! What each tool's arguments and results are taken for by default.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use toolnexus_context::{KeySpace, Registry, RegistryConfig, ToolPolicy};
use toolnexus_core::Toolkit;
use toolnexus_skills::{LoadSkillsOptions, load_skills};
use toolnexus_tools::{BackgroundShells, BuiltinsConfig, create_builtin_tools};

/// The tools for the resources of MCP servers, and those that a client or an agent runtime adds to a run.
const OF_OTHER_CRATES: [&str; 5] =
    ["list_mcp_resources", "read_mcp_resource", "tool_search", "task", "memory"];

/// A toolkit with every built-in tool and the one for skills.
fn toolkit() -> Toolkit {
    let everything = BuiltinsConfig {
        background: Some(BackgroundShells::new()),
        web_search: Some(Arc::new(|_query, _limit, _cancel| Box::pin(async { Ok(Vec::new()) }))),
        notebook_edit: true,
        ..Default::default()
    };
    let mut tools = create_builtin_tools(Some(&everything));
    tools.push(load_skills(&LoadSkillsOptions::default()).tool());
    Toolkit::from_tools(tools)
}

// CTX-62: every tool that ships has a policy. `call_tool` needs none: it has that of the tool it calls
#[test]
fn every_tool_that_ships_has_a_policy() {
    let (registry, toolkit) = (Registry::new(true), toolkit());
    let mut names: BTreeSet<String> = toolkit.tools().iter().map(|tool| tool.name.clone()).collect();
    names.extend(OF_OTHER_CRATES.map(str::to_owned));
    assert!(names.len() >= 20, "{names:?}");
    for name in names {
        assert!(
            registry.has_tool_policy(&name),
            "{name} has no policy: give it one in crates/toolnexus-context/src/policy.rs, an empty one if need be"
        );
    }
}

// CTX-62: no policy is that of a dynamic tool
#[test]
fn other_tools_have_none() {
    let registry = Registry::new(true);
    for name in ["server_search", "my_tool", "Bash", "call_tool", ""] {
        assert!(!registry.has_tool_policy(name), "{name}");
    }
    let config = RegistryConfig::default().policy("my_tool", ToolPolicy::default());
    assert!(Registry::with_config(config).unwrap().has_tool_policy("my_tool"));
}

// CTX-63: the empty policy decodes no key, renders and mines nothing, and does not leave results alone
#[test]
fn the_empty_policy_says_nothing() {
    let empty = ToolPolicy::default();
    let keys =
        [&empty.id_keys, &empty.text_keys, &empty.verbatim_keys, &empty.evidence_keys, &empty.encode_known];
    assert!(keys.iter().all(|keys| keys.is_empty()));
    assert!(
        empty.private_decode.is_empty() && empty.private_encode.is_empty() && empty.kinds_override.is_empty()
    );
    assert_eq!(empty.routing_key, None);
    let flags = [
        empty.directory,
        empty.render,
        empty.citations,
        empty.opaque_output,
        empty.external,
        empty.sensitive,
    ];
    assert_eq!(flags, [false; 6]);
}

// CTX-64: the policies, no more and no fewer
#[test]
fn the_default_policies() {
    let policy = ToolPolicy::default;
    let opaque = || policy().opaque_output();
    let mut expected = RegistryConfig::default();
    expected.policies.clear();
    for name in ["question", "todowrite", "skill", "memory"] {
        expected = expected.policy(name, policy());
    }
    for name in ["bash", "bash_output", "kill_shell", "read", "write", "edit", "grep", "glob", "apply_patch"]
    {
        expected = expected.policy(name, opaque());
    }
    for name in ["notebook_edit", "tool_search", "list_mcp_resources"] {
        expected = expected.policy(name, opaque());
    }
    let expected = expected
        .policy("webfetch", opaque().id_keys(["url"]).evidence_keys(["url"]))
        .policy("websearch", opaque().external())
        .policy("task", policy().citations())
        .policy("read_mcp_resource", opaque().verbatim_keys(["uri"]).external())
        .policy("discover_mcp_tools", opaque().routing_key("server_id", "mcp_server").directory())
        .policy("call_mcp_tool", opaque().routing_key("tool_ref", "mcp_tool").external());
    assert_eq!(RegistryConfig::default().policies, expected.policies);
}

// CTX-59: the one table of keys
#[test]
fn the_default_keys() {
    let mut expected = RegistryConfig::default();
    expected.key_spaces.clear();
    for (kind, keys) in [
        ("chunk", &["chunk_id", "chunk_ids", "faq_id", "faq_ids"][..]),
        ("doc", &["knowledge_id", "knowledge_ids", "suspected_knowledge_ids"]),
        ("kb", &["knowledge_base", "knowledge_base_id", "knowledge_base_ids", "kb_id", "kb_ids"]),
        ("url", &["url", "urls"]),
    ] {
        for key in keys {
            expected = expected.key_space(key, KeySpace::of(kind));
        }
    }
    let expected = expected.key_space("source_refs", KeySpace::reference("doc"));
    assert_eq!(RegistryConfig::default().key_spaces, expected.key_spaces);
}

// CTX-59: an application adds keys, and one that lists several kinds
#[test]
fn an_application_adds_keys() {
    let config = RegistryConfig::default()
        .key_space("Page_ID", KeySpace::of("doc"))
        .policy("read_page", ToolPolicy::default().id_keys(["page_id"]))
        .policy("read_any", ToolPolicy::default().id_keys(["id"]).kinds_of("ID", ["doc", "chunk"]));
    assert!(config.key_spaces.contains_key("page_id"));
    let registry = Registry::with_config(config).unwrap();
    registry.register_document("doc-one");
    registry.register_context_chunk(toolnexus_context::SourceRef::new("chunk-one"));
    let decoded = |tool: &str, arguments: &str| {
        let mut calls = [toolnexus_context::ModelToolCall::new("call", tool, arguments)];
        registry.decode_tool_calls(&mut calls);
        calls[0].arguments.clone()
    };
    assert_eq!(decoded("read_page", r#"{"page_id":"doc://1"}"#), r#"{"page_id":"doc-one"}"#);
    assert_eq!(decoded("read_any", r#"{"id":["doc://1","c1"]}"#), r#"{"id":["doc-one","chunk-one"]}"#);
    // CTX-61: the name of a key alone decodes nothing.
    assert_eq!(decoded("another_tool", r#"{"page_id":"d1"}"#), r#"{"page_id":"d1"}"#);
}

// CTX-59, CTX-60: to say what a key holds is to say that it holds ids
#[test]
fn a_key_whose_kinds_are_said_is_an_id_key() {
    let mut by_field = ToolPolicy::default();
    by_field.kinds_override.insert("ID".into(), vec!["doc".into()]);
    for policy in [ToolPolicy::default().kinds_of("ID", ["doc", "chunk"]), by_field] {
        let registry = Registry::with_config(RegistryConfig::default().policy("read_any", policy)).unwrap();
        registry.register_document("doc-real");
        let mut calls = [toolnexus_context::ModelToolCall::new("c", "read_any", r#"{"id":"doc://1"}"#)];
        registry.decode_tool_calls(&mut calls);
        assert_eq!(calls[0].arguments, r#"{"id":"doc-real"}"#);
    }
}
