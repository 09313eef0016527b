//! Durable text forms: `<scheme>://<kind>/<id>`.

use std::fmt::Write as _;

use crate::TextForm;
use crate::settings::{KindId, Settings};
use crate::syntax::{ends_handle, is_free_left};

/// A byte of an id that is written as it is.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

impl Settings {
    /// The durable form of an id of a kind in text.
    pub(crate) fn text_form(&self, kind: KindId, id: &str) -> String {
        let Some(definition) = self.kind(kind) else { return id.to_owned() };
        if definition.text_form == TextForm::Value {
            return id.to_owned();
        }
        let mut uri = format!("{}://{}/", self.uri_scheme, definition.name);
        let last = id.len().saturating_sub(1);
        for (at, byte) in id.bytes().enumerate() {
            // A dot at the end would be read as the end of a sentence.
            if is_plain(byte) && !(byte == b'.' && at == last) {
                uri.push(char::from(byte));
            } else {
                // Writing into a string never fails.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
        uri
    }

    /// The URI that begins at `at`: its kind, its id, and where it ends. Only what may become a handle
    /// where it stands, and come back from it.
    pub(crate) fn uri_at(&self, text: &str, at: usize) -> Option<(KindId, String, usize)> {
        let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
        if !is_free_left(text, at) || matches!(before, Some(b'/' | b'=')) {
            return None;
        }
        let (kind, id, end) = self.uri_body(text, at)?;
        let rest = text.get(end..).unwrap_or_default();
        let goes_on = rest.starts_with('/') || rest.starts_with("://");
        (!goes_on && ends_handle(text, end) && self.may_identify(&id)).then_some((kind, id, end))
    }

    /// The kind and the id of a text that is a URI as a whole.
    pub(crate) fn whole_uri(&self, text: &str) -> Option<(KindId, String)> {
        let (kind, id, end) = self.uri_body(text, 0)?;
        (end == text.len()).then_some((kind, id))
    }

    fn uri_body(&self, text: &str, at: usize) -> Option<(KindId, String, usize)> {
        let rest = text.get(at..)?.strip_prefix(&self.uri_scheme)?.strip_prefix("://")?;
        let (kind, rest) = self.kinds().find_map(|(id, kind)| {
            let rest = rest.strip_prefix(&kind.name)?.strip_prefix('/')?;
            (kind.text_form == TextForm::Uri).then_some((id, rest))
        })?;
        let bytes = rest.as_bytes();
        let (mut length, mut decoded, mut solid) = (0, Vec::new(), 0);
        while let Some(byte) = bytes.get(length) {
            if is_plain(*byte) {
                decoded.push(*byte);
                length += 1;
            } else if *byte == b'%'
                && let Some(high) = bytes.get(length + 1).and_then(|digit| char::from(*digit).to_digit(16))
                && let Some(low) = bytes.get(length + 2).and_then(|digit| char::from(*digit).to_digit(16))
            {
                decoded.push(u8::try_from(high * 16 + low).ok()?);
                length += 3;
            } else {
                break;
            }
            if *byte != b'.' {
                solid = length;
            }
        }
        decoded.truncate(decoded.len() - (length - solid));
        if solid == 0 {
            return None;
        }
        let id = String::from_utf8(decoded).ok()?;
        let end = text.len() - rest.len() + solid;
        Some((kind, id, end))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::settings::Settings;

    fn settings() -> Arc<Settings> {
        Settings::default_of(true)
    }

    /// The URI at the first place where the scheme stands: kind, id, and the text after it.
    fn found(text: &str) -> Option<(String, String, String)> {
        let settings = settings();
        let (kind, id, end) = settings.uri_at(text, text.find("toolnexus").unwrap())?;
        Some((settings.kind(kind).unwrap().name.clone(), id, text.get(end..).unwrap().to_owned()))
    }

    fn uri(kind: &str, id: &str, rest: &str) -> Option<(String, String, String)> {
        Some((kind.to_owned(), id.to_owned(), rest.to_owned()))
    }

    // CTX-29: the form, what is encoded in it, and the dot at its end
    #[test]
    fn ids_are_percent_encoded() {
        let settings = settings();
        let form = |kind: &str, id: &str| settings.text_form(settings.kind_named(kind).unwrap(), id);
        assert_eq!(form("doc", "aZ09._~-x"), "toolnexus://doc/aZ09._~-x");
        assert_eq!(form("kb", "a/b c%?é"), "toolnexus://kb/a%2Fb%20c%25%3F%C3%A9");
        assert_eq!(form("chunk", "a.b."), "toolnexus://chunk/a.b%2E");
        assert_eq!(form("chunk", ".."), "toolnexus://chunk/.%2E");
        assert_eq!(form("url", "https://e.com/a b"), "https://e.com/a b");
    }

    // CTX-30: the id is the longest run, without the dots at its end
    #[test]
    fn a_uri_ends_where_its_id_ends() {
        assert_eq!(found("see toolnexus://doc/abc."), uri("doc", "abc", "."));
        assert_eq!(found("toolnexus://kb/a.b~c_d-e...)"), uri("kb", "a.b~c_d-e", "...)"));
        assert_eq!(found("toolnexus://chunk/a%2fb%2E."), uri("chunk", "a/b.", "."));
        assert_eq!(found("\u{89c1}toolnexus://doc/abc\u{3002}"), uri("doc", "abc", "\u{3002}"));
        assert_eq!(found("toolnexus://doc/abc: b"), uri("doc", "abc", ": b"));
        assert_eq!(found("toolnexus://doc/abc%zz"), uri("doc", "abc", "%zz"));
        assert_eq!(found("toolnexus://doc/abc%2"), uri("doc", "abc", "%2"));
    }

    // CTX-30: what is no URI, left edge and case included. CTX-29: a URL has none
    #[test]
    fn other_text_is_no_uri() {
        for text in [
            "toolnexus://doc/",
            "toolnexus://doc/...",
            "toolnexus://doc/a/b",
            "toolnexus://doc/a://b",
            "toolnexus://page/abc",
            "toolnexus://url/abc",
            "toolnexus://issue/abc",
            "toolnexus://DOC/abc",
            "toolnexus://doc/%FF",
            "toolnexus://doc/%C3",
            "x=toolnexus://doc/abc",
            "/toolnexus://doc/abc",
            "xtoolnexus://doc/abc",
            "_toolnexus://doc/abc",
            "9toolnexus://doc/abc",
            "toolnexus:/doc/abc",
            "toolnexus",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        assert!(settings().uri_at("Toolnexus://doc/abc", 0).is_none());
    }

    // CTX-17, CTX-30: a URI whose id could not be registered does not become a handle
    #[test]
    fn a_uri_of_no_identity_stays() {
        for id in ["doc%3A%2F%2F1", "d1", "res%3A%2F%2F0001", "%20abc", "%20", "toolnexus%3A%2F%2Fdoc%2Fx"] {
            assert_eq!(found(&format!("toolnexus://doc/{id}")), None, "{id}");
            assert!(settings().whole_uri(&format!("toolnexus://doc/{id}")).is_some(), "{id}");
        }
    }

    proptest! {
        // CTX-29, CTX-30: every id comes back from its URI, whole and where a text goes on
        #[test]
        fn every_id_comes_back(id in "(?s).{1,24}|[.%a/]{1,8}", behind in "[ ,;)\u{3002}]?") {
            let settings = settings();
            for name in ["chunk", "doc", "kb"] {
                let kind = settings.kind_named(name).unwrap();
                let uri = settings.text_form(kind, &id);
                prop_assert_eq!(settings.whole_uri(&uri), Some((kind, id.clone())));
                if settings.may_identify(&id) {
                    let text = format!("{uri}{behind}");
                    prop_assert_eq!(settings.uri_at(&text, 0), Some((kind, id.clone(), uri.len())));
                }
            }
        }

        // Nothing fails on any text, at any place in it
        #[test]
        fn any_text_is_read(text in "(toolnexus://|doc/|%[0-9A-F]{2}|[.%/=:é]|(?s).){0,12}") {
            let settings = settings();
            for at in 0..=text.len() {
                if let Some((_, id, end)) = settings.uri_at(&text, at) {
                    prop_assert!(!id.is_empty() && text.is_char_boundary(end));
                }
                settings.handle_at(&text, at);
            }
        }
    }
}
