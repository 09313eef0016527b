//! A configuration that was checked, in the form in which it is used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use crate::citation::CitationFormat;
use crate::resource_search::ResourceSearch;
use crate::{ContextError, KeySpace, Limits, PrivateSpace, RegistryConfig, Renderer, TextForm, ToolPolicy};

/// A kind of source, by its place in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KindId(pub(crate) usize);

/// A private or routing space, by its place in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SpaceId(pub(crate) usize);

/// A kind of source.
pub(crate) struct Kind {
    pub(crate) name: String,
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

/// What a key holds, for one tool or in general.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyKinds {
    /// At least one; the first is what new ids are registered as.
    pub(crate) kinds: Vec<KindId>,
    pub(crate) is_reference: bool,
}

/// A tool's policy in the form in which it is used. Keys are lower-case.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) id_keys: HashMap<String, KeyKinds>,
    pub(crate) text_keys: HashSet<String>,
    pub(crate) verbatim_keys: HashSet<String>,
    pub(crate) private_decode: HashMap<String, SpaceId>,
    pub(crate) private_encode: HashMap<String, SpaceId>,
    pub(crate) encode_known: Vec<SpaceId>,
    pub(crate) routing_key: Option<(String, SpaceId)>,
    pub(crate) directory: bool,
    pub(crate) render: bool,
    pub(crate) citations: bool,
    pub(crate) opaque_output: bool,
    pub(crate) external: bool,
    pub(crate) evidence_keys: HashSet<String>,
    pub(crate) sensitive: bool,
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

    /// The settings of a new registry with the default configuration.
    pub(crate) fn default_of(citations: bool) -> Arc<Self> {
        static BOTH: LazyLock<[Arc<Settings>; 2]> = LazyLock::new(|| {
            [false, true].map(|citations| {
                // A test says that the default is valid.
                let settings = Settings::new(RegistryConfig::default().citations(citations));
                Arc::new(settings.unwrap_or_else(|_| Settings::empty(citations)))
            })
        });
        let [without, with] = &*BOTH;
        Arc::clone(if citations { with } else { without })
    }

    fn empty(citations: bool) -> Self {
        Settings {
            citations,
            uri_scheme: "toolnexus".into(),
            legacy_handles: true,
            min_text_len: 6,
            max_tag_len: 2048,
            limits: Limits::default(),
            roles: Roles::default(),
            resources: ResourceSearch::default(),
            key_spaces: HashMap::new(),
            renderers: HashMap::new(),
            kinds: Vec::new(),
            spaces: Vec::new(),
            policies: HashMap::new(),
            routing_keys: BTreeMap::new(),
        }
    }

    /// Checks a configuration.
    pub(crate) fn new(config: RegistryConfig) -> Result<Self, ContextError> {
        let mut settings = Settings {
            citations: config.citations,
            uri_scheme: config.uri_scheme,
            legacy_handles: config.legacy_handles,
            min_text_len: config.min_text_len,
            max_tag_len: config.max_tag_len,
            limits: config.limits,
            renderers: config.renderers,
            ..Settings::empty(config.citations)
        };
        check_scheme(&settings.uri_scheme)?;
        for (what, number) in [("min_text_len", config.min_text_len), ("max_tag_len", config.max_tag_len)] {
            if number == 0 {
                return Err(ContextError::Zero(what));
            }
        }
        for kind in &config.kinds {
            check_kind_name(&kind.name, &settings.uri_scheme)?;
            if let Some(letter) = kind.legacy.filter(|letter| !letter.is_ascii_alphabetic()) {
                return Err(ContextError::LegacyLetter(letter));
            }
            settings.kinds.push(Kind {
                name: kind.name.clone(),
                legacy: kind.legacy.map(|letter| letter.to_ascii_lowercase()),
                text_form: kind.text_form,
                citation: None,
            });
        }
        each_once("kind", config.kinds.iter().map(|kind| kind.name.clone()))?;
        let letters = settings.kinds.iter().filter_map(|kind| kind.legacy);
        each_once("legacy letter", letters.map(String::from))?;
        let role = |part: &'static str, name: &Option<String>| {
            let Some(name) = name else { return Ok(None) };
            settings.kind_named(name).map(Some).ok_or_else(|| unknown(format!("roles.{part}"), name, "kind"))
        };
        settings.roles = Roles {
            chunk: role("chunk", &config.roles.chunk)?,
            document: role("document", &config.roles.document)?,
            knowledge_base: role("knowledge_base", &config.roles.knowledge_base)?,
            url: role("url", &config.roles.url)?,
        };
        settings.set_citations(&config.kinds, config.citation_formats)?;
        settings.set_spaces(config.private_spaces, config.routing_spaces)?;
        settings.resources = ResourceSearch::new(&config.resource_patterns)?;
        for (key, space) in &config.key_spaces {
            let kinds = settings.key_kinds(space, || format!("key_spaces.{key}"))?;
            settings.key_spaces.insert(key.to_lowercase(), kinds);
        }
        for (tool, policy) in config.policies {
            let policy = settings.checked_policy(&tool, policy)?;
            if let Some((key, space)) = &policy.routing_key {
                settings.routing_keys.insert(key.clone(), *space);
            }
            settings.policies.insert(tool, policy);
        }
        Ok(settings)
    }

    /// Citable kinds get their format: the one given, or the one of the part that they play.
    fn set_citations(
        &mut self,
        kinds: &[crate::SourceKind],
        mut formats: BTreeMap<String, CitationFormat>,
    ) -> Result<(), ContextError> {
        let roles = self.roles;
        for (at, (kind, definition)) in self.kinds.iter_mut().zip(kinds).enumerate() {
            let id = Some(KindId(at));
            let given = formats.remove(&kind.name);
            kind.citation = given.or_else(|| {
                if !definition.citable {
                    None
                } else if id == roles.url || (id != roles.chunk && kind.text_form == TextForm::Value) {
                    Some(CitationFormat::web())
                } else {
                    Some(CitationFormat::knowledge())
                }
            });
        }
        match formats.pop_first() {
            Some((name, _)) => Err(unknown("citation_formats".into(), &name, "kind")),
            None => Ok(()),
        }
    }

    fn set_spaces(
        &mut self,
        private: Vec<PrivateSpace>,
        routing: Vec<PrivateSpace>,
    ) -> Result<(), ContextError> {
        let private = private.into_iter().map(|definition| Space { definition, is_routing: false });
        let routing = routing.into_iter().map(|definition| Space { definition, is_routing: true });
        self.spaces = private.chain(routing).collect();
        let names = self.spaces.iter().map(|space| space.definition.name.clone());
        each_once("space", names)?;
        for space in &self.spaces {
            let prefix = &space.definition.prefix;
            let is_well_formed = prefix.starts_with(|c: char| c.is_ascii_alphabetic())
                && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
                && !prefix.ends_with(|c: char| c.is_ascii_digit());
            if !is_well_formed {
                return Err(ContextError::Prefix(prefix.clone()));
            }
        }
        each_once("private prefix", self.spaces.iter().map(|space| space.definition.prefix.clone()))
    }

    fn key_kinds(&self, space: &KeySpace, place: impl Fn() -> String) -> Result<KeyKinds, ContextError> {
        let kind = |name: &String| self.kind_named(name).ok_or_else(|| unknown(place(), name, "kind"));
        let kinds = space.kinds.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        if kinds.is_empty() {
            return Err(unknown(place(), "", "kind"));
        }
        Ok(KeyKinds { kinds, is_reference: space.is_reference })
    }

    fn checked_policy(&self, tool: &str, policy: ToolPolicy) -> Result<Policy, ContextError> {
        let space = |name: &str, is_routing: bool, field: &str| {
            let what = if is_routing { "routing space" } else { "private space" };
            self.space_named(name)
                .filter(|id| self.space(*id).is_some_and(|space| space.is_routing == is_routing))
                .ok_or_else(|| unknown(format!("{field} of \"{tool}\""), name, what))
        };
        let mut id_keys = HashMap::new();
        for key in &policy.id_keys {
            let general = self.key_spaces.get(key);
            let kinds = match policy.kinds_override.get(key) {
                Some(kinds) => {
                    let is_reference = general.is_some_and(|known| known.is_reference);
                    let space = KeySpace { kinds: kinds.clone(), is_reference };
                    self.key_kinds(&space, || format!("kinds_override.{key} of \"{tool}\""))?
                }
                None => general
                    .cloned()
                    .ok_or_else(|| ContextError::UnknownKey { tool: tool.to_owned(), key: key.clone() })?,
            };
            id_keys.insert(key.clone(), kinds);
        }
        if let Some(key) = policy.text_keys.iter().find(|key| self.key_spaces.contains_key(*key)) {
            return Err(ContextError::TextKeyIsId { tool: tool.to_owned(), key: key.clone() });
        }
        let mut roles: HashMap<&String, &'static str> = HashMap::new();
        let routing = policy.routing_key.as_ref().map(|routing| &routing.key);
        let uses = policy
            .id_keys
            .iter()
            .map(|key| (key, "an id key"))
            .chain(policy.text_keys.iter().map(|key| (key, "a text key")))
            .chain(policy.verbatim_keys.iter().map(|key| (key, "a verbatim key")))
            .chain(policy.private_decode.keys().map(|key| (key, "a private key")))
            .chain(routing.map(|key| (key, "the routing key")));
        for (key, second) in uses {
            if let Some(first) = roles.insert(key, second) {
                let (tool, key) = (tool.to_owned(), key.clone());
                return Err(ContextError::TwoRoles { tool, key, first, second });
            }
        }
        if let Some(key) = policy.evidence_keys.iter().find(|key| !policy.id_keys.contains(*key)) {
            return Err(ContextError::UnknownKey { tool: tool.to_owned(), key: key.clone() });
        }
        let spaces = |map: BTreeMap<String, String>, field: &str| {
            map.into_iter()
                .map(|(key, name)| space(&name, false, field).map(|id| (key, id)))
                .collect::<Result<HashMap<_, _>, _>>()
        };
        let private_decode = spaces(policy.private_decode.clone(), "private_decode")?;
        let private_encode = spaces(policy.private_encode, "private_encode")?;
        let encode_known = policy.encode_known.iter().map(|name| space(name, false, "encode_known"));
        let encode_known = encode_known.collect::<Result<_, _>>()?;
        let routing_key = match policy.routing_key {
            Some(routing) => Some((routing.key.clone(), space(&routing.space, true, "routing_key")?)),
            None => None,
        };
        Ok(Policy {
            id_keys,
            text_keys: policy.text_keys.into_iter().collect(),
            verbatim_keys: policy.verbatim_keys.into_iter().collect(),
            private_decode,
            private_encode,
            encode_known,
            routing_key,
            directory: policy.directory,
            render: policy.render,
            citations: policy.citations,
            opaque_output: policy.opaque_output,
            external: policy.external,
            evidence_keys: policy.evidence_keys.into_iter().collect(),
            sensitive: policy.sensitive,
        })
    }
}

fn unknown(place: String, name: &str, what: &'static str) -> ContextError {
    ContextError::UnknownSpace { place, name: name.to_owned(), what }
}

fn each_once(what: &'static str, values: impl Iterator<Item = String>) -> Result<(), ContextError> {
    let mut seen = HashSet::new();
    for value in values {
        if !seen.insert(value.clone()) {
            return Err(ContextError::Duplicate { what, value });
        }
    }
    Ok(())
}

fn check_scheme(scheme: &str) -> Result<(), ContextError> {
    let is_well_formed = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+.-".contains(&b));
    if is_well_formed { Ok(()) } else { Err(ContextError::Scheme(scheme.to_owned())) }
}

fn check_kind_name(name: &str, scheme: &str) -> Result<(), ContextError> {
    let is_well_formed = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_well_formed {
        return Err(ContextError::KindName(name.to_owned()));
    }
    let reason = if ["http", "https", "file", "data", "mailto"].contains(&name) {
        "it is a scheme of ordinary URLs"
    } else if name.ends_with("res") {
        "\"res://\" is recognised inside it"
    } else if name == scheme {
        "it is the scheme of durable URIs"
    } else {
        return Ok(());
    };
    Err(ContextError::ReservedKind { name: name.to_owned(), reason })
}
