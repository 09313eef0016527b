//! The one left-to-right scan that decodes a model's text, whole or in pieces.
//!
//! At each place the first of these that stands there is taken whole, and what it stands for goes into
//! the output, where nothing looks at it again: a tag, a resource handle, a source handle, a private or
//! routing handle. Any other character is ordinary.
//!
//! * [`Hold`] keeps the end of a piece while it depends on what follows.
//! * [`Scanner`] goes over what is there. It looks closer only where a token can begin ([`Starts`]), and
//!   copies everything between in long runs. Edges are judged on the model's own text, so it remembers
//!   the last two bytes of it.
//! * `token` says what stands at a place, or that more text is needed to say it; `tag` is the part of it
//!   that reads tags.
//! * `restore` says what stands in the output for a token. Only here is the registry asked.
//! * [`Seam`] keeps apart what would be a token once something between was dropped.
//!
//! A decision that was made stays true whatever follows. That alone makes the outcome the same for every
//! way of cutting the text, so a whole text is decoded as a stream of one piece.

mod hold;
mod restore;
mod seam;
mod starts;
mod tag;
mod token;

use crate::Registry;
use crate::syntax::is_word;
use hold::Hold;
use seam::{Closed, Seam};
use starts::Starts;
use token::{Found, Input, Token};

pub(crate) use tag::Named;

/// Decodes one channel of streamed text. What cannot be decided yet is held back; all pieces and the
/// flush together are what [`Registry::decode_output_text`] makes of the whole text, however it is cut.
///
/// ```
/// use toolnexus_context::Registry;
/// let registry = Registry::new(true);
/// registry.register_document("36283d3d");
/// let mut decoder = registry.stream_decoder();
/// assert_eq!(decoder.feed("see doc:/"), "see ");
/// assert_eq!(decoder.feed("/1"), "");
/// assert_eq!(decoder.flush(), "toolnexus://doc/36283d3d");
/// ```
pub struct StreamDecoder {
    hold: Hold,
    scanner: Scanner,
}

impl StreamDecoder {
    /// The decoded text, as far as it is certain; often empty.
    pub fn feed(&mut self, piece: &str) -> String {
        self.advance(piece, false)
    }

    /// What was held back, at the end of the text. The decoder is then as new.
    pub fn flush(&mut self) -> String {
        let rest = self.advance("", true);
        self.scanner.restart();
        rest
    }

    fn advance(&mut self, piece: &str, is_end: bool) -> String {
        let mut decoded = String::new();
        self.hold.feed(piece, |text| self.scanner.scan(text, is_end, &mut decoded));
        decoded
    }
}

/// Shows sizes: the text is nobody's to log.
impl std::fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamDecoder").field("held", &self.hold.len()).finish_non_exhaustive()
    }
}

impl Registry {
    /// A decoder for one channel of streamed text.
    pub fn stream_decoder(&self) -> StreamDecoder {
        StreamDecoder { hold: Hold::default(), scanner: Scanner::new(self.clone()) }
    }

    /// The model's text as people see it: handles restored, citations expanded or dropped.
    ///
    /// ```
    /// use toolnexus_context::{Registry, SourceRef};
    /// let registry = Registry::new(true);
    /// registry.register_chunk(SourceRef { title: "Report".into(), ..SourceRef::new("c-36283d3d") });
    /// assert_eq!(
    ///     registry.decode_output_text(r#"It grew <ref id="chunk://1"/> and shrank <ref id="chunk://2"/>."#),
    ///     r#"It grew <kb doc="Report" chunk_id="c-36283d3d" /> and shrank ."#,
    /// );
    /// ```
    pub fn decode_output_text(&self, text: &str) -> String {
        let mut decoded = String::with_capacity(text.len());
        Scanner::new(self.clone()).scan(text, true, &mut decoded);
        decoded
    }
}

/// Goes over text once, from left to right.
struct Scanner {
    registry: Registry,
    starts: Starts,
    /// The last two bytes that were decided, or zeros.
    before: [u8; 2],
    /// So much of the text that was not decided last time holds no `>`.
    searched: usize,
    /// Whether the digits that come next belong to a handle that was dropped.
    is_in_number: bool,
    seam: Seam,
}

impl Scanner {
    fn new(registry: Registry) -> Self {
        let starts = Starts::new(registry.settings());
        Scanner { registry, starts, before: [0; 2], searched: 0, is_in_number: false, seam: Seam::default() }
    }

    /// Forgets the text so far.
    fn restart(&mut self) {
        (self.before, self.searched, self.is_in_number) = ([0; 2], 0, false);
        self.seam = Seam::default();
    }

    /// Decodes as much of the text as can be decided, which is all of it where nothing follows (`is_end`).
    /// How much that was.
    fn scan(&mut self, text: &str, is_end: bool, decoded: &mut String) -> usize {
        let mut input = Input { text, before: self.before, is_end, searched: self.searched };
        let mut at = 0;
        // What begins here is ordinary text that was not copied yet.
        let mut ordinary = 0;
        let decided = loop {
            if self.is_in_number {
                at += crate::syntax::digits_at(text, at);
                ordinary = at;
                self.is_in_number = at == text.len();
            }
            let [_, before] = input.two_before(at);
            let behind = (text.get(at..).unwrap_or_default(), is_word(before));
            match self.seam.close(&self.registry, &self.starts, behind, is_end) {
                Closed::Undecided => break at,
                Closed::With(between) => decoded.push_str(between),
            }
            let Some(start) = self.starts.next(&input, at) else { break text.len() };
            match input.token_at(&self.registry, start) {
                Found::Ordinary => at = start + 1,
                Found::Undecided => break start,
                Found::Token(token, end) => {
                    let before = text.get(ordinary..start).unwrap_or_default();
                    decoded.push_str(before);
                    self.seam.add(before);
                    self.is_in_number = token == Token::Endless;
                    let written = decoded.len();
                    self.registry.restore(token, input.two_before(start), decoded);
                    self.seam.put(decoded.get(written..).unwrap_or_default());
                    (at, ordinary) = (end, end);
                }
            }
        };
        let rest = text.get(ordinary..decided).unwrap_or_default();
        decoded.push_str(rest);
        self.seam.add(rest);
        self.before = input.two_before(decided);
        self.searched = input.searched.saturating_sub(decided);
        decided
    }
}
