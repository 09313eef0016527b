//! Ending a call's stream for a while, so that nobody has to hold a connection open for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use toolnexus_core::ToolContext;

use super::outlet::Outlet;

/// The stream of the call that a context is of.
#[derive(Clone)]
pub(super) struct CallStream(Weak<Outlet>);

impl CallStream {
    pub(super) fn new(outlet: &Arc<Outlet>) -> Self {
        CallStream(Arc::downgrade(outlet))
    }
}

/// Ends the event stream of the call for now and asks the client to come back after `retry` for the rest:
/// for work that takes long enough that a connection should not be held open for it.
///
/// The call goes on. What is reported, asked and answered in the meantime is kept for the client, at
/// most 256 messages; a client that stays away for five minutes cancels the call. False, and nothing
/// happens, when the client would not come back: outside a handler's session, with a protocol revision
/// before 2025-11-25, or when it does not accept event streams.
///
/// ```
/// use std::time::Duration;
/// use toolnexus_core::{ToolContext, define_tool};
/// use toolnexus_mcp::server::mcp_close_stream;
/// let report = define_tool("report", "Writes a long report", None, |_args, context: ToolContext| async move {
///     mcp_close_stream(&context, Duration::from_secs(10));
///     // … minutes of work …
///     Ok::<_, String>("done")
/// });
/// # assert_eq!(report.name, "report");
/// ```
pub fn mcp_close_stream(context: &ToolContext, retry: Duration) -> bool {
    let stream = context.extensions.get::<CallStream>();
    stream.and_then(|CallStream(outlet)| outlet.upgrade()).is_some_and(|outlet| outlet.release(retry))
}
