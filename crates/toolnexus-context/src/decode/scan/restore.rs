//! What stands in public text for a token of the model's.

use super::seam::APART;
use super::token::Token;
use crate::settings::{Kind, KindId};
use crate::syntax::SourceHandle;
use crate::tables::Source;
use crate::{CitedSource, Registry, TextForm};

impl Registry {
    /// Writes what a token stands for, in the place that it has in the model's text. The tables are locked
    /// only to look it up: formats are the application's code.
    pub(super) fn restore(&self, token: Token<'_>, before: [u8; 2], decoded: &mut String) {
        match token {
            Token::Dropped | Token::Endless => {}
            Token::Broken => {
                decoded.push('<');
                decoded.push_str(APART);
            }
            Token::Citation(handle) => {
                let source = self.settings().whole_handle(handle).and_then(|handle| self.lookup(handle));
                if let Some(tag) = source.and_then(|(kind, source)| self.citation(kind, &source)) {
                    decoded.push_str(&tag);
                }
            }
            Token::Resource(digits) => {
                let reference = self.tables().resources().resolve_digits(digits).cloned();
                decoded.push_str(reference.as_deref().unwrap_or_default());
            }
            Token::Source(handle) => {
                if let Some((kind, source)) = self.lookup(handle) {
                    decoded.push_str(&self.in_text(kind, &source, before));
                }
            }
            Token::Known(value) => decoded.push_str(&value),
        }
    }

    fn lookup(&self, handle: SourceHandle) -> Option<(KindId, Source)> {
        let tables = self.tables();
        tables.resolve(handle).map(|(at, source)| (at.kind, source.clone()))
    }

    /// A source that the model named by its bare handle.
    fn in_text(&self, kind: KindId, source: &Source, before: [u8; 2]) -> String {
        match before {
            // A link's target or an attribute: a tag would break the markup.
            [b']', b'('] | [b'=', b'"' | b'\''] => self.public_uri(kind, source),
            // Part of a path or a query.
            [_, b'/' | b'='] => source.id.to_string(),
            _ if self.is_piece(kind) => {
                self.citation(kind, source).unwrap_or_else(|| self.public_uri(kind, source))
            }
            _ => self.public_uri(kind, source),
        }
    }

    /// The durable form in text. A piece of a known document is found there.
    fn public_uri(&self, kind: KindId, source: &Source) -> String {
        let settings = self.settings();
        match settings.roles.document {
            Some(document) if self.is_piece(kind) && !source.document_id.trim().is_empty() => {
                settings.text_form(document, source.document_id.trim())
            }
            _ => settings.text_form(kind, &source.id),
        }
    }

    /// Whether sources of a kind are cited and have no address of their own.
    fn is_piece(&self, kind: KindId) -> bool {
        let is_piece = |kind: &Kind| kind.citation.is_some() && kind.text_form == TextForm::Uri;
        self.settings().kind(kind).is_some_and(is_piece)
    }

    /// The public citation of a source; `None` where it must not be cited.
    fn citation(&self, kind: KindId, source: &Source) -> Option<String> {
        let settings = self.settings();
        let format = settings.kind(kind)?.citation.as_ref()?;
        (settings.citations && source.is_evidence).then(|| {
            (format.render)(&CitedSource {
                id: source.id.to_string(),
                title: source.title.clone(),
                knowledge_base_id: source.knowledge_base_id.clone(),
                document_id: source.document_id.clone(),
            })
        })
    }
}
