//! The start of a sorted list.

use std::collections::BinaryHeap;
use std::path::PathBuf;

/// What a row takes beside its texts.
const ROW_OVERHEAD: usize = size_of::<Row>();

/// A row as it is shown, and the path it stands for, which tells two apart that are shown alike.
pub(super) type Row = (String, PathBuf);

/// The first rows of a sorted list, without holding the list: so many, and no more than fit into some
/// memory.
pub(super) struct FirstRows {
    limit: usize,
    most_bytes: usize,
    /// The smallest rows so far, the largest of them on top. Where memory is the limit it is one more than
    /// fits, so that what is held does not depend on the order of arrival.
    kept: BinaryHeap<Row>,
    bytes: usize,
    total: usize,
}

impl FirstRows {
    pub(super) fn new(limit: usize, most_bytes: usize) -> Self {
        FirstRows { limit, most_bytes, kept: BinaryHeap::new(), bytes: 0, total: 0 }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.total += 1;
        let full = self.kept.len() >= self.limit || self.bytes > self.most_bytes;
        if full && self.kept.peek().is_none_or(|last| *last < row) {
            return;
        }
        self.bytes += bytes(&row);
        self.kept.push(row);
        while let Some(last) = self.kept.peek() {
            let without = self.bytes - bytes(last);
            if self.kept.len() <= self.limit && without <= self.most_bytes {
                break;
            }
            self.bytes = without;
            self.kept.pop();
        }
    }

    /// The rows in order, and how many there were in all.
    pub(super) fn finish(self) -> (Vec<Row>, usize) {
        let mut rows = self.kept.into_sorted_vec();
        if self.bytes > self.most_bytes {
            rows.pop();
        }
        (rows, self.total)
    }
}

fn bytes((shown, path): &Row) -> usize {
    ROW_OVERHEAD + shown.len() + path.as_os_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // BUILTIN-57, BUILTIN-106: the order of arrival does not matter
        #[test]
        fn the_first_rows_are_those_of_the_sorted_list(
            rows in proptest::collection::vec("[a-c/-]{0,3}", 0..20),
            limit in 0usize..12,
            most_bytes in prop_oneof![Just(usize::MAX), 0usize..12 * (ROW_OVERHEAD + 3)],
        ) {
            let mut first = FirstRows::new(limit, most_bytes);
            for row in rows.iter().cloned() {
                first.add((row, PathBuf::new()));
                prop_assert!(first.kept.len() <= limit, "no more is held than will be shown");
                prop_assert!(first.bytes <= most_bytes.saturating_add(ROW_OVERHEAD + 3), "but for one row");
            }
            let (kept, total) = first.finish();
            let mut sorted: Vec<Row> = rows.into_iter().map(|row| (row, PathBuf::new())).collect();
            sorted.sort();
            prop_assert_eq!(total, sorted.len());
            sorted.truncate(limit);
            let mut room = most_bytes;
            let fits = |row: &Row| room.checked_sub(bytes(row)).map(|rest| room = rest).is_some();
            let fitting: Vec<Row> = sorted.into_iter().take_while(fits).collect();
            prop_assert_eq!(kept, fitting);
        }
    }
}
