//! How handles are spelled, and where in a text they may stand.
//!
//! Edges are ASCII: a handle between two CJK characters is a handle.

use std::sync::LazyLock;

use memchr::memmem;

use crate::settings::{KindId, Settings};

/// The prefix of resource handles.
pub(crate) const RESOURCE: &str = "res://";

/// No number of more digits is handed out, unless it is padded to more.
pub(crate) const MOST_DIGITS: usize = 20;

/// A byte that continues a word.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether no word continues to the left of `at`.
pub(crate) fn is_free_left(text: &str, at: usize) -> bool {
    at.checked_sub(1).and_then(|before| text.as_bytes().get(before)).is_none_or(|byte| !is_word(*byte))
}

/// Whether a source handle may end at `end`: no word goes on, and no number after a dot.
pub(crate) fn ends_handle(text: &str, end: usize) -> bool {
    let bytes = text.as_bytes();
    match bytes.get(end) {
        None => true,
        Some(b'.') => !bytes.get(end + 1).is_some_and(u8::is_ascii_digit),
        Some(byte) => !is_word(*byte),
    }
}

/// How many ASCII digits stand at `at`.
pub(crate) fn digits_at(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Where each `://` of a text stands.
pub(crate) fn scheme_ends(text: &str) -> impl Iterator<Item = usize> {
    // Made once: texts are many and short.
    static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("://"));
    FINDER.find_iter(text.as_bytes())
}

/// Whether a resource's handle stands in the text: what is around it is then no id.
pub(crate) fn holds_resource_handle(text: &str) -> bool {
    memmem::find_iter(text.as_bytes(), RESOURCE).any(|at| digits_at(text, at + RESOURCE.len()) > 0)
}

/// Whether the whole text is `res://` and digits.
pub(crate) fn is_resource_handle(text: &str) -> bool {
    text.strip_prefix(RESOURCE).is_some_and(is_digits)
}

/// The length of a UUID in text, and where its dashes stand.
pub(crate) const UUID_LEN: usize = 36;
const UUID_DASHES: [usize; 4] = [8, 13, 18, 23];

/// Whether the whole text has the shape of a UUID: groups of 8, 4, 4, 4 and 12 hexadecimal digits.
pub(crate) fn is_uuid(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| {
        if UUID_DASHES.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    text.len() == UUID_LEN && text.bytes().enumerate().all(fits)
}

/// Whether the whole text is digits, at least one.
pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number that canonical digits spell: no leading zero.
pub(crate) fn number(digits: &str) -> Option<usize> {
    if digits.starts_with('0') { None } else { digits.parse().ok() }
}

/// Text of the shape of a source handle. `number` is `None` where it can never resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceHandle {
    pub(crate) kind: KindId,
    pub(crate) number: Option<usize>,
}

impl Settings {
    /// The scheme handle that begins at `at`, and where it ends. Edges are not looked at.
    pub(crate) fn handle_at(&self, text: &str, at: usize) -> Option<(SourceHandle, usize)> {
        let rest = text.as_bytes().get(at..)?;
        let (kind, length) = self.kinds().find_map(|(id, kind)| {
            let name = kind.name.as_bytes();
            let matches = rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                && rest.get(name.len()..name.len() + 3) == Some(b"://");
            matches.then_some((id, name.len() + 3))
        })?;
        let start = at + length;
        let end = start + digits_at(text, start);
        let number = number(text.get(start..end).filter(|digits| !digits.is_empty())?);
        Some((SourceHandle { kind, number }, end))
    }

    /// The handle that the whole, trimmed text spells: with its scheme, or in the bare old form where
    /// those are read.
    pub(crate) fn whole_handle(&self, text: &str) -> Option<SourceHandle> {
        let text = text.trim();
        match self.handle_at(text, 0) {
            Some((handle, end)) if end == text.len() => Some(handle),
            _ => self.legacy_handle(text),
        }
    }

    /// The handle that the text spells in its bare old form.
    fn legacy_handle(&self, text: &str) -> Option<SourceHandle> {
        let mut rest = text.chars();
        let letter = rest.next().filter(|_| self.legacy_handles)?.to_ascii_lowercase();
        let digits = rest.as_str();
        if !is_digits(digits) || digits.starts_with('0') {
            return None;
        }
        let (kind, _) = self.kinds().find(|(_, kind)| kind.legacy == Some(letter))?;
        Some(SourceHandle { kind, number: number(digits) })
    }
}

#[cfg(test)]
mod tests {
    use super::{ends_handle, is_free_left, is_resource_handle};
    use crate::RegistryConfig;
    use crate::settings::Settings;

    fn at_start(text: &str) -> Option<(String, Option<usize>, usize)> {
        let settings = Settings::default_of(true);
        let (handle, end) = settings.handle_at(text, 0)?;
        Some((settings.kind(handle.kind).unwrap().name.clone(), handle.number, end))
    }

    fn whole(settings: &Settings, text: &str) -> Option<(String, Option<usize>)> {
        let handle = settings.whole_handle(text)?;
        Some((settings.kind(handle.kind).unwrap().name.clone(), handle.number))
    }

    // CTX-18: the kind in any case, and all digits
    #[test]
    fn a_handle_is_a_kind_and_digits() {
        assert_eq!(at_start("doc://12x"), Some(("doc".into(), Some(12), 8)));
        assert_eq!(at_start("ChUnK://3"), Some(("chunk".into(), Some(3), 9)));
        for text in
            ["doc://", "doc://x", "doc:/1", "docs://1", "page://1", "res://1", "doc://\u{0661}", "d", ""]
        {
            assert_eq!(at_start(text), None, "{text}");
        }
    }

    // CTX-19: a leading zero and a number beyond all tables are handles that never resolve
    #[test]
    fn some_handles_never_resolve() {
        for digits in ["007", "0", "99999999999999999999999999999999"] {
            assert_eq!(at_start(&format!("doc://{digits}")), Some(("doc".into(), None, 6 + digits.len())));
        }
    }

    // CTX-18: edges are ASCII
    #[test]
    fn edges_are_ascii() {
        for (before, is_free) in [
            ("", true),
            (" ", true),
            ("-", true),
            ("\u{89c1}", true),
            ("x", false),
            ("_", false),
            ("5", false),
        ] {
            assert_eq!(is_free_left(&format!("{before}doc://1"), before.len()), is_free, "{before:?}");
        }
        for (behind, ends) in [
            ("", true),
            (".", true),
            (". 5", true),
            (".x", true),
            ("\u{3002}", true),
            ("-", true),
            (":", true),
            ("x", false),
            ("_", false),
            (".0.0.1:4242/", false),
        ] {
            assert_eq!(ends_handle(&format!("doc://1{behind}"), 7), ends, "{behind:?}");
        }
    }

    // CTX-20: the bare old form is a handle as a whole value alone, in any case, without a leading zero
    #[test]
    fn old_forms_are_whole_values() {
        let settings = Settings::default_of(true);
        for (text, kind, number) in [
            ("c1", "chunk", 1),
            ("D12", "doc", 12),
            (" b3 ", "kb", 3),
            ("w4", "url", 4),
            (" DOC://5 ", "doc", 5),
        ] {
            assert_eq!(whole(&settings, text), Some((kind.to_owned(), Some(number))), "{text}");
        }
        for text in ["d0", "d01", "d", "x1", "d1 d2", "d1.", "e1", "doc://1 ", "\u{e9}1"] {
            let found = whole(&settings, text);
            assert_eq!(found.is_some(), text.trim() == "doc://1", "{text}");
        }
        assert_eq!(at_start("d1"), None);
    }

    // CTX-7: turned off, the bare old form is ordinary text
    #[test]
    fn old_forms_can_be_turned_off() {
        let settings = Settings::new(RegistryConfig::default().legacy_handles(false)).unwrap();
        assert_eq!(whole(&settings, "d1"), None);
        assert!(settings.may_identify("d1"));
        assert_eq!(whole(&settings, "doc://1"), Some(("doc".into(), Some(1))));
    }

    // CTX-17, CTX-25: a resource handle is lower-case with digits
    #[test]
    fn resource_handles_are_lower_case() {
        assert!(is_resource_handle("res://0001") && is_resource_handle("res://7"));
        for text in ["RES://0001", "res://", "res://1x", "res:/1", "xres://1"] {
            assert!(!is_resource_handle(text), "{text}");
        }
    }
}
