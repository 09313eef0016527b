//! From what an application says to what is used: every name is looked up once, and what contradicts
//! itself is refused.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Kind, KindId, Roles, Settings, Space};
use crate::citation::{CITATION_TAG, CitationFormat};
use crate::resource_search::ResourceSearch;
use crate::{ContextError, Limits, PrivateSpace, RegistryConfig, SourceKind};

/// Schemes of ordinary links, which no kind of source may take.
const LINK_SCHEMES: [&str; 5] = ["http", "https", "file", "data", "mailto"];

impl Settings {
    /// Settings without kinds, spaces and tools.
    pub(super) fn empty() -> Self {
        Settings {
            citations: false,
            uri_scheme: String::new(),
            legacy_handles: false,
            min_text_len: 0,
            max_tag_len: 0,
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
        check_scheme(&config.uri_scheme)?;
        if config.max_tag_len == 0 {
            return Err(ContextError::Zero("max_tag_len"));
        }
        let mut settings = Settings {
            citations: config.citations,
            uri_scheme: config.uri_scheme,
            legacy_handles: config.legacy_handles,
            min_text_len: config.min_text_len,
            max_tag_len: config.max_tag_len,
            limits: config.limits,
            renderers: config.renderers,
            ..Settings::empty()
        };
        settings.set_kinds(&config.kinds)?;
        settings.roles = settings.roles_of(&config.roles)?;
        settings.set_citations(&config.kinds, config.citation_formats)?;
        settings.set_spaces(config.private_spaces, config.routing_spaces)?;
        settings.resources = ResourceSearch::new(&config.resource_patterns)?;
        for (key, space) in &config.key_spaces {
            let kinds = settings.key_kinds(space, || format!("key_spaces.{key}"))?;
            settings.key_spaces.insert(key.to_lowercase(), kinds);
        }
        settings.set_policies(config.policies)?;
        Ok(settings)
    }

    fn set_kinds(&mut self, kinds: &[SourceKind]) -> Result<(), ContextError> {
        for kind in kinds {
            check_kind_name(&kind.name, &self.uri_scheme)?;
            if let Some(letter) = kind.legacy.filter(|letter| !letter.is_ascii_alphabetic()) {
                return Err(ContextError::LegacyLetter(letter));
            }
            self.kinds.push(Kind {
                name: kind.name.clone(),
                meaning: kind.meaning.clone(),
                legacy: kind.legacy.map(|letter| letter.to_ascii_lowercase()),
                text_form: kind.text_form,
                citation: None,
            });
        }
        each_once("kind", self.kinds.iter().map(|kind| kind.name.clone()))?;
        let letters = self.kinds.iter().filter_map(|kind| kind.legacy);
        each_once("legacy letter", letters.map(String::from))
    }

    fn roles_of(&self, roles: &crate::KindRoles) -> Result<Roles, ContextError> {
        let role = |part: &str, name: &Option<String>| {
            let find = |name| self.known_kind(name, || format!("roles.{part}"));
            name.as_deref().map(find).transpose()
        };
        Ok(Roles {
            chunk: role("chunk", &roles.chunk)?,
            document: role("document", &roles.document)?,
            knowledge_base: role("knowledge_base", &roles.knowledge_base)?,
            url: role("url", &roles.url)?,
        })
    }

    /// The kind that the configuration names at some place.
    pub(super) fn known_kind(
        &self,
        name: &str,
        place: impl FnOnce() -> String,
    ) -> Result<KindId, ContextError> {
        let known = || self.kinds.iter().map(|kind| kind.name.clone());
        self.kind_named(name).ok_or_else(|| unknown(place(), name, "kind", known()))
    }

    /// Citable kinds get their format: the one given, the one of the part that they play, or the general
    /// one.
    fn set_citations(
        &mut self,
        kinds: &[SourceKind],
        mut formats: BTreeMap<String, CitationFormat>,
    ) -> Result<(), ContextError> {
        let roles = self.roles;
        for (at, (kind, definition)) in self.kinds.iter_mut().zip(kinds).enumerate() {
            if !definition.citable {
                continue;
            }
            let id = Some(KindId(at));
            let format = match formats.remove(&kind.name) {
                Some(given) => given,
                None if id == roles.chunk => CitationFormat::knowledge(),
                None if id == roles.url => CitationFormat::web(),
                None => CitationFormat::source(&kind.name),
            };
            if !is_name(&format.tag_name) || format.tag_name.eq_ignore_ascii_case(CITATION_TAG) {
                return Err(ContextError::TagName { kind: kind.name.clone(), tag: format.tag_name });
            }
            kind.citation = Some(format);
        }
        match formats.pop_first() {
            Some((name, _)) => {
                let citable = kinds.iter().filter(|kind| kind.citable).map(|kind| kind.name.clone());
                Err(unknown("citation_formats".into(), &name, "citable kind", citable))
            }
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
        for space in &self.spaces {
            let prefix = &space.definition.prefix;
            if !is_name(prefix) || prefix.ends_with(|c: char| c.is_ascii_digit()) {
                return Err(ContextError::Prefix(prefix.clone()));
            }
        }
        each_once("space", self.spaces.iter().map(|space| space.definition.name.clone()))?;
        each_once("private prefix", self.spaces.iter().map(|space| space.definition.prefix.clone()))
    }
}

/// The error for a name that the configuration does not have.
pub(super) fn unknown(
    place: String,
    name: &str,
    what: &'static str,
    known: impl Iterator<Item = String>,
) -> ContextError {
    ContextError::UnknownSpace { place, name: name.to_owned(), what, known: known.collect() }
}

fn each_once(what: &'static str, values: impl Iterator<Item = String>) -> Result<(), ContextError> {
    let mut seen = HashSet::new();
    for value in values {
        if seen.contains(&value) {
            return Err(ContextError::Duplicate { what, value });
        }
        seen.insert(value);
    }
    Ok(())
}

/// Whether a text is `[A-Za-z][A-Za-z0-9_-]*`.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
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
    let reason = if LINK_SCHEMES.contains(&name) {
        "it is a scheme of ordinary links"
    } else if name.ends_with("res") {
        "\"res://\" is recognised inside it"
    } else if name == scheme {
        "it is the scheme of durable URIs"
    } else {
        return Ok(());
    };
    Err(ContextError::ReservedKind { name: name.to_owned(), reason })
}
