//! Replayed tool arguments: the exact inverse of decoding.

use crate::argument_roles::{Role, rewrite_call};
use crate::settings::{KeyKinds, KindId, SpaceId};
use crate::syntax::is_resource_handle;
use crate::{Evidence, Registry, SourceRef, TextForm};

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
                let (id, _) = id_part(kinds, text);
                self.register_id(kinds, id, Evidence::Current);
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
            Role::Name => Some(with_resources.into_owned()),
            // Decoding restores such a handle as a whole, and no other.
            Role::Verbatim => is_resource_handle(&with_resources).then(|| with_resources.into_owned()),
            Role::Id { kinds, .. } if with_resources == text => {
                let (id, rest) = id_part(kinds, text);
                match self.register_id(kinds, id, Evidence::NavigationOnly) {
                    Some(handle) => Some(format!("{handle}{}", self.encode_uris(rest))),
                    None => Some(self.encode_uris(text).into_owned()),
                }
            }
            Role::Text => Some(self.compact_known_text(&self.encode_uris(&with_resources))),
            Role::Id { .. } | Role::Private(_) | Role::Routing(_) | Role::Free => {
                Some(self.encode_uris(&with_resources).into_owned())
            }
        }
    }

    /// The handle of an id that a private or routing space knows.
    fn known_handle(&self, space: SpaceId, id: &str) -> Option<String> {
        let tables = self.tables();
        let table = tables.space(space)?;
        table.place_of(id).map(|place| table.handle_of(place))
    }

    /// Registers what a declared key names as the kind that it is, or is most likely to be.
    fn register_id(&self, kinds: &KeyKinds, id: &str, evidence: Evidence) -> Option<String> {
        let id = id.trim();
        let kind = self.kind_of_id(kinds, id)?;
        self.register_as(kind, &SourceRef::new(id), evidence)
    }

    /// The kind of an id, of those that its key accepts.
    fn kind_of_id(&self, kinds: &KeyKinds, id: &str) -> Option<KindId> {
        let settings = self.settings();
        let spelled = settings.whole_handle(id).map(|handle| handle.kind);
        if let Some(kind) = spelled.or_else(|| settings.whole_uri(id).map(|(kind, _)| kind)) {
            return kinds.kinds.contains(&kind).then_some(kind);
        }
        let holds_urls = |kind: &KindId| {
            settings.kind(*kind).is_some_and(|definition| definition.text_form == TextForm::Value)
        };
        let is_url = is_web_url(id);
        let tables = self.tables();
        let mut fitting = kinds.kinds.iter().copied().filter(|kind| is_url || !holds_urls(kind));
        let known = fitting.clone().find(|kind| tables.source_place(settings, *kind, id).is_some());
        known.or_else(|| fitting.clone().find(|kind| is_url && holds_urls(kind))).or_else(|| fitting.next())
    }
}

/// The id of a declared value, and what stands behind it: of a reference, from its first `|` on.
fn id_part<'t>(kinds: &KeyKinds, text: &'t str) -> (&'t str, &'t str) {
    text.split_at(text.find('|').filter(|_| kinds.is_reference).unwrap_or(text.len()))
}

/// Whether keys may register this as a page of the web.
fn is_web_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}
