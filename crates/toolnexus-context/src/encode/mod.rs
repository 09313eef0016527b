//! From everybody else to the model: identities become handles, on copies.
//!
//! * `text`: resources, durable URIs, public citations and known values in a text.
//! * `arguments`: replayed arguments, the inverse of decoding.
//! * `messages`: a transcript in any style, in the order that makes numbering deterministic.
//! * `system`: the system text of styles that send it apart, and the protocol prompt.
//! * `signed`: what a provider signed, which goes back as the model wrote it.
//! * `body`: an assembled request, for hosts with a loop of their own.
//! * `routing`: tool definitions, directories and text that name places to route to.

mod arguments;
mod body;
mod citations;
mod messages;
mod routing;
mod signed;
mod system;
mod text;

pub(crate) use messages::{CallNames, Surroundings, Views};
pub(crate) use signed::SignedBlocks;
