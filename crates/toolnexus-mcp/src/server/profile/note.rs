//! Telling the host of calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use toolnexus_core::{Tool, ToolSource};

/// Told of each call of a served tool, once, when it has ended. A panic in it changes nothing.
pub type OnCall = Arc<dyn Fn(OnCallEvent) + Send + Sync>;

/// A call of a served tool has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnCallEvent {
    /// The tool's name.
    pub name: String,
    /// Where the tool came from.
    pub source: ToolSource,
    /// How long it ran, in milliseconds.
    pub ms: u64,
    /// Whether it failed: also when its caller went away before it had ended.
    pub is_error: bool,
}

/// A call that the host is told of when this is dropped, however it ends.
pub(super) struct CallNote {
    on_call: Option<OnCall>,
    name: String,
    source: ToolSource,
    began: Instant,
    failed: bool,
}

impl CallNote {
    pub(super) fn new(on_call: Option<&OnCall>, tool: &Tool) -> Self {
        CallNote {
            on_call: on_call.cloned(),
            name: tool.name.clone(),
            source: tool.source,
            began: Instant::now(),
            failed: true,
        }
    }

    /// The call has a result.
    pub(super) fn ended(mut self, is_error: bool) {
        self.failed = is_error;
    }
}

impl Drop for CallNote {
    fn drop(&mut self) {
        let Some(on_call) = self.on_call.take() else { return };
        let event = OnCallEvent {
            name: std::mem::take(&mut self.name),
            source: self.source,
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            is_error: self.failed,
        };
        let told = catch_unwind(AssertUnwindSafe(|| on_call(event)));
        if told.is_err() {
            tracing::warn!("[toolnexus] on_call panicked; the call it was told of goes on");
        }
    }
}
