//! HTML as a row of tags and texts.
//!
//! The states of the HTML standard's tokenizer, without those that make no difference to what a
//! reader sees. It looks at each byte a bounded number of times and keeps of a tag only the few
//! attributes that mean something, so that no document costs more than its length.

use memchr::{memchr, memchr_iter, memmem};

/// The attributes of a tag that are of use here, as they stand in the document: character
/// references are not decoded. Of several with one name the first counts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Attributes<'a> {
    pub(super) href: Option<&'a str>,
    pub(super) src: Option<&'a str>,
    pub(super) alt: Option<&'a str>,
    pub(super) class: Option<&'a str>,
    pub(super) start: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    fn add(&mut self, name: &str, value: &'a str) {
        let slots = [
            ("href", &mut self.href),
            ("src", &mut self.src),
            ("alt", &mut self.alt),
            ("class", &mut self.class),
            ("start", &mut self.start),
        ];
        for (known, slot) in slots {
            if name.eq_ignore_ascii_case(known) {
                slot.get_or_insert(value);
            }
        }
    }
}

/// A piece of a document. Comments and declarations are none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Text, with its character references as they stand.
    Text(&'a str),
    Start {
        /// As it is written.
        name: &'a str,
        attributes: Attributes<'a>,
        /// Whether it ends with `/>`.
        closed: bool,
    },
    End {
        /// As it is written.
        name: &'a str,
    },
}

/// Takes a document apart.
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Lexer { rest: html }
    }

    /// The text up to the end tag of the element whose start tag was just taken, in which nothing but
    /// that tag is one.
    pub(super) fn raw_text(&mut self, name: &str) -> &'a str {
        let bytes = self.rest.as_bytes();
        let ends = memmem::find_iter(bytes, b"</").find(|&at| {
            let name_end = at + 2 + name.len();
            let named =
                bytes.get(at + 2..name_end).is_some_and(|end| end.eq_ignore_ascii_case(name.as_bytes()));
            named && bytes.get(name_end).is_none_or(|&byte| is_space(byte) || matches!(byte, b'/' | b'>'))
        });
        self.take(ends.unwrap_or(bytes.len()))
    }

    /// Takes so many bytes; more than there are take what there is.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Takes what is up to and with `end`, or all that is left.
    fn skip_past(&mut self, from: usize, end: &[u8]) {
        let found = self.rest.as_bytes().get(from..).and_then(|bytes| memmem::find(bytes, end));
        self.take(found.map_or(usize::MAX, |at| from + at + end.len()));
    }

    /// Takes a comment, of which `<!--` was seen.
    fn skip_comment(&mut self) {
        let body = self.rest.get(4..).unwrap_or_default();
        if let Some(closed) = [">", "->"].into_iter().find(|end| body.starts_with(end)) {
            self.take(4 + closed.len());
            return;
        }
        let mut ends = memchr_iter(b'>', body.as_bytes());
        let end = ends.find(|&at| {
            let comment = body.get(..at).unwrap_or_default();
            comment.ends_with("--") || comment.ends_with("--!")
        });
        self.take(end.map_or(usize::MAX, |at| 4 + at + 1));
    }

    /// Takes a tag whose name starts at `name_at`; `None` if the document ends in it.
    fn tag(&mut self, name_at: usize) -> Option<(&'a str, Attributes<'a>, bool)> {
        let html = self.rest;
        let bytes = html.as_bytes();
        let until = |from: usize, ends: &dyn Fn(u8) -> bool| {
            let tail = bytes.get(from..).unwrap_or_default();
            from + tail.iter().position(|&byte| ends(byte)).unwrap_or(tail.len())
        };
        let name_end = until(name_at, &|byte| is_space(byte) || matches!(byte, b'/' | b'>'));
        let mut attributes = Attributes::default();
        let mut at = name_end;
        loop {
            at = until(at, &|byte| !is_space(byte) && byte != b'/');
            if *bytes.get(at)? == b'>' {
                break;
            }
            // The first character belongs to the name, even where it is `=`.
            let end = until(at + 1, &|byte| is_space(byte) || matches!(byte, b'/' | b'>' | b'='));
            let name = html.get(at..end).unwrap_or_default();
            let equals = until(end, &|byte| !is_space(byte));
            if bytes.get(equals) != Some(&b'=') {
                at = end;
                continue;
            }
            let value_at = until(equals + 1, &|byte| !is_space(byte));
            let value = match *bytes.get(value_at)? {
                quote @ (b'"' | b'\'') => {
                    let length = memchr(quote, bytes.get(value_at + 1..)?)?;
                    at = value_at + 1 + length + 1;
                    html.get(value_at + 1..value_at + 1 + length)
                }
                _ => {
                    at = until(value_at, &|byte| is_space(byte) || byte == b'>');
                    html.get(value_at..at)
                }
            };
            attributes.add(name, value.unwrap_or_default());
        }
        let closed = at > name_end && bytes.get(at - 1) == Some(&b'/');
        self.take(at + 1);
        Some((html.get(name_at..name_end).unwrap_or_default(), attributes, closed))
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let bytes = self.rest.as_bytes();
            let text = memchr(b'<', bytes).unwrap_or(bytes.len());
            if text > 0 {
                return Some(Token::Text(self.take(text)));
            }
            let after = |at: usize| bytes.get(at).copied().unwrap_or_default();
            match (after(1), after(2)) {
                _ if bytes.is_empty() => return None,
                (b'!', _) if bytes.starts_with(b"<!--") => self.skip_comment(),
                (b'!' | b'?', _) => self.skip_past(2, b">"),
                (b'/', second) if second.is_ascii_alphabetic() => match self.tag(2) {
                    Some((name, ..)) => return Some(Token::End { name }),
                    None => self.rest = "",
                },
                (b'/', second) if second != 0 => self.skip_past(2, b">"),
                (first, _) if first.is_ascii_alphabetic() => match self.tag(1) {
                    Some((name, attributes, closed)) => {
                        return Some(Token::Start { name, attributes, closed });
                    }
                    None => self.rest = "",
                },
                _ => return Some(Token::Text(self.take(1))),
            }
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `text`, `<name href=value/>` and `</name>`, to read at a glance.
    fn lexed(html: &str) -> Vec<String> {
        let shown = |token: Token<'_>| match token {
            Token::Text(text) => text.to_owned(),
            Token::End { name } => format!("</{name}>"),
            Token::Start { name, attributes, closed } => {
                let href = attributes.href.map(|href| format!(" href={href}")).unwrap_or_default();
                format!("<{name}{href}{}>", if closed { "/" } else { "" })
            }
        };
        Lexer::new(html).map(shown).collect()
    }

    #[test]
    fn documents_are_taken_apart_as_the_standard_does() {
        for (html, expected) in [
            ("a<b>c</b>d", &["a", "<b>", "c", "</b>", "d"][..]),
            ("a < b <3 <", &["a ", "<", " b ", "<", "3 ", "<"]),
            ("<a href=x>", &["<a href=x>"]),
            ("<a\nHREF = 'x y' href=z>", &["<a href=x y>"]),
            ("<a x=\">\" href=\"a>b\">t", &["<a href=a>b>", "t"]),
            ("<a href=x/>", &["<a href=x/>"].map(|_| "<a href=x//>")),
            ("<br/><br />", &["<br/>", "<br/>"]),
            ("<a / href=x>", &["<a href=x>"]),
            ("<a href>", &["<a href=>"].map(|_| "<a>")),
            ("<a href=>t", &["<a href=>", "t"]),
            ("<a =href=x>", &["<a>"]),
            ("a<!-- <b> -- > -->c", &["a", "c"]),
            ("a<!-->b<!--->c<!--x--!>d", &["a", "b", "c", "d"]),
            ("a<!-- --->b<!-- - -- ->c-->d", &["a", "b", "d"]),
            ("a<!--b", &["a"]),
            ("<!doctype html>a<?xml version='1'?>b</ x>c</>d", &["a", "b", "c", "d"]),
            ("</a b=c>", &["</a>"]),
            ("a<b", &["a"]),
            ("a<b c=\"d", &["a"]),
            ("</", &["<", "/"]),
            ("", &[]),
        ] {
            assert_eq!(lexed(html), expected, "{html}");
        }
    }

    #[test]
    fn raw_text_ends_at_its_own_tag_only() {
        for (rest, raw, left) in [
            ("a<b></scripty></SCRIPT >c", "a<b></scripty>", "</SCRIPT >c"),
            ("a</script", "a", "</script"),
            ("a</scrip", "a</scrip", ""),
        ] {
            let mut lexer = Lexer::new(rest);
            assert_eq!((lexer.raw_text("script"), lexer.rest), (raw, left));
        }
    }

    proptest! {
        // Nothing is read twice: what is taken is a part of the document, in its order.
        #[test]
        fn tokens_come_from_the_document(html in "[<>/!?\"'= a-c\\-é\n]{0,60}") {
            let mut at = 0;
            for token in Lexer::new(&html) {
                let piece = match token {
                    Token::Text(piece) | Token::Start { name: piece, .. } | Token::End { name: piece } => piece,
                };
                prop_assert!(!piece.is_empty());
                at += html[at..].find(piece).unwrap() + piece.len();
            }
        }
    }
}
