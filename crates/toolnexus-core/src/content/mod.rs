//! Content parts: images, files and audio beside text, in prompts and in tool results.
//!
//! A [`ContentPart`] is what everything here is about: a text, or an image, file or audio clip
//! whose bytes are inside it (standard base64) or behind a URL. It takes this way:
//!
//! ```text
//!   path, bytes, reader, data URL, URL
//!        │  ContentPart::from_* (blocking), attach (async)
//!        ▼
//!   ContentPart ──▶ Prompt, ToolResult::parts ──▶ transcript (parts stay parts)
//!                                                     │  PartEncoder, anew for each request
//!                                                     ▼
//!                                            a provider's block, or a line of text
//! ```
//!
//! * **Reading happens when a part is made**, completely. A part never holds a path, a handle or
//!   an unread stream.
//! * **Mime types come from one small table** of extensions, or from you. Contents are not looked
//!   at.
//! * **Encoding never changes a transcript.** A part that a provider has no block for, or that is
//!   too large, is an error if you attached it and a placeholder text if a tool returned it
//!   ([`Provenance`]); [`UnsupportedPart`] says otherwise for both. A part is never dropped.
//! * **Nothing that prints a part shows its data**: errors, `Debug`, logs and events have its
//!   kind, mime type and size.

mod attach;
mod block;
mod data_url;
mod encode;
mod error;
mod media;
mod part;
mod prompt;
mod read;
mod source;
mod view;

pub use attach::{AttachOptions, attach, attach_blocking};
pub use data_url::behind_data_scheme;
pub use encode::{
    EncodeOptions, PartEncoder, Provenance, ReplacedPart, UnknownMode, UnsupportedPart, encode_parts,
};
pub use error::{ContentPartError, PartErrorCode};
pub use media::{mime_type_of_path, mime_type_of_url};
pub use part::{ContentPart, PartKind};
pub use prompt::{Prompt, user_message};
pub use source::Source;
pub use view::PartView;
