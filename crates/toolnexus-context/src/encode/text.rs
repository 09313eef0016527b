//! Durable URIs and known values in a text.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::memmem;

use super::encoded::Encoded;
use crate::known_values::{Occurrence, Verdict};
use crate::settings::{KindId, Settings, SpaceId};
use crate::syntax::{is_uuid, is_word};
use crate::tables::{is_url, source_handle};
use crate::{Evidence, Registry, SourceRef, TextForm};

impl Registry {
    /// Durable URIs are registered for navigation and become their handles.
    pub(crate) fn encode_uris<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let settings = self.settings();
        let beginning = format!("{}://", settings.uri_scheme);
        let finder = memmem::Finder::new(&beginning);
        let (mut out, mut copied, mut from) = (String::new(), 0, 0);
        while let Some(found) = finder.find(text.as_bytes().get(from..).unwrap_or_default()) {
            let at = from + found;
            from = at + beginning.len();
            let Some((kind, id, end)) = settings.uri_at(text, at) else { continue };
            let source = SourceRef::new(id);
            let Some(handle) = self.register_as(kind, &source, Evidence::NavigationOnly) else { continue };
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str(&handle);
            (copied, from) = (end, end);
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Known ids of a private or routing space become their handles, but not in what is a handle or a
    /// durable URI already.
    pub(crate) fn encode_known_ids<'t>(&self, space: SpaceId, text: &'t str) -> Cow<'t, str> {
        let tables = self.tables();
        let Some(known) = tables.space(space).filter(|known| known.len() > 0) else {
            return Cow::Borrowed(text);
        };
        let encoded = OnceCell::new();
        let handles = OnceCell::new();
        known.encode_text(text, |Occurrence { start, end, .. }| {
            let encoded = encoded.get_or_init(|| Encoded::of(self.settings(), text));
            let handles = handles.get_or_init(|| known.handles_in(text));
            let next = handles.get(handles.partition_point(|handle| handle.end <= start));
            encoded.is_open(start..end) && next.is_none_or(|handle| handle.start >= end)
        })
    }

    /// The text with stored resources and all known source values replaced by handles. No identity is
    /// ever made up from text.
    pub fn compact_known_text(&self, text: &str) -> String {
        let text = self.encode_resources(text);
        let tables = self.tables();
        let known = tables.known_sources();
        if known.is_empty() {
            return text.into_owned();
        }
        let settings = self.settings();
        let encoded = Encoded::of(settings, &text);
        let compacted = known.replace(
            &text,
            |found, at| judge(settings, &encoded, found, at.kind),
            |at| source_handle(settings, at),
        );
        match compacted {
            Cow::Borrowed(_) => text.into_owned(),
            Cow::Owned(compacted) => compacted,
        }
    }

    /// The text with registered issue ids replaced by `iN`: for text that an application renders into
    /// the context of a run.
    pub fn encode_known_issues(&self, text: &str) -> String {
        match self.settings().space_named("issue") {
            Some(issues) => self.encode_known_ids(issues, text).into_owned(),
            None => text.to_owned(),
        }
    }
}

/// Whether an occurrence of a source's id may become its handle: only where decoding brings the id back,
/// and where it is really this id and not a piece of something longer.
fn judge(settings: &Settings, encoded: &Encoded, found: Occurrence<'_>, kind: KindId) -> Verdict {
    let value = found.value();
    let after = found.after(0);
    let is_ordinary = || {
        value.len() < settings.min_text_len
            || value.bytes().all(|byte| byte.is_ascii_digit())
            || value.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let is_in_slug = || (after == Some(b'-') || found.before() == Some(b'-')) && !is_uuid(value);
    let is_page =
        || settings.kind(kind).is_some_and(|kind| kind.text_form == TextForm::Value) || is_url(value);
    if after.is_some_and(is_word)
        || is_ordinary()
        || is_in_slug()
        || (goes_on(&found) && is_page())
        || !encoded.is_open(found.start..found.end)
    {
        Verdict::Keep
    } else if after == Some(b'.') && found.after(1).is_some_and(|byte| byte.is_ascii_digit()) {
        // No handle ends before a fraction. But the digit may begin an id that is replaced.
        Verdict::ReplaceWith(found.end + 1)
    } else {
        Verdict::Replace
    }
}

/// Whether the URL goes on behind the known one: then it is another page.
fn goes_on(found: &Occurrence<'_>) -> bool {
    match found.after(0) {
        Some(b'/' | b'?' | b'#' | b'&' | b'=' | b'%' | b'+' | b'~' | b'@' | b'-') => true,
        Some(b'.' | b':') => found.after(1).is_some_and(|byte| byte.is_ascii_alphanumeric()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegistryConfig;

    fn assert_encodes(registry: &Registry, cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            let encoded = registry.encode_uris(text).into_owned();
            assert_eq!(encoded, *expected, "{text:?}");
            assert_eq!(registry.encode_uris(&encoded), encoded, "{text:?} again");
        }
    }

    fn registry() -> Registry {
        let registry = Registry::new(true);
        registry.register_document("doc-real");
        registry
    }

    // CTX-31: cases 43, 85
    #[test]
    fn uris_become_handles() {
        assert_encodes(
            &registry(),
            &[
                ("toolnexus://doc/a/b", "toolnexus://doc/a/b"),
                ("x=toolnexus://doc/abc", "x=toolnexus://doc/abc"),
                ("summarise toolnexus://doc/doc-new.", "summarise doc://2."),
                ("toolnexus://doc/abc: b", "doc://3: b"),
                ("toolnexus://doc/doc-real,toolnexus://kb/k,toolnexus://chunk/c", "doc://1,kb://1,chunk://1"),
                ("toolnexus://doc/sp%20ace toolnexus://doc/sp%20ace", "doc://4 doc://4"),
                (
                    "toolnexus://url/x toolnexus://issue/x other://doc/x",
                    "toolnexus://url/x toolnexus://issue/x other://doc/x",
                ),
                (
                    "toolnexus:// toolnexus://doc/ toolnexus://toolnexus://doc/z",
                    "toolnexus:// toolnexus://doc/ toolnexus://toolnexus://doc/z",
                ),
            ],
        );
    }

    // CTX-31: what a URI names may be read, not cited; and a citable source stays citable
    #[test]
    fn uris_are_for_navigation() {
        let registry = registry();
        registry.register_chunk(SourceRef::new("read"));
        assert_encodes(
            &registry,
            &[("toolnexus://chunk/named toolnexus://chunk/read", "chunk://2 chunk://1")],
        );
        let tables = registry.tables();
        let settings = registry.settings();
        let is_evidence = |id: &str| {
            let at = tables.source_place(settings, settings.roles.chunk.unwrap(), id).unwrap();
            tables.source(at).unwrap().is_evidence
        };
        assert!(is_evidence("read"));
        assert!(!is_evidence("named"));
    }

    // CTX-17, CTX-31: a URI whose id could not be registered as it is stays: its handle would stand for
    // something else
    #[test]
    fn a_uri_never_becomes_the_handle_of_another_id() {
        let registry = registry();
        assert_encodes(
            &registry,
            &[
                ("toolnexus://doc/d1", "toolnexus://doc/d1"),
                ("toolnexus://doc/doc%3A%2F%2F1", "toolnexus://doc/doc%3A%2F%2F1"),
                ("toolnexus://doc/res%3A%2F%2F1", "toolnexus://doc/res%3A%2F%2F1"),
                ("toolnexus://doc/%20doc-real", "toolnexus://doc/%20doc-real"),
                ("toolnexus://doc/toolnexus%3A%2F%2Fdoc%2Fq", "toolnexus://doc/toolnexus%3A%2F%2Fdoc%2Fq"),
                ("toolnexus://doc/next-one", "doc://2"),
            ],
        );
        let without_legacy =
            Registry::with_config(RegistryConfig { legacy_handles: false, ..Default::default() }).unwrap();
        assert_encodes(&without_legacy, &[("toolnexus://doc/d1", "doc://1")]);
    }

    // CTX-24, CTX-31: resources first: a URI never takes a resource apart
    #[test]
    fn resources_go_before_uris() {
        let config = RegistryConfig::default().resource_pattern(crate::ResourcePattern::LegacyStorage);
        let registry = Registry::with_config(config).unwrap();
        let text = registry.encode_resources("local://a/toolnexus://doc/x toolnexus://doc/x").into_owned();
        assert_eq!(registry.encode_uris(&text), "res://0001 doc://1");
    }

    // Texts that are made to be slow are not: each of them would take minutes with a scan that starts over
    #[test]
    fn no_text_is_slow() {
        let registry = registry();
        for length in 1..500 {
            registry.register_document(&"-".repeat(length));
            registry.register_document(&"/".repeat(length));
        }
        registry.register_document(&format!("{}!", "a.1-".repeat(100)));
        let issues = registry.settings().space_named("issue").unwrap();
        registry.register_issue("1-1");
        for piece in [
            "toolnexus://",
            "toolnexus://doc/",
            "a",
            "1",
            ".1",
            "-",
            "://",
            "res://1",
            "doc://1",
            "doc://",
            "1-1.",
            "a.1-",
            "doc-real.",
            "resource://AbCdEfGhIjKlMnOpQrStU",
            "%",
            "i",
            "i1",
        ] {
            let text = piece.repeat(100_000 / piece.len());
            let _ = registry.encode_uris(&text);
            let _ = registry.encode_known_ids(issues, &text);
            let _ = registry.compact_known_text(&text);
            let _ = registry.orphan_resource_handles(&text);
        }
    }
}
