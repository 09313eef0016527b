//! Lines of an event stream, however the network cut them.

/// How long one line may be.
const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// What some servers begin a text with.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line is longer than [`LINE_LIMIT`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

/// Splits a byte stream into lines and keeps what is not finished.
///
/// Lines that lie whole inside one piece are handed on without a copy.
#[derive(Default)]
pub(crate) struct LineSplitter {
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Takes the next piece; calls `on_line` for every line it completes, without its end.
    pub(crate) fn feed<E: From<LineTooLong>>(
        &mut self,
        mut piece: &[u8],
        mut on_line: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = piece.split_at(end);
            piece = rest.get(1..).unwrap_or_default();
            self.check(line)?;
            if self.partial.is_empty() {
                on_line(without_return(line))?;
            } else {
                self.partial.extend_from_slice(line);
                let whole = std::mem::take(&mut self.partial);
                on_line(without_return(&whole))?;
            }
        }
        self.check(piece)?;
        self.partial.extend_from_slice(piece);
        Ok(())
    }

    fn check(&self, more: &[u8]) -> Result<(), LineTooLong> {
        if self.partial.len() + more.len() > LINE_LIMIT { Err(LineTooLong) } else { Ok(()) }
    }

    /// What was left when the stream ended: a last line without its end.
    pub(crate) fn rest(&self) -> &[u8] {
        without_return(&self.partial)
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The payload of a `data:` line; `None` for any other line.
pub(crate) fn payload(line: &[u8]) -> Option<&[u8]> {
    // A byte order mark may stand before the first line.
    line.strip_prefix(b"data:")
        .or_else(|| line.strip_prefix(BYTE_ORDER_MARK)?.strip_prefix(b"data:"))
        .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        for piece in pieces {
            splitter
                .feed::<LineTooLong>(piece, |line| {
                    lines.push(line.to_vec());
                    Ok(())
                })
                .unwrap();
        }
        lines.push(splitter.rest().to_vec());
        lines
    }

    // CLIENT-118
    #[test]
    fn one_return_is_dropped_and_only_data_counts() {
        assert_eq!(split(&[b"a\r\nb\n\nc\r\r\n"]), [&b"a"[..], b"b", b"", b"c\r", b""]);
        assert_eq!(payload(b"data: {}"), Some(&b"{}"[..]));
        assert_eq!(payload(b"data:{} "), Some(&b"{}"[..]));
        assert_eq!(payload(b"event: x"), None);
        assert_eq!(payload(b" data: x"), None);
        assert_eq!(payload("\u{feff}data: x".as_bytes()), Some(&b"x"[..]));
        assert_eq!(payload("\u{feff}: x".as_bytes()), None);
    }

    // CLIENT-118: lines of 1 MiB work
    #[test]
    fn a_long_line_arrives_whole() {
        let line = vec![b'x'; 1 << 20];
        let mut text = line.clone();
        text.push(b'\n');
        let pieces: Vec<&[u8]> = text.chunks(1000).collect();
        assert_eq!(split(&pieces), [line, vec![]]);
    }

    proptest! {
        // CLIENT-118: bytes cut anywhere are put together again
        #[test]
        fn the_cuts_do_not_matter(text in "[aé\r\n:]{0,60}", cuts in proptest::collection::vec(0usize..80, 0..8)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(split(&pieces), split(&[bytes]));
        }
    }
}
