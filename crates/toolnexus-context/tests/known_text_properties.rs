//! Compaction for values and texts that nobody thought of.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashMap;

use proptest::prelude::*;
use toolnexus_context::{Registry, RegistryConfig, ResourcePattern};

const UUIDS: [&str; 2] = ["36283d3d-a495-40d2-a13f-e925fc322996", "8f7a5b68-a7ab-4565-b6f3-1cae2578f040"];

/// Ids of documents, knowledge bases and pages: short, nested, with dots, dashes, digits at their ends.
fn values() -> impl Strategy<Value = Vec<(usize, String)>> {
    let value = prop_oneof![
        2 => "[ab1./-]{3,7}",
        2 => "(ab-1|b-1|1\\.|/b|-){1,5}",
        1 => "[a见🙂é1-]{2,5}",
        2 => "https://a.io/[ab1]{0,2}(/b|\\?b|\\.b|-1)?",
        1 => prop::sample::select(UUIDS.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(UUIDS.to_vec()).prop_map(|uuid| format!("https://a.io/{uuid}")),
        1 => "(doc|res)://[12](/b)?|x/doc://1|toolnexus://doc/b-1|tool:b-1",
    ];
    prop::collection::vec((0..3_usize, value), 0..8)
}

/// Texts of values, handles, URIs, resources and whatever is between.
fn texts(values: Vec<(usize, String)>) -> impl Strategy<Value = (Vec<(usize, String)>, String)> {
    let mut words: Vec<String> = values.iter().map(|(_, value)| value.clone()).collect();
    let others = [
        "",
        " ",
        "-",
        ".",
        "/",
        "=",
        "1",
        "a",
        "见",
        "é",
        ":",
        "?",
        "](",
        "\"",
        "doc://1",
        "url://2",
        "res://0001",
        "DOC://1",
        "doc://",
        "toolnexus://doc/b-1",
        "toolnexus://",
        "resource://AbCdEfGhIjKlMnOpQrStUv",
        "<img>",
        "i1",
    ];
    words.extend(others.map(str::to_owned));
    let piece = prop_oneof![4 => prop::sample::select(words), 1 => "[ab1./ -]{0,3}"];
    let text = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    (Just(values), text)
}

fn registry(values: &[(usize, String)]) -> Registry {
    let mut config = RegistryConfig::default().resource_pattern(ResourcePattern::Regex("<[a-z]+>".into()));
    config.min_text_len = 2;
    let registry = Registry::with_config(config).unwrap();
    for (kind, value) in values {
        match kind {
            0 => registry.register_document(value),
            1 => registry.register_knowledge_base(value),
            _ => registry.register_url(value, ""),
        };
    }
    registry
}

/// What each handle stands for, as a reader of the rules would note it down.
fn durable(registry: &Registry, values: &[(usize, String)]) -> HashMap<String, String> {
    let mut durable = HashMap::new();
    for (kind, value) in values {
        let handle = match kind {
            0 => registry.register_document(value),
            1 => registry.register_knowledge_base(value),
            _ => registry.register_url(value, ""),
        };
        // A value that is a handle itself is registered as nothing.
        if let Some(handle) = handle.filter(|handle| *handle != value.to_lowercase()) {
            durable.entry(handle).or_insert_with(|| {
                // A URI is registered as the id in it.
                let id = value.trim();
                id.strip_prefix("toolnexus://doc/").unwrap_or(id).to_owned()
            });
        }
    }
    for resource in ["resource://AbCdEfGhIjKlMnOpQrStUv", "<img>"] {
        let handle = registry.compact_known_text(resource);
        durable.insert(handle, resource.to_owned());
    }
    durable
}

/// Every handle in its place, left to right, becomes what it stands for.
fn restored(text: &str, durable: &HashMap<String, String>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut at) = (String::new(), 0);
    while let Some(next) = text[at..].chars().next() {
        let is_free = !text[..at].ends_with(is_word);
        let token = ["doc://", "kb://", "url://", "res://"].into_iter().find_map(|scheme| {
            let is_resource = scheme == "res://";
            let start = text.get(at..at + scheme.len())?;
            let is_there =
                if is_resource { start == scheme } else { is_free && start.eq_ignore_ascii_case(scheme) };
            let digits = text[at..].get(scheme.len()..)?.bytes().take_while(u8::is_ascii_digit).count();
            let end = at + scheme.len() + digits;
            let mut after = text[end..].chars();
            let is_ended = match after.next() {
                Some('.') => !after.next().is_some_and(|c| c.is_ascii_digit()),
                Some(c) => !is_word(c),
                None => true,
            };
            (is_there && digits > 0 && (is_resource || is_ended)).then(|| (end, text[at..end].to_lowercase()))
        });
        match token {
            Some((end, handle)) => {
                out.push_str(durable.get(&handle).unwrap_or(&handle));
                at = end;
            }
            None => {
                out.push(next);
                at += next.len_utf8();
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // CTX-32, CTX-38: a text that was compacted stays as it is
    #[test]
    fn compacting_twice_is_compacting_once((values, text) in values().prop_flat_map(texts)) {
        let registry = registry(&values);
        let compacted = registry.compact_known_text(&text);
        prop_assert_eq!(registry.compact_known_text(&compacted), compacted);
    }

    // CTX-38, CTX-109: a value is replaced only where its handle stands for it. Handles that were in the
    // text before mean the same before and after.
    #[test]
    fn what_was_compacted_is_restored((values, text) in values().prop_flat_map(texts)) {
        let registry = registry(&values);
        let compacted = registry.compact_known_text(&text);
        let durable = durable(&registry, &values);
        prop_assert_eq!(restored(&compacted, &durable), restored(&text, &durable), "through {:?}", compacted);
    }

    // CTX-39: the same for issues
    #[test]
    fn issues_are_encoded_once((values, text) in values().prop_flat_map(texts)) {
        let registry = registry(&[]);
        for (_, value) in &values {
            registry.register_issue(value);
        }
        let encoded = registry.encode_known_issues(&text);
        prop_assert_eq!(registry.encode_known_issues(&encoded), encoded);
    }
}
