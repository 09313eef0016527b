//! The start of a sorted list.

use std::collections::BinaryHeap;

/// The first rows of a sorted list, without holding the list.
pub(crate) struct FirstRows<T> {
    limit: usize,
    /// The smallest rows so far, the largest of them on top.
    kept: BinaryHeap<T>,
    total: usize,
}

impl<T: Ord> FirstRows<T> {
    pub(crate) fn new(limit: usize) -> Self {
        FirstRows { limit, kept: BinaryHeap::new(), total: 0 }
    }

    pub(crate) fn add(&mut self, row: T) {
        self.total += 1;
        if self.kept.len() < self.limit {
            self.kept.push(row);
        } else if let Some(mut last) = self.kept.peek_mut()
            && row < *last
        {
            *last = row;
        }
    }

    /// The rows in order, and how many there were in all.
    pub(crate) fn finish(self) -> (Vec<T>, usize) {
        (self.kept.into_sorted_vec(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // BUILTIN-57, BUILTIN-106: the order of arrival does not matter
        #[test]
        fn the_first_rows_are_those_of_the_sorted_list(
            rows in proptest::collection::vec("[a-c/-]{0,3}", 0..20), limit in 0usize..12,
        ) {
            let mut first = FirstRows::new(limit);
            for row in rows.iter().cloned() {
                first.add(row);
                prop_assert!(first.kept.len() <= limit, "no more is held than will be shown");
            }
            let (kept, total) = first.finish();
            let mut sorted = rows;
            sorted.sort();
            prop_assert_eq!(total, sorted.len());
            sorted.truncate(limit);
            prop_assert_eq!(kept, sorted);
        }
    }
}
