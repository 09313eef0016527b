//! Notes that tell a model which source each image beside a message came from.
//!
//! A model sees pixels and no id. The note numbers the images as they stand and gives the handle of each
//! source that is known. A note registers nothing, so it makes nothing citable either.

use serde_json::Value;
use toolnexus_core::{ContentPart, ToolResult};

use crate::Registry;

impl Registry {
    /// A note that names the sources of the images of a message, for the end of its text; empty without
    /// images. `ids` are the durable ids of the pieces of documents that the images were taken from, in
    /// the order of the images. `offset` is how many images of the user's come before them.
    ///
    /// Nothing is registered, and no id is shown: an image of an unknown piece is said to have no source.
    ///
    /// ```
    /// use toolnexus_context::{Registry, SourceRef};
    /// let registry = Registry::new(true);
    /// registry.register_chunk(SourceRef::new("36283d3d-a495"));
    /// let note = registry.image_sources_note(&["36283d3d-a495".to_owned()], 2);
    /// assert!(note.ends_with("\nImage 3: chunk://1."));
    /// ```
    pub fn image_sources_note(&self, ids: &[String], offset: usize) -> String {
        self.note(ids.iter().map(|id| Some(id.as_str())), offset)
    }

    /// The note for the images that a result carries, whose sources its `metadata.context.context_images`
    /// names: an array of ids, one for each image. Empty without images: stored history keeps the
    /// metadata and not the pictures, and must not claim to show them.
    pub fn tool_image_sources_note(&self, result: &ToolResult) -> String {
        let images = result.parts.iter().filter(|part| matches!(part, ContentPart::Image { .. })).count();
        let context = result.metadata.as_ref().and_then(|metadata| metadata.get("context"));
        let sources = context.and_then(|context| context.get("context_images")).and_then(Value::as_array);
        self.note(sources.into_iter().flatten().take(images).map(Value::as_str), 0)
    }

    fn note<'i>(&self, sources: impl Iterator<Item = Option<&'i str>>, offset: usize) -> String {
        let mut note = String::new();
        for (at, id) in sources.enumerate() {
            if at == 0 {
                note.push_str("\n\nImage sources (numbered from 1 within this message):");
            }
            let number = offset.saturating_add(at).saturating_add(1);
            let source = match id.and_then(|id| self.chunk_handle(id)) {
                Some(handle) => format!("\nImage {number}: {handle}."),
                None => format!("\nImage {number}: source unavailable; do not cite."),
            };
            note.push_str(&source);
        }
        note
    }
}
