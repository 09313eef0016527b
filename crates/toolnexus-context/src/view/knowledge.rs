//! Retrieved pieces of documents, grouped by document.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::{Renderer, ResultView, Tag};
use crate::SourceRef;

/// How pieces were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retrieval {
    Keyword,
    Search,
    Graph,
    /// The pieces of one document, page by page.
    DeepRead,
}

/// The pieces of one document, or one piece whose document nobody knows.
#[derive(Default)]
struct Group<'c> {
    document: Option<String>,
    knowledge_base: Option<String>,
    title: Cow<'c, str>,
    metadata: Cow<'c, str>,
    /// Handles and rows.
    chunks: Vec<(Option<String>, Fields<'c>)>,
}

impl Renderer for Retrieval {
    fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>) {
        let context = Fields(context);
        let groups = self.groups(context, view);
        if groups.is_empty() {
            return;
        }
        let tag = Tag::new("retrieval").attribute("type", "knowledge");
        view.open(tag.attribute("mode", self.mode(context)));
        for group in groups {
            let tag = Tag::new("document").attribute("id", group.document.unwrap_or_default());
            let tag = tag.attribute("kb", group.knowledge_base.unwrap_or_default());
            view.open(tag.attribute("title", group.title));
            if !group.metadata.is_empty() {
                view.element(Tag::new("metadata"), &group.metadata);
            }
            for (handle, row) in group.chunks {
                self.write_chunk(handle, row, view);
            }
            view.close();
        }
        if *self == Retrieval::DeepRead {
            write_pagination(context, view);
        }
        view.close();
    }
}

impl Retrieval {
    fn rows_field(self) -> &'static str {
        match self {
            Retrieval::Keyword => "chunk_results",
            Retrieval::Search | Retrieval::Graph => "results",
            Retrieval::DeepRead => "chunks",
        }
    }

    fn mode(self, context: Fields<'_>) -> Cow<'_, str> {
        let name = match self {
            Retrieval::Keyword => "keyword",
            Retrieval::Search => match context.text(&["mode"]) {
                given if given.is_empty() => "semantic",
                given => return given,
            },
            Retrieval::Graph => "graph",
            Retrieval::DeepRead => "deep_read",
        };
        Cow::Borrowed(name)
    }

    /// The rows that have an id, registered.
    fn groups<'c>(self, context: Fields<'c>, view: &ResultView<'_>) -> Vec<Group<'c>> {
        let roles = view.registry().settings().roles;
        let mut groups: Vec<Group<'c>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for row in context.rows(self.rows_field()) {
            let id = row.text(&["chunk_id", "faq_id", "id"]);
            if id.is_empty() {
                continue;
            }
            let mut document_id = row.text(&["knowledge_id"]);
            let mut title = row.text(&["knowledge_title", "title"]);
            if self == Retrieval::DeepRead {
                let inherit = |own: &mut Cow<'c, str>, field| {
                    if own.is_empty() {
                        *own = context.text(&[field]);
                    }
                };
                inherit(&mut document_id, "knowledge_id");
                inherit(&mut title, "knowledge_title");
            }
            let chunk = SourceRef {
                id: id.into_owned(),
                document_id: document_id.trim().to_owned(),
                knowledge_base_id: row.text(&["knowledge_base_id", "knowledge_base"]).into_owned(),
                title: title.clone().into_owned(),
                index: row.number(INDEX).and_then(|index| index.try_into().ok()).unwrap_or_default(),
                subtype: chunk_type(row).into_owned(),
            };
            let titled = |id: &String| SourceRef { title: chunk.title.clone(), ..SourceRef::new(id) };
            let document = view.register_as(roles.document, &titled(&chunk.document_id));
            let knowledge_base =
                view.register_as(roles.knowledge_base, &SourceRef::new(&chunk.knowledge_base_id));
            let handle = view.register_as(roles.chunk, &chunk);
            let place = match chunk.document_id.is_empty() {
                true => groups.len(),
                false => *places.entry(chunk.document_id).or_insert(groups.len()),
            };
            if place == groups.len() {
                groups.push(Group::default());
            }
            let Some(group) = groups.get_mut(place) else { continue };
            group.document = group.document.take().or(document);
            group.knowledge_base = group.knowledge_base.take().or(knowledge_base);
            for (field, own) in
                [(&mut group.title, title), (&mut group.metadata, row.text_or_json("knowledge_metadata"))]
            {
                if field.is_empty() {
                    *field = own;
                }
            }
            group.chunks.push((handle, row));
        }
        groups
    }

    fn write_chunk(self, handle: Option<String>, row: Fields<'_>, view: &mut ResultView<'_>) {
        let content = row.text(&["content"]);
        let is_full = !content.is_empty() || self == Retrieval::DeepRead;
        let tag = Tag::new("chunk").attribute("id", handle.unwrap_or_default());
        let tag = tag.attribute("type", chunk_type(row)).attribute("index", row.text(INDEX));
        view.open(tag.attribute("view", if is_full { "full" } else { "match" }));
        let found = row.text(&["match_snippet", "matched_content"]);
        let found = if found == content { Cow::default() } else { found };
        for (name, text) in [
            ("match", found),
            ("question", row.text(&["faq_question", "faq_standard_question"])),
            ("content", content),
        ] {
            if !text.is_empty() {
                view.element(Tag::new(name), &text);
            }
        }
        for answer in row.texts("faq_answers") {
            view.element(Tag::new("answer"), &answer);
        }
        for image in row.rows("images") {
            let [caption, url] =
                ["caption", "url"].map(|field| image.text(&[field]).replace(['\n', '\r'], " "));
            if !url.is_empty() {
                view.line(&format!("![{caption}]({url})"));
            }
        }
        view.close();
    }
}

const INDEX: &[&str] = &["chunk_index", "index"];

fn chunk_type(row: Fields<'_>) -> Cow<'_, str> {
    match row.text(&["chunk_type"]) {
        given if given.is_empty() && !row.text(&["faq_id"]).is_empty() => Cow::Borrowed("faq"),
        given => given,
    }
}

/// How much of the document there is beyond these pieces.
fn write_pagination(context: Fields<'_>, view: &mut ResultView<'_>) {
    let number = |field| context.number(&[field]);
    let [total, fetched] = ["total_chunks", "fetched_chunks"].map(|field| number(field).unwrap_or_default());
    let remaining = total.saturating_sub(fetched);
    if remaining > 0 {
        let tag = Tag::new("pagination").attribute("remaining", remaining);
        let tag = tag.attribute("page", context.text(&["page"]));
        view.empty(tag.attribute("page_size", context.text(&["page_size"])));
    }
}
