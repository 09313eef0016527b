//! The resources of servers as two tools, for whoever wants a model to see them.

use std::sync::Arc;

use futures::future::join_all;
use rmcp::model::{ClientRequest, ListResourcesRequest, ReadResourceRequest, ReadResourceRequestParams};
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolnexus_core::{Tool, ToolContext, ToolHints, ToolResult, ToolSource};
use tracing::Instrument as _;

use crate::call::failure;
use crate::failure::{Fault, McpPhase};
use crate::pages::{Listing, ListingLimits};
use crate::request::{Limits, span};
use crate::result::resource_result;
use crate::rounds;
use crate::slot::Slot;
use crate::source::McpConnection;

/// Resources that are shown; of more, only the number is.
const MAX_LISTED: usize = 1000;

/// What a server without resources answers.
const METHOD_NOT_FOUND: i64 = -32601;

const LISTING: Listing = Listing {
    phase: McpPhase::ListResources,
    key: "resources",
    request: |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
};

/// The tools `list_mcp_resources` and `read_mcp_resource`, always both and in this order, over a
/// source or a slice of its connections.
///
/// Nothing adds them by itself. They ask the servers anew with each call, within the limits of a call,
/// and read only. Loaded with [`create_toolkit`], servers are reached through `Toolkit::mcp()` and the
/// tools added with `Toolkit::register`.
///
/// ```
/// use toolnexus_mcp::{McpSource, resource_tools};
/// let names: Vec<String> = resource_tools(&McpSource::default()).into_iter().map(|tool| tool.name).collect();
/// assert_eq!(names, ["list_mcp_resources", "read_mcp_resource"]);
/// ```
///
/// [`create_toolkit`]: https://docs.rs/toolnexus
pub fn resource_tools<S: AsRef<[McpConnection]> + ?Sized>(source: &S) -> Vec<Tool> {
    let mut servers = source.as_ref().to_vec();
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    let servers = Arc::new(Servers(servers));
    vec![list_tool(Arc::clone(&servers)), read_tool(servers)]
}

fn list_tool(servers: Arc<Servers>) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "Name of one server. Default: every connected server."},
        },
    });
    tool("list_mcp_resources", move |args, context| {
        let servers = Arc::clone(&servers);
        async move { servers.list(&args, &context).await.unwrap_or_else(ToolResult::failure) }
    })
    .title("List MCP resources")
    .description(
        "Lists the resources that MCP servers offer, as a JSON array with the server and uri of each.",
    )
    .input_schema(schema)
}

fn read_tool(servers: Arc<Servers>) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "Name of the server that has the resource."},
            "uri": {"type": "string", "description": "URI of the resource, as listed."},
        },
        "required": ["server", "uri"],
    });
    tool("read_mcp_resource", move |args, context| {
        let servers = Arc::clone(&servers);
        async move { servers.read(&args, &context).await.unwrap_or_else(ToolResult::failure) }
    })
    .title("Read MCP resource")
    .description("Reads one resource of an MCP server.")
    .input_schema(schema)
}

fn tool<Done>(name: &str, execute: impl Fn(Value, ToolContext) -> Done + Send + Sync + 'static) -> Tool
where
    Done: Future<Output = ToolResult> + Send + 'static,
{
    let hints = ToolHints { read_only: true, open_world: true, idempotent: true, ..Default::default() };
    Tool::new(name, execute).source(ToolSource::Mcp).hints(hints)
}

/// The servers of the tools, by name.
struct Servers(Vec<McpConnection>);

/// One of them, with the limits of its calls.
struct Server<'a> {
    name: &'a str,
    slot: &'a Slot,
    limits: Limits,
}

impl Servers {
    async fn list(&self, args: &Value, context: &ToolContext) -> Result<ToolResult, String> {
        let connected = self.connected()?;
        let asked = match text(args, "server")? {
            Some(name) => vec![named(connected, name)?],
            None => connected,
        };
        let answers = join_all(asked.iter().map(|server| server.list(context))).await;
        if answers.iter().all(Result::is_err) {
            let failures: Vec<String> = answers.into_iter().filter_map(Result::err).collect();
            return Err(failures.join("\n"));
        }

        let mut listed: Vec<Listed<'_>> = Vec::new();
        let mut lines = Vec::new();
        let mut more = 0;
        for (server, answer) in asked.iter().zip(answers) {
            match answer {
                Ok(Resources { first, count }) => {
                    let room = MAX_LISTED - listed.len();
                    let shown = first.len().min(room);
                    more += count - shown;
                    listed.extend(
                        first.into_iter().take(room).map(|resource| Listed { resource, server: server.name }),
                    );
                }
                Err(failure) => lines.push(failure),
            }
        }
        lines.insert(0, serde_json::to_string(&listed).map_err(|error| error.to_string())?);
        if more > 0 {
            lines.push(format!("… {more} more"));
        }
        Ok(ToolResult::success(lines.join("\n")))
    }

    async fn read(&self, args: &Value, context: &ToolContext) -> Result<ToolResult, String> {
        let connected = self.connected()?;
        let name = text(args, "server")?.ok_or_else(|| missing("server"))?;
        let uri = text(args, "uri")?.ok_or_else(|| missing("uri"))?;
        let server = named(connected, name)?;
        let mut result = match server.read(uri, context).await {
            Ok(result) => result,
            Err(failure) => ToolResult::failure(failure),
        };
        result.metadata = Some(Map::from_iter([("server".to_owned(), Value::from(server.name))]));
        Ok(result)
    }

    fn connected(&self) -> Result<Vec<Server<'_>>, String> {
        let connected: Vec<Server<'_>> = self
            .0
            .iter()
            .filter_map(|connection| {
                let slot = connection.slot()?;
                Some(Server { name: connection.name(), slot, limits: slot.limits() })
            })
            .collect();
        if connected.is_empty() { Err("no MCP server is connected".to_owned()) } else { Ok(connected) }
    }
}

fn named<'a>(connected: Vec<Server<'a>>, name: &str) -> Result<Server<'a>, String> {
    let server = connected.into_iter().find(|server| server.name == name);
    server.ok_or_else(|| format!("unknown MCP server \"{name}\""))
}

fn text<'a>(args: &'a Value, key: &str) -> Result<Option<&'a str>, String> {
    match args.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("argument \"{key}\" must be a string")),
    }
}

fn missing(key: &str) -> String {
    format!("missing required argument \"{key}\"")
}

/// What a server lists.
#[derive(Default)]
struct Resources {
    /// The first of them: as many as are shown at all.
    first: Vec<Resource>,
    /// How many there are.
    count: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    resource: Resource,
    server: &'a str,
}

impl Resources {
    fn take(&mut self, entry: &Value, server: &str) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(uri) = text("uri") else {
            tracing::warn!("[toolnexus] server \"{server}\" lists a resource without a uri: skipped");
            return;
        };
        self.count += 1;
        if self.first.len() < MAX_LISTED {
            let (name, description, mime_type) = (text("name"), text("description"), text("mimeType"));
            self.first.push(Resource { uri, name, description, mime_type });
        }
    }
}

impl Server<'_> {
    async fn list(&self, context: &ToolContext) -> Result<Resources, String> {
        let mut resources = Resources::default();
        let page = self.limits.within(context);
        let limits = ListingLimits { page, whole: page.total };
        let listing =
            LISTING.each(self.slot, limits, Some(context), |entry| resources.take(&entry, self.name));
        match listing.await {
            Err(fault) if fault.rpc_code == Some(METHOD_NOT_FOUND) => Ok(Resources::default()),
            Err(fault) => Err(self.failed(fault, McpPhase::ListResources)),
            Ok(()) => Ok(resources),
        }
    }

    async fn read(&self, uri: &str, context: &ToolContext) -> Result<ToolResult, String> {
        let span = span(self.name, McpPhase::ReadResource, None);
        let read = rounds::complete(self.slot, self.limits.within(context), context, |given, limits| {
            let mut params = ReadResourceRequestParams::new(uri);
            params.input_responses = given.responses;
            params.request_state = given.state;
            let read = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
            self.slot.request(read, None, limits, Some(context))
        });
        let read = read.instrument(span.clone()).await.and_then(|raw| resource_result(&raw));
        read.map_err(|fault| {
            span.record("error.type", fault.kind.as_str());
            self.failed(fault, McpPhase::ReadResource)
        })
    }

    fn failed(&self, fault: Fault, phase: McpPhase) -> String {
        failure(self.slot, fault, phase).to_string()
    }
}
