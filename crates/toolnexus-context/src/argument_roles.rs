//! Which part each string of a call's arguments plays. Decoding, replaying and evidence all ask here, so
//! that they cannot drift apart.
//!
//! ```text
//! tool, arguments ── call_tool? ──► the real tool, its arguments ── policy, key ──► Role
//! ```

use crate::json_text::{Place, Step, is_object, literal_of, members, rewrite_strings, spliced, string_value};
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

/// Other text for the arguments of a tool with this policy, before its strings are looked at.
pub(crate) type Prepare<'p> = dyn Fn(Option<&Policy>, &str) -> Option<String> + 'p;

/// Offers every string of a call's arguments to `edit`, with its role for the real tool. The new text, or
/// `None` where nothing changed; what is no JSON stays.
pub(crate) fn rewrite_call(
    settings: &Settings,
    tool: &str,
    arguments: &str,
    prepare: &Prepare<'_>,
    edit: &mut Edit<'_>,
) -> Option<String> {
    let policy = settings.policy(tool);
    if tool == CALL_TOOL && policy.is_none() && is_object(arguments) {
        return rewrite_envelope(settings, arguments, prepare, edit);
    }
    rewrite_arguments(policy, arguments, prepare, edit)
}

/// The arguments of `call_tool`: the real tool is the one that they name. All beside its arguments is text
/// of nobody's.
fn rewrite_envelope(
    settings: &Settings,
    envelope: &str,
    prepare: &Prepare<'_>,
    edit: &mut Edit<'_>,
) -> Option<String> {
    let found = members(envelope)?;
    // Of repeated members the last counts, as for everybody who reads the object.
    let named = found.iter().rev().find(|member| member.name == "name");
    let named = named.and_then(|member| string_value(envelope.get(member.value.clone())?));
    let policy = named.and_then(|name| settings.policy(&name));

    let beside = rewrite_strings(envelope, &mut |place, text| match place.path {
        [Step::Member(name), ..] if name == INNER_ARGUMENTS => None,
        _ => edit(if place.is_name { Role::Name } else { Role::Free }, text),
    });
    let beside = beside.ok()?;
    let envelope = beside.as_deref().unwrap_or(envelope);
    let mut parts = Vec::new();
    for member in members(envelope)?.into_iter().filter(|member| member.name == INNER_ARGUMENTS) {
        let json = envelope.get(member.value.clone()).unwrap_or_default();
        // Some models write the inner arguments as the JSON of an object, in a string.
        let edited = match string_value(json).filter(|inner| members(inner).is_some()) {
            Some(inner) => rewrite_arguments(policy, &inner, prepare, edit).map(|edited| literal_of(&edited)),
            None => rewrite_arguments(policy.filter(|_| is_object(json)), json, prepare, edit),
        };
        parts.extend(edited.map(|edited| (member.value, edited)));
    }
    if parts.is_empty() { beside } else { Some(spliced(envelope, &parts)) }
}

fn rewrite_arguments(
    policy: Option<&Policy>,
    arguments: &str,
    prepare: &Prepare<'_>,
    edit: &mut Edit<'_>,
) -> Option<String> {
    let prepared = prepare(policy, arguments);
    let text = prepared.as_deref().unwrap_or(arguments);
    let roles = Roles::of(policy);
    let edited = rewrite_strings(text, &mut |place, text| edit(roles.at(place), text));
    edited.ok().flatten().or(prepared)
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
