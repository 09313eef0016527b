//! Bytes of an event stream made UTF-8: its parser ends the whole stream at one that is not.

use bytes::Bytes;

/// Replaces what is no UTF-8, piece by piece; a character may be cut between two pieces.
#[derive(Default)]
pub(super) struct Utf8Repair {
    /// The beginning of a character whose rest has not come.
    tail: Vec<u8>,
}

impl Utf8Repair {
    /// The text of one more piece.
    pub(super) fn piece(&mut self, piece: Bytes) -> Bytes {
        if self.tail.is_empty() && std::str::from_utf8(&piece).is_ok() {
            return piece;
        }
        let mut bytes = std::mem::take(&mut self.tail);
        bytes.extend_from_slice(&piece);
        self.tail = bytes.split_off(bytes.len() - unfinished(&bytes));
        String::from_utf8_lossy(&bytes).into_owned().into()
    }
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repaired(bytes: &[u8], size: usize) -> String {
        let mut repair = Utf8Repair::default();
        let mut all: Vec<u8> =
            bytes.chunks(size).flat_map(|piece| repair.piece(Bytes::copy_from_slice(piece))).collect();
        all.extend_from_slice(String::from_utf8_lossy(&repair.tail).as_bytes());
        String::from_utf8(all).unwrap()
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in proptest::collection::vec(any::<u8>(), 0..60), size in 1_usize..9) {
            prop_assert_eq!(repaired(&bytes, size), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn text_stays_as_it_is(text in ".*", size in 1_usize..9) {
            prop_assert_eq!(repaired(text.as_bytes(), size), text);
        }
    }
}
