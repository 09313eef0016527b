//! The policies of tools in the form in which they are used.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::check::unknown;
use super::{KindId, Settings, SpaceId};
use crate::{ContextError, KeySpace, ToolPolicy};

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

impl Settings {
    pub(super) fn set_policies(
        &mut self,
        policies: BTreeMap<String, ToolPolicy>,
    ) -> Result<(), ContextError> {
        for (tool, policy) in policies {
            let policy = self.checked_policy(&tool, policy.normalized())?;
            if let Some((key, space)) = &policy.routing_key {
                // Rows of a directory are read by key alone, whichever tool routes by it.
                match self.routing_keys.insert(key.clone(), *space) {
                    Some(other) if other != *space => {
                        return Err(ContextError::TwoRoutes { tool, key: key.clone() });
                    }
                    _ => {}
                }
            }
            self.policies.insert(tool, policy);
        }
        Ok(())
    }

    pub(super) fn key_kinds(
        &self,
        space: &KeySpace,
        place: impl Fn() -> String,
    ) -> Result<KeyKinds, ContextError> {
        let kinds = space.kinds.iter().map(|name| self.known_kind(name, &place));
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        if kinds.is_empty() {
            return Err(ContextError::NoKind(place()));
        }
        Ok(KeyKinds { kinds, is_reference: space.is_reference })
    }

    fn checked_policy(&self, tool: &str, policy: ToolPolicy) -> Result<Policy, ContextError> {
        check_roles(tool, &policy)?;
        if let Some(key) = policy.text_keys.iter().find(|key| self.key_spaces.contains_key(*key)) {
            return Err(ContextError::TextKeyIsId { tool: tool.to_owned(), key: key.clone() });
        }
        let mut id_keys = self.overrides(tool, &policy)?;
        for key in &policy.id_keys {
            if !id_keys.contains_key(key) {
                let kinds = self.key_spaces.get(key).cloned();
                let unknown = || ContextError::UnknownKey { tool: tool.to_owned(), key: key.clone() };
                id_keys.insert(key.clone(), kinds.ok_or_else(unknown)?);
            }
        }
        if let Some(key) = policy.evidence_keys.iter().find(|key| !id_keys.contains_key(*key)) {
            return Err(ContextError::EvidenceKey { tool: tool.to_owned(), key: key.clone() });
        }

        let known = |is_routing: bool| {
            let spaces = self.spaces().filter(move |(_, space)| space.is_routing == is_routing);
            spaces.map(|(_, space)| space.definition.name.clone())
        };
        let space = |name: &str, is_routing: bool, field: &str| {
            let what = if is_routing { "routing space" } else { "private space" };
            self.space_named(name)
                .filter(|id| self.space(*id).is_some_and(|space| space.is_routing == is_routing))
                .ok_or_else(|| unknown(format!("{field} of \"{tool}\""), name, what, known(is_routing)))
        };
        let spaces = |keys: BTreeMap<String, String>, field: &str| {
            keys.into_iter()
                .map(|(key, name)| space(&name, false, field).map(|id| (key, id)))
                .collect::<Result<HashMap<_, _>, _>>()
        };
        let encode_known = policy.encode_known.iter().map(|name| space(name, false, "encode_known"));
        let routing_key = policy.routing_key.map(|routing| {
            let space = space(&routing.space, true, "routing_key")?;
            Ok((routing.key, space))
        });
        Ok(Policy {
            id_keys,
            text_keys: policy.text_keys.into_iter().collect(),
            verbatim_keys: policy.verbatim_keys.into_iter().collect(),
            encode_known: encode_known.collect::<Result<_, _>>()?,
            private_decode: spaces(policy.private_decode, "private_decode")?,
            private_encode: spaces(policy.private_encode, "private_encode")?,
            routing_key: routing_key.transpose()?,
            directory: policy.directory,
            render: policy.render,
            citations: policy.citations,
            opaque_output: policy.opaque_output,
            external: policy.external,
            evidence_keys: policy.evidence_keys.into_iter().collect(),
            sensitive: policy.sensitive,
        })
    }

    /// What keys hold for this tool alone.
    fn overrides(&self, tool: &str, policy: &ToolPolicy) -> Result<HashMap<String, KeyKinds>, ContextError> {
        let overrides = policy.kinds_override.iter().map(|(key, kinds)| {
            // A reference stays one, whatever it refers to.
            let is_reference = self.key_spaces.get(key).is_some_and(|known| known.is_reference);
            let space = KeySpace { kinds: kinds.clone(), is_reference };
            let kinds = self.key_kinds(&space, || format!("kinds_override.{key} of \"{tool}\""))?;
            Ok((key.clone(), kinds))
        });
        overrides.collect()
    }
}

/// Each key of the arguments has one role.
fn check_roles(tool: &str, policy: &ToolPolicy) -> Result<(), ContextError> {
    let roles = policy
        .id_keys
        .iter()
        .map(|key| (key, "an id key"))
        .chain(policy.text_keys.iter().map(|key| (key, "a text key")))
        .chain(policy.verbatim_keys.iter().map(|key| (key, "a verbatim key")))
        .chain(policy.private_decode.keys().map(|key| (key, "a private key")))
        .chain(policy.routing_key.iter().map(|routing| (&routing.key, "the routing key")));
    let mut first_roles: HashMap<&String, &'static str> = HashMap::new();
    for (key, second) in roles {
        if let Some(first) = first_roles.insert(key, second) {
            return Err(ContextError::TwoRoles { tool: tool.to_owned(), key: key.clone(), first, second });
        }
    }
    Ok(())
}
