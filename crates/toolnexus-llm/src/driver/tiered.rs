//! Calls under tool tiers: what the model asks of the two tools that stand for all others.

use std::sync::Arc;

use toolnexus_core::{Snapshot, Tool, ToolResult};

use super::Driver;
use crate::run::{Args, ModelCall};
use crate::tiers::{CALL_TOOL, TOOL_SEARCH, inner_call};

impl Driver {
    /// A `call_tool` becomes the call inside it, before anybody sees it. The provider knows it under
    /// its outer name and id.
    pub(super) fn unwrapped(&self, call: ModelCall) -> ModelCall {
        if self.tiers.is_none() || call.name != CALL_TOOL || call.invalid.is_some() {
            return call;
        }
        let inner = inner_call(&call.args);
        let (args, invalid) = match inner.args {
            Ok(args) => (Arc::new(args), None),
            Err(reason) => (Arc::default(), Some(reason)),
        };
        ModelCall { name: inner.name, args, invalid, via: Some(call.name), ..call }
    }

    /// The tool of a call. Under tiers the names of the two are the client's own.
    pub(super) fn tool_of(&self, name: &str, snapshot: &Snapshot) -> Option<Arc<Tool>> {
        let reserved = self.tiers.is_some() && (name == CALL_TOOL || name == TOOL_SEARCH);
        if reserved { None } else { snapshot.get(name).cloned() }
    }

    /// What a search for tools finds; `None` for any other call.
    pub(super) fn found(&self, name: &str, args: &Args, snapshot: &Snapshot) -> Option<ToolResult> {
        let plan = self.tiers.as_ref().filter(|_| name == TOOL_SEARCH)?;
        Some(plan.search(snapshot, args))
    }
}
