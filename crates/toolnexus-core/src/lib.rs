//! The vocabulary of toolnexus: what every other crate of the workspace speaks.
//!
//! * [`Tool`]: one callable, wherever it came from. Name, description, JSON schema,
//!   [`ToolSource`], optional [`ToolHints`], and an async execute function.
//! * [`ToolResult`] and [`ToolContext`]: what a call gives back and what it is given.
//! * [`Toolkit`]: a cheap clone over an atomically swapped snapshot of tools. Readers never
//!   lock; each snapshot keeps the serialised tool array of every [`Style`] it was asked for.
//! * [`Request`] and [`Answer`]: a tool asks somebody outside, somebody outside answers.
//! * [`define_tool`] and [`define_typed_tool`]: a function becomes a tool.
//! * [`adapters`]: the tool array in the shape each provider wants.
//! * [`content`]: images, files and audio, from where they lie to a provider's block.
//! * [`http`]: the seam through which model requests leave the process.
//!
//! Nothing here opens a socket or a process, and no file but one that a caller attaches.

pub mod adapters;
pub mod content;
mod context;
pub mod env;
pub mod http;
mod identity;
pub mod json;
mod naming;
mod native;
pub mod redact;
mod relay;
mod reporter;
mod result;
mod schema;
mod serve;
mod style;
mod suspended;
mod suspension;
mod tool;
mod toolkit;

pub use content::{ContentPart, PartKind};
pub use context::ToolContext;
pub use identity::Identity;
pub use naming::sanitize;
#[doc(hidden)]
pub use native::define_parsed_tool;
pub use native::{TypedToolFn, define_sync_tool, define_tool, define_typed_tool};
pub use relay::{
    RELAY_KIND, RelayCall, RelayResult, is_relay_request, merged_relay_requests, relay_answer,
    relay_calls_of, relay_result_for, relay_tool,
};
pub use reporter::{LogLevel, Reporter, Reports, ToolReport, UnknownLogLevel, report_channel};
pub use result::{IntoToolOutcome, IntoToolResult, Json, ToolResult};
pub use schema::schema_of;
pub use serve::ServeToolkit;
pub use style::Style;
pub use suspended::Suspended;
pub use suspension::{
    Answer, NotAString, Request, WaitFor, answer_declined, answer_output, answer_output_error,
    answer_output_value, auth_required, new_request_id, pending, pending_of, pending_with_output,
};
pub use tool::{Tool, ToolHints, ToolOrigin, ToolSource};
pub use toolkit::{Snapshot, SourceHandle, SourceStatus, Toolkit, ToolkitParts, WeakToolkit};

/// The error type of callbacks that a host writes: any error will do.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A boxed future that can move between threads, as callbacks return it.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;
