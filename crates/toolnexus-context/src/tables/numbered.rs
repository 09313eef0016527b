//! Values that are numbered in the order in which they come.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::known_values::KnownValues;
use crate::syntax::is_digits;

/// Values that are numbered in the order in which they come. Handle text is the prefix and a number; the
/// number is the value's place, counted from `start`.
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

    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }

    /// The handle at this place.
    pub(crate) fn handle_of(&self, place: usize) -> String {
        // Registration stops before the sum is too large.
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
        let place = self.values.len();
        self.start.checked_add(place)?;
        let value = Arc::<str>::from(value);
        self.known.insert(&value, place);
        self.values.push(Arc::clone(&value));
        self.places.insert(value, place);
        Some(place)
    }

    pub(crate) fn place_of(&self, value: &str) -> Option<usize> {
        self.places.get(value).copied()
    }

    /// What the digits of a handle stand for. They must be spelled as the handle is.
    pub(crate) fn resolve_digits(&self, digits: &str) -> Option<&Arc<str>> {
        if !self.is_spelled(digits) {
            return None;
        }
        self.values.get(digits.parse::<usize>().ok()?.checked_sub(self.start)?)
    }

    /// What a handle stands for.
    pub(crate) fn resolve(&self, handle: &str) -> Option<&Arc<str>> {
        self.resolve_digits(handle.strip_prefix(&self.prefix)?)
    }

    /// Whether the whole text is the prefix and digits, however many: also where no handle is spelled so.
    pub(crate) fn is_shaped(&self, text: &str) -> bool {
        text.strip_prefix(&self.prefix).is_some_and(is_digits)
    }

    /// Whether the whole text is spelled as a handle of this table, issued or not.
    pub(crate) fn is_handle(&self, text: &str) -> bool {
        let digits = text.strip_prefix(&self.prefix).filter(|digits| self.is_spelled(digits));
        // A number that is too long to be read is no less a handle.
        digits.is_some_and(|digits| digits.parse::<usize>().map_or(true, |number| number >= self.start))
    }

    /// Whether digits are spelled as in a handle: padded to the width, and no further.
    fn is_spelled(&self, digits: &str) -> bool {
        let shortest = self.width.max(1);
        is_digits(digits)
            && (digits.len() == shortest || (digits.len() > shortest && !digits.starts_with('0')))
    }
}

/// Shows the size: what a table holds is nobody's to log.
impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbered")
            .field("prefix", &self.prefix)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Numbered;

    // CTX-9: no start makes two handles one
    #[test]
    fn behind_the_greatest_number_there_is_none() {
        let mut table = Numbered::new("i", 0, usize::MAX);
        assert_eq!(table.register("a"), Some(0));
        assert_eq!(table.register("b"), None);
        assert_eq!(table.resolve(&table.handle_of(0)).map(|value| &**value), Some("a"));
    }

    // CTX-17: what a handle looks like. CTX-19: of several spellings of a number one resolves
    #[test]
    fn the_shape_of_a_handle() {
        let mut issues = Numbered::new("i", 0, 1);
        issues.register("issue-uuid");
        for shaped in ["i1", "i10", "i0", "i01", "i99999999999999999999999999999999999999999999"] {
            assert!(issues.is_shaped(shaped), "{shaped}");
            assert_eq!(issues.resolve(shaped).is_some(), shaped == "i1", "{shaped}");
        }
        for spelled in ["i1", "i10", "i99999999999999999999999999999999999999999999"] {
            assert!(issues.is_handle(spelled), "{spelled}");
        }
        assert!(!issues.is_handle("i0") && !issues.is_handle("i01"));
        for other in ["i", "I1", "i1x", "xi1", "i-1", "i+1", "i١", " i1"] {
            assert!(!issues.is_shaped(other) && !issues.is_handle(other), "{other}");
            assert!(issues.resolve(other).is_none(), "{other}");
        }
    }

    proptest! {
        // CTX-9: every handle leads back to its value, and no other spelling of its number does
        #[test]
        fn handles_lead_back(
            prefix in "[a-z-]{0,3}", width in 0usize..6, start in 0usize..12, count in 1usize..40,
        ) {
            let mut table = Numbered::new(&prefix, width, start);
            for value in 0..count {
                let place = table.register(&format!("value {value}")).unwrap();
                let handle = table.handle_of(place);
                prop_assert!(table.is_shaped(&handle));
                prop_assert_eq!(table.resolve(&handle).map(|v| v.to_string()), Some(format!("value {value}")));
                let padded = handle.replacen(prefix.as_str(), &format!("{prefix}0"), 1);
                prop_assert!(table.resolve(&padded).is_none());
            }
        }
    }
}
