//! Public citations on their way to the model.

use std::borrow::Cow;

use memchr::{memchr, memchr3};

use crate::decode::Named;
use crate::{CitedSource, Evidence, Registry, SourceRef};

impl Registry {
    /// Public citations are registered with this evidence and become `<ref id="…"/>`. A tag that does not
    /// say which source it cites, or whose source gets no handle, stays.
    pub(crate) fn encode_citations<'t>(&self, text: &'t str, evidence: Evidence) -> Cow<'t, str> {
        let mut encoded = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(start) = text.as_bytes().get(at..).and_then(|rest| memchr(b'<', rest)) {
            let start = at + start;
            if !self.is_public_tag(text.as_bytes().get(start..).unwrap_or_default()) {
                at = start + 1;
                continue;
            }
            at = match tag_end(text, start) {
                TagEnd::Close(end) => end,
                TagEnd::Other(next) => {
                    at = next;
                    continue;
                }
                TagEnd::Missing => break,
            };
            if let Some(handle) = self.register_citation(text.get(start..at).unwrap_or_default(), evidence) {
                encoded.push_str(text.get(copied..start).unwrap_or_default());
                encoded.push_str(&format!("<ref id=\"{handle}\"/>"));
                copied = at;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        encoded.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(encoded)
    }

    /// Whether a text that begins with `<` begins with the tag of a format.
    fn is_public_tag(&self, text: &[u8]) -> bool {
        let mut formats = self.settings().kinds().filter_map(|(_, kind)| kind.citation.as_ref());
        formats.any(|format| Named::at(text, &format.tag_name) == Named::Is { is_closing: false })
    }

    /// The handle of what a tag cites. Where kinds share a tag, it is of the one that knows the source,
    /// else of the first.
    fn register_citation(&self, tag: &str, evidence: Evidence) -> Option<String> {
        let settings = self.settings();
        let mut first = None;
        for (kind, definition) in settings.kinds() {
            let Some(format) = &definition.citation else { continue };
            if Named::at(tag.as_bytes(), &format.tag_name) != (Named::Is { is_closing: false }) {
                continue;
            }
            let Some(cited) = (format.parse)(tag) else { continue };
            let is_known = self.tables().source_place(settings, kind, cited.id.trim()).is_some();
            if is_known {
                return self.register_as(kind, &source_ref(cited), evidence);
            }
            first = first.or(Some((kind, cited)));
        }
        let (kind, cited) = first?;
        self.register_as(kind, &source_ref(cited), evidence)
    }
}

fn source_ref(cited: CitedSource) -> SourceRef {
    SourceRef {
        id: cited.id,
        document_id: cited.document_id,
        knowledge_base_id: cited.knowledge_base_id,
        title: cited.title,
        ..Default::default()
    }
}

/// Where the tag that begins at a place ends.
enum TagEnd {
    /// Behind its `>`.
    Close(usize),
    /// It does not: another tag begins here. `<` is written as an entity in attributes, but in quotes it
    /// is let pass.
    Other(usize),
    /// Nowhere.
    Missing,
}

fn tag_end(text: &str, start: usize) -> TagEnd {
    let bytes = text.as_bytes();
    let (mut at, mut is_quoted) = (start + 1, false);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr3(b'<', b'>', b'"', rest)) {
        let place = at + found;
        at = place + 1;
        match bytes.get(place) {
            Some(b'>') => return TagEnd::Close(at),
            Some(b'"') => is_quoted = !is_quoted,
            _ if !is_quoted => return TagEnd::Other(place),
            _ => {}
        }
    }
    TagEnd::Missing
}
