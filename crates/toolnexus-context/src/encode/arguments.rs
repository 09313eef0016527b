//! Replayed tool arguments: the exact inverse of decoding.

use crate::argument_roles::{Role, rewrite_call};
use crate::settings::{KeyKinds, SpaceId};
use crate::syntax::{holds_resource_handle, is_resource_handle};
use crate::tables::source_handle;
use crate::{Evidence, Registry};

impl Registry {
    /// The sources that a replayed call names, in declared keys or by URI, become known, for navigation.
    pub(crate) fn note_arguments(&self, tool: &str, arguments: &str) {
        // Encoding registers what it shows, in document order.
        let _ = self.encode_arguments(tool, arguments);
    }

    /// The sources that evidence keys of a call name were retrieved: the call has succeeded.
    pub(crate) fn register_evidence(&self, tool: &str, arguments: &str) {
        self.rewrite_arguments(tool, arguments, |role, text| {
            if let Role::Id { kinds, is_evidence: true } = role {
                self.argument_handle(kinds, text, Evidence::Current);
            }
            None
        });
    }

    /// The arguments of a replayed call as the model wrote them; `None` where nothing changes.
    pub(crate) fn encode_arguments(&self, tool: &str, arguments: &str) -> Option<String> {
        self.rewrite_arguments(tool, arguments, |role, text| self.encode_argument(role, text))
    }

    fn rewrite_arguments(
        &self,
        tool: &str,
        arguments: &str,
        mut edit: impl FnMut(Role<'_>, &str) -> Option<String>,
    ) -> Option<String> {
        rewrite_call(self.settings(), tool, arguments, &|_, _| None, &mut edit)
    }

    fn encode_argument(&self, role: Role<'_>, text: &str) -> Option<String> {
        let known = match role {
            Role::Private(space) => self.known_handle(space, text.trim()),
            Role::Routing(space) => self.known_handle(space, text),
            _ => None,
        };
        if known.is_some() {
            return known;
        }
        let with_resources = self.encode_resources(text);
        match role {
            // Decoding restores such a handle as a whole, and no other.
            Role::Verbatim => is_resource_handle(&with_resources).then(|| with_resources.into_owned()),
            Role::Id { kinds, .. } if !holds_resource_handle(&with_resources) => {
                match self.argument_handle(kinds, text, Evidence::NavigationOnly) {
                    Some(handle) => Some(format!("{handle}{}", self.encode_uris(title_part(kinds, text)))),
                    None => Some(self.encode_uris(text).into_owned()),
                }
            }
            Role::Text => Some(self.compact_known_text(&self.encode_uris(&with_resources))),
            Role::Id { .. } | Role::Private(_) | Role::Routing(_) | Role::Name | Role::Free => {
                Some(self.encode_uris(&with_resources).into_owned())
            }
        }
    }

    /// The handle of what a declared key names, new or known. A longer text with handles in it, as a
    /// refused call may have written it, makes no identity.
    fn argument_handle(&self, kinds: &KeyKinds, text: &str, evidence: Evidence) -> Option<String> {
        let settings = self.settings();
        let id = text.strip_suffix(title_part(kinds, text)).unwrap_or(text).trim();
        if settings.whole_handle(id).is_some() || settings.handles_in(id).next().is_none() {
            return self.register_keyed(kinds, text, evidence);
        }
        let tables = self.tables();
        let known = kinds.kinds.iter().find_map(|kind| tables.source_place(settings, *kind, id));
        known.map(|at| source_handle(settings, at))
    }

    /// The handle of an id that a private or routing space knows.
    fn known_handle(&self, space: SpaceId, id: &str) -> Option<String> {
        let tables = self.tables();
        let table = tables.space(space)?;
        table.place_of(id).map(|place| table.handle_of(place))
    }
}

/// What stands behind the id of a declared value: of a reference, all from its first `|` on.
fn title_part<'t>(kinds: &KeyKinds, text: &'t str) -> &'t str {
    text.find('|').filter(|_| kinds.is_reference).and_then(|bar| text.get(bar..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::{KeySpace, Registry, RegistryConfig, ToolPolicy};

    fn registry() -> Registry {
        let reading = ToolPolicy::default().id_keys(["source_refs", "knowledge_id", "chunk_id", "url"]);
        let config = RegistryConfig::default()
            .key_space("page", KeySpace::of("url"))
            .policy("read_chunk", reading.evidence_keys(["chunk_id"]));
        Registry::with_config(config).unwrap()
    }

    fn is_citable(registry: &Registry, handle: &str) -> bool {
        !registry.decode_output_text(&format!(r#"<ref id="{handle}"/>"#)).is_empty()
    }

    // CTX-61: after a successful call the durable values of evidence keys are evidence
    #[test]
    fn evidence_keys_make_evidence() {
        let registry = registry();
        registry.register_evidence("webfetch", r#"{"url":"https://a.io/x","note":"https://a.io/y"}"#);
        assert_eq!(registry.compact_known_text("https://a.io/x https://a.io/y"), "url://1 https://a.io/y");
        assert!(is_citable(&registry, "url://1"));
        // What was for navigation becomes evidence under its old number.
        registry.note_arguments("read_chunk", r#"{"chunk_id":"chunk-a"}"#);
        assert_eq!(registry.chunk_handle("chunk-a").as_deref(), Some("chunk://1"));
        assert!(!is_citable(&registry, "chunk://1"));
        registry.register_evidence("read_chunk", r#"{"filters":{"CHUNK_ID":["chunk-b","chunk-a"]}}"#);
        assert!(is_citable(&registry, "chunk://1") && is_citable(&registry, "chunk://2"));
        assert_eq!(registry.chunk_handle("chunk-b").as_deref(), Some("chunk://2"));
    }

    // CTX-61: of a tool that says so, by these keys alone
    #[test]
    fn other_keys_and_tools_make_none() {
        let registry = registry();
        registry.register_evidence("read_chunk", r#"{"knowledge_id":"doc-a","url":"https://a.io/x"}"#);
        registry.register_evidence("somebody_elses", r#"{"url":"https://a.io/x","chunk_id":"chunk-a"}"#);
        registry.register_evidence("webfetch", r#"{"url":"ftp://a.io/x"}"#);
        registry.register_evidence("webfetch", r#"{"url":["",5,"url://7","res://0001"]}"#);
        registry.register_evidence("webfetch", "https://a.io/x");
        assert_eq!(registry.compact_known_text("doc-aa https://a.io/x"), "doc-aa https://a.io/x");
        assert_eq!(registry.chunk_handle("chunk-a"), None);
        assert_eq!(registry.register_url("https://a.io/first", "").as_deref(), Some("url://1"));
    }

    // CTX-61, CTX-48: of the tool inside a `call_tool`
    #[test]
    fn the_call_inside_call_tool_makes_evidence() {
        let registry = registry();
        registry
            .register_evidence("call_tool", r#"{"name":"webfetch","arguments":{"url":"https://a.io/x"}}"#);
        assert!(is_citable(&registry, "url://1"));
    }

    // CTX-37, CTX-31: noting registers what encoding shows, in the order of the document
    #[test]
    fn noting_registers_in_document_order() {
        let registry = registry();
        let arguments =
            r#"{"source_refs":["doc-c|T"],"note":"toolnexus://doc/doc-b","knowledge_id":"doc-a"}"#;
        registry.note_arguments("read_chunk", arguments);
        for (id, handle) in [("doc-c", "doc://1"), ("doc-b", "doc://2"), ("doc-a", "doc://3")] {
            assert_eq!(registry.register_document(id).as_deref(), Some(handle));
        }
    }
}
