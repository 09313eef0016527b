//! One server, through the seam.

use tokio_util::task::TaskTracker;

use super::{SeamError, ServerSpec, select};
use crate::config::McpServerConfig;
use crate::connect::{BLOCKED, NO_HTTP_CLIENT};
use crate::failure::{McpFailure, McpFailureKind};
use crate::load::{load_server, until_ended};
use crate::options::{LoadMcpOptions, McpContext};
use crate::source::McpConnection;

/// What [`connect`] is done with. `Default` asks nobody and never ends early.
#[derive(Debug, Clone, Default)]
pub struct ConnectContext {
    /// Options as of a load: who answers the server, the era, what a child inherits. The gate and the
    /// origin of the specification win over those here.
    pub options: LoadMcpOptions,
    /// What ends connecting early.
    pub context: McpContext,
}

/// Connects one server and lists its tools: selects the transport, asks the gate, finds the era and
/// begins the session.
///
/// ```no_run
/// # async fn run() -> Result<(), toolnexus_mcp::transport::SeamError> {
/// use toolnexus_mcp::transport::{ConnectContext, ServerSpec, connect};
/// let spec = ServerSpec { name: "docs".into(), url: Some("https://example.com/mcp".into()), ..Default::default() };
/// let docs = connect(spec, ConnectContext::default()).await?;
/// println!("{} tools", docs.tools().len());
/// docs.close().await;
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`SeamError::InvalidSpec`], [`SeamError::Blocked`] and [`SeamError::NoHttpClient`] before anything
/// is contacted; [`SeamError::Ended`] when the context ends first; [`SeamError::Failed`] when the
/// server does. Nothing is left running then.
pub async fn connect(spec: ServerSpec, context: ConnectContext) -> Result<McpConnection, SeamError> {
    let spec = select(spec)?.spec().clone();
    let ConnectContext { mut options, context } = context;
    options.permit = spec.permit.clone().or(options.permit);
    let source = spec.source.clone();
    let server = McpServerConfig::from(spec);
    let tasks = TaskTracker::new();
    let connected = load_server(&server, &options, &tasks);
    let connection = until_ended(&context, &tasks, connected).await?;
    let Some(failure) = connection.error() else { return Ok(connection) };
    Err(refusal(failure, source).unwrap_or_else(|| failure.clone().into()))
}

/// The seam's own refusal behind a failure, if it was one.
fn refusal(failure: &McpFailure, source: super::SpecSource) -> Option<SeamError> {
    match (failure.kind(), failure.detail()) {
        (McpFailureKind::Config, Some(BLOCKED)) => Some(SeamError::Blocked(source)),
        (McpFailureKind::Config, Some(NO_HTTP_CLIENT)) => Some(SeamError::NoHttpClient),
        _ => None,
    }
}
