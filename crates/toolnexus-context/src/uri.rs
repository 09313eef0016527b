//! Durable text forms: `<scheme>://<kind>/<id>`.

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
            if is_plain(byte) && !(byte == b'.' && at == last) {
                uri.push(char::from(byte));
            } else {
                uri.push_str(&format!("%{byte:02X}"));
            }
        }
        uri
    }

    /// The URI that begins at `at`: its kind, its id, and where it ends. Only what may become a handle
    /// where it stands.
    pub(crate) fn uri_at(&self, text: &str, at: usize) -> Option<(KindId, String, usize)> {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        if !is_free_left(text, at) || matches!(before, Some(b'/' | b'=')) {
            return None;
        }
        let (kind, id, end) = self.uri_body(text, at)?;
        let rest = text.get(end..).unwrap_or_default();
        let goes_on = rest.starts_with('/') || rest.starts_with("://");
        (!goes_on && ends_handle(text, end)).then_some((kind, id, end))
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
