//! Tags that a model must not write itself, and the one that it may: `<ref id="…"/>`.

use memchr::memchr;

use super::token::{Found, Input, Token};
use crate::citation::CITATION_TAG;
use crate::settings::Settings;

/// Whether a text begins with the opening or closing form of a tag, up to its name's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// It does not.
    Not,
    /// It ends before that can be said.
    Begun,
    /// It does.
    Is {
        /// Whether it is the closing form.
        is_closing: bool,
    },
}

impl Named {
    /// Looks at a text that begins with `<`. Names are ASCII-case-insensitive; after a name comes
    /// whitespace, `/`, `>` or the end.
    pub(crate) fn at(text: &[u8], name: &str) -> Named {
        let is_closing = text.get(1) == Some(&b'/');
        let rest = text.get(if is_closing { 2 } else { 1 }..).unwrap_or_default();
        let name = name.as_bytes();
        if name.is_empty() {
            return Named::Not;
        }
        let length = name.len().min(rest.len());
        match (rest.get(..length), name.get(..length)) {
            (Some(text), Some(name)) if text.eq_ignore_ascii_case(name) => {}
            _ => return Named::Not,
        }
        match rest.get(length) {
            None if length < name.len() => Named::Begun,
            None | Some(b'/' | b'>') => Named::Is { is_closing },
            Some(byte) if byte.is_ascii_whitespace() => Named::Is { is_closing },
            Some(_) => Named::Not,
        }
    }
}

impl<'t> Input<'t> {
    /// Whether a tag begins at a `<`: the one that cites, or one of a format.
    pub(super) fn named_at(&self, settings: &Settings, at: usize) -> Named {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let formats = settings.kinds().filter_map(|(_, kind)| kind.citation.as_ref());
        let mut names = std::iter::once(CITATION_TAG).chain(formats.map(|format| format.tag_name.as_str()));
        let mut is_begun = false;
        let found = names.find_map(|name| {
            let named = Named::at(rest, name);
            is_begun |= named == Named::Begun;
            matches!(named, Named::Is { .. }).then_some(named)
        });
        found.unwrap_or(if is_begun { Named::Begun } else { Named::Not })
    }

    /// The tag at a `<`. Beyond the longest tag nobody searches for its end: it may be prose, or be a tag
    /// that was made that long to pass for prose.
    pub(super) fn tag_at(&mut self, settings: &Settings, at: usize) -> Found<'t> {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let named = self.named_at(settings, at);
        if named == Named::Not {
            return Found::Ordinary;
        }
        let is_named = named != Named::Begun;
        let last = at.saturating_add(settings.max_tag_len).min(self.text.len());
        let from = self.searched.max(at);
        let close = self.text.as_bytes().get(from..last).and_then(|text| memchr(b'>', text));
        match close {
            Some(close) if is_named => {
                let end = from + close + 1;
                let tag = self.text.get(at..end).unwrap_or_default();
                return Found::Token(cited(tag).map_or(Token::Dropped, Token::Citation), end);
            }
            Some(_) => return Found::Ordinary,
            None => self.searched = self.searched.max(last),
        }
        if !is_named {
            if self.is_end { Found::Ordinary } else { Found::Undecided }
        } else if rest.len() >= settings.max_tag_len && (self.is_end || is_named_out(self.text, at)) {
            // `<ref` is nothing to anybody else, the public tags are citations.
            let is_reference = matches!(Named::at(rest, CITATION_TAG), Named::Is { .. });
            if is_reference { Found::Ordinary } else { Found::Token(Token::Broken, at + 1) }
        } else if self.is_end {
            Found::Token(Token::Dropped, self.text.len())
        } else {
            Found::Undecided
        }
    }
}

/// Whether the name of the tag at a `<` ends before the text does, so that it cannot go on as another.
pub(super) fn is_named_out(text: &str, at: usize) -> bool {
    let ends = |byte: &u8| matches!(byte, b'/' | b'>') || byte.is_ascii_whitespace();
    text.as_bytes().get(at + 2..).is_some_and(|rest| rest.iter().any(ends))
}

/// What a tag, from `<` to `>`, cites.
fn cited(tag: &str) -> Option<&str> {
    let is_reference = Named::at(tag.as_bytes(), CITATION_TAG) == Named::Is { is_closing: false };
    let rest = tag.get(1 + CITATION_TAG.len()..).filter(|_| is_reference)?;
    let rest = rest.strip_prefix(is_space)?.trim_start_matches(is_space);
    let (name, rest) = rest.split_at_checked("id".len())?;
    if !name.eq_ignore_ascii_case("id") {
        return None;
    }
    let rest = rest.trim_start_matches(is_space).strip_prefix('=')?.trim_start_matches(is_space);
    let (handle, rest) = rest.strip_prefix('"')?.split_once('"')?;
    matches!(rest.trim_start_matches(is_space), ">" | "/>").then_some(handle)
}

/// Whitespace within tags is ASCII, as in HTML.
fn is_space(character: char) -> bool {
    character.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CTX-53
    #[test]
    fn the_grammar_of_a_citation() {
        for tag in [
            r#"<ref id="chunk://1"/>"#,
            r#"<ref id="chunk://1">"#,
            "<REF\t\n ID \t=\n \"chunk://1\" \r />",
            r#"<Ref Id="chunk://1" >"#,
        ] {
            assert_eq!(cited(tag), Some("chunk://1"), "{tag}");
        }
        for tag in [
            "<ref>",
            "<ref/>",
            "<ref />",
            r#"</ref id="chunk://1"/>"#,
            r#"<refid="chunk://1"/>"#,
            r#"<ref/id="chunk://1"/>"#,
            r#"<ref id='chunk://1'/>"#,
            "<ref id=chunk://1/>",
            r#"<ref id="chunk://1" x="y"/>"#,
            r#"<ref x="y" id="chunk://1"/>"#,
            r#"<ref id="chunk://1"x/>"#,
            r#"<ref id="chunk://1"//>"#,
            r#"<ref id="chunk://1>"#,
            "<ref é=\"chunk://1\"/>",
            "<ref\u{a0}id=\"chunk://1\"/>",
            r#"<kb id="chunk://1"/>"#,
        ] {
            assert_eq!(cited(tag), None, "{tag}");
        }
    }

    // CTX-54
    #[test]
    fn a_name_ends_where_a_name_may_end() {
        let is = |is_closing| Named::Is { is_closing };
        for (text, expected) in [
            ("<", Named::Begun),
            ("</", Named::Begun),
            ("<K", Named::Begun),
            ("</k", Named::Begun),
            ("<kb", is(false)),
            ("</KB", is(true)),
            ("<kb>", is(false)),
            ("<kb/", is(false)),
            ("<kb\n", is(false)),
            ("</kb >", is(true)),
            ("<kbd", Named::Not),
            ("<kb-x", Named::Not),
            ("<kbé", Named::Not),
            ("< kb", Named::Not),
            ("<//kb", Named::Not),
            ("<x", Named::Not),
        ] {
            assert_eq!(Named::at(text.as_bytes(), "kb"), expected, "{text}");
        }
    }
}
