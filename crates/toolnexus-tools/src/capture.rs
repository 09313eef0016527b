//! The output of a command, of which memory holds a bounded part.

use std::collections::VecDeque;
use std::path::PathBuf;

use tempfile::{NamedTempFile, TempPath};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

/// How much is kept, and where the rest goes. `0` is no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaptureLimits {
    /// Bytes in memory: the first half and the last half of the output.
    pub(crate) shown_bytes: u64,
    /// Bytes of the file that holds the output from its start; `None`: there is to be no file.
    pub(crate) spill_bytes: Option<u64>,
}

/// Collects output. Dropping it removes its file.
pub(crate) struct Capture {
    limits: CaptureLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    spill: Spill,
}

/// The captured output as text.
#[derive(Default)]
pub(crate) struct Captured {
    pub(crate) text: String,
    /// Whether the middle is missing.
    pub(crate) truncated: bool,
    /// The file that has what is missing, or its first part. It is the caller's now.
    pub(crate) file: Option<PathBuf>,
}

enum Spill {
    /// Everything is in memory so far.
    NotNeeded,
    Open {
        file: File,
        path: TempPath,
        written: u64,
    },
    /// No file, or none any more.
    None,
}

impl Capture {
    pub(crate) fn new(limits: CaptureLimits) -> Self {
        Capture { limits, head: Vec::new(), tail: VecDeque::new(), total: 0, spill: Spill::NotNeeded }
    }

    /// Appends output. Must run to its end, or some of it is lost.
    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        let total = self.total + bytes.len() as u64;
        if self.limits.shown_bytes != 0 && total > self.limits.shown_bytes {
            if matches!(self.spill, Spill::NotNeeded) {
                self.open_spill().await;
            }
            self.write_spill(bytes).await;
        }
        self.total = total;
        self.remember(bytes);
    }

    fn remember(&mut self, bytes: &[u8]) {
        let (head_room, tail_room) = match self.limits.shown_bytes {
            0 => (usize::MAX, 0),
            shown => {
                let shown = usize::try_from(shown).unwrap_or(usize::MAX);
                (shown / 2, shown - shown / 2)
            }
        };
        let to_head = (head_room - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(to_head);
        self.head.extend_from_slice(first);
        // Of a chunk larger than the tail, only its end can stay.
        let rest = rest.get(rest.len().saturating_sub(tail_room)..).unwrap_or_default();
        let surplus = (self.tail.len() + rest.len()).saturating_sub(tail_room);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Starts the file with what memory holds: so far, that is everything.
    async fn open_spill(&mut self) {
        self.spill = Spill::None;
        if self.limits.spill_bytes.is_none() {
            return;
        }
        // Only its owner can read a file made like this.
        let created = tokio::task::spawn_blocking(|| {
            tempfile::Builder::new().prefix("toolnexus-bash-").suffix(".txt").tempfile()
        });
        let Ok(Ok(created)) = created.await.map(|created| created.map(NamedTempFile::into_parts)) else {
            return;
        };
        let (file, path) = created;
        self.spill = Spill::Open { file: File::from_std(file), path, written: 0 };
        let (start, end) = (std::mem::take(&mut self.head), std::mem::take(&mut self.tail));
        self.write_spill(&start).await;
        let (one, two) = end.as_slices();
        self.write_spill(one).await;
        self.write_spill(two).await;
        (self.head, self.tail) = (start, end);
    }

    async fn write_spill(&mut self, bytes: &[u8]) {
        let Spill::Open { file, written, .. } = &mut self.spill else { return };
        let room = match self.limits.spill_bytes {
            Some(0) => u64::MAX,
            Some(limit) => limit.saturating_sub(*written),
            None => 0,
        };
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.get(..fits).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        // `flush` waits for the write itself: tokio's files write behind.
        let wrote = async { file.write_all(bytes).await.and(file.flush().await) }.await;
        match wrote {
            Ok(()) => *written += bytes.len() as u64,
            // A file with a hole would be worse than none.
            Err(_) => self.spill = Spill::None,
        }
    }

    /// The text, with a line in the place of what was cut.
    pub(crate) fn finish(self) -> Captured {
        let tail = Vec::from(self.tail);
        let kept = (self.head.len() + tail.len()) as u64;
        if kept == self.total {
            let whole = [self.head, tail].concat();
            return Captured { text: lossy(&whole), truncated: false, file: None };
        }
        let head = without_split_end(&self.head);
        let tail = without_split_start(&tail);
        let omitted = self.total - (head.len() + tail.len()) as u64;
        let (place, file) = match self.spill {
            Spill::Open { path, written, .. } => match path.keep() {
                Ok(path) if written == self.total => {
                    (format!("; full output in {}", path.display()), Some(path))
                }
                Ok(path) => (format!("; first {written} bytes of output in {}", path.display()), Some(path)),
                Err(_) => (String::new(), None),
            },
            Spill::NotNeeded | Spill::None => (String::new(), None),
        };
        let mut text = lossy(head);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &format!("[… {omitted} bytes omitted{place}]\n");
        text += &lossy(tail);
        Captured { text, truncated: true, file }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes without a character that the cut behind them has split.
pub(crate) fn without_split_end(bytes: &[u8]) -> &[u8] {
    let longest = bytes.len().min(4);
    let start = (1..=longest).find(|back| bytes.get(bytes.len() - back).is_some_and(|byte| !is_inner(*byte)));
    let split = start.and_then(|back| bytes.len().checked_sub(back)).filter(|&at| {
        let last = bytes.get(at..).unwrap_or_default();
        // An error without a length is an end that came too early.
        std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none())
    });
    split.and_then(|at| bytes.get(..at)).unwrap_or(bytes)
}

/// The bytes without the rest of a character that the cut before them has split.
pub(crate) fn without_split_start(bytes: &[u8]) -> &[u8] {
    let inner = bytes.iter().take(3).take_while(|byte| is_inner(**byte)).count();
    bytes.get(inner..).unwrap_or_default()
}

fn is_inner(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capture(text: &str, chunk: usize, limits: CaptureLimits) -> Captured {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut capture = Capture::new(limits);
            for bytes in text.as_bytes().chunks(chunk) {
                capture.push(bytes).await;
            }
            capture.finish()
        })
    }

    proptest! {
        // BUILTIN-100, BUILTIN-31
        #[test]
        fn the_ends_are_kept_and_the_middle_is_counted(
            text in "[aé日😀\n]{0,40}", chunk in 1usize..9, shown in 0u64..24,
        ) {
            let limits = CaptureLimits { shown_bytes: shown, spill_bytes: None };
            let captured = capture(&text, chunk, limits);
            prop_assert_eq!(&captured.file, &None);
            if shown == 0 || text.len() as u64 <= shown {
                prop_assert!(!captured.truncated);
                prop_assert_eq!(captured.text, text);
                return Ok(());
            }
            prop_assert!(captured.truncated);
            let (before, rest) = captured.text.split_once("[… ").unwrap();
            let (omitted, after) = rest.split_once(" bytes omitted]\n").unwrap();
            let omitted: usize = omitted.parse().unwrap();
            // The line stands on its own, so a newline may have been put before it.
            let before = if text.starts_with(before) { before } else { before.strip_suffix('\n').unwrap() };
            prop_assert!(text.starts_with(before) && text.ends_with(after));
            let kept = before.len() + after.len();
            prop_assert!(kept + omitted == text.len() || kept + omitted == text.len() + 1);
            prop_assert!(kept as u64 <= shown + 1);
            // Of each half, at most a part of one character is lost.
            prop_assert!(kept as u64 + 6 >= shown);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        // BUILTIN-100
        #[test]
        fn the_file_holds_the_output_from_its_start(
            text in "[a-zé]{0,40}", chunk in 1usize..20, shown in 1u64..24, spill in 0u64..40,
        ) {
            let captured = capture(&text, chunk, CaptureLimits { shown_bytes: shown, spill_bytes: Some(spill) });
            let Some(file) = captured.file else {
                prop_assert!(text.len() as u64 <= shown);
                return Ok(());
            };
            let written = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            let expected = if spill == 0 { text.len() } else { text.len().min(usize::try_from(spill).unwrap()) };
            prop_assert_eq!(&written, &text.as_bytes()[..expected]);
            let place = if expected == text.len() {
                format!("; full output in {}]", file.display())
            } else {
                format!("; first {expected} bytes of output in {}]", file.display())
            };
            prop_assert!(captured.text.contains(&place));
        }
    }

    // BUILTIN-100
    #[test]
    fn a_split_character_is_left_out_and_a_broken_one_is_not() {
        let whole = "aé日😀".as_bytes();
        for (cut, kept) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (6, 6), (7, 6), (8, 6), (9, 6), (10, 10)]
        {
            assert_eq!(without_split_end(&whole[..cut]).len(), kept, "{cut}");
        }
        for (cut, left) in [(0, 10), (2, 7), (4, 4), (5, 4), (7, 0), (9, 0)] {
            assert_eq!(without_split_start(&whole[cut..]).len(), left, "{cut}");
        }
        assert_eq!(without_split_end(b"a\xff"), b"a\xff");
        assert_eq!(without_split_end(b"\x80\x80\x80\x80"), b"\x80\x80\x80\x80");
        assert_eq!(without_split_end(b""), b"");
    }
}
