//! What documents there are, without their text.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::{Renderer, ResultView, Tag};
use crate::SourceRef;

/// `document_info`.
pub(super) struct DocumentInfo;

impl Renderer for DocumentInfo {
    fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>) {
        let rows: Vec<_> = Fields(context).rows("documents").filter(|row| !id_of(*row).is_empty()).collect();
        if rows.is_empty() {
            return;
        }
        view.open(Tag::new("documents"));
        for row in rows {
            if row.is_true("is_faq") { write_faq(row, view) } else { write_document(row, view) }
        }
        view.close();
    }
}

/// What makes the row usable: a document's id, or that of a question.
fn id_of(row: Fields<'_>) -> std::borrow::Cow<'_, str> {
    row.text(if row.is_true("is_faq") { &["faq_id"] } else { DOCUMENT })
}

const DOCUMENT: &[&str] = &["knowledge_id", "document_id", "id"];

fn document_of(row: Fields<'_>, fields: &[&str]) -> SourceRef {
    let title = row.text(&["title", "knowledge_title"]).into_owned();
    SourceRef { title, ..SourceRef::new(row.text(fields)) }
}

fn write_document(row: Fields<'_>, view: &mut ResultView<'_>) {
    let source = document_of(row, DOCUMENT);
    let handle = view.register_as(view.registry().settings().roles.document, &source);
    let tag = Tag::new("document").attribute("id", handle.unwrap_or_default());
    let tag = tag.attribute("title", source.title).attribute("type", row.text(&["type"]));
    let tag = tag.attribute("file_type", row.text(&["file_type"]));
    let tag = tag.attribute("chunk_count", row.number(&["chunk_count"]).unwrap_or_default());
    let description = row.text(&["description"]);
    if description.is_empty() {
        view.empty(tag);
    } else {
        view.open(tag);
        view.element(Tag::new("description"), &description);
        view.close();
    }
}

fn write_faq(row: Fields<'_>, view: &mut ResultView<'_>) {
    let roles = view.registry().settings().roles;
    let document = document_of(row, &["knowledge_id", "document_id"]);
    let chunk = SourceRef {
        document_id: document.id.clone(),
        knowledge_base_id: row.text(&["knowledge_base_id", "knowledge_base"]).into_owned(),
        title: document.title.clone(),
        subtype: "faq".into(),
        ..SourceRef::new(row.text(&["faq_id"]))
    };
    let document = view.register_as(roles.document, &document);
    view.register_as(roles.knowledge_base, &SourceRef::new(&chunk.knowledge_base_id));
    let handle = view.register_as(roles.chunk, &chunk);
    view.open(Tag::new("document").attribute("id", document.unwrap_or_default()).attribute("type", "faq"));
    view.open(Tag::new("chunk").attribute("id", handle.unwrap_or_default()).attribute("type", "faq"));
    let question = row.text(&["faq_question", "faq_standard_question"]);
    if !question.is_empty() {
        view.element(Tag::new("question"), &question);
    }
    for answer in row.texts("faq_answers") {
        view.element(Tag::new("answer"), &answer);
    }
    view.close();
    view.close();
}
