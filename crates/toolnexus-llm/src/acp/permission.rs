//! What an agent asks permission for, and the answer it gets.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AcpOptions, OnPermission};

/// A request for permission.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// What may be chosen, in the agent's order.
    pub options: Vec<PermissionOption>,
    /// What the agent is about to do, as it says it.
    pub tool_call: Value,
}

/// One way to answer a request for permission.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PermissionOption {
    /// The id that chooses it.
    #[serde(rename = "optionId")]
    pub id: String,
    /// What people read.
    #[serde(default)]
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    #[serde(default)]
    pub kind: String,
}

impl PermissionRequest {
    pub(super) fn read(params: &Value) -> Self {
        let entries = params.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        PermissionRequest {
            options: entries.iter().filter_map(|entry| PermissionOption::deserialize(entry).ok()).collect(),
            tool_call: params.get("toolCall").cloned().unwrap_or_default(),
        }
    }
}

/// Who answers.
#[derive(Clone)]
pub(super) enum Permissions {
    Asked(OnPermission),
    Allowed,
    Refused,
}

impl Permissions {
    pub(super) fn of(options: &AcpOptions) -> Self {
        match &options.on_permission {
            Some(hook) => Permissions::Asked(hook.clone()),
            None if options.auto_answer_permission => Permissions::Allowed,
            None => Permissions::Refused,
        }
    }

    /// The id of the option that is chosen.
    pub(super) async fn decide(&self, request: PermissionRequest) -> Option<String> {
        match self {
            Permissions::Refused => None,
            Permissions::Allowed => request
                .options
                .into_iter()
                .find(|option| option.kind.starts_with("allow"))
                .map(|option| option.id),
            Permissions::Asked(hook) => {
                let known: Vec<String> = request.options.iter().map(|option| option.id.clone()).collect();
                // The closure itself may panic before it has made a future.
                let asking = AssertUnwindSafe(async { hook(request).await }).catch_unwind();
                let Ok(chosen) = asking.await else {
                    tracing::warn!(
                        "[toolnexus] on_permission panicked: the request is answered as cancelled"
                    );
                    return None;
                };
                chosen.filter(|id| {
                    let is_known = known.contains(id);
                    if !is_known {
                        tracing::warn!(
                            "[toolnexus] on_permission chose \"{id}\", which is no option: the request is \
                             answered as cancelled"
                        );
                    }
                    is_known
                })
            }
        }
    }
}

/// The answer to a request, as the protocol spells it.
pub(super) fn outcome(chosen: Option<String>) -> Value {
    match chosen {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}
