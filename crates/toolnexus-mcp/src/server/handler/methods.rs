//! What a handler does for each method but `tools/call`.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolnexus_core::LogLevel;

use super::Shared;
use super::guard::{guarded, refusal};
use super::hooks::{
    McpCallContext, McpCompletionReference, McpCompletionRequest, McpHookWith, McpServerDetails,
};
use super::resources::McpPage;
use super::session::Session;
use crate::server::describe::{Detail, ToolEntry};
use crate::server::message::RpcError;

/// How many suggestions the protocol allows in one answer.
const MAX_SUGGESTIONS: usize = 100;

/// The result of a request, written once.
pub(super) type Outcome = Result<Box<RawValue>, RpcError>;

/// One request.
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Option<Arc<Session>>,
    pub(super) context: McpCallContext,
    pub(super) params: Map<String, Value>,
}

fn written(result: &impl Serialize) -> Outcome {
    serde_json::value::to_raw_value(result).map_err(RpcError::internal)
}

fn nothing() -> Outcome {
    written(&json!({}))
}

impl Asked {
    /// Carries out the request.
    pub(super) async fn carry_out(mut self, method: &str) -> Outcome {
        let shared = Arc::clone(&self.shared);
        let options = &shared.options;
        match method {
            "ping" => nothing(),
            "tools/list" => self.list_tools().await,
            "logging/setLevel" if self.session.is_some() => self.set_level(),
            "resources/list" => {
                self.page(options.list_resources.as_ref(), "list_resources", "resources").await
            }
            "resources/templates/list" => {
                let hook = options.list_resource_templates.as_ref();
                // A server with resources has templates too: none.
                if hook.is_none() && options.has_resources() {
                    return written(&json!({"resourceTemplates": []}));
                }
                self.page(hook, "list_resource_templates", "resourceTemplates").await
            }
            "resources/read" => {
                let hook = options.read_resource.as_ref().ok_or_else(RpcError::method_not_found)?;
                let uri = self.text("uri")?;
                let contents = guarded(|| hook(self.context, uri)).await;
                let contents = contents.map_err(|error| refusal("read_resource", &error))?;
                written(&json!({"contents": contents}))
            }
            "resources/subscribe" => self.subscribe().await,
            "resources/unsubscribe" => self.unsubscribe().await,
            "prompts/list" => self.page(options.list_prompts.as_ref(), "list_prompts", "prompts").await,
            "prompts/get" => {
                let hook = options.get_prompt.as_ref().ok_or_else(RpcError::method_not_found)?;
                let name = self.text("name")?;
                let arguments = self.object("arguments")?;
                let prompt = guarded(|| hook(self.context, name, arguments)).await;
                written(&prompt.map_err(|error| refusal("get_prompt", &error))?)
            }
            "completion/complete" => self.complete().await,
            _ => Err(RpcError::method_not_found()),
        }
    }

    async fn list_tools(self) -> Outcome {
        let entries = |tools: &mut dyn Iterator<Item = &toolnexus_core::Tool>| {
            let tools: Vec<_> = tools.map(|tool| ToolEntry(tool, Detail::Rich)).collect();
            written(&Tools { tools })
        };
        if let Some(hook) = &self.shared.options.list_tools {
            let tools = guarded(|| hook(self.context.clone())).await;
            let tools = tools.map_err(|error| refusal("list_tools", &error))?;
            return entries(&mut tools.iter());
        }
        let snapshot = self.shared.toolkit.snapshot();
        let mut tools: Vec<_> = snapshot.tools().iter().map(|tool| &**tool).collect();
        tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        entries(&mut tools.into_iter())
    }

    fn set_level(self) -> Outcome {
        let level = self.params.get("level").and_then(Value::as_str).unwrap_or_default();
        let level: LogLevel = level
            .parse()
            .map_err(|error: toolnexus_core::UnknownLogLevel| RpcError::invalid_params(error.to_string()))?;
        if let Some(session) = &self.session {
            session.set_level(level);
        }
        nothing()
    }

    async fn page<T: Serialize>(
        self,
        hook: Option<&McpHookWith<Option<String>, McpPage<T>>>,
        name: &'static str,
        key: &'static str,
    ) -> Outcome {
        let hook = hook.ok_or_else(RpcError::method_not_found)?;
        let cursor = match self.params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor.clone()),
            Some(_) => return Err(RpcError::invalid_params("cursor must be a string")),
        };
        let page = guarded(|| hook(self.context, cursor)).await;
        let page = page.map_err(|error| refusal(name, &error))?;
        let mut result = json!({key: page.items});
        if let (Some(next), Value::Object(result)) = (page.next_cursor, &mut result) {
            result.insert("nextCursor".into(), next.into());
        }
        written(&result)
    }

    async fn subscribe(mut self) -> Outcome {
        let (Some(session), Some(hook)) = (self.session.clone(), self.shared.options.subscribe.clone())
        else {
            return Err(RpcError::method_not_found());
        };
        let uri = self.text("uri")?;
        guarded(|| hook(self.context, uri.clone())).await.map_err(|error| refusal("subscribe", &error))?;
        if session.subscribe(uri) {
            nothing()
        } else {
            Err(RpcError::invalid_params("too many subscriptions"))
        }
    }

    async fn unsubscribe(mut self) -> Outcome {
        let options = &Arc::clone(&self.shared).options;
        let (Some(session), Some(_)) = (self.session.clone(), &options.subscribe) else {
            return Err(RpcError::method_not_found());
        };
        let uri = self.text("uri")?;
        session.unsubscribe(&uri);
        if let Some(hook) = &options.unsubscribe {
            guarded(|| hook(self.context, uri)).await.map_err(|error| refusal("unsubscribe", &error))?;
        }
        nothing()
    }

    async fn complete(mut self) -> Outcome {
        let hook = self.shared.options.complete.clone().ok_or_else(RpcError::method_not_found)?;
        let reference = self.object("ref")?;
        let text = |key: &str| reference.get(key).and_then(Value::as_str).map(str::to_owned);
        let reference = match (text("type").as_deref(), text("name"), text("uri")) {
            (Some("ref/prompt"), Some(name), _) => McpCompletionReference::Prompt(name),
            (Some("ref/resource"), _, Some(uri)) => McpCompletionReference::Resource(uri),
            _ => return Err(RpcError::invalid_params("ref must be a ref/prompt or a ref/resource")),
        };
        let mut argument = self.object("argument")?;
        let (Some(Value::String(name)), Some(Value::String(value))) =
            (argument.remove("name"), argument.remove("value"))
        else {
            return Err(RpcError::invalid_params("argument must have a name and a value"));
        };
        let arguments = match self.object("context")?.remove("arguments") {
            Some(Value::Object(arguments)) => arguments,
            _ => Map::new(),
        };
        let request = McpCompletionRequest { reference, argument: name, value, arguments };
        let completion = guarded(|| hook(self.context, request)).await;
        let mut completion = completion.map_err(|error| refusal("complete", &error))?;
        if completion.values.len() > MAX_SUGGESTIONS {
            completion.values.truncate(MAX_SUGGESTIONS);
            completion.has_more = true;
        }
        let mut found = json!({"values": completion.values, "hasMore": completion.has_more});
        if let (Some(total), Value::Object(found)) = (completion.total, &mut found) {
            found.insert("total".into(), total.into());
        }
        written(&json!({"completion": found}))
    }

    /// A text that the request must have.
    fn text(&mut self, key: &'static str) -> Result<String, RpcError> {
        match self.params.remove(key) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(RpcError::invalid_params(format!("{key} must be a string"))),
        }
    }

    /// An object that the request may have.
    fn object(&mut self, key: &'static str) -> Result<Map<String, Value>, RpcError> {
        match self.params.remove(key) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object),
            Some(_) => Err(RpcError::invalid_params(format!("{key} must be an object"))),
        }
    }
}

#[derive(Serialize)]
struct Tools<'a> {
    tools: Vec<ToolEntry<'a>>,
}

impl Shared {
    /// The result of `initialize`.
    pub(super) async fn introduction(&self, context: McpCallContext, version: &str) -> Outcome {
        let options = &self.options;
        let details = match &options.server_info {
            None => McpServerDetails::default(),
            Some(hook) => {
                let details = guarded(|| hook(context)).await;
                details.map_err(|error| refusal("server_info", &error))?
            }
        };
        let mut info = Map::new();
        info.insert("name".into(), details.name.unwrap_or_else(|| options.name().to_owned()).into());
        if let Some(title) = details.title.or_else(|| options.title.clone()) {
            info.insert("title".into(), title.into());
        }
        info.insert("version".into(), details.version.unwrap_or_else(|| options.version().to_owned()).into());

        let mut result = Map::new();
        result.insert("protocolVersion".into(), version.into());
        result.insert("capabilities".into(), self.capabilities().into());
        result.insert("serverInfo".into(), info.into());
        if let Some(instructions) = details.instructions.or_else(|| options.instructions.clone()) {
            result.insert("instructions".into(), instructions.into());
        }
        written(&result)
    }

    fn capabilities(&self) -> Map<String, Value> {
        let options = &self.options;
        // Whoever has no stream of its own hears of no change.
        let heard: &[&str] = if options.stateless { &[] } else { &["listChanged"] };
        let with = |flags: &[&str]| -> Map<String, Value> {
            flags.iter().map(|flag| ((*flag).to_owned(), Value::Bool(true))).collect()
        };
        let mut capabilities = Map::new();
        capabilities.insert("tools".into(), with(&["listChanged"]).into());
        if !options.stateless {
            capabilities.insert("logging".into(), with(&[]).into());
        }
        if options.has_resources() {
            let subscribe = !options.stateless && options.subscribe.is_some();
            let flags = if subscribe { &["subscribe", "listChanged"] } else { heard };
            capabilities.insert("resources".into(), with(flags).into());
        }
        if options.has_prompts() {
            capabilities.insert("prompts".into(), with(heard).into());
        }
        if options.complete.is_some() {
            capabilities.insert("completions".into(), with(&[]).into());
        }
        capabilities
    }
}
