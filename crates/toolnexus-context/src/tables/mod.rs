//! From identity to handle and back: everything that one execution knows.
//!
//! A table only grows. An entry's number is its place, so it is never reused.

mod numbered;
mod page;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use numbered::Numbered;
pub(crate) use page::{is_url, is_web_page, same_page};

use crate::known_values::KnownValues;
use crate::settings::{KindId, Settings, SpaceId};
use crate::syntax::{RESOURCE, SourceHandle};
use crate::{Evidence, SourceRef, TextForm};

/// One source.
#[derive(Clone, Default)]
pub(crate) struct Source {
    /// What its handle decodes to: the id, or the URL that was registered first.
    pub(crate) id: Arc<str>,
    pub(crate) title: String,
    pub(crate) document_id: String,
    pub(crate) knowledge_base_id: String,
    pub(crate) index: usize,
    pub(crate) subtype: String,
    /// Whether an answer may cite it.
    pub(crate) is_evidence: bool,
}

impl Source {
    /// Fills what is blank. What is known is never overwritten, and evidence is never taken back.
    fn fill(&mut self, from: &SourceRef, evidence: Evidence) {
        for (field, given) in [
            (&mut self.title, &from.title),
            (&mut self.document_id, &from.document_id),
            (&mut self.knowledge_base_id, &from.knowledge_base_id),
            (&mut self.subtype, &from.subtype),
        ] {
            if field.is_empty() && !given.trim().is_empty() {
                field.clone_from(given);
            }
        }
        if self.index == 0 {
            self.index = from.index;
        }
        self.is_evidence |= evidence == Evidence::Current;
    }
}

/// The sources of one kind.
#[derive(Default)]
struct SourceTable {
    entries: Vec<Source>,
    /// By what makes two sources the same.
    places: HashMap<String, usize>,
}

/// A source of some kind, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SourcePlace {
    pub(crate) kind: KindId,
    pub(crate) place: usize,
}

/// Everything that one execution knows. Kept behind one lock, so that what resolves has its metadata.
pub(crate) struct Tables {
    sources: Vec<SourceTable>,
    spaces: Vec<Numbered>,
    resources: Numbered,
    /// The values of all kinds of source together.
    known: KnownValues<SourcePlace>,
}

impl Tables {
    pub(crate) fn new(settings: &Settings) -> Self {
        let spaces = settings.spaces().map(|(_, space)| {
            let definition = &space.definition;
            Numbered::new(&definition.prefix, definition.width, definition.start)
        });
        Tables {
            sources: settings.kinds().map(|_| SourceTable::default()).collect(),
            spaces: spaces.collect(),
            resources: Numbered::new(RESOURCE, 4, 1),
            known: KnownValues::default(),
        }
    }

    /// The place of a source, whether it was known or not. The id must be one that
    /// [may identify](Settings::may_identify): callers look first.
    pub(crate) fn register_source(
        &mut self,
        settings: &Settings,
        kind: KindId,
        source: &SourceRef,
        evidence: Evidence,
    ) -> Option<SourcePlace> {
        let key = key(settings, kind, &source.id)?;
        let table = self.sources.get_mut(kind.0)?;
        let place = match table.places.get(key) {
            Some(place) => *place,
            None => {
                let place = table.entries.len();
                let id = Arc::<str>::from(source.id.as_str());
                table.places.insert(key.to_owned(), place);
                self.known.insert(&id, SourcePlace { kind, place });
                table.entries.push(Source { id, ..Default::default() });
                place
            }
        };
        table.entries.get_mut(place)?.fill(source, evidence);
        Some(SourcePlace { kind, place })
    }

    /// The place of a source that is known by this id.
    pub(crate) fn source_place(&self, settings: &Settings, kind: KindId, id: &str) -> Option<SourcePlace> {
        let place = *self.sources.get(kind.0)?.places.get(key(settings, kind, id)?)?;
        Some(SourcePlace { kind, place })
    }

    pub(crate) fn source(&self, at: SourcePlace) -> Option<&Source> {
        self.sources.get(at.kind.0)?.entries.get(at.place)
    }

    /// The source that a handle stands for.
    pub(crate) fn resolve(&self, handle: SourceHandle) -> Option<(SourcePlace, &Source)> {
        let at = SourcePlace { kind: handle.kind, place: handle.number?.checked_sub(1)? };
        Some((at, self.source(at)?))
    }

    pub(crate) fn known_sources(&self) -> &KnownValues<SourcePlace> {
        &self.known
    }

    /// How many sources of a kind there are.
    pub(crate) fn count(&self, kind: KindId) -> usize {
        self.sources.get(kind.0).map_or(0, |table| table.entries.len())
    }

    pub(crate) fn space(&self, id: SpaceId) -> Option<&Numbered> {
        self.spaces.get(id.0)
    }

    pub(crate) fn space_mut(&mut self, id: SpaceId) -> Option<&mut Numbered> {
        self.spaces.get_mut(id.0)
    }

    /// How much is known: a number that grows with every entry.
    pub(crate) fn size(&self) -> usize {
        let sources = self.sources.iter().map(|table| table.entries.len());
        let spaces = self.spaces.iter().map(Numbered::len);
        sources.chain(spaces).sum::<usize>() + self.resources.len()
    }

    pub(crate) fn resources(&self) -> &Numbered {
        &self.resources
    }

    pub(crate) fn resources_mut(&mut self) -> &mut Numbered {
        &mut self.resources
    }

    /// Every value that has a handle.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        let sources = self.sources.iter().flat_map(|table| table.entries.iter().map(|source| &*source.id));
        sources.chain(self.spaces.iter().chain([&self.resources]).flat_map(Numbered::values))
    }
}

/// What makes two ids of a kind the same source.
fn key<'i>(settings: &Settings, kind: KindId, id: &'i str) -> Option<&'i str> {
    Some(match settings.kind(kind)?.text_form {
        TextForm::Uri => id,
        TextForm::Value => same_page(id),
    })
}

/// The handle of a source.
pub(crate) fn source_handle(settings: &Settings, at: SourcePlace) -> String {
    let name = settings.kind(at.kind).map(|kind| kind.name.as_str()).unwrap_or_default();
    format!("{name}://{}", at.place + 1)
}

#[cfg(test)]
mod tests {
    use crate::{Evidence, Registry, SourceRef};

    // CTX-10: what is blank is filled, an index that is 0 too; what is known stays
    #[test]
    fn a_repeat_fills_every_field() {
        let registry = Registry::new(true);
        let of = |title: &str, document: &str, base: &str, index: usize, subtype: &str| SourceRef {
            id: "chunk-one".into(),
            title: title.into(),
            document_id: document.into(),
            knowledge_base_id: base.into(),
            index,
            subtype: subtype.into(),
        };
        let chunk = registry.settings().roles.chunk.unwrap();
        let known = |source: SourceRef, evidence: Evidence| {
            registry.register_as(chunk, &source, evidence).unwrap();
            let tables = registry.tables();
            let at = tables.source_place(registry.settings(), chunk, "chunk-one").unwrap();
            let source = tables.source(at).unwrap();
            let is_evidence = source.is_evidence;
            (
                source.title.clone(),
                source.document_id.clone(),
                source.index,
                source.subtype.clone(),
                is_evidence,
            )
        };
        let told = |title: &str, document: &str, index: usize, subtype: &str, is_evidence: bool| {
            (title.to_owned(), document.to_owned(), index, subtype.to_owned(), is_evidence)
        };
        assert_eq!(known(of(" ", "", "", 0, ""), Evidence::NavigationOnly), told("", "", 0, "", false));
        assert_eq!(known(of("T", "", "", 3, ""), Evidence::NavigationOnly), told("T", "", 3, "", false));
        assert_eq!(
            known(of("U", "doc-a", "", 4, "faq"), Evidence::Current),
            told("T", "doc-a", 3, "faq", true)
        );
        let last = known(of("", "doc-b", "", 0, "text"), Evidence::NavigationOnly);
        assert_eq!(last, told("T", "doc-a", 3, "faq", true));
    }
}
