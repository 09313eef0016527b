//! The text of a turn, which is decoded once: as it streams, or else when the answer is whole.

use crate::{Registry, StreamDecoder};

/// A text as the model wrote it, and as everybody else reads it.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) raw: String,
    pub(super) decoded: String,
}

impl Said {
    /// The text of an answer; what was heard of it as it streamed is not decoded again.
    pub(super) fn of(registry: &Registry, raw: String, heard: Said) -> Self {
        if heard.raw == raw {
            return heard;
        }
        let decoded = registry.decode_output_text(&raw);
        Said { raw, decoded }
    }
}

/// Listens to the text of a turn that is being streamed.
pub(super) struct Listener {
    decoder: StreamDecoder,
    heard: Said,
}

impl Listener {
    pub(super) fn new(registry: &Registry) -> Self {
        Listener { decoder: registry.stream_decoder(), heard: Said::default() }
    }

    pub(super) fn hear(&mut self, piece: &str) -> String {
        let decoded = self.decoder.feed(piece);
        self.heard.raw.push_str(piece);
        self.heard.decoded.push_str(&decoded);
        decoded
    }

    /// The text has ended.
    pub(super) fn end(&mut self) -> String {
        let decoded = self.decoder.flush();
        self.heard.decoded.push_str(&decoded);
        decoded
    }

    /// What was heard up to the end of the text; nothing of a text that broke off.
    pub(super) fn take(&mut self) -> Said {
        std::mem::take(&mut self.heard)
    }

    /// Another text begins. Of one that broke off nothing is left.
    pub(super) fn begin(&mut self) {
        drop(self.decoder.flush());
        self.heard = Said::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CTX-57, CTX-105: what was heard is what a whole text would be, and another text is decoded anew
    #[test]
    fn a_text_is_decoded_once() {
        let registry = Registry::new(true);
        registry.register_document("36283d3d");
        let mut listener = Listener::new(&registry);
        let pieces = [listener.hear("broken doc:/"), {
            listener.begin();
            listener.hear("see doc://")
        }];
        assert_eq!(pieces, ["broken ", "see "]);
        let rest = listener.hear("1") + &listener.end();
        assert_eq!(rest, "toolnexus://doc/36283d3d");
        let heard = listener.take();
        let whole = Said::of(&registry, "see doc://1".into(), Said::default());
        assert_eq!(heard, whole);
        assert_eq!(Said::of(&registry, "see doc://1".into(), heard), whole);
        assert_eq!(Said::of(&registry, "no doc://1".into(), whole).decoded, "no toolnexus://doc/36283d3d");
        assert_eq!(listener.take(), Said::default());
    }
}
