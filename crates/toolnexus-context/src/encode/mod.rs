//! From everybody else to the model: identities become handles, on copies.
//!
//! * `resources`: stored resources in a text, before anything else.
//! * `text`: durable URIs and known values in a text.
//! * `encoded`: what in a text is a handle or a durable URI already.
//! * `citations`: public citations in a text.
//! * `arguments`: replayed arguments, the inverse of decoding.
//! * `messages`: a transcript in any style, in the order that makes numbering deterministic.
//! * `system`: the system text of styles that send it apart, and the protocol prompt.
//! * `signed`: what a provider signed, which goes back as the model wrote it.
//! * `body`: an assembled request, for hosts with a loop of their own.
//! * `routing`: tool definitions, directories and text that name places to route to.

mod arguments;
mod body;
mod citations;
mod encoded;
mod messages;
mod resources;
mod routing;
mod signed;
mod system;
mod text;

pub(crate) use messages::{CallNames, Surroundings, Views};
pub(crate) use signed::SignedBlocks;
