//! Output that nobody has read yet.

use std::collections::VecDeque;

use crate::capture::{without_split_end, without_split_start};

/// Bytes that wait for their reader; of more, the oldest are dropped.
pub(super) const UNREAD_BYTES: usize = 1024 * 1024;

/// Output between two reads, of bounded size.
#[derive(Default)]
pub(super) struct Unread {
    bytes: VecDeque<u8>,
    /// Bytes dropped since the last read.
    dropped: u64,
}

impl Unread {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.push_within(bytes, UNREAD_BYTES);
    }

    /// Drops everything; the next read says so.
    pub(super) fn forget(&mut self) {
        self.dropped += std::mem::take(&mut self.bytes).len() as u64;
    }

    fn push_within(&mut self, bytes: &[u8], limit: usize) {
        self.bytes.extend(bytes);
        let surplus = self.bytes.len().saturating_sub(limit);
        self.bytes.drain(..surplus);
        self.dropped += surplus as u64;
    }

    /// Takes everything as text, with a line in the place of what was dropped. Unless this is the
    /// `last` time, the start of a character stays until its end is there.
    pub(super) fn take(&mut self, last: bool) -> String {
        let mut bytes = Vec::from(std::mem::take(&mut self.bytes));
        if !last {
            let complete = without_split_end(&bytes).len();
            self.bytes.extend(bytes.drain(complete..));
        }
        if self.dropped == 0 {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        let text = without_split_start(&bytes);
        let dropped = std::mem::take(&mut self.dropped) + (bytes.len() - text.len()) as u64;
        format!("[… {dropped} bytes dropped]\n{}", String::from_utf8_lossy(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // BUILTIN-96
    #[test]
    fn a_mebibyte_waits_and_the_oldest_goes_first() {
        let mut unread = Unread::default();
        for _ in 0..3 {
            unread.push(&vec![b'x'; UNREAD_BYTES]);
        }
        unread.push(b"end");
        assert!(unread.bytes.len() <= UNREAD_BYTES);
        let text = unread.take(false);
        let rest = text.strip_prefix(&format!("[… {} bytes dropped]\n", 2 * UNREAD_BYTES + 3)).unwrap();
        assert_eq!((rest.len(), rest.ends_with("xxend")), (UNREAD_BYTES, true));
        unread.push(b"more");
        assert_eq!(unread.take(false), "more", "what was dropped is told once");
        assert_eq!(unread.take(true), "");
    }

    // BUILTIN-96, BUILTIN-99
    #[test]
    fn what_is_forgotten_is_said() {
        let mut unread = Unread::default();
        unread.forget();
        assert_eq!(unread.take(false), "", "there was nothing");
        unread.push("é".as_bytes());
        unread.forget();
        unread.push(b"new");
        unread.forget();
        assert_eq!(unread.take(true), "[… 5 bytes dropped]\n");
        assert_eq!(unread.take(true), "");
    }

    // BUILTIN-96
    #[test]
    fn a_split_character_waits_for_its_rest() {
        let mut unread = Unread::default();
        let bytes = "a日b".as_bytes();
        unread.push(&bytes[..2]);
        assert_eq!(unread.take(false), "a");
        unread.push(&bytes[2..3]);
        assert_eq!(unread.take(false), "");
        unread.push(&bytes[3..]);
        assert_eq!(unread.take(false), "日b");
        unread.push(b"c\xc3");
        assert_eq!(unread.take(true), "c\u{fffd}", "nothing follows any more");
    }

    proptest! {
        // BUILTIN-90, BUILTIN-96: reads at any moment make up the whole
        #[test]
        fn reads_together_are_the_output(text in "[aé日😀\n]{0,60}", cuts in proptest::collection::vec((1usize..9, any::<bool>()), 1..30)) {
            let (mut unread, mut read) = (Unread::default(), String::new());
            let mut rest = text.as_bytes();
            for (size, reads) in cuts {
                let (chunk, after) = rest.split_at(size.min(rest.len()));
                unread.push(chunk);
                rest = after;
                if reads { read += &unread.take(false); }
            }
            unread.push(rest);
            read += &unread.take(true);
            prop_assert_eq!(read, text);
        }

        // BUILTIN-96: what is dropped is counted, and nothing else is missing
        #[test]
        fn what_is_dropped_is_counted(text in "[aé日😀]{0,40}", size in 1usize..9, limit in 1usize..30) {
            let mut unread = Unread::default();
            text.as_bytes().chunks(size).for_each(|chunk| unread.push_within(chunk, limit));
            prop_assert!(unread.bytes.len() <= limit);
            let read = unread.take(true);
            let Some(cut) = read.strip_prefix("[… ") else {
                prop_assert!(text.len() <= limit);
                prop_assert_eq!(read, text);
                return Ok(());
            };
            let (dropped, kept) = cut.split_once(" bytes dropped]\n").unwrap();
            prop_assert!(text.ends_with(kept) && text.len() > limit);
            prop_assert_eq!(dropped.parse::<usize>().unwrap() + kept.len(), text.len());
            prop_assert!(kept.len() + 3 >= limit);
        }
    }
}
