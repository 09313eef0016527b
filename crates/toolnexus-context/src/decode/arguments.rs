//! Tool arguments, fail closed: what is no handle of this registry stays, and the call is not run.
//!
//! ```text
//! arguments ── a bridge's inner object, if it came as a string ──► each string by its role ──► durable
//!                                                                        └─► unresolved handles
//! ```
//!
//! Only strings change; what was put in is not looked at again.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::argument_roles::{INNER_ARGUMENTS, Role, rewrite_call};
use crate::handles_in_text::{Handle, Spelled};
use crate::json_text::{WHITESPACE, members, spliced, string_value};
use crate::settings::{KeyKinds, KindId, Policy, Settings, SpaceId};
use crate::tables::Tables;
use crate::{ArgumentResolution, ModelToolCall, Registry};

/// What decoding made of the arguments of one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodedArguments {
    /// The new text, where it differs.
    pub(crate) text: Option<String>,
    pub(crate) resolution: ArgumentResolution,
    /// Each once, sorted.
    pub(crate) unresolved: Vec<String>,
}

impl Registry {
    /// Decodes the arguments of tool calls. Do it before anything parses, checks, shows or stores them. A
    /// call that was decoded before is left alone.
    ///
    /// ```
    /// use toolnexus_context::{ModelToolCall, Registry};
    /// let registry = Registry::new(true);
    /// registry.register_url("https://example.com/page", "");
    /// let mut calls = [ModelToolCall::new("call_1", "webfetch", r#"{"url":"url://1"}"#)];
    /// registry.decode_tool_calls(&mut calls);
    /// assert_eq!(calls[0].arguments, r#"{"url":"https://example.com/page"}"#);
    /// assert_eq!(calls[0].model_arguments.as_deref(), Some(r#"{"url":"url://1"}"#));
    /// ```
    pub fn decode_tool_calls(&self, calls: &mut [ModelToolCall]) {
        for call in calls.iter_mut().filter(|call| call.argument_resolution.is_none()) {
            let decoded = self.decode_arguments(&call.name, &call.arguments);
            let text = decoded.text.unwrap_or_else(|| call.arguments.clone());
            call.model_arguments = Some(std::mem::replace(&mut call.arguments, text));
            call.argument_resolution = Some(decoded.resolution);
            call.unresolved_handles = decoded.unresolved;
        }
    }

    /// Decodes the arguments of one call. What is no JSON passes as it is.
    pub(crate) fn decode_arguments(&self, tool: &str, arguments: &str) -> DecodedArguments {
        let settings = self.settings();
        let tables = &*self.tables();
        let mut decoder = Decoder { settings, tables, unresolved: BTreeSet::new() };
        let text =
            rewrite_call(settings, tool, arguments, &unwrapped, &mut |role, text| decoder.string(role, text));
        let is_changed = text.as_ref().is_some_and(|text| !is_same_json(arguments, text));
        let resolution = match (is_changed, decoder.unresolved.is_empty()) {
            (false, true) => ArgumentResolution::Unchanged,
            (true, true) => ArgumentResolution::Resolved,
            (true, false) => ArgumentResolution::PartiallyResolved,
            (false, false) => ArgumentResolution::Unresolved,
        };
        DecodedArguments { text, resolution, unresolved: decoder.unresolved.into_iter().collect() }
    }
}

/// Whether calls of a tool with this policy carry the arguments of a tool somewhere else: they are routed,
/// and their results come from there. Of the tools of the default configuration that is `call_mcp_tool`.
fn is_bridge_call(policy: &Policy) -> bool {
    policy.routing_key.is_some() && policy.external && !policy.directory
}

/// The arguments of a bridge call with its inner object as an object, if it came as the JSON of one in a
/// string. One layer alone, and of that only what is exactly one object.
fn unwrapped(policy: Option<&Policy>, arguments: &str) -> Option<String> {
    policy.filter(|policy| is_bridge_call(policy))?;
    let parts: Vec<_> = members(arguments)?
        .into_iter()
        .filter(|member| member.name == INNER_ARGUMENTS)
        .filter_map(|member| {
            let inner = string_value(arguments.get(member.value.clone())?)?;
            members(&inner)?;
            Some((member.value, inner.trim_matches(WHITESPACE).to_owned()))
        })
        .collect();
    (!parts.is_empty()).then(|| spliced(arguments, &parts))
}

/// Whether two texts are the same JSON. What cannot be read is the same only as bytes, and these texts
/// differ.
fn is_same_json(one: &str, other: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    read(one).is_some_and(|one| read(other).is_some_and(|other| one == other))
}

/// What becomes of a source handle within a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The id.
    Bare,
    /// The URI or the URL; the id within a path or a query.
    Durable,
}

struct Decoder<'r> {
    settings: &'r Settings,
    tables: &'r Tables,
    unresolved: BTreeSet<String>,
}

impl<'r> Decoder<'r> {
    fn string(&mut self, role: Role<'_>, text: &str) -> Option<String> {
        match role {
            Role::Id { kinds, .. } => self.id(kinds, text),
            Role::Text => self.text(text, Form::Bare),
            Role::Verbatim => self.tables.resources().resolve(text).map(|reference| reference.to_string()),
            Role::Private(space) => self.private(space, text),
            Role::Routing(space) => self.routing(space, text),
            Role::Name | Role::Free => self.text(text, Form::Durable),
        }
    }

    /// An id as a whole; of a reference, what stands before the first `|`.
    fn id(&mut self, kinds: &KeyKinds, text: &str) -> Option<String> {
        let bar = text.find('|').filter(|_| kinds.is_reference).unwrap_or(text.len());
        let (whole, rest) = text.split_at(bar);
        let id = whole.trim();
        let durable: Option<Cow<'_, str>> = if let Some(handle) = self.settings.whole_handle(id) {
            let accepted = kinds.kinds.contains(&handle.kind);
            let source = self.tables.resolve(handle).filter(|_| accepted);
            if source.is_none() {
                self.unresolved.insert(id.to_owned());
            }
            source.map(|(_, source)| Cow::Borrowed(&*source.id))
        } else {
            match self.settings.whole_uri(id) {
                Some((kind, id)) if kinds.kinds.contains(&kind) => Some(Cow::Owned(id)),
                _ => return self.text(text, Form::Bare),
            }
        };
        let rest = self.text(rest, Form::Bare).map_or(Cow::Borrowed(rest), Cow::Owned);
        Some(format!("{}{rest}", durable.as_deref().unwrap_or(whole)))
    }

    /// The handle of a private space as a whole, trimmed.
    fn private(&mut self, space: SpaceId, text: &str) -> Option<String> {
        let handle = text.trim();
        match self.tables.space(space).filter(|table| table.is_handle(handle)) {
            Some(table) => self.issued(handle, table.resolve(handle)),
            None => self.text(text, Form::Durable),
        }
    }

    /// The handle of a place to route to as a whole: the prefix and digits, however they are spelled.
    fn routing(&mut self, space: SpaceId, text: &str) -> Option<String> {
        match self.tables.space(space).filter(|table| table.is_shaped(text)) {
            Some(table) => self.issued(text, table.resolve(text)),
            None => self.text(text, Form::Durable),
        }
    }

    /// The id of a handle, which is noted where nobody issued it.
    fn issued(&mut self, handle: &str, id: Option<&Arc<str>>) -> Option<String> {
        if id.is_none() {
            self.unresolved.insert(handle.to_owned());
        }
        id.map(|id| id.to_string())
    }

    /// The text with its handles replaced; those that nobody issued are noted.
    fn text(&mut self, text: &str, form: Form) -> Option<String> {
        let mut out = String::new();
        let mut copied = 0;
        for Spelled { start, end, handle } in self.settings.handles_in(text) {
            let restored = match self.meant(handle) {
                None => {
                    self.unresolved.extend(text.get(start..end).map(str::to_owned));
                    continue;
                }
                Some((None, reference)) => Cow::Borrowed(reference),
                Some((Some(kind), id)) => {
                    let before = start.checked_sub(1).and_then(|before| text.as_bytes().get(before));
                    if form == Form::Bare || matches!(before, Some(b'/' | b'=')) {
                        Cow::Borrowed(id)
                    } else {
                        Cow::Owned(self.settings.text_form(kind, id))
                    }
                }
            };
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str(&restored);
            copied = end;
        }
        if copied == 0 {
            return None;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Some(out)
    }

    /// What a handle stands for, and of a source its kind; `None`: nobody issued it.
    fn meant(&self, handle: Handle<'_>) -> Option<(Option<KindId>, &'r str)> {
        match handle {
            Handle::Source(handle) => {
                self.tables.resolve(handle).map(|(_, source)| (Some(handle.kind), &*source.id))
            }
            Handle::Resource(digits) => {
                self.tables.resources().resolve_digits(digits).map(|reference| (None, &**reference))
            }
        }
    }
}
