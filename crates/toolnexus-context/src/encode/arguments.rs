//! Replayed tool arguments: the exact inverse of decoding.

use crate::argument_roles::{Role, rewrite_call};
use crate::settings::{KeyKinds, SpaceId};
use crate::syntax::is_resource_handle;
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
                self.register_keyed(kinds, text, Evidence::Current);
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
                match self.register_keyed(kinds, text, Evidence::NavigationOnly) {
                    Some(handle) => Some(format!("{handle}{}", self.encode_uris(title_part(kinds, text)))),
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
}

/// What stands behind the id of a declared value: of a reference, all from its first `|` on.
fn title_part<'t>(kinds: &KeyKinds, text: &'t str) -> &'t str {
    text.find('|').filter(|_| kinds.is_reference).and_then(|bar| text.get(bar..)).unwrap_or_default()
}
