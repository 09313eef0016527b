//! The server that the conformance suite wants to meet, on [`mcp_handler`] as hosts have it.
//!
//! Names, texts and schemas in `tools`, `resources` and `prompts` are the suite's.

mod prompts;
mod resources;
mod tools;

use std::sync::Arc;

use toolnexus::Toolkit;
use toolnexus::serve::{McpCompletion, McpHandlerOptions, ServeHandle, ServeOptions, mcp_handler};

/// A PNG of one red pixel, as base64.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// A WAV file without a sample, as base64.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// The running server. Dropping it ends it.
pub struct Everything(ServeHandle, String);

impl Everything {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// No port, or options that the handler refuses.
    pub async fn start() -> Result<Self, String> {
        let toolkit = Toolkit::from_tools(tools::all());
        let handler = mcp_handler(&toolkit, options()).map_err(|error| error.to_string())?;
        let options = ServeOptions { mcp_handler: Some(handler), ..Default::default() };
        let server = toolkit.serve("127.0.0.1:0", options).await.map_err(|error| error.to_string())?;
        let url = format!("{}/mcp", server.url);
        Ok(Everything(server, url))
    }

    /// Where it answers.
    pub fn url(&self) -> &str {
        &self.1
    }

    /// Ends it, and all that it runs.
    pub async fn stop(&self) {
        self.0.stop().await;
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
