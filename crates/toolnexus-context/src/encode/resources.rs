//! Stored resources in a text.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;

use memchr::memmem;

use super::encoded::Encoded;
use crate::Registry;
use crate::resource_search::ResourceMatch;
use crate::syntax::{RESOURCE, digits_at, is_word};

impl Registry {
    /// Stored resources become `res://NNNN`; new ones are registered. This comes before all other encoding:
    /// a resource's reference may hold a document's id, and no handle may be put into it.
    pub(crate) fn encode_resources<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let settings = self.settings();
        // Most texts hold no match, and need not be looked through for handles.
        let encoded = OnceCell::new();
        let accepted = |found: &ResourceMatch| {
            let encoded = encoded.get_or_init(|| Encoded::of(settings, text));
            comes_back_whole(text, found) && encoded.is_no_handle(found.range.clone())
        };
        let found: Vec<_> = settings.resources.matches(text, accepted).collect();
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut tables = self.tables();
        let resources = tables.resources_mut();
        let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
        for ResourceMatch { range, .. } in found {
            let value = text.get(range.clone()).unwrap_or_default();
            let Some(place) = resources.register(value) else { continue };
            out.push_str(text.get(copied..range.start).unwrap_or_default());
            out.push_str(&resources.handle_of(place));
            copied = range.end;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// The distinct `res://` handles in a text that this registry did not issue, in order.
    pub fn orphan_resource_handles(&self, decoded: &str) -> Vec<String> {
        let tables = self.tables();
        let mut seen = HashSet::new();
        let tokens = memmem::find_iter(decoded.as_bytes(), RESOURCE).filter_map(|start| {
            let digits = start + RESOURCE.len();
            decoded
                .get(start..digits + digits_at(decoded, digits))
                .filter(|token| token.len() > RESOURCE.len())
        });
        tokens
            .filter(|token| tables.resources().resolve(token).is_none() && seen.insert(*token))
            .map(str::to_owned)
            .collect()
    }
}

/// Whether a handle in the place of the match is read back as it was written: a digit would lengthen it,
/// and a reference of the default pattern that goes on is another one. It is a word at both ends: where
/// the match was none, it would be glued to a word beside it, which may be a handle.
fn comes_back_whole(text: &str, found: &ResourceMatch) -> bool {
    let bytes = text.as_bytes();
    let at = |place: Option<usize>| place.and_then(|place| bytes.get(place)).copied();
    let is_word_at = |place| at(place).is_some_and(is_word);
    let (start, end) = (found.range.start, found.range.end);
    let after = at(Some(end));
    let is_longer = after.is_some_and(|byte| byte.is_ascii_digit())
        || found.is_default && after.is_some_and(|byte| is_word(byte) || byte == b'-');
    let is_glued = is_word_at(start.checked_sub(1)) && !is_word_at(Some(start))
        || is_word_at(Some(end)) && !is_word_at(end.checked_sub(1));
    !is_longer && !is_glued
}
