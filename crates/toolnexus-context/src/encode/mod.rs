//! From everybody else to the model: identities become handles, on copies.
//!
//! * `text`: resources, durable URIs, public citations and known values in a text.
//! * `arguments`: replayed arguments, the inverse of decoding.
//! * `messages`: a transcript in any style, in the order that makes numbering deterministic.
//! * `routing`: tool definitions, directories and text that name places to route to.

mod arguments;
mod citations;
mod messages;
mod routing;
mod text;

pub(crate) use messages::Views;
