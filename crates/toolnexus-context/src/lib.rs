//! The model-context boundary: it stands between an application's durable identities (database ids,
//! UUIDs, page slugs, URLs, references to stored files) and the model.
//!
//! Models copy short handles reliably and mangle UUIDs. So before each model call durable identities
//! become handles of this execution (`doc://1`, `url://3`, `res://0001`, `i2`), and after it they are
//! restored before a tool, a store, a hook or a person sees anything. The boundary also decides what an
//! answer may cite: only sources that were really retrieved.
//!
//! # The types, and how they meet
//!
//! * [`RegistryConfig`] says which kinds of identity there are and how each tool treats them
//!   ([`ToolPolicy`]). It is checked and compiled once, into `Settings`.
//! * A [`Registry`] serves one execution. It holds the tables from identity to handle and back, and is
//!   the only type that a request's lifecycle uses.
//! * [`ContextOptions`] is the [`ModelBoundary`](toolnexus_llm::ModelBoundary) of a client: each run opens
//!   a registry of its own.
//! * [`HandleTable`] is the primitive alone, for a host's own short names.
//!
//! # How text flows
//!
//! ```text
//! transcript ── encode ──► resources → URIs → tool results (view) → known values ──► wire
//! tools, stores, people ◄── decode: one left-to-right scan, the same for streams ◄── wire
//! ```
//!
//! Each space of handles counts for itself, numbers are never reused, and nothing that was inserted is
//! ever scanned again.

mod argument_roles;
mod audit;
mod citation;
mod config;
mod decode;
mod encode;
mod error;
mod handle_table;
mod handles_in_text;
mod identity;
mod json_text;
mod known_values;
mod leaks;
mod policy;
mod prompt;
mod registry;
mod resource_search;
mod session;
mod settings;
mod syntax;
mod tables;
mod uri;
mod view;

pub use audit::{CallAudit, ContextObserver, ModelPayload};
pub use citation::{CitationFormat, CitedSource};
pub use config::{KindRoles, Limits, PrivateSpace, RegistryConfig, ResourcePattern, SourceKind, TextForm};
pub use decode::{ArgumentResolution, ModelReply, ModelToolCall, StreamDecoder};
pub use error::ContextError;
pub use handle_table::{HandleStreamDecoder, HandleTable};
pub use leaks::{IdentifierLeak, summarize_leaks};
pub use policy::{KeySpace, RoutingKey, ToolPolicy};
pub use registry::{Evidence, Registry, SourceRef};
pub use session::ContextOptions;
pub use view::{Renderer, ResultView, Tag};
