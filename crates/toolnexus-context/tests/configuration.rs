//! What an application may say of its identities, and how what contradicts itself is refused.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{R, U};
use toolnexus_context::{
    CitationFormat, CitedSource, ContextError, ContextOptions, Evidence, KeySpace, Limits, ModelToolCall,
    PrivateSpace, Registry, RegistryConfig, ResourcePattern, SourceKind, SourceRef, TextForm, ToolPolicy,
};

/// The refusal, which a registry and a client's boundary give alike.
fn refused(config: RegistryConfig) -> ContextError {
    let error = Registry::with_config(config.clone()).unwrap_err();
    assert_eq!(ContextOptions::new(config).unwrap_err(), error);
    error
}

fn text(config: RegistryConfig) -> String {
    refused(config).to_string()
}

fn with_policy(policy: ToolPolicy) -> RegistryConfig {
    RegistryConfig::default().policy("my_tool", policy)
}

fn policy() -> ToolPolicy {
    ToolPolicy::default()
}

// CTX-4, CTX-5: the spaces of the default, and that it is valid
#[test]
fn the_default_is_what_the_table_says() {
    let config = RegistryConfig::default();
    let kinds =
        config.kinds.iter().map(|kind| (kind.name.as_str(), kind.legacy, kind.citable, kind.text_form));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            ("chunk", Some('c'), true, TextForm::Uri),
            ("doc", Some('d'), false, TextForm::Uri),
            ("kb", Some('b'), false, TextForm::Uri),
            ("url", Some('w'), true, TextForm::Value),
        ]
    );
    let of = |spaces: &[PrivateSpace]| -> Vec<_> {
        spaces
            .iter()
            .map(|space| (space.name.clone(), space.prefix.clone(), space.width, space.start))
            .collect()
    };
    assert_eq!(of(&config.private_spaces), [("issue".to_owned(), "i".to_owned(), 0, 1)]);
    assert_eq!(
        of(&config.routing_spaces),
        [("mcp_server".to_owned(), "ms".to_owned(), 0, 1), ("mcp_tool".to_owned(), "mt".to_owned(), 0, 1)]
    );
    assert_eq!(config.resource_patterns, [ResourcePattern::Default]);
    assert_eq!(
        (config.uri_scheme.as_str(), config.legacy_handles, config.citations),
        ("toolnexus", true, true)
    );
    assert_eq!((config.min_text_len, config.max_tag_len), (6, 2048));
    assert!(Registry::with_config(config).unwrap().has_tool_policy("bash"));
    assert!(Registry::new(false).has_tool_policy("bash"));
}

// CTX-84: the limits are configuration, and these are their defaults
#[test]
fn the_default_limits() {
    let limits = Limits::default();
    assert_eq!((limits.search_evidence, limits.fetch_summary), (500, 4000));
    assert_eq!((limits.fetch_content, limits.fetch_total), (8000, 16000));
    assert_eq!((limits.sidecar_links, limits.sidecar_link_len), (50, 2048));
}

// CTX-5: kinds and private spaces of the application's own
#[test]
fn kinds_and_spaces_can_be_added() {
    let mut ticket = PrivateSpace::new("ticket", "ref-");
    (ticket.width, ticket.start) = (3, 0);
    let config = RegistryConfig::default()
        .kind(SourceKind::new("paper").legacy('P').citable())
        .kind(SourceKind::new("site").text_form(TextForm::Value))
        .private_space(ticket)
        .policy("read_paper", policy().id_keys(["paper_id"]).private_decode("ticket_id", "ticket"))
        .key_space("paper_id", KeySpace::of("paper"));
    let registry = Registry::with_config(config).unwrap();
    let mut source = SourceRef::new("paper-one");
    source.title = "A & B".into();
    assert_eq!(registry.register("paper", source, Evidence::Current).as_deref(), Some("paper://1"));
    assert_eq!(
        registry.register("paper", SourceRef::new("p1"), Evidence::Current).as_deref(),
        Some("paper://1")
    );
    assert_eq!(registry.decode_output_text("[x](paper://1)"), "[x](toolnexus://paper/paper-one)");
    assert_eq!(
        registry.decode_output_text(r#"<ref id="p1"/>"#),
        r#"<paper-source id="paper-one" title="A &amp; B" />"#
    );
    let page = SourceRef::new("https://e.com/#top");
    assert_eq!(registry.register("site", page, Evidence::Current).as_deref(), Some("site://1"));
    assert_eq!(registry.decode_output_text("site://1"), "https://e.com/#top");
    // Not citable, so no evidence makes a citation of it.
    assert_eq!(registry.decode_output_text(r#"<ref id="site://1"/>"#), "");
}

// CTX-70: the general form is read back, and only its own tags are dropped
#[test]
fn the_general_citation_is_read_back() {
    let registry =
        Registry::with_config(RegistryConfig::default().kind(SourceKind::new("paper").citable())).unwrap();
    let tag = r#"<paper-source title="&quot;A&quot;" id="paper &amp; one" />"#;
    let history = serde_json::json!({"role": "assistant", "content": format!("See {tag}.")});
    let encoded = registry.encode_messages(&[history.into()]);
    assert_eq!(encoded.last().unwrap()["content"], r#"See <ref id="paper://1"/>."#);
    assert_eq!(registry.decode_output_text("paper://1"), "toolnexus://paper/paper%20%26%20one");
    assert_eq!(registry.decode_output_text("a <paper-source id=\"x\" />b</paper-source>"), "a b");
    assert_eq!(registry.decode_output_text("<paper> <paper-sources>"), "<paper> <paper-sources>");
}

// CTX-5, CTX-70: a format of the application's takes the place of the default
#[test]
fn a_citation_format_can_be_given() {
    let render = |source: &CitedSource| format!("<cite id={}>", source.id);
    let config =
        RegistryConfig::default().citation_format("chunk", CitationFormat::new("cite", render, |_| None));
    let registry = Registry::with_config(config).unwrap();
    registry.register_chunk(SourceRef::new("chunk-one"));
    assert_eq!(registry.decode_output_text(r#"<ref id="chunk://1"/>"#), "<cite id=chunk-one>");
    assert_eq!(registry.decode_output_text("<cite x> <kb y>"), " <kb y>");
}

// CTX-6: the scheme of durable URIs
#[test]
fn the_scheme_can_be_set() {
    let registry = Registry::with_config(RegistryConfig::default().uri_scheme("weknora")).unwrap();
    registry.register_knowledge_base("kb-one");
    registry.register_document("doc-one");
    registry.register_context_chunk(SourceRef::new("chunk-one"));
    assert_eq!(
        registry.decode_output_text("kb://1 doc://1 chunk://1"),
        "weknora://kb/kb-one weknora://doc/doc-one weknora://chunk/chunk-one"
    );
    assert_eq!(registry.register_document("weknora://doc/doc-one").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_document("toolnexus://doc/doc-one").as_deref(), Some("doc://2"));
}

// CTX-7: without old forms such an id is one like any other
#[test]
fn old_forms_can_be_turned_off() {
    let registry = Registry::with_config(RegistryConfig::default().legacy_handles(false)).unwrap();
    assert_eq!(registry.register_document("d1").as_deref(), Some("doc://1"));
    assert_eq!(registry.decode_output_text("doc://1"), "toolnexus://doc/d1");
    assert_eq!(registry.register_document("toolnexus://doc/d1").as_deref(), Some("doc://1"));
    assert_eq!(Registry::new(true).register_document("d1"), None);
}

// CTX-5: a kind is renamed in everything that speaks of it
#[test]
fn a_kind_can_be_renamed() {
    let format = CitationFormat::new("cite", |source| format!("<cite {}>", source.id), |_| None);
    let config = RegistryConfig::default()
        .policy("read_any", policy().id_keys(["id", "knowledge_id"]).kinds_of("id", ["doc", "chunk"]))
        .citation_format("chunk", format)
        .rename_kind("chunk", "piece")
        .rename_kind("doc", "document")
        .rename_kind("page", "doc");
    let registry = Registry::with_config(config).unwrap();
    assert_eq!(registry.register_document("doc-one").as_deref(), Some("document://1"));
    assert_eq!(registry.register_chunk(SourceRef::new("chunk-one")).as_deref(), Some("piece://1"));
    assert_eq!(
        registry.decode_output_text(r#"<ref id="piece://1"/> document://1 doc://42"#),
        "<cite chunk-one> toolnexus://document/doc-one doc://42"
    );
    let mut calls =
        [ModelToolCall::new("c", "read_any", r#"{"id":["document://1","c1"],"knowledge_id":"d1"}"#)];
    registry.decode_tool_calls(&mut calls);
    assert_eq!(calls[0].arguments, r#"{"id":["doc-one","chunk-one"],"knowledge_id":"doc-one"}"#);
}

// CTX-23: patterns are those that are given
#[test]
fn resource_patterns_are_configuration() {
    let mut config = RegistryConfig::default();
    assert_eq!(Registry::with_config(config.clone()).unwrap().compact_known_text(R), "res://0001");
    config.resource_patterns =
        vec![ResourcePattern::Regex("blob:[0-9a-f]+".into()), ResourcePattern::SummarySlug];
    let registry = Registry::with_config(config).unwrap();
    assert_eq!(
        registry.compact_known_text(&format!("{R} blob:0aF summary/{U}")),
        format!("{R} res://0001F res://0002")
    );
}

// CTX-5
#[test]
fn a_kind_is_given_once() {
    assert_eq!(
        text(RegistryConfig::default().kind(SourceKind::new("doc"))),
        "the kind \"doc\" is given twice; each must be its own"
    );
}

// CTX-5: also in the other case
#[test]
fn a_legacy_letter_is_given_once() {
    for letter in ['d', 'D'] {
        assert_eq!(
            text(RegistryConfig::default().kind(SourceKind::new("page").legacy(letter))),
            "the legacy letter \"d\" is given twice; each must be its own"
        );
    }
}

// CTX-5: among private and routing spaces together; the case counts
#[test]
fn a_prefix_is_given_once() {
    for prefix in ["i", "ms"] {
        assert_eq!(
            text(RegistryConfig::default().private_space(PrivateSpace::new("other", prefix))),
            format!("the private prefix \"{prefix}\" is given twice; each must be its own")
        );
    }
    let config = RegistryConfig::default().private_space(PrivateSpace::new("other", "I"));
    Registry::with_config(config).unwrap();
}

// CTX-5: policies name spaces, so their names are their own too
#[test]
fn a_space_is_given_once() {
    for name in ["issue", "mcp_tool"] {
        assert_eq!(
            text(RegistryConfig::default().private_space(PrivateSpace::new(name, "x"))),
            format!("the space \"{name}\" is given twice; each must be its own")
        );
    }
}

// CTX-5
#[test]
fn the_name_of_a_kind_is_lower_case_letters_and_digits() {
    for name in ["", "Doc", "9doc", "my_doc", "my-doc", "döc", "doc ", "doc://"] {
        assert_eq!(
            text(RegistryConfig::default().kind(SourceKind::new(name))),
            format!("the kind name \"{name}\" is not of the form [a-z][a-z0-9]*")
        );
    }
    for name in ["d", "page2", "resource"] {
        Registry::with_config(RegistryConfig::default().kind(SourceKind::new(name))).unwrap();
    }
}

// CTX-5: names that would be taken for something else
#[test]
fn some_names_of_kinds_are_reserved() {
    for name in ["http", "https", "file", "data", "mailto"] {
        assert_eq!(
            text(RegistryConfig::default().kind(SourceKind::new(name))),
            format!(
                "the kind name \"{name}\" is reserved (it is a scheme of ordinary links); choose another"
            )
        );
    }
    for name in ["res", "adres"] {
        assert_eq!(
            text(RegistryConfig::default().kind(SourceKind::new(name))),
            format!(
                "the kind name \"{name}\" is reserved (\"res://\" is recognised inside it); choose another"
            )
        );
    }
    assert_eq!(
        text(RegistryConfig::default().uri_scheme("paper").kind(SourceKind::new("paper"))),
        "the kind name \"paper\" is reserved (it is the scheme of durable URIs); choose another"
    );
}

// CTX-5
#[test]
fn a_legacy_letter_is_a_letter() {
    for letter in ['1', 'é', '-'] {
        assert_eq!(
            text(RegistryConfig::default().kind(SourceKind::new("page").legacy(letter))),
            format!("the legacy letter {letter:?} is no ASCII letter; choose one of a to z")
        );
    }
}

// CTX-5
#[test]
fn a_prefix_begins_with_a_letter_and_ends_in_no_digit() {
    for prefix in ["", "1i", "-i", "i1", "i.", "i i", "é"] {
        assert_eq!(
            text(RegistryConfig::default().private_space(PrivateSpace::new("other", prefix))),
            format!(
                "the prefix \"{prefix}\" is not of the form [A-Za-z][A-Za-z0-9_-]* without a digit at its end"
            )
        );
    }
    for prefix in ["I", "ref-", "a1_", "x"] {
        let config = RegistryConfig::default().private_space(PrivateSpace::new("other", prefix));
        Registry::with_config(config).unwrap();
    }
}

// CTX-6
#[test]
fn a_scheme_is_well_formed() {
    for scheme in ["", "My", "1a", "a_b", "a b", "a:"] {
        assert_eq!(
            text(RegistryConfig::default().uri_scheme(scheme)),
            format!("the URI scheme \"{scheme}\" is not of the form [a-z][a-z0-9+.-]*")
        );
    }
    Registry::with_config(RegistryConfig::default().uri_scheme("my+app.v1-x")).unwrap();
}

// CTX-5
#[test]
fn a_resource_pattern_compiles() {
    let error = refused(RegistryConfig::default().resource_pattern(ResourcePattern::Regex("blob:(".into())));
    let ContextError::Pattern { pattern, reason } = &error else { panic!("{error:?}") };
    assert_eq!(pattern, "blob:(");
    assert!(reason.contains("unclosed group"), "{reason}");
    assert_eq!(error.to_string(), format!("the resource pattern \"blob:(\" cannot be compiled: {reason}"));
}

// CTX-5: not only at the beginning of an empty text
#[test]
fn a_resource_pattern_matches_something() {
    for pattern in ["", "a*", "(?:a|b)?", r"\b", "^", "$|a", "(?:)", "a{0,3}"] {
        assert_eq!(
            text(RegistryConfig::default().resource_pattern(ResourcePattern::Regex(pattern.into()))),
            format!(
                "the resource pattern \"{pattern}\" matches the empty string; it must need at least one character"
            )
        );
    }
    let config = RegistryConfig::default().resource_pattern(ResourcePattern::Regex(r"\bblob:\w+\b".into()));
    Registry::with_config(config).unwrap();
}

// CTX-60: an id key says somewhere what it holds
#[test]
fn an_id_key_is_known() {
    assert_eq!(
        text(with_policy(policy().id_keys(["page_id"]))),
        "the policy of \"my_tool\" has the id key \"page_id\", which is in neither key_spaces nor kinds_override; \
         add it to one"
    );
    Registry::with_config(with_policy(policy().id_keys(["page_id"]).kinds_of("page_id", ["doc"]))).unwrap();
    Registry::with_config(
        with_policy(policy().id_keys(["page_id"])).key_space("page_id", KeySpace::of("doc")),
    )
    .unwrap();
}

// CTX-60: a text key is no id key of the configuration
#[test]
fn a_text_key_is_no_id_key() {
    assert_eq!(
        text(with_policy(policy().text_keys(["kb_id"]))),
        "the policy of \"my_tool\" has the text key \"kb_id\", which key_spaces says is an id; \
         use an id key, or remove it there"
    );
}

// CTX-60: one key, one role; keys are compared in lower case, also where fields were set directly
#[test]
fn a_key_has_one_role() {
    let mut direct = policy().id_keys(["url"]);
    direct.verbatim_keys.insert("URL".into());
    let cases = [
        (direct, "url", "an id key", "a verbatim key"),
        (policy().text_keys(["sql"]).verbatim_keys(["SQL"]), "sql", "a text key", "a verbatim key"),
        (policy().id_keys(["url"]).private_decode("Url", "issue"), "url", "an id key", "a private key"),
        (
            policy().verbatim_keys(["x"]).routing_key("X", "mcp_tool"),
            "x",
            "a verbatim key",
            "the routing key",
        ),
        (
            policy().private_decode("id", "issue").routing_key("id", "mcp_server"),
            "id",
            "a private key",
            "the routing key",
        ),
        (policy().id_keys(["id"]).kinds_of("id", ["doc"]).text_keys(["id"]), "id", "an id key", "a text key"),
    ];
    for (policy, key, first, second) in cases {
        assert_eq!(
            text(with_policy(policy)),
            format!(
                "the policy of \"my_tool\" uses the key \"{key}\" both as {first} and as {second}; give it one role"
            )
        );
    }
    // What a key of the results shows is no role of the arguments.
    let both = policy().private_decode("id", "issue").private_encode("id", "issue");
    Registry::with_config(with_policy(both)).unwrap();
}

// CTX-60: every name of a kind or a space exists, and is of the right sort
#[test]
fn every_space_is_known() {
    let no = |place: &str, name: &str, what: &str| {
        let known = match what {
            "kind" => "chunk, doc, kb, url",
            "citable kind" => "chunk, url",
            "private space" => "issue",
            _ => "mcp_server, mcp_tool",
        };
        format!(
            "{place} names \"{name}\", which is no {what} of this configuration; add it, or use one of: {known}"
        )
    };
    let cases = [
        (policy().private_decode("id", "x"), no("private_decode of \"my_tool\"", "x", "private space")),
        (
            policy().private_decode("id", "mcp_tool"),
            no("private_decode of \"my_tool\"", "mcp_tool", "private space"),
        ),
        (policy().private_encode("id", "x"), no("private_encode of \"my_tool\"", "x", "private space")),
        (policy().encode_known(["issue", "x"]), no("encode_known of \"my_tool\"", "x", "private space")),
        (policy().routing_key("id", "issue"), no("routing_key of \"my_tool\"", "issue", "routing space")),
        (policy().kinds_of("id", ["doc", "page"]), no("kinds_override.id of \"my_tool\"", "page", "kind")),
        (
            policy().kinds_of("id", Vec::<String>::new()),
            "kinds_override.id of \"my_tool\" names no kind; name at least one, or remove the key".into(),
        ),
    ];
    for (policy, expected) in cases {
        assert_eq!(text(with_policy(policy)), expected);
    }
    let config = RegistryConfig::default().key_space("page_id", KeySpace::of("page"));
    assert_eq!(text(config), no("key_spaces.page_id", "page", "kind"));
    let mut config = RegistryConfig::default();
    config.routing_spaces.clear();
    config.policies = [("my_tool".to_owned(), policy().routing_key("id", "x"))].into();
    assert_eq!(
        text(config),
        "routing_key of \"my_tool\" names \"x\", which is no routing space of this configuration; add it"
    );
    let mut config = RegistryConfig::default();
    config.roles.document = Some("page".into());
    assert_eq!(text(config), no("roles.document", "page", "kind"));
    let format = || CitationFormat::new("cite", |_| String::new(), |_| None);
    for name in ["page", "doc"] {
        let config = RegistryConfig::default().citation_format(name, format());
        assert_eq!(text(config), no("citation_formats", name, "citable kind"));
    }
}

// CTX-61: what becomes evidence is decoded first
#[test]
fn an_evidence_key_is_an_id_key() {
    assert_eq!(
        text(with_policy(policy().id_keys(["url"]).evidence_keys(["url", "kb_id"]))),
        "the policy of \"my_tool\" has the evidence key \"kb_id\", which is not among its id_keys; add it there"
    );
    Registry::with_config(with_policy(policy().id_keys(["url"]).evidence_keys(["URL"]))).unwrap();
}

// CTX-92: rows of directories are read by key alone
#[test]
fn a_routing_key_leads_to_one_space() {
    assert_eq!(
        text(with_policy(policy().routing_key("server_id", "mcp_tool"))),
        "the policy of \"my_tool\" routes by \"server_id\" in another space than an earlier policy does; \
         use one space for one key"
    );
    Registry::with_config(with_policy(policy().routing_key("server_id", "mcp_server"))).unwrap();
}

// CTX-70: the tag of a format is one that can be found, and not the model's own
#[test]
fn the_tag_of_a_citation_is_a_name() {
    for tag in ["", "my cite", "1x", "Ref"] {
        let format = CitationFormat::new(tag, |_| String::new(), |_| None);
        assert_eq!(
            text(RegistryConfig::default().citation_format("url", format)),
            format!(
                "the citation format of \"url\" has the tag name \"{tag}\"; \
                 it must be of the form [A-Za-z][A-Za-z0-9_-]* and not ref"
            )
        );
    }
}

// CTX-54
#[test]
fn a_tag_has_a_length() {
    let mut config = RegistryConfig::default();
    config.max_tag_len = 0;
    assert_eq!(text(config), "max_tag_len is 0; it must be at least 1");
}

// CTX-5: a kind that plays no part is left out
#[test]
fn parts_need_not_be_played() {
    let mut config = RegistryConfig::default();
    config.roles.chunk = None;
    config.roles.url = None;
    config.private_spaces.clear();
    let registry = Registry::with_config(config).unwrap();
    assert_eq!(registry.register_chunk(SourceRef::new("chunk-one")), None);
    assert_eq!(registry.chunk_handle("chunk-one"), None);
    assert_eq!(registry.register_url("https://e.com", ""), None);
    assert_eq!(registry.register_issue("issue-one"), None);
    assert_eq!(registry.encode_known_issues("issue-one"), "issue-one");
    assert_eq!(registry.register_document("doc-one").as_deref(), Some("doc://1"));
}
