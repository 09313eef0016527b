//! From identity to handle and back: everything that one execution knows.
//!
//! A table only grows. An entry's number is its place, so it is never reused.

use std::collections::HashMap;
use std::sync::Arc;

use crate::known_values::KnownValues;
use crate::settings::{KindId, Settings, SpaceId};
use crate::syntax::{RESOURCE, SourceHandle};
use crate::{Evidence, SourceRef, TextForm};

/// Values that are numbered in the order in which they come.
#[derive(Debug)]
pub(crate) struct Numbered {
    prefix: String,
    width: usize,
    start: usize,
    values: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    known: KnownValues<usize>,
}

impl Numbered {
    pub(crate) fn new(prefix: impl Into<String>, width: usize, start: usize) -> Self {
        Numbered {
            prefix: prefix.into(),
            // Formatting pads no further.
            width: width.min(usize::from(u16::MAX)),
            start,
            values: Vec::new(),
            places: HashMap::new(),
            known: KnownValues::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// To how many digits numbers are padded.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn known(&self) -> &KnownValues<usize> {
        &self.known
    }

    /// The handle at this place.
    pub(crate) fn handle_of(&self, place: usize) -> String {
        format!("{}{:0width$}", self.prefix, self.start.saturating_add(place), width = self.width)
    }

    /// The place of a value, new or old; `None` for an empty one, and when there is no further number.
    pub(crate) fn register(&mut self, value: &str) -> Option<usize> {
        if value.is_empty() {
            return None;
        }
        if let Some(place) = self.places.get(value) {
            return Some(*place);
        }
        let (place, value) = (self.values.len(), Arc::<str>::from(value));
        self.start.checked_add(place)?;
        self.known.insert(&value, place);
        self.values.push(Arc::clone(&value));
        self.places.insert(value, place);
        Some(place)
    }

    pub(crate) fn place_of(&self, value: &str) -> Option<usize> {
        self.places.get(value).copied()
    }

    pub(crate) fn value(&self, place: usize) -> Option<&Arc<str>> {
        self.values.get(place)
    }

    /// What the digits of a handle stand for. They must be spelled as the handle is.
    pub(crate) fn resolve_digits(&self, digits: &str) -> Option<&Arc<str>> {
        let is_padded = digits.len() > self.width && digits.starts_with('0') && digits != "0";
        if digits.len() < self.width || is_padded {
            return None;
        }
        let place = digits.parse::<usize>().ok()?.checked_sub(self.start)?;
        self.values.get(place)
    }

    /// What a handle stands for.
    pub(crate) fn resolve(&self, handle: &str) -> Option<&Arc<str>> {
        let digits = handle.strip_prefix(&self.prefix)?;
        if !crate::syntax::is_digits(digits) {
            return None;
        }
        self.resolve_digits(digits)
    }
}

/// One source.
#[derive(Debug, Clone, Default)]
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

/// The sources of one kind.
#[derive(Debug, Default)]
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
#[derive(Debug)]
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

    /// The source's handle, whether it was known or not. The id must be trimmed, not blank, and no
    /// handle: callers look first.
    pub(crate) fn register_source(
        &mut self,
        settings: &Settings,
        kind: KindId,
        source: &SourceRef,
        evidence: Evidence,
    ) -> Option<SourcePlace> {
        let definition = settings.kind(kind)?;
        let table = self.sources.get_mut(kind.0)?;
        let key = match definition.text_form {
            TextForm::Uri => source.id.as_str(),
            TextForm::Value => same_page(&source.id),
        };
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
        let entry = table.entries.get_mut(place)?;
        for (field, given) in [
            (&mut entry.title, &source.title),
            (&mut entry.document_id, &source.document_id),
            (&mut entry.knowledge_base_id, &source.knowledge_base_id),
            (&mut entry.subtype, &source.subtype),
        ] {
            if field.trim().is_empty() {
                field.clone_from(given);
            }
        }
        if entry.index == 0 {
            entry.index = source.index;
        }
        entry.is_evidence |= evidence == Evidence::Current;
        Some(SourcePlace { kind, place })
    }

    /// The place of a source that is known by this id.
    pub(crate) fn source_place(&self, settings: &Settings, kind: KindId, id: &str) -> Option<SourcePlace> {
        let key = match settings.kind(kind)?.text_form {
            TextForm::Uri => id,
            TextForm::Value => same_page(id),
        };
        let place = *self.sources.get(kind.0)?.places.get(key)?;
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

    pub(crate) fn space(&self, id: SpaceId) -> Option<&Numbered> {
        self.spaces.get(id.0)
    }

    pub(crate) fn space_mut(&mut self, id: SpaceId) -> Option<&mut Numbered> {
        self.spaces.get_mut(id.0)
    }

    pub(crate) fn resources(&self) -> &Numbered {
        &self.resources
    }

    pub(crate) fn resources_mut(&mut self) -> &mut Numbered {
        &mut self.resources
    }
}

/// The handle of a source.
pub(crate) fn source_handle(settings: &Settings, at: SourcePlace) -> String {
    let name = settings.kind(at.kind).map(|kind| kind.name.as_str()).unwrap_or_default();
    format!("{name}://{}", at.place + 1)
}

/// What makes two URLs one page: all before the fragment. A text without scheme or host is itself.
pub(crate) fn same_page(url: &str) -> &str {
    let url = url.trim();
    let has_host = url.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
    });
    match url.split_once('#') {
        Some((page, _)) if has_host => page,
        _ => url,
    }
}
