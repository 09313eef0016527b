//! The text of a run's file.
//!
//! ```text
//! 5d41402a 1764489600123 1/1 {"v":1,"type":"started",…}
//! 7b52009b 1764489601456 1/2 {"v":1,"type":"model_answered",…}
//! 64c3abfe 1764489601456 2/2 {"v":1,"type":"tool_started",…}
//! ```
//!
//! One line is one event: the CRC-32 of all that follows it in the line, the time of the append in
//! milliseconds since 1970, the event's place among the events of its append, and its JSON. By the
//! places an append of several events is all or nothing: one whose last line is missing never
//! happened.
//!
//! # What a crash leaves
//!
//! Nobody was told that an unfinished append had succeeded, so it is *torn* and does not count. It
//! shows in one of three ways, always at the end of the file:
//!
//! * the last line has no newline;
//! * the last line is whole and not the last of its append;
//! * a line has holes (zero bytes, which no line has): the machine crashed when the file had its new
//!   length, but not yet all of its blocks. No append begins after such a line, for whoever appends
//!   first cuts off what is torn.
//!
//! Any other line that does not fit its checksum or its place was changed by somebody else.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::{memchr, memchr_iter};

use crate::readable::depth;
use crate::run::RunEvent;
use crate::run_log::RunLogError;

/// The digits of a checksum.
const CHECKSUM: usize = 8;

/// How deep an event may be nested. serde_json reads 127 levels, and what was written must be
/// readable again.
const MAX_DEPTH: usize = 120;

/// The whole appends of a file.
#[derive(Debug, Default)]
pub(super) struct Contents<'a> {
    /// The lines, one for each event.
    pub(super) lines: Vec<Line<'a>>,
    /// The length of their text. Anything behind is torn.
    pub(super) bytes: usize,
}

/// One line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// When it was written, in milliseconds since 1970.
    written_at: u64,
    /// Its place in the append, from 1, and how many lines that has.
    place: (usize, usize),
    /// The JSON of the event.
    pub(super) event: &'a [u8],
}

/// Reads the text of a file, or gives the line, from 1, that was changed from outside.
pub(super) fn parse(text: &[u8]) -> Result<Contents<'_>, u64> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let (mut whole_lines, mut whole_bytes) = (0, 0);
    let mut rest = text;
    while let Some(end) = memchr(b'\n', rest) {
        let (line, behind) = rest.split_at(end);
        match Line::parse(line) {
            Some(line) if line.follows(lines.last()) => lines.push(line),
            None if is_torn(rest) => break,
            _ => return Err(lines.len() as u64 + 1),
        }
        rest = behind.get(1..).unwrap_or_default();
        if lines.last().is_some_and(Line::ends_append) {
            (whole_lines, whole_bytes) = (lines.len(), text.len() - rest.len());
        }
    }
    // A line that would be right without its last byte is not cut off: its newline was changed.
    if let Some((last, line)) = rest.split_last()
        && *last != 0
        && memchr(b'\n', rest).is_none()
        && Line::parse(line).is_some()
    {
        return Err(lines.len() as u64 + 1);
    }
    lines.truncate(whole_lines);
    Ok(Contents { lines, bytes: whole_bytes })
}

/// Whether text that begins with a bad line is what a crash of the machine left of one append.
fn is_torn(text: &[u8]) -> bool {
    let has_hole = |line: &[u8]| memchr(0, line).is_some();
    let mut lines = text.split(|byte| *byte == b'\n');
    let last = lines.next_back().unwrap_or_default();
    let begins_append = |line: &[u8]| Line::parse(line).is_none_or(|line| line.place.0 == 1);
    let mut lines = lines.peekable();
    lines.peek().is_some_and(|line| has_hole(line))
        && lines.all(|line| has_hole(line) || !begins_append(line))
        // A line without its newline is torn anyway.
        && (last.is_empty() || Line::parse(last).is_none_or(|line| line.place.0 > 1))
}

impl<'a> Line<'a> {
    /// A line, without its newline, whose checksum is right.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let (checksum, rest) = line.split_at_checked(CHECKSUM)?;
        let rest = rest.strip_prefix(b" ")?;
        if checksum != format!("{:08x}", crc32fast::hash(rest)).as_bytes() {
            return None;
        }
        let (written_at, rest) = number(rest, b' ')?;
        let (place, rest) = number(rest, b'/')?;
        let (of, event) = number(rest, b' ')?;
        let place = (usize::try_from(place).ok()?, usize::try_from(of).ok()?);
        Some(Line { written_at, place, event })
    }

    fn follows(&self, before: Option<&Line<'_>>) -> bool {
        let (place, of) = match before {
            Some(before) if !before.ends_append() => (before.place.0 + 1, before.place.1),
            _ => (1, self.place.1),
        };
        self.place == (place, of) && place <= of
    }

    fn ends_append(&self) -> bool {
        self.place.0 == self.place.1
    }

    pub(super) fn written_at(&self) -> SystemTime {
        time(self.written_at)
    }
}

/// When the first line of a text was written, if that looks like one. Nothing else is checked.
pub(super) fn begun_at(text: &[u8]) -> Option<SystemTime> {
    let rest = text.split_at_checked(CHECKSUM)?.1.strip_prefix(b" ")?;
    number(rest, b' ').map(|(written_at, _)| time(written_at))
}

/// How many bytes of a file [`begun_at`] wants to see.
pub(super) const BEGINNING: u64 = 32;

fn number(text: &[u8], end: u8) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at_checked(memchr(end, text)?)?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    Some((digits.parse().ok()?, rest.get(1..)?))
}

fn time(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds)).unwrap_or(UNIX_EPOCH)
}

/// The lines of one append.
pub(super) fn encode(events: &[RunEvent], now: SystemTime) -> Result<Vec<u8>, RunLogError> {
    let written_at = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut text = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let unwritable =
            |source| RunLogError::Store { action: format!("write event \"{}\" down", event.kind()), source };
        let mut line = Vec::new();
        write!(line, "{written_at} {}/{} ", index + 1, events.len()).map_err(|e| unwritable(e.into()))?;
        let head = line.len();
        serde_json::to_writer(&mut line, event).map_err(|e| unwritable(e.into()))?;
        let json = line.get_mut(head..).unwrap_or_default();
        on_one_line(json);
        if depth(json) > MAX_DEPTH {
            return Err(unwritable(format!("it is nested deeper than {MAX_DEPTH} levels").into()));
        }
        write!(text, "{:08x} ", crc32fast::hash(&line)).map_err(|e| unwritable(e.into()))?;
        text.append(&mut line);
        text.push(b'\n');
    }
    Ok(text)
}

/// Messages of providers are kept verbatim, with their line breaks. Between the tokens of JSON,
/// the only place where one can be, a space means the same.
fn on_one_line(json: &mut [u8]) {
    let breaks: Vec<usize> = memchr_iter(b'\n', json).collect();
    for at in breaks {
        if let Some(byte) = json.get_mut(at) {
            *byte = b' ';
        }
    }
}
