//! What a text names: an identity, or something that only looks like one.
//!
//! Text that is shaped like a handle never is an identity, whoever says it. A durable URI is the id in it.

use crate::TextForm;
use crate::settings::{KeyKinds, KindId, Settings};
use crate::syntax::is_resource_handle;
use crate::tables::{SourcePlace, Tables, is_web_page};

/// What a text that names a source stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A handle of the kind that was issued.
    Known(SourcePlace),
    /// A durable id, known or not.
    Id(String),
}

impl Settings {
    /// What a text names as a source of this kind: a handle, a durable URI or a bare id.
    pub(crate) fn named(&self, tables: &Tables, kind: KindId, text: &str) -> Option<Named> {
        let text = text.trim();
        if let Some(handle) = self.whole_handle(text) {
            let (at, _) = tables.resolve(handle)?;
            return (at.kind == kind).then_some(Named::Known(at));
        }
        let id = match self.whole_uri(text) {
            Some((of, id)) => Some(id).filter(|_| of == kind)?,
            None => text.to_owned(),
        };
        self.may_identify(&id).then_some(Named::Id(id))
    }

    /// The durable id of something that a source belongs to; empty for text that names nothing.
    pub(crate) fn related(&self, tables: &Tables, kind: Option<KindId>, text: &str) -> String {
        let Some(kind) = kind else { return text.trim().to_owned() };
        match self.named(tables, kind, text) {
            Some(Named::Known(at)) => {
                tables.source(at).map(|source| source.id.to_string()).unwrap_or_default()
            }
            Some(Named::Id(id)) => id,
            None => String::new(),
        }
    }

    /// The kind of an id, of those that its key accepts. A handle and a URI say it themselves. Else it is
    /// the one that knows the id; else that of URLs for a page of the web, and for nothing else; else the
    /// first.
    pub(crate) fn kind_of(&self, tables: &Tables, key: &KeyKinds, id: &str) -> Option<KindId> {
        let handle = self.whole_handle(id).map(|handle| handle.kind);
        if let Some(said) = handle.or_else(|| self.whole_uri(id).map(|(kind, _)| kind)) {
            return key.kinds.contains(&said).then_some(said);
        }
        let holds_urls =
            |kind: &KindId| self.kind(*kind).is_some_and(|kind| kind.text_form == TextForm::Value);
        let is_page = is_web_page(id);
        let mut fitting = key.kinds.iter().copied().filter(|kind| is_page || !holds_urls(kind));
        let known = fitting.clone().find(|kind| tables.source_place(self, *kind, id).is_some());
        known.or_else(|| fitting.clone().find(|kind| is_page && holds_urls(kind))).or_else(|| fitting.next())
    }

    /// Whether a text may be registered as the id of a source: it is trimmed, not blank, and is neither a
    /// handle nor a durable URI.
    pub(crate) fn may_identify(&self, id: &str) -> bool {
        !id.is_empty()
            && id.trim().len() == id.len()
            && self.whole_handle(id).is_none()
            && !self.is_foreign(id)
    }

    /// Whether a text belongs to the sources or the resources by its shape, so that no private or routing
    /// space may take it for an id. Old forms are not looked at: they are for sources alone.
    pub(crate) fn is_foreign(&self, id: &str) -> bool {
        is_resource_handle(id)
            || self.handle_at(id, 0).is_some_and(|(_, end)| end == id.len())
            || self.whole_uri(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{KeyKinds, Settings};
    use crate::{Evidence, Registry, SourceRef};

    fn keyed(registry: &Registry, kinds: &[&str], value: &str) -> Option<String> {
        let kinds = kinds.iter().map(|kind| registry.settings().kind_named(kind).unwrap()).collect();
        registry.register_keyed(&KeyKinds { kinds, is_reference: false }, value, Evidence::NavigationOnly)
    }

    // CTX-22: only pages of the web enter the space of URLs by key, however they were found
    #[test]
    fn keys_register_pages_of_the_web_alone() {
        let registry = Registry::new(true);
        for other in [
            "res://0001",
            "resource://AbCdEfGhIjKlMnOpQrStUv",
            "s3://bucket/key",
            "storage://x/local://y",
            "file:///etc/hosts",
            "mailto:a@e.com",
            "e.com/a",
            "https://",
            "toolnexus://doc/x",
            "",
        ] {
            assert_eq!(keyed(&registry, &["url"], other), None, "{other}");
        }
        assert_eq!(keyed(&registry, &["url"], " https://e.com/a ").as_deref(), Some("url://1"));
        assert_eq!(keyed(&registry, &["url"], "HTTP://e.com").as_deref(), Some("url://2"));
        assert_eq!(keyed(&registry, &["url"], "w1").as_deref(), Some("url://1"));
        assert_eq!(keyed(&registry, &["url"], "w9"), None);
        // The host may register what it likes.
        assert_eq!(registry.register_url("s3://bucket/key", "").as_deref(), Some("url://3"));
    }

    // CTX-59: of several kinds the one that fits
    #[test]
    fn a_key_of_several_kinds_takes_the_one_that_fits() {
        let registry = Registry::new(true);
        registry.register_context_chunk(SourceRef::new("chunk-known"));
        let both = ["doc", "chunk", "url"];
        assert_eq!(keyed(&registry, &both, "chunk-known").as_deref(), Some("chunk://1"));
        assert_eq!(keyed(&registry, &both, "unknown").as_deref(), Some("doc://1"));
        assert_eq!(keyed(&registry, &both, "https://e.com").as_deref(), Some("url://1"));
        assert_eq!(keyed(&registry, &both, "toolnexus://chunk/new").as_deref(), Some("chunk://2"));
        assert_eq!(keyed(&registry, &both, "c2").as_deref(), Some("chunk://2"));
        assert_eq!(keyed(&registry, &both, "toolnexus://kb/new"), None);
        assert_eq!(keyed(&registry, &both, "kb://1"), None);
        assert_eq!(keyed(&registry, &["doc"], "https://e.com").as_deref(), Some("doc://2"));
    }

    // CTX-59: of a reference the part before the bar
    #[test]
    fn a_reference_is_its_id() {
        let registry = Registry::new(true);
        let key = registry.settings().key_spaces.get("source_refs").unwrap();
        let register = |value: &str| registry.register_keyed(key, value, Evidence::NavigationOnly);
        assert_eq!(register("doc-a | Title|x").as_deref(), Some("doc://1"));
        assert_eq!(register("doc-a").as_deref(), Some("doc://1"));
        assert_eq!(register("|Title"), None);
        assert_eq!(registry.decode_output_text("doc://1"), "toolnexus://doc/doc-a");
    }

    // CTX-17
    #[test]
    fn what_may_be_an_identity() {
        let settings = Settings::default_of(true);
        for id in [
            "a",
            "doc",
            "doc://",
            "doc://1x",
            "x doc://1",
            "i1",
            "ms1",
            "c0",
            "RES://1",
            "toolnexus://x/1",
            "é",
        ] {
            assert!(settings.may_identify(id), "{id}");
        }
        for id in ["", " ", " a", "a\n", "doc://1", "KB://007", "c1", "W2", "res://1", "toolnexus://doc/1"] {
            assert!(!settings.may_identify(id), "{id}");
        }
    }
}
