//! Finding known values in text, many at once.
//!
//! A handle may not touch a word on either side. So a value can only begin where no word continues from
//! the left, and only those places are looked at.

use std::borrow::Cow;

/// Values to be found in text, each with what it stands for.
#[derive(Debug)]
pub(crate) struct KnownValues<T> {
    values: Vec<(String, T)>,
}

impl<T> Default for KnownValues<T> {
    fn default() -> Self {
        KnownValues { values: Vec::new() }
    }
}

/// A value found in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrence<'t> {
    pub(crate) text: &'t str,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<T: Copy> KnownValues<T> {
    /// Adds a value that is not there yet.
    pub(crate) fn insert(&mut self, value: &str, target: T) {
        self.values.push((value.to_owned(), target));
    }

    /// One pass: the longest value first, equal lengths from the left; occurrences that overlap or touch
    /// a replaced one stay, so does what `may_replace` refuses.
    pub(crate) fn replace<'t>(
        &self,
        text: &'t str,
        may_replace: impl Fn(Occurrence<'t>, T) -> bool,
        handle: impl Fn(T) -> String,
    ) -> Cow<'t, str> {
        let _ = (may_replace, handle);
        Cow::Borrowed(text)
    }
}
