//! Which part each string of a call's arguments plays. Decoding, replaying and evidence all ask here, so
//! that they cannot drift apart.
//!
//! ```text
//! tool, arguments ── call_tool? ──► the real tool, its arguments ── policy, key ──► Role
//! ```

use crate::json_text::{Place, is_object, literal_of, members, rewrite_strings, spliced, unescaped};
use crate::settings::{KeyKinds, Policy, Settings, SpaceId};

/// The tool of the client's tool tiers that calls another tool; it is transparent.
pub(crate) const CALL_TOOL: &str = "call_tool";

/// The member of `call_tool`, and of a bridge's call tool, that has the arguments of the real tool.
pub(crate) const INNER_ARGUMENTS: &str = "arguments";

/// What a string of arguments is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role<'s> {
    /// The name of a member.
    Name,
    /// An id of these kinds.
    Id {
        kinds: &'s KeyKinds,
        /// Whether a call that succeeded makes it evidence.
        is_evidence: bool,
    },
    /// Structured text, such as SQL.
    Text,
    /// Left alone.
    Verbatim,
    /// An id of a private space.
    Private(SpaceId),
    /// The id of a place to route to.
    Routing(SpaceId),
    /// Any other string.
    Free,
}

/// The new text of a string, or `None` to leave it.
pub(crate) type Edit<'e> = dyn FnMut(Role<'_>, &str) -> Option<String> + 'e;

/// Hands the arguments of the real tool, a JSON object, to `rewrite` with that tool's policy. Within
/// `call_tool` the real tool is the one that is named, and `rewrite` gets all else of the envelope value
/// by value without a policy. The new text, or `None` where nothing changed.
pub(crate) fn rewrite_call(
    settings: &Settings,
    tool: &str,
    arguments: &str,
    rewrite: &mut dyn FnMut(Option<&Policy>, &str) -> Option<String>,
) -> Option<String> {
    let policy = settings.policy(tool);
    if tool != CALL_TOOL || policy.is_some() {
        return if is_object(arguments) { rewrite(policy, arguments) } else { None };
    }
    let members = members(arguments)?;
    let value = |at: &std::ops::Range<usize>| arguments.get(at.clone()).unwrap_or_default();
    // Of repeated members the last counts, as for everybody who reads the object.
    let named = members.iter().rev().find(|member| member.name == "name");
    let named = named.and_then(|member| unescaped_string(value(&member.value)));
    let policy = named.and_then(|name| settings.policy(&name));
    let mut parts = Vec::new();
    for member in &members {
        let text = value(&member.value);
        let edited = if member.name != INNER_ARGUMENTS {
            rewrite(None, text)
        } else if is_object(text) {
            rewrite(policy, text)
        } else {
            // Some models write the inner arguments as the JSON of an object, in a string.
            match unescaped_string(text).filter(|inner| self::members(inner).is_some()) {
                Some(inner) => rewrite(policy, &inner).map(|edited| literal_of(&edited)),
                None => rewrite(None, text),
            }
        };
        parts.extend(edited.map(|edited| (member.value.clone(), edited)));
    }
    (!parts.is_empty()).then(|| spliced(arguments, &parts))
}

/// What a JSON value that is a string spells.
pub(crate) fn unescaped_string(json: &str) -> Option<String> {
    if json.starts_with('"') { unescaped(json).map(std::borrow::Cow::into_owned) } else { None }
}

/// Offers every string of the arguments of a tool with this policy to `edit`. The new text, or `None`
/// where nothing changed; what is no JSON stays.
pub(crate) fn rewrite_by_role(
    policy: Option<&Policy>,
    arguments: &str,
    edit: &mut Edit<'_>,
) -> Option<String> {
    let roles = Roles::of(policy);
    rewrite_strings(arguments, &mut |place, text| edit(roles.at(place), text)).ok().flatten()
}

/// The roles of one tool's keys.
struct Roles<'s> {
    policy: Option<&'s Policy>,
    /// The most bytes that a key with a role can have, however its case is written. A longer key is not
    /// looked up: an array under it could ask for it once for each element.
    longest: usize,
}

impl<'s> Roles<'s> {
    fn of(policy: Option<&'s Policy>) -> Self {
        let longest = policy.map_or(0, |policy| {
            let maps = policy.id_keys.keys().chain(policy.private_decode.keys());
            let sets = policy.text_keys.iter().chain(&policy.verbatim_keys);
            let routing = policy.routing_key.iter().map(|(key, _)| key);
            maps.chain(sets).chain(routing).map(String::len).max().unwrap_or_default()
        });
        // No character has an upper case of more than three times its bytes.
        Roles { policy, longest: longest.saturating_mul(3) }
    }

    fn at(&self, place: Place<'_>) -> Role<'s> {
        if place.is_name {
            return Role::Name;
        }
        let (Some(policy), Some(key)) = (self.policy, place.key().filter(|key| key.len() <= self.longest))
        else {
            return Role::Free;
        };
        let key = &key.to_lowercase();
        if let Some(kinds) = policy.id_keys.get(key) {
            Role::Id { kinds, is_evidence: policy.evidence_keys.contains(key) }
        } else if policy.text_keys.contains(key) {
            Role::Text
        } else if policy.verbatim_keys.contains(key) {
            Role::Verbatim
        } else if let Some(space) = policy.private_decode.get(key) {
            Role::Private(*space)
        } else {
            match &policy.routing_key {
                Some((routing, space)) if routing == key && place.is_top_level() => Role::Routing(*space),
                _ => Role::Free,
            }
        }
    }
}
