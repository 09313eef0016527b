//! Calling what a host wrote: it may fail or panic, and neither gets further than here.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt as _;
use toolnexus_core::{BoxError, BoxFuture};

use super::hooks::McpHookError;
use crate::server::message::{INTERNAL_ERROR, RpcError};

/// What a hook gives, a panic in it being a failure.
pub(super) async fn guarded<R>(
    hook: impl FnOnce() -> BoxFuture<'static, Result<R, BoxError>>,
) -> Result<R, BoxError> {
    let future = catch_unwind(AssertUnwindSafe(hook)).map_err(|_| "it panicked")?;
    AssertUnwindSafe(future).catch_unwind().await.unwrap_or_else(|_| Err("it panicked".into()))
}

/// Calls something whose panic changes nothing. `None`: it panicked.
pub(super) fn contained<R>(call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// How a client is told that a hook failed: in the hook's words if those are meant for it.
pub(super) fn refusal(hook: &'static str, error: &BoxError) -> RpcError {
    if let Some(McpHookError { code, message, data }) = error.downcast_ref() {
        return RpcError { code: *code, message: message.clone().into(), data: data.clone() };
    }
    tracing::warn!("[toolnexus] mcp handler: {hook} failed: {error}");
    RpcError::new(INTERNAL_ERROR, "Internal error")
}
