//! The seam between a server's entry and the wire it is spoken to over.
//!
//! What is decided here, in this order, for every connection that is made:
//!
//! 1. [`select`]: a specification names a program or an address, never both and never neither.
//! 2. [`permit`]: a specification that did not come from the user is allowed by the host's [`Permit`]
//!    or not at all. It is asked inside [`connect`], before any process, name look-up or socket.
//! 3. The era: whether a session begins with a handshake or is ready at once; see [`Session`].
//! 4. The connection: an [`McpConnection`](crate::McpConnection), on which [`McpRequest`]s can be sent
//!    besides the calls of its tools.
//!
//! [`redact`] is how a specification may be shown; every error, log and `Debug` that echoes one goes
//! through it. A host with a wire of its own brings any rmcp
//! [`Transport`](rmcp::transport::Transport) to [`McpConnection::over`](crate::McpConnection::over).

mod connect;
mod error;
mod foreign;
mod permit;
mod redact;
mod request;
mod select;
mod session;
mod spec;

pub use connect::{ConnectContext, connect};
pub use error::SeamError;
pub use permit::{Permit, Target, permit};
pub use redact::{RedactedSpec, redact};
pub use request::McpRequest;
pub use rmcp;
pub use select::{TransportSpec, select};
pub use session::{Session, SessionMode};
pub use spec::{ServerSpec, SpecSource};

pub(crate) use permit::ask;
pub(crate) use redact::redacted;
