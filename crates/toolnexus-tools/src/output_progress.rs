//! What is told of a command's output while it runs.

use std::future::pending;
use std::time::Duration;

use memchr::memchr;
use tokio::time::{Instant, sleep_until};
use toolnexus_core::ToolContext;

/// How often it is told.
const EVERY: Duration = Duration::from_millis(100);

/// Characters of a line that are told.
const TOLD_CHARACTERS: usize = 200;

/// Bytes of a line that are looked at: enough for as many characters, and for some colours.
const LINE_BYTES: usize = 2048;

/// Tells whoever listens how many bytes a command has printed, and its newest complete line.
///
/// Not more often than every tenth of a second, as a command may print a thousand lines in that time;
/// what was not told by then is told at the end of it.
pub(crate) struct OutputProgress<'a> {
    context: &'a ToolContext,
    heard: bool,
    bytes: u64,
    line: NewestLine,
    /// When something may be told again.
    next: Instant,
    untold: bool,
}

impl<'a> OutputProgress<'a> {
    pub(crate) fn new(context: &'a ToolContext) -> Self {
        OutputProgress {
            context,
            heard: context.reporter.is_heard(),
            bytes: 0,
            line: NewestLine::default(),
            next: Instant::now(),
            untold: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.heard || bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len() as u64;
        self.line.push(bytes);
        self.untold = true;
        if Instant::now() >= self.next {
            self.tell();
        }
    }

    /// Waits until something is to be told: [`OutputProgress::tell`] it then.
    pub(crate) async fn due(&self) {
        if self.untold { sleep_until(self.next).await } else { pending().await }
    }

    pub(crate) fn tell(&mut self) {
        if !std::mem::take(&mut self.untold) {
            return;
        }
        self.next = Instant::now() + EVERY;
        let line = self.line.text();
        // Exact up to 2^53 bytes.
        self.context.progress(self.bytes as f64, None, Some(line.as_str()).filter(|line| !line.is_empty()));
    }
}

/// The newest complete line of a text that has something to show.
#[derive(Default)]
struct NewestLine {
    complete: Vec<u8>,
    partial: Vec<u8>,
}

impl NewestLine {
    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.extend_partial(line);
            bytes = rest.get(1..).unwrap_or_default();
            if self.partial.iter().any(|byte| byte.is_ascii_graphic() || !byte.is_ascii()) {
                std::mem::swap(&mut self.complete, &mut self.partial);
            }
            self.partial.clear();
        }
        self.extend_partial(bytes);
    }

    fn extend_partial(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES.saturating_sub(self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }

    /// The line without control characters and the colours of terminals.
    fn text(&self) -> String {
        let line = String::from_utf8_lossy(&self.complete);
        let mut characters = line.chars();
        let mut text = String::new();
        let mut shown = 0;
        while let Some(character) = characters.next() {
            if character == '\u{1b}' {
                skip_escape_sequence(&mut characters);
            } else if !character.is_control() {
                text.push(character);
                shown += 1;
                if shown == TOLD_CHARACTERS {
                    break;
                }
            }
        }
        text
    }
}

/// Skips what follows an escape character: `[`, parameters, and a letter.
fn skip_escape_sequence(characters: &mut std::str::Chars<'_>) {
    let rest = characters.as_str();
    let Some(parameters) = rest.strip_prefix('[') else { return };
    let is_parameter = |character: char| (' '..='?').contains(&character);
    *characters = parameters.trim_start_matches(is_parameter).chars();
    characters.next();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use toolnexus_core::{ToolReport, report_channel};

    fn newest(text: &[u8]) -> String {
        let mut line = NewestLine::default();
        line.push(text);
        line.text()
    }

    // BUILTIN-103: however fast a command prints
    #[tokio::test(start_paused = true)]
    async fn it_is_told_ten_times_a_second_and_at_the_end() {
        let (reporter, reports) = report_channel();
        let context = ToolContext { reporter, ..Default::default() };
        let mut progress = OutputProgress::new(&context);
        let told = |bytes: f64, line: &str| {
            vec![ToolReport::Progress { progress: bytes, total: None, message: Some(line.to_owned()) }]
        };
        progress.push(b"1\n");
        assert_eq!(reports.take_waiting(), told(2.0, "1"), "the first at once");
        for _ in 0..1000 {
            progress.push(b"2\n");
        }
        assert_eq!(reports.take_waiting(), []);
        let start = Instant::now();
        progress.due().await;
        assert!(start.elapsed() >= EVERY && start.elapsed() < EVERY * 2);
        progress.tell();
        assert_eq!(reports.take_waiting(), told(2002.0, "2"));
        assert!(tokio::time::timeout(EVERY * 100, progress.due()).await.is_err(), "nothing is new");
        progress.push(b"3\n");
        assert_eq!(reports.take_waiting(), told(2004.0, "3"), "after a pause at once");
        progress.push(b"4\n");
        progress.tell();
        assert_eq!(reports.take_waiting(), told(2006.0, "4"));
        progress.tell();
        assert_eq!(reports.take_waiting(), [], "nothing is told twice");
    }

    // BUILTIN-103
    #[test]
    fn the_newest_complete_line_is_told_and_no_other() {
        assert_eq!(newest(b""), "");
        assert_eq!(newest(b"no line yet"), "");
        assert_eq!(newest(b"one\ntwo\nthr"), "two");
        assert_eq!(newest(b"one\n\n \t\n"), "one", "a blank line tells nothing");
        assert_eq!(newest("é\u{7}b\tc\r\n".as_bytes()), "ébc", "no control characters");
        assert_eq!(newest(b"\x1b[1;31mred\x1b[0m \x1b]end\x1b[\n"), "red ]end");
        assert_eq!(newest(b"a\xffb\n"), "a\u{fffd}b");
        let long = "日".repeat(5000) + "\n";
        assert_eq!(newest(long.as_bytes()), "日".repeat(200));
    }

    proptest! {
        // BUILTIN-103: it does not matter how the bytes are cut into chunks
        #[test]
        fn chunks_make_no_difference(text in "[ab é\n\u{1b}\\[]{0,60}", size in 1_usize..9) {
            let mut pieces = NewestLine::default();
            text.as_bytes().chunks(size).for_each(|chunk| pieces.push(chunk));
            let told = pieces.text();
            prop_assert_eq!(&told, &newest(text.as_bytes()));
            prop_assert!(!told.chars().any(char::is_control));
            let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
            let plain = |line: &&str| line.contains(|c: char| !c.is_whitespace() && !c.is_control());
            let expected = complete.split('\n').rev().find(plain).unwrap_or_default();
            if !expected.contains('\u{1b}') { prop_assert_eq!(told, expected); }
        }

        // BUILTIN-103: nothing that a command prints makes it panic
        #[test]
        fn any_bytes_will_do(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
            prop_assert!(newest(&bytes).chars().count() <= 200);
        }
    }
}
