//! Durable URIs and known values in a text.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::memmem;

use super::encoded::Encoded;
use crate::known_values::{Occurrence, Verdict};
use crate::settings::{KindId, Settings, SpaceId};
use crate::syntax::{is_resource_handle, is_word};
use crate::tables::source_handle;
use crate::{Evidence, Registry, SourceRef, TextForm};

impl Registry {
    /// Durable URIs are registered for navigation and become their handles.
    pub(crate) fn encode_uris<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let settings = self.settings();
        let beginning = format!("{}://", settings.uri_scheme);
        let finder = memmem::Finder::new(&beginning);
        let (mut out, mut copied, mut from) = (String::new(), 0, 0);
        while let Some(found) = finder.find(text.as_bytes().get(from..).unwrap_or_default()) {
            let at = from + found;
            from = at + beginning.len();
            let Some((kind, id, end)) = settings.uri_at(text, at) else { continue };
            if !is_identity(settings, &id) {
                continue;
            }
            let source = SourceRef::new(id);
            let Some(handle) = self.register_as(kind, &source, Evidence::NavigationOnly) else { continue };
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str(&handle);
            (copied, from) = (end, end);
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Known ids of a private or routing space become their handles, but not in what is a handle or a
    /// durable URI already.
    pub(crate) fn encode_known_ids<'t>(&self, space: SpaceId, text: &'t str) -> Cow<'t, str> {
        let tables = self.tables();
        let Some(known) = tables.space(space).filter(|known| known.len() > 0) else {
            return Cow::Borrowed(text);
        };
        let encoded = OnceCell::new();
        let handles = OnceCell::new();
        known.encode_text(text, |Occurrence { start, end, .. }| {
            let encoded = encoded.get_or_init(|| Encoded::of(self.settings(), text));
            let handles = handles.get_or_init(|| known.handles_in(text));
            let next = handles.get(handles.partition_point(|handle| handle.end <= start));
            encoded.is_open(start..end) && next.is_none_or(|handle| handle.start >= end)
        })
    }

    /// The text with stored resources and all known source values replaced by handles. No identity is
    /// ever made up from text.
    pub fn compact_known_text(&self, text: &str) -> String {
        let text = self.encode_resources(text);
        let tables = self.tables();
        let known = tables.known_sources();
        if known.is_empty() {
            return text.into_owned();
        }
        let settings = self.settings();
        let encoded = Encoded::of(settings, &text);
        let compacted = known.replace(
            &text,
            |found, at| judge(settings, &encoded, found, at.kind),
            |at| source_handle(settings, at),
        );
        match compacted {
            Cow::Borrowed(_) => text.into_owned(),
            Cow::Owned(compacted) => compacted,
        }
    }

    /// The text with registered issue ids replaced by `iN`: for text that an application renders into
    /// the context of a run.
    pub fn encode_known_issues(&self, text: &str) -> String {
        match self.settings().space_named("issue") {
            Some(issues) => self.encode_known_ids(issues, text).into_owned(),
            None => text.to_owned(),
        }
    }
}

/// Whether the id of a URI is registered as it is: not another one's handle or URI, not trimmed. Else its
/// handle would stand for something else.
fn is_identity(settings: &Settings, id: &str) -> bool {
    id.trim() == id
        && !is_resource_handle(id)
        && settings.whole_handle(id).is_none()
        && settings.whole_uri(id).is_none()
}

/// Whether an occurrence of a source's id may become its handle: only where decoding brings the id back,
/// and where it is really this id and not a piece of something longer.
fn judge(settings: &Settings, encoded: &Encoded, found: Occurrence<'_>, kind: KindId) -> Verdict {
    let value = found.value();
    let after = found.after(0);
    let is_ordinary = value.len() < settings.min_text_len
        || value.bytes().all(|byte| byte.is_ascii_digit())
        || value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_in_slug = [found.before(), after].contains(&Some(b'-')) && !is_uuid(value);
    let is_url =
        settings.kind(kind).is_some_and(|kind| kind.text_form == TextForm::Value) || has_scheme(value);
    if after.is_some_and(is_word)
        || is_ordinary
        || is_in_slug
        || (is_url && goes_on(&found))
        || !encoded.is_open(found.start..found.end)
    {
        Verdict::Keep
    } else if after == Some(b'.') && found.after(1).is_some_and(|byte| byte.is_ascii_digit()) {
        // No handle ends before a fraction. But the digit may begin an id that is replaced.
        Verdict::ReplaceWith(found.end + 1)
    } else {
        Verdict::Replace
    }
}

/// Whether the URL goes on behind the known one: then it is another page.
fn goes_on(found: &Occurrence<'_>) -> bool {
    match found.after(0) {
        Some(b'/' | b'?' | b'#' | b'&' | b'=' | b'%' | b'+' | b'~' | b'@' | b'-') => true,
        Some(b'.' | b':') => found.after(1).is_some_and(|byte| byte.is_ascii_alphanumeric()),
        _ => false,
    }
}

/// Whether a value is written as a URL.
fn has_scheme(value: &str) -> bool {
    value.split_once("://").is_some_and(|(scheme, rest)| {
        let mut letters = scheme.bytes();
        !rest.is_empty()
            && letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
    })
}

/// Whether a value has the shape of a UUID.
fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
