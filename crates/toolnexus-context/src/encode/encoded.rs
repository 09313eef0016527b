//! What in a text is a handle or a durable URI already, so that nothing in it is replaced again.

use std::ops::Range;

use crate::handles_in_text::{Handle, Spelled};
use crate::settings::Settings;
use crate::syntax::{ends_handle, is_free_left, scheme_ends};

/// The handles and durable URIs in a text.
#[derive(Debug)]
pub(super) struct Encoded {
    /// In the order of the text; they do not overlap.
    stretches: Vec<Stretch>,
}

#[derive(Debug)]
struct Stretch {
    range: Range<usize>,
    is_uri: bool,
}

impl Encoded {
    /// Those in `text`. Each of them has a `://`, so only these are looked at.
    pub(super) fn of(settings: &Settings, text: &str) -> Self {
        let mut stretches = Vec::<Stretch>::new();
        for colon in scheme_ends(text) {
            let reached = stretches.last().map_or(0, |stretch| stretch.range.end);
            if colon < reached {
                // A URI may hold many, and is walked once.
                continue;
            }
            let stretch = match handle_at(settings, text, colon) {
                Some(range) => Some(Stretch { range, is_uri: false }),
                None => uri_at(settings, text, colon).map(|range| Stretch { range, is_uri: true }),
            };
            stretches.extend(stretch.filter(|stretch| stretch.range.start >= reached));
        }
        Encoded { stretches }
    }

    /// Whether nothing in the way forbids to replace this range. It may hold a whole URI, as the query of a
    /// page's URL does, but no handle: a value that looks like one would else be taken for what was
    /// inserted into it.
    pub(super) fn is_open(&self, range: Range<usize>) -> bool {
        self.touched(&range).all(|stretch| stretch.is_uri && is_within(&stretch.range, &range))
    }

    /// Whether this range is no handle, and no piece of one.
    pub(super) fn is_no_handle(&self, range: Range<usize>) -> bool {
        self.touched(&range).all(|stretch| stretch.is_uri || is_within(&stretch.range, &range))
    }

    fn touched(&self, range: &Range<usize>) -> impl Iterator<Item = &Stretch> {
        let first = self.stretches.partition_point(|stretch| stretch.range.end <= range.start);
        let end = range.end;
        let behind = self.stretches.get(first..).unwrap_or_default();
        behind.iter().take_while(move |stretch| stretch.range.start < end)
    }
}

/// Whether `inner` begins behind the beginning of `outer` and ends in it.
fn is_within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start < inner.start && inner.end <= outer.end
}

/// The handle whose `://` stands at `colon`. Where a fraction follows, as in an address, it is none; but it
/// would become one if what follows the dot were replaced, so it reaches over the dot.
fn handle_at(settings: &Settings, text: &str, colon: usize) -> Option<Range<usize>> {
    let Spelled { start, end, handle } = settings.shape_around(text, colon)?;
    match handle {
        Handle::Source(_) if ends_handle(text, end) => Some(start..end),
        Handle::Source(_) => (text.as_bytes().get(end) == Some(&b'.')).then_some(start..end + 2),
        Handle::Resource(_) => Some(start..end),
    }
}

/// What begins with the application's scheme, as far as a URI may go.
fn uri_at(settings: &Settings, text: &str, colon: usize) -> Option<Range<usize>> {
    let start = colon.checked_sub(settings.uri_scheme.len())?;
    let bytes = text.as_bytes();
    if bytes.get(start..colon)? != settings.uri_scheme.as_bytes() || !is_free_left(text, start) {
        return None;
    }
    let length = bytes.get(colon..)?.iter().take_while(|byte| is_of_uri(**byte)).count();
    Some(start..colon + length)
}

const fn is_of_uri(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'%' | b'/' | b':' | b'?' | b'#' | b'@' | b'&' | b'=' | b'+'
        )
}
