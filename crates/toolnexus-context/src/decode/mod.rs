//! From the model to everybody else: handles become identities.
//!
//! Text has one decoder, [`StreamDecoder`]; a whole text is fed to it at once, so that the two can never
//! differ. Arguments are walked as JSON, fail closed, in `arguments`.

mod arguments;
mod call;
mod scan;

pub(crate) use arguments::DecodedArguments;
pub use call::{ArgumentResolution, ModelReply, ModelToolCall};
pub(crate) use scan::Named;
pub use scan::StreamDecoder;
