//! An HTTP endpoint as a tool.
//!
//! [`http_tool`] turns a declaration into a [`Tool`]. One call goes through these steps, a file for
//! each:
//!
//! ```text
//! arguments ─▶ template  placeholders of the URL, then its query     ─┐
//!           ─▶ request   body, headers, content type                  ├▶ Outgoing
//!                                                                    ─┘      │
//!                                        outbound  policy, redirects, limits ▼
//! ToolResult ◀─ answer  charset, cut, result mode ◀──────────────────── status + bytes
//! ```
//!
//! Arguments are consumed in that order, each once; what has nowhere to go is dropped. Nothing a
//! model says can change the host, the port or the number of path segments beyond what the
//! declaration leaves open, and nothing that comes back is larger than the declaration allows.
//!
//! Building never fails: what is wrong with a declaration shows at the call, as a failure that names
//! the tool.

mod answer;
mod encode;
mod options;
mod request;
mod template;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolnexus_core::{Tool, ToolContext, ToolResult, ToolSource};

pub use options::{HttpBody, HttpToolOptions, ResultMode, UnknownOption};
pub use request::InvalidCall;

use crate::outbound::{Failed, Outbound, bounded};

/// A tool that calls an HTTP endpoint.
///
/// The model's arguments fill the URL's placeholders, then the query, then the body. Header values
/// may refer to environment variables as `${NAME}`; they are read at each call and appear in no log,
/// error, result or `Debug` output. What a server sends back is the server's text: one that echoes
/// its request headers shows them to the model.
///
/// ```
/// use toolnexus_tools::{HttpToolOptions, http_tool};
/// let comment = http_tool(HttpToolOptions {
///     name: "add_comment".into(),
///     description: "Adds a comment to an issue".into(),
///     method: "POST".into(),
///     url: "https://api.example.com/issues/{issue}/comments".into(),
///     headers: [("Authorization".into(), "Bearer ${ISSUES_TOKEN}".into())].into(),
///     input_schema: Some(serde_json::json!({
///         "type": "object",
///         "properties": {"issue": {"type": "string"}, "text": {"type": "string"}},
///         "required": ["issue", "text"],
///     })),
///     ..Default::default()
/// });
/// assert_eq!(comment.source.as_str(), "http");
/// ```
pub fn http_tool(options: HttpToolOptions) -> Tool {
    warn_of(&options);
    let name = options.name.clone();
    let description = options.description.clone();
    let schema = options.input_schema.clone().unwrap_or_default();
    let endpoint = Arc::new(Endpoint { outbound: Outbound::new(&options.hosts), options });
    Tool::new(name, move |args, context| {
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.call(args, context).await }
    })
    .description(description)
    .source(ToolSource::Http)
    .input_schema(schema)
}

/// What can be said before any call.
fn warn_of(options: &HttpToolOptions) {
    let name = &options.name;
    let sendable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(sendable) {
        tracing::warn!(
            "[toolnexus] http tool \"{name}\": providers refuse this name; use 1 to 64 of A-Z, a-z, 0-9, _ and -"
        );
    }
    for header in options.headers.keys().filter(|header| request::is_framing(header)) {
        tracing::warn!(
            "[toolnexus] http tool \"{name}\": header \"{header}\" is left out; it belongs to the connection"
        );
    }
}

struct Endpoint {
    options: HttpToolOptions,
    outbound: Outbound,
}

impl Endpoint {
    async fn call(&self, args: Value, context: ToolContext) -> ToolResult {
        let args = match args {
            Value::Object(args) => args,
            _ => Map::new(),
        };
        let prepared = match request::prepare(&self.options, args, &context) {
            Ok(prepared) => prepared,
            Err(reason) => return ToolResult::failure(reason),
        };
        let limit = Duration::from_millis(context.timeout_ms.unwrap_or(self.options.own_timeout_ms()));
        let exchange = async {
            let arrival = self.outbound.open(prepared).await?;
            arrival.read(self.options.response_limit(), |_, _| {}).await
        };
        match bounded(&context.cancel, limit, exchange).await {
            Ok(answer) => answer::result(&answer, self.options.result_mode),
            Err(failed) => self.failure(&failed),
        }
    }

    fn failure(&self, failed: &Failed) -> ToolResult {
        let kind = failed.kind();
        let output = match failed {
            Failed::Policy(bad) => {
                let (pattern, name) = (&bad.pattern, &self.options.name);
                return ToolResult::failure(format!(
                    "invalid host pattern \"{pattern}\" for tool \"{name}\""
                ));
            }
            Failed::Denied { .. } => failed.to_string(),
            _ => format!("HTTP transport failure: {kind}"),
        };
        let mut metadata = Map::from_iter([("error".to_owned(), kind.into())]);
        if let Failed::Body { status, .. } = failed {
            metadata.insert("status".to_owned(), status.as_u16().into());
        }
        ToolResult::failure(output).with_metadata(metadata)
    }
}
