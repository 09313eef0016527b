//! A message written anew: the fields that changed, the blocks that are sent raw, the blocks that are
//! not sent. All other bytes stay.

use std::borrow::Cow;
use std::ops::Range;

use toolnexus_llm::Message;

use super::outline::{List, Outline};
use crate::encode::signed::RawBlocks;
use crate::json_text::literal_of;

/// What stands in place of the last block of a list that lost them all: providers refuse a message that
/// says nothing.
fn placeholder(key: &str) -> &'static str {
    match key {
        "content" => r#"{"type":"text","text":"(reasoning left out)"}"#,
        "parts" => r#"{"text":"(reasoning left out)"}"#,
        _ => "",
    }
}

impl Outline<'_> {
    /// The new message; `None` where nothing changed. `raw` are the blocks that are sent as the model
    /// wrote them. With `drops_unsigned` reasoning that should be signed and is not is left out.
    pub(super) fn rewritten(&self, raw: &RawBlocks, drops_unsigned: bool) -> Option<Message> {
        let changed = self.fields.iter().filter(|field| field.is_changed).map(|field| {
            let text = if field.is_string { literal_of(&field.text) } else { field.text.to_string() };
            Edit { span: field.span.clone(), text }
        });
        let mut edits = Edits(changed.collect());
        edits.0.sort_by_key(|edit| edit.span.start);
        let of_lists = self.lists.iter().flat_map(|list| self.list_edits(list, &edits, raw, drops_unsigned));
        let of_lists: Vec<Edit> = of_lists.collect();
        edits.put(of_lists);
        edits.0.retain(|edit| self.json.get(edit.span.clone()) != Some(edit.text.as_str()));
        if edits.0.is_empty() {
            return None;
        }
        let json = edits.made(self.json, &(0..self.json.len()));
        // A message that was built as a value may be deeper than one that is read may be.
        let built = || serde_json::from_str::<serde_json::Value>(&json).map(Message::from);
        Message::from_json(json.clone()).or_else(|_| built()).ok()
    }

    /// Blocks that are sent raw; and the list as a whole, if blocks are left out of it.
    fn list_edits(&self, list: &List, fields: &Edits, raw: &RawBlocks, drops_unsigned: bool) -> Vec<Edit> {
        let (mut sent, mut drops) = (Vec::with_capacity(list.elements.len()), false);
        let mut replaced = Vec::new();
        let mut blocks = list.blocks.iter().peekable();
        for (index, span) in list.elements.iter().enumerate() {
            let block = blocks.next_if(|block| block.index == index);
            if let Some(raw) = block.and_then(|_| raw.get(list.key, index)) {
                replaced.push(Edit { span: span.clone(), text: raw.to_owned() });
                sent.push(Sent::Raw(raw));
                continue;
            }
            let is_dropped = block.is_some_and(|block| {
                block.is_reasoning && block.is_signed && fields.are_in(span)
                    || block.must_be_signed && drops_unsigned
            });
            drops |= is_dropped;
            if !is_dropped {
                sent.push(Sent::Own(span));
            }
        }
        if !drops {
            return replaced;
        }
        let sent: Vec<Cow<'_, str>> = sent
            .into_iter()
            .map(|sent| match sent {
                Sent::Raw(raw) => Cow::Borrowed(raw),
                Sent::Own(span) => Cow::Owned(fields.made(self.json, span)),
            })
            .collect();
        let inside = if sent.is_empty() { placeholder(list.key).to_owned() } else { sent.join(",") };
        vec![Edit { span: list.span.clone(), text: format!("[{inside}]") }]
    }
}

/// What is sent of an element.
enum Sent<'m> {
    Own(&'m Range<usize>),
    Raw(&'m str),
}

struct Edit {
    span: Range<usize>,
    text: String,
}

/// Edits of one text, sorted; no two overlap.
struct Edits(Vec<Edit>);

impl Edits {
    fn within(&self, span: &Range<usize>) -> impl Iterator<Item = &Edit> {
        let first = self.0.partition_point(|edit| edit.span.start < span.start);
        self.0.iter().skip(first).take_while(move |edit| edit.span.end <= span.end)
    }

    fn are_in(&self, span: &Range<usize>) -> bool {
        self.within(span).next().is_some()
    }

    /// Adds edits that win over those within them.
    fn put(&mut self, mut wider: Vec<Edit>) {
        wider.sort_by_key(|edit| edit.span.start);
        self.0.retain(|edit| {
            let before = wider.partition_point(|other| other.span.start <= edit.span.start);
            let around = before.checked_sub(1).and_then(|at| wider.get(at));
            around.is_none_or(|other| other.span.end < edit.span.end)
        });
        self.0.append(&mut wider);
        self.0.sort_by_key(|edit| edit.span.start);
    }

    /// A part of the text with its edits made.
    fn made(&self, json: &str, span: &Range<usize>) -> String {
        let mut out = String::with_capacity(span.len());
        let mut at = span.start;
        for edit in self.within(span) {
            out.push_str(json.get(at..edit.span.start).unwrap_or_default());
            out.push_str(&edit.text);
            at = edit.span.end;
        }
        out.push_str(json.get(at..span.end).unwrap_or_default());
        out
    }
}
