//! Who answers the suspended tools of a run.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Answer, BoxError, BoxFuture, Request, Toolkit, WaitFor};

use crate::ClientOptions;

/// The surroundings of a suspended call, as [`WaitForWithContext`] sees them.
#[derive(Debug, Clone)]
pub struct WaitForCtx {
    /// Fires when the run ends early: nobody waits for the answer any more.
    pub cancel: CancellationToken,
    /// The model's id for the call that asks.
    pub call_id: String,
    /// The model call that made it, from 0.
    pub turn: u32,
}

/// A [`WaitFor`] that is also told about the call, its run and its end.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_core::{Answer, Request};
/// use toolnexus_llm::{ClientOptions, WaitForCtx};
/// let options = ClientOptions {
///     wait_for_ctx: Some(Arc::new(|context: WaitForCtx, request: Request| {
///         Box::pin(async move {
///             tokio::select! {
///                 () = context.cancel.cancelled() => Err("nobody waits any more".into()),
///                 () = std::future::ready(()) => Ok(Answer { id: request.id, ok: true, ..Default::default() }),
///             }
///         })
///     })),
///     ..Default::default()
/// };
/// # assert!(options.wait_for_ctx.is_some());
/// ```
pub type WaitForWithContext =
    Arc<dyn Fn(WaitForCtx, Request) -> BoxFuture<'static, Result<Answer, BoxError>> + Send + Sync>;

/// The one resolver of a run.
#[derive(Clone)]
pub(crate) enum Resolver {
    Plain(WaitFor),
    WithContext(WaitForWithContext),
}

impl Resolver {
    /// The client's, else the toolkit's.
    pub(crate) fn of(options: &ClientOptions, toolkit: &Toolkit) -> Option<Self> {
        let with_context = options.wait_for_ctx.clone().map(Resolver::WithContext);
        with_context.or_else(|| options.wait_for.clone().or_else(|| toolkit.wait_for()).map(Resolver::Plain))
    }

    /// Asks. A panic is the resolver's error.
    pub(crate) async fn ask(&self, context: WaitForCtx, request: Request) -> Result<Answer, BoxError> {
        // The closure itself may panic before it has made a future, so it is called inside.
        let answer = AssertUnwindSafe(async {
            match self {
                Resolver::Plain(wait_for) => wait_for(request).await,
                Resolver::WithContext(wait_for) => wait_for(context, request).await,
            }
        });
        answer.catch_unwind().await.unwrap_or_else(|_| Err("the resolver panicked".into()))
    }
}
