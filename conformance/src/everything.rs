//! The server that the conformance suite wants to meet, on [`mcp_handler`] as hosts have it.
//!
//! Names, texts and schemas in `tools`, `resources` and `prompts` are the suite's.

mod prompts;
mod resources;
mod tools;

use std::net::Ipv4Addr;
use std::sync::Arc;

use toolnexus::Toolkit;
use toolnexus::serve::{McpCompletion, McpHandler, McpHandlerOptions, mcp_handler};

/// A PNG of one red pixel, as base64.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// A WAV file without a sample, as base64.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// The running server. Dropping it ends it.
pub struct Everything {
    url: String,
    handler: McpHandler,
    serving: tokio::task::JoinHandle<()>,
}

impl Everything {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// No port, or options that the handler refuses.
    pub async fn start() -> Result<Self, String> {
        let toolkit = Toolkit::from_tools(tools::all());
        let handler = mcp_handler(&toolkit, options()).map_err(|error| error.to_string())?;
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let app = axum::Router::new().route_service("/mcp", handler.clone());
        let serving = tokio::spawn(async move {
            // It ends by being aborted only.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Everything { url: format!("http://{address}/mcp"), handler, serving })
    }

    /// Where it answers.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The handler behind it.
    pub fn handler(&self) -> &McpHandler {
        &self.handler
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn options() -> McpHandlerOptions {
    let versions = ["2025-11-25", "2025-06-18", "2025-03-26"];
    McpHandlerOptions {
        name: "toolnexus-conformance".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol_versions: versions.map(str::to_owned).to_vec(),
        list_resources: Some(Arc::new(|_, _| Box::pin(async { Ok(resources::all().into()) }))),
        list_resource_templates: Some(Arc::new(|_, _| Box::pin(async { Ok(resources::templates().into()) }))),
        read_resource: Some(Arc::new(|_, uri| Box::pin(async move { resources::read(&uri) }))),
        subscribe: Some(Arc::new(|_, _| Box::pin(async { Ok(()) }))),
        list_prompts: Some(Arc::new(|_, _| Box::pin(async { Ok(prompts::all().into()) }))),
        get_prompt: Some(Arc::new(|_, name, args| Box::pin(async move { prompts::get(&name, &args) }))),
        complete: Some(Arc::new(|_, request| {
            Box::pin(async move {
                let values = ["paris", "park", "party"].into_iter();
                let values: Vec<String> =
                    values.filter(|word| word.starts_with(&request.value)).map(str::to_owned).collect();
                Ok(McpCompletion { total: Some(values.len() as u64), values, has_more: false })
            })
        })),
        ..Default::default()
    }
}
