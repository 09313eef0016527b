//! The last lines of a stream.

use std::collections::VecDeque;

/// Lines and bytes that stay readable.
const LINES: usize = 200;
const BYTES: usize = 64 * 1024;

/// The last lines of a stream, bounded by number and size.
#[derive(Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
    partial: Vec<u8>,
}

impl Tail {
    pub(crate) fn push(&mut self, mut chunk: &[u8]) {
        while let Some(at) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(at);
            self.extend_partial(line);
            self.finish_line();
            chunk = rest.get(1..).unwrap_or_default();
        }
        self.extend_partial(chunk);
    }

    fn extend_partial(&mut self, bytes: &[u8]) {
        // The start of a line tells more than its end.
        let room = BYTES.saturating_sub(self.partial.len());
        self.partial.extend(bytes.iter().take(room));
    }

    fn finish_line(&mut self) {
        let line = text_of(&self.partial);
        self.partial.clear();
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > LINES || self.bytes > BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let unfinished = (!self.partial.is_empty()).then(|| text_of(&self.partial));
        self.lines.iter().cloned().chain(unfinished).collect()
    }
}

fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // MCP-49: 200 lines and 64 KiB stay readable
    #[test]
    fn the_tail_is_bounded() {
        let mut tail = Tail::default();
        for n in 0..300 {
            tail.push(format!("line {n}\r\n").as_bytes());
        }
        tail.push(b"unfinished");
        let lines = tail.lines();
        assert_eq!(lines.len(), 201);
        assert_eq!((lines[0].as_str(), lines[200].as_str()), ("line 100", "unfinished"));

        let mut tail = Tail::default();
        tail.push(&vec![b'x'; 10 * BYTES]);
        tail.push(b"\nend\n");
        assert_eq!(tail.lines(), ["end"], "a line as long as the whole tail makes room for the next");
    }

    proptest! {
        // MCP-49: it does not matter how the bytes are cut into chunks
        #[test]
        fn chunks_make_no_difference(text in "[a-c\n]{0,80}", size in 1_usize..9) {
            let (mut whole, mut pieces) = (Tail::default(), Tail::default());
            whole.push(text.as_bytes());
            text.as_bytes().chunks(size).for_each(|chunk| pieces.push(chunk));
            prop_assert_eq!(whole.lines(), pieces.lines());
            let expected: Vec<&str> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
            if !text.is_empty() { prop_assert_eq!(whole.lines(), expected); }
        }
    }
}
