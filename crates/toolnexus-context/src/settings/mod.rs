//! A configuration that was checked, in the form in which it is used.
//!
//! Names became places: a kind or a space is a number here, so that nothing has to be looked up twice.
//! `check` makes the settings from a [`RegistryConfig`], `policies` those of each tool.

mod check;
mod policies;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

pub(crate) use policies::{KeyKinds, Policy};

use crate::citation::CitationFormat;
use crate::resource_search::ResourceSearch;
use crate::{Limits, PrivateSpace, RegistryConfig, Renderer, TextForm};

/// A kind of source, by its place in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KindId(pub(crate) usize);

/// A private or routing space, by its place in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SpaceId(pub(crate) usize);

/// A kind of source.
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) meaning: String,
    /// Lower-case.
    pub(crate) legacy: Option<char>,
    pub(crate) text_form: TextForm,
    /// How it is cited; `None` for kinds that are not.
    pub(crate) citation: Option<CitationFormat>,
}

/// A private or routing space.
pub(crate) struct Space {
    pub(crate) definition: PrivateSpace,
    pub(crate) is_routing: bool,
}

/// The kinds that play the parts of [`KindRoles`](crate::KindRoles).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Roles {
    pub(crate) chunk: Option<KindId>,
    pub(crate) document: Option<KindId>,
    pub(crate) knowledge_base: Option<KindId>,
    pub(crate) url: Option<KindId>,
}

/// A configuration that was checked.
pub(crate) struct Settings {
    pub(crate) citations: bool,
    pub(crate) uri_scheme: String,
    pub(crate) legacy_handles: bool,
    pub(crate) min_text_len: usize,
    pub(crate) max_tag_len: usize,
    pub(crate) limits: Limits,
    pub(crate) roles: Roles,
    pub(crate) resources: ResourceSearch,
    /// What keys hold in general, by lower-case key.
    pub(crate) key_spaces: HashMap<String, KeyKinds>,
    pub(crate) renderers: HashMap<String, Arc<dyn Renderer>>,
    kinds: Vec<Kind>,
    spaces: Vec<Space>,
    policies: HashMap<String, Policy>,
    /// Key of directory rows to routing space, from the policies.
    routing_keys: BTreeMap<String, SpaceId>,
}

impl Settings {
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (KindId, &Kind)> {
        self.kinds.iter().enumerate().map(|(at, kind)| (KindId(at), kind))
    }

    pub(crate) fn kind(&self, id: KindId) -> Option<&Kind> {
        self.kinds.get(id.0)
    }

    pub(crate) fn kind_named(&self, name: &str) -> Option<KindId> {
        self.kinds().find(|(_, kind)| kind.name == name).map(|(id, _)| id)
    }

    /// Private spaces first, then routing spaces, each in the order of the configuration.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.spaces.iter().enumerate().map(|(at, space)| (SpaceId(at), space))
    }

    pub(crate) fn space(&self, id: SpaceId) -> Option<&Space> {
        self.spaces.get(id.0)
    }

    pub(crate) fn space_named(&self, name: &str) -> Option<SpaceId> {
        self.spaces().find(|(_, space)| space.definition.name == name).map(|(id, _)| id)
    }

    /// The policy of a tool; `None` for a dynamic one.
    pub(crate) fn policy(&self, tool: &str) -> Option<&Policy> {
        self.policies.get(tool)
    }

    /// The keys that route, of all tools, and their spaces.
    pub(crate) fn routing_keys(&self) -> &BTreeMap<String, SpaceId> {
        &self.routing_keys
    }

    /// The keys that route calls of directory tools, and their spaces. Text names places by these.
    pub(crate) fn directory_keys(&self) -> impl Iterator<Item = (&str, SpaceId)> {
        let directories = self.policies.values().filter(|policy| policy.directory);
        directories
            .filter_map(|policy| policy.routing_key.as_ref())
            .map(|(key, space)| (key.as_str(), *space))
    }

    /// The settings of a new registry with the default configuration.
    pub(crate) fn default_of(citations: bool) -> Arc<Self> {
        static BOTH: LazyLock<[Arc<Settings>; 2]> = LazyLock::new(|| {
            [false, true].map(|citations| {
                let config = RegistryConfig::default().citations(citations);
                // A test says that the default is valid.
                Arc::new(Settings::new(config).unwrap_or_else(|_| Settings::empty()))
            })
        });
        let [without, with] = &*BOTH;
        Arc::clone(if citations { with } else { without })
    }
}
