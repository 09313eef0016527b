//! Handles: how they are numbered, spelled and registered.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use support::{R, chunk, fixture, fresh};
use toolnexus_context::{Evidence, HandleTable, Registry, RegistryConfig, SourceRef};

/// What a chunk's citation becomes.
fn cited(registry: &Registry, handle: &str) -> String {
    registry.decode_output_text(&format!("<ref id=\"{handle}\"/>"))
}

// CTX-9, CTX-11: cases 1 and 2
#[test]
fn a_table_pads_its_numbers_and_lets_them_grow() {
    let table = HandleTable::new("c", 3, 0);
    assert!(table.is_empty());
    for (value, handle) in [("chunk-a", "c000"), ("chunk-a", "c000"), ("chunk-b", "c001")] {
        assert_eq!(table.register(value).as_deref(), Some(handle));
    }
    assert_eq!(table.resolve("c001").as_deref(), Some("chunk-b"));
    assert_eq!(table.len(), 2);
    for value in 2..1000 {
        table.register(&format!("value {value}"));
    }
    assert_eq!(table.register("value 1000").as_deref(), Some("c1000"));
    assert_eq!(table.resolve("c1000").as_deref(), Some("value 1000"));
    for other in ["c1", "c01", "c0001", "c01000", "c1001", "C001", "c001x", "xc001", "c", "001", ""] {
        assert_eq!(table.resolve(other), None, "{other}");
    }
}

// CTX-9, CTX-2: case 3
#[test]
fn a_handle_of_another_table_is_unknown() {
    let other = HandleTable::new("c", 3, 0);
    other.register("chunk-a");
    let table = HandleTable::new("ref-", 0, 1);
    assert_eq!(table.register("summary/uuid").as_deref(), Some("ref-1"));
    assert_eq!(table.resolve("c000"), None);
}

// CTX-11, CTX-10: values and handles are trimmed, blank values get none, and looking allocates nothing
#[test]
fn a_table_trims_and_looks_up() {
    let table = HandleTable::new("ref-", 0, 1);
    for blank in ["", "  ", "\n\t"] {
        assert_eq!(table.register(blank), None);
        assert_eq!(table.handle(blank), None);
    }
    assert_eq!(table.handle("value"), None);
    assert!(table.is_empty());
    assert_eq!(table.register(" value\n").as_deref(), Some("ref-1"));
    assert_eq!(table.handle(" value ").as_deref(), Some("ref-1"));
    assert_eq!(table.resolve("\tref-1 ").as_deref(), Some("value"));
    assert_eq!(table.len(), 1);
}

// CTX-9, CTX-4: each space counts for itself, from 1, resources with four digits
#[test]
fn each_space_counts_for_itself() {
    let registry = fixture();
    assert_eq!(registry.register_document("doc-two").as_deref(), Some("doc://2"));
    assert_eq!(registry.register_knowledge_base("kb-two").as_deref(), Some("kb://2"));
    assert_eq!(registry.register_chunk(chunk("chunk-two")).as_deref(), Some("chunk://2"));
    assert_eq!(registry.register_url("https://e.com/two", "").as_deref(), Some("url://2"));
    assert_eq!(registry.register_issue("issue-two").as_deref(), Some("i2"));
    let second = R.replace("AbC", "XyZ");
    assert_eq!(registry.compact_known_text(&second), "res://0002");
    assert_eq!(registry.decode_output_text("res://0001 res://0002"), format!("{R} {second}"));
}

// CTX-4: what each handle stands for in public text
#[test]
fn each_kind_has_its_durable_form() {
    let registry = fixture();
    registry.register_context_chunk(SourceRef::new("chunk two"));
    assert_eq!(
        registry.decode_output_text("doc://1 kb://1 url://1 chunk://2 i1 res://0001"),
        format!(
            "toolnexus://doc/doc-real toolnexus://kb/kb-real https://example.com/page \
             toolnexus://chunk/chunk%20two issue-uuid {R}"
        )
    );
}

// CTX-4, CTX-20: the old letters of the kinds
#[test]
fn each_kind_has_its_old_letter() {
    let registry = fixture();
    assert_eq!(registry.register_document("d1").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_knowledge_base("b1").as_deref(), Some("kb://1"));
    assert_eq!(registry.register_chunk(SourceRef::new("c1")).as_deref(), Some("chunk://1"));
    assert_eq!(registry.register_url("w1", "").as_deref(), Some("url://1"));
}

// CTX-2: the same text means something else, or nothing, in another registry
#[test]
fn a_handle_means_something_in_its_registry_alone() {
    let (one, two) = (fresh(), fresh());
    one.register_document("doc-one");
    assert_eq!(two.decode_output_text("see doc://1"), "see ");
    assert_eq!(two.register_document("doc://1"), None);
    two.register_document("doc-two");
    assert_eq!(one.decode_output_text("doc://1"), "toolnexus://doc/doc-one");
    assert_eq!(two.decode_output_text("doc://1"), "toolnexus://doc/doc-two");
}

// CTX-3: a clone is the same registry; numbers go up, and what was issued keeps its number
#[test]
fn numbers_only_go_up() {
    let registry = fresh();
    let clone = registry.clone();
    let mut issued = Vec::new();
    for round in 0..20 {
        let registry = if round % 2 == 0 { &registry } else { &clone };
        issued.push(registry.register_document(&format!("document-{round}")).unwrap());
        for (earlier, handle) in issued.iter().enumerate() {
            assert_eq!(registry.register_document(&format!("document-{earlier}")).as_ref(), Some(handle));
        }
    }
    let expected: Vec<String> = (1..=20).map(|number| format!("doc://{number}")).collect();
    assert_eq!(issued, expected);
}

// CTX-10: blank keys get nothing
#[test]
fn blank_ids_get_no_handle() {
    let registry = fresh();
    for blank in ["", " ", "\n\t "] {
        assert_eq!(registry.register_document(blank), None);
        assert_eq!(registry.register_knowledge_base(blank), None);
        assert_eq!(registry.register_chunk(SourceRef::new(blank)), None);
        assert_eq!(registry.register_context_chunk(SourceRef::new(blank)), None);
        assert_eq!(registry.register_url(blank, "Title"), None);
        assert_eq!(registry.register_issue(blank), None);
        assert_eq!(registry.chunk_handle(blank), None);
    }
    assert_eq!(registry.register_document("first").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_issue("first").as_deref(), Some("i1"));
}

// CTX-10: a repeat fills what is blank and overwrites nothing
#[test]
fn a_repeat_fills_what_is_blank() {
    let registry = fresh();
    let mut bare = SourceRef::new("chunk-x");
    bare.title = "  ".into();
    assert_eq!(registry.register_chunk(bare).as_deref(), Some("chunk://1"));
    assert_eq!(cited(&registry, "chunk://1"), r#"<kb doc="" chunk_id="chunk-x" />"#);
    let mut titled = SourceRef::new("chunk-x");
    titled.title = "First".into();
    assert_eq!(registry.register_chunk(titled).as_deref(), Some("chunk://1"));
    assert_eq!(cited(&registry, "chunk://1"), r#"<kb doc="First" chunk_id="chunk-x" />"#);
    let mut other = chunk("chunk-x");
    other.title = "Second".into();
    assert_eq!(registry.register_chunk(other).as_deref(), Some("chunk://1"));
    assert_eq!(cited(&registry, "chunk://1"), r#"<kb doc="First" chunk_id="chunk-x" kb_id="kb-real" />"#);
    let mut moved = chunk("chunk-x");
    moved.knowledge_base_id = "kb-other".into();
    registry.register_chunk(moved);
    assert_eq!(cited(&registry, "chunk://1"), r#"<kb doc="First" chunk_id="chunk-x" kb_id="kb-real" />"#);
}

// CTX-16: ids are trimmed, those of the metadata too
#[test]
fn ids_are_trimmed() {
    let registry = fresh();
    assert_eq!(registry.register_document(" doc-real\n").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_document("doc-real").as_deref(), Some("doc://1"));
    let mut padded = SourceRef::new("\tchunk-real ");
    padded.document_id = " doc-real ".into();
    padded.knowledge_base_id = " kb-real ".into();
    assert_eq!(registry.register_chunk(padded).as_deref(), Some("chunk://1"));
    assert_eq!(registry.chunk_handle(" chunk-real ").as_deref(), Some("chunk://1"));
    assert_eq!(cited(&registry, "chunk://1"), r#"<kb doc="" chunk_id="chunk-real" kb_id="kb-real" />"#);
    assert_eq!(registry.decode_output_text("[x](chunk://1)"), "[x](toolnexus://doc/doc-real)");
    assert_eq!(registry.register_issue(" issue ").as_deref(), Some("i1"));
    assert_eq!(registry.decode_output_text("i1"), "issue");
}

// CTX-15: what each way of registering makes of a source, and that looking allocates nothing
#[test]
fn sources_are_registered_as_evidence_or_for_navigation() {
    let registry = fresh();
    assert_eq!(registry.chunk_handle("chunk-a"), None);
    assert_eq!(registry.register_context_chunk(chunk("chunk-a")).as_deref(), Some("chunk://1"));
    assert_eq!(registry.chunk_handle("chunk-a").as_deref(), Some("chunk://1"));
    assert_eq!(cited(&registry, "chunk://1"), "");
    assert_eq!(registry.register_chunk(chunk("chunk-b")).as_deref(), Some("chunk://2"));
    assert_ne!(cited(&registry, "chunk://2"), "");
    let navigation = registry.register("chunk", chunk("chunk-c"), Evidence::NavigationOnly);
    assert_eq!(navigation.as_deref(), Some("chunk://3"));
    assert_eq!(cited(&registry, "chunk://3"), "");
    let current = registry.register("chunk", chunk("chunk-c"), Evidence::Current);
    assert_eq!(current.as_deref(), Some("chunk://3"));
    assert_ne!(cited(&registry, "chunk://3"), "");
    assert_eq!(registry.register_url("https://e.com/a", "A").as_deref(), Some("url://1"));
    assert_eq!(cited(&registry, "url://1"), r#"<web url="https://e.com/a" title="A" />"#);
    assert_eq!(registry.register("page", SourceRef::new("x"), Evidence::Current), None);
    assert_eq!(registry.register("issue", SourceRef::new("x"), Evidence::Current), None);
}

// CTX-15, CTX-56: of each item the document, the knowledge base and the chunk, as current evidence
#[test]
fn what_a_search_found_is_registered_in_order() {
    let mut config = RegistryConfig::default();
    for kind in &mut config.kinds {
        kind.citable = true;
    }
    let registry = Registry::with_config(config).unwrap();
    let mut second = chunk("chunk-two");
    second.document_id = "doc-two".into();
    second.knowledge_base_id = String::new();
    registry.register_sources(&[chunk("chunk-one"), second, SourceRef::new("")]);
    let handles = ["doc://1", "doc://2", "kb://1", "chunk://1", "chunk://2"];
    assert_eq!(
        handles.map(|handle| cited(&registry, handle)),
        [
            r#"<doc-source id="doc-real" title="" />"#,
            r#"<doc-source id="doc-two" title="" />"#,
            r#"<kb-source id="kb-real" title="" />"#,
            r#"<kb doc="Doc" chunk_id="chunk-one" kb_id="kb-real" />"#,
            r#"<kb doc="Doc" chunk_id="chunk-two" />"#,
        ]
    );
    for unknown in ["doc://3", "kb://2", "chunk://3"] {
        assert_eq!(registry.decode_output_text(unknown), "");
    }
}

// CTX-17: case 8
#[test]
fn text_shaped_like_a_handle_makes_no_document() {
    let registry = fixture();
    let registered = ["doc://1", "D1", "d99", "chunk://1", "c1"].map(|text| registry.register_document(text));
    assert_eq!(registered.map(Option::unwrap_or_default), ["doc://1", "doc://1", "", "", ""]);
    // The sizes of the tables did not change.
    assert_eq!(registry.register_document("next").as_deref(), Some("doc://2"));
    assert_eq!(registry.register_chunk(SourceRef::new("next")).as_deref(), Some("chunk://2"));
}

// CTX-17: in every space, in any spelling
#[test]
fn text_shaped_like_a_handle_makes_no_identity() {
    let registry = fixture();
    let shaped = [
        "doc://9",
        "DOC://9",
        "doc://007",
        "doc://0",
        "d9",
        "W9",
        "kb://9",
        "url://9",
        "chunk://9",
        "res://0001",
        "res://9999",
        " doc://9 ",
        "toolnexus://doc/d9",
        "toolnexus://doc/doc%3A%2F%2F1",
        "toolnexus://doc/%20",
        "toolnexus://kb/res%3A%2F%2F0001",
    ];
    for text in shaped {
        for kind in ["doc", "kb", "chunk", "url"] {
            assert_eq!(
                registry.register(kind, SourceRef::new(text), Evidence::Current),
                None,
                "{kind} {text}"
            );
        }
    }
    for text in shaped.into_iter().filter(|text| !["d9", "W9"].contains(text)).chain(["i9", "i0", "doc://1"])
    {
        assert_eq!(registry.register_issue(text), None, "{text}");
    }
    assert_eq!(registry.register_issue("i1").as_deref(), Some("i1"));
    assert_eq!(registry.register_issue("next").as_deref(), Some("i2"));
    for (kind, handle) in [("doc", "doc://2"), ("kb", "kb://2"), ("chunk", "chunk://2"), ("url", "url://2")] {
        let next = registry.register(kind, SourceRef::new("next"), Evidence::Current);
        assert_eq!(next.as_deref(), Some(handle));
    }
}

// CTX-17: a URI is the id in it, of its own kind alone
#[test]
fn a_durable_uri_is_unwrapped() {
    let registry = fixture();
    assert_eq!(registry.register_document("toolnexus://doc/doc-real").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_document("toolnexus://doc/a%2Fb").as_deref(), Some("doc://2"));
    assert_eq!(registry.register_document("a/b").as_deref(), Some("doc://2"));
    assert_eq!(registry.register_document("toolnexus://kb/kb-real"), None);
    assert_eq!(registry.register_url("toolnexus://doc/doc-real", ""), None);
    assert_eq!(registry.register_issue("toolnexus://doc/doc-real"), None);
    assert_eq!(registry.chunk_handle("toolnexus://chunk/chunk-real").as_deref(), Some("chunk://1"));
    // Of another scheme it is an id like any other.
    assert_eq!(registry.register_document("other://doc/doc-real").as_deref(), Some("doc://3"));
}

// CTX-17: what a source belongs to is told by handle and by URI too
#[test]
fn metadata_holds_durable_ids() {
    let registry = fixture();
    let mut by_handle = SourceRef::new("chunk-two");
    by_handle.document_id = "doc://1".into();
    by_handle.knowledge_base_id = "toolnexus://kb/kb-real".into();
    assert_eq!(registry.register_chunk(by_handle).as_deref(), Some("chunk://2"));
    assert_eq!(registry.decode_output_text("[x](chunk://2)"), "[x](toolnexus://doc/doc-real)");
    assert_eq!(cited(&registry, "chunk://2"), r#"<kb doc="" chunk_id="chunk-two" kb_id="kb-real" />"#);
    let mut unknown = SourceRef::new("chunk-three");
    unknown.document_id = "doc://99".into();
    assert_eq!(registry.register_chunk(unknown).as_deref(), Some("chunk://3"));
    assert_eq!(registry.decode_output_text("[x](chunk://3)"), "[x](toolnexus://chunk/chunk-three)");
}

// CTX-17: naming a source by its handle makes it no evidence
#[test]
fn a_handle_changes_no_eligibility() {
    let registry = fresh();
    registry.register_context_chunk(chunk("chunk-a"));
    for text in ["chunk://1", "C1", "CHUNK://1"] {
        assert_eq!(registry.register_chunk(SourceRef::new(text)).as_deref(), Some("chunk://1"));
        assert_eq!(cited(&registry, "chunk://1"), "");
    }
}

// CTX-21: case 9
#[test]
fn urls_are_one_page_without_their_fragment() {
    let registry = fresh();
    assert_eq!(registry.register_url("https://e.com/a#x", "").as_deref(), Some("url://1"));
    assert_eq!(registry.register_url("https://e.com/a#y", "").as_deref(), Some("url://1"));
    assert_eq!(registry.decode_output_text("url://1"), "https://e.com/a#x");
}

// CTX-21: a blank title is filled later; what is no URL is itself
#[test]
fn a_blank_title_of_a_page_is_filled() {
    let registry = fresh();
    registry.register_url("https://e.com/a", " ");
    registry.register_url("https://e.com/a#x", "Title");
    registry.register_url("https://e.com/a", "Other");
    assert_eq!(cited(&registry, "url://1"), r#"<web url="https://e.com/a" title="Title" />"#);
    assert_eq!(registry.register_url("notes#one", "").as_deref(), Some("url://2"));
    assert_eq!(registry.register_url(" notes#one ", "").as_deref(), Some("url://2"));
    assert_eq!(registry.register_url("notes#two", "").as_deref(), Some("url://3"));
}

// CTX-8: one key is one handle, whoever comes first, and no two keys share one
#[test]
fn threads_get_one_handle_for_one_key() {
    const THREADS: usize = 8;
    const KEYS: usize = 200;
    let registry = fresh();
    let table = HandleTable::new("ref-", 0, 1);
    let start = Barrier::new(THREADS);
    let all: Vec<Vec<[String; 3]>> = thread::scope(|scope| {
        let register = |thread: usize| {
            let (registry, table, start) = (registry.clone(), &table, &start);
            scope.spawn(move || {
                start.wait();
                let mut handles = vec![Default::default(); KEYS];
                for step in 0..KEYS {
                    // Each thread begins elsewhere, half of them go backwards.
                    let key = (step + thread * KEYS / THREADS) % KEYS;
                    let key = if thread.is_multiple_of(2) { key } else { KEYS - 1 - key };
                    let id = format!("identity-{key}");
                    handles[key] = [
                        registry.register_document(&id).unwrap(),
                        registry.register_issue(&id).unwrap(),
                        table.register(&id).unwrap(),
                    ];
                }
                handles
            })
        };
        let threads: Vec<_> = (0..THREADS).map(register).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|handles| *handles == all[0]));
    for space in 0..3 {
        let distinct: HashSet<&str> = all[0].iter().map(|handles| handles[space].as_str()).collect();
        assert_eq!(distinct.len(), KEYS);
    }
    assert_eq!(table.len(), KEYS);
    for (key, [document, ..]) in all[0].iter().enumerate() {
        assert_eq!(registry.decode_output_text(document), format!("toolnexus://doc/identity-{key}"));
    }
}

// CTX-8: a handle that resolves has its metadata
#[test]
fn threads_see_no_handle_without_its_metadata() {
    const COUNT: usize = 300;
    let registry = fresh();
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            start.wait();
            for number in 1..=COUNT {
                registry.register_chunk(chunk(&format!("chunk-{number}")));
            }
        });
        start.wait();
        for number in 1..=COUNT {
            let whole = format!(r#"<kb doc="Doc" chunk_id="chunk-{number}" kb_id="kb-real" />"#);
            loop {
                let is_last_look = writer.is_finished();
                let seen = cited(&registry, &format!("chunk://{number}"));
                if seen == whole {
                    break;
                }
                assert_eq!(seen, "", "it is there as a whole or not at all");
                assert!(!is_last_look, "chunk {number} was never registered");
                thread::yield_now();
            }
        }
    });
}

// CTX-1: nothing that is registered shows in a log
#[test]
fn debug_shows_no_identity() {
    let registry = fixture();
    let table = HandleTable::new("ref-", 0, 1);
    table.register("summary/uuid");
    let shown = format!("{registry:?} {table:?} {:#?}", registry.stream_decoder());
    for secret in
        ["doc-real", "kb-real", "chunk-real", "example.com", "issue-uuid", "resource://", "summary/"]
    {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("doc: 1"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-8, CTX-11: what was registered comes back, and only what was
    #[test]
    fn a_table_gives_back_what_it_got(values in prop::collection::vec("(?s).{0,6}", 0..30)) {
        let table = HandleTable::new("h", 2, 7);
        for value in &values {
            let handle = table.register(value);
            prop_assert_eq!(handle.is_none(), value.trim().is_empty());
            if let Some(handle) = handle {
                prop_assert_eq!(table.resolve(&handle), Some(value.trim().to_owned()));
                prop_assert_eq!(table.handle(value), Some(handle));
            }
        }
        let distinct: HashSet<&str> = values.iter().map(|v| v.trim()).filter(|v| !v.is_empty()).collect();
        prop_assert_eq!(table.len(), distinct.len());
    }

    // CTX-17, CTX-29: any text is registered or refused, and what is registered comes back from its
    // public form under the same handle
    #[test]
    fn any_identity_comes_back(id in "(?s).{0,12}|(doc|toolnexus|res|d|c)(://|/|[0-9]){0,4}") {
        let registry = Registry::new(true);
        if let Some(handle) = registry.register_document(&id) {
            prop_assert_eq!(&handle, "doc://1");
            let public = registry.decode_output_text(&handle);
            prop_assert!(public.starts_with("toolnexus://doc/"));
            prop_assert_eq!(registry.register_document(&public), Some(handle));
        }
    }
}

// CTX-108: the registry is no router. A slug that two collections own is one identity, its handle decodes to
// the slug alone, and which collection was seen with it last narrows nothing
#[test]
fn a_handle_says_nothing_of_the_collection_that_owns_it() {
    let registry = support::fresh();
    for collection in ["kb-first-one", "kb-second-one"] {
        let mut chunk = toolnexus_context::SourceRef::new("entity/shared-page");
        chunk.knowledge_base_id = collection.into();
        assert_eq!(registry.register_chunk(chunk).as_deref(), Some("chunk://1"));
    }
    let mut calls =
        [toolnexus_context::ModelToolCall::new("1", "list_chunks", r#"{"chunk_id":"chunk://1"}"#)];
    registry.decode_tool_calls(&mut calls);
    assert_eq!(calls[0].arguments, r#"{"chunk_id":"entity/shared-page"}"#);
}
