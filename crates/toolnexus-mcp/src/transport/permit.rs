//! Whether a specification may be used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt as _;
use toolnexus_core::BoxFuture;

use super::{SeamError, ServerSpec, SpecSource, redact};

/// What a gate decides on. `Debug` shows it redacted.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The address to be contacted, as it was given.
    Url(String),
    /// The program to be started and its arguments.
    Command(Vec<String>),
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Url(url) => f.debug_tuple("Url").field(&redact::url(url)).finish(),
            Target::Command(command) => {
                let shown = redact(&ServerSpec { command: command.clone(), ..Default::default() });
                f.debug_tuple("Command").field(&shown.command).field(&shown.args).finish()
            }
        }
    }
}

type Gate = dyn Fn(Target) -> BoxFuture<'static, bool> + Send + Sync;

/// The host's word on specifications that are not the user's own. It may ask a person: no time limit
/// is put on it, and it ends with the load. Clones are the same gate.
///
/// ```
/// use toolnexus_mcp::transport::{Permit, Target};
/// let only_home = Permit::new(|target| async move {
///     match target {
///         Target::Url(url) if url.starts_with("https://tools.example.com/") => Ok(()),
///         _ => Err("not one of ours"),
///     }
/// });
/// ```
#[derive(Clone)]
pub struct Permit(Arc<Gate>);

impl Permit {
    /// A gate out of an async function: `Ok` allows, `Err` refuses. The reason of a refusal goes no
    /// further. A panic refuses.
    pub fn new<F, Fut, E>(gate: F) -> Self
    where
        F: Fn(Target) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: 'static,
    {
        Permit(Arc::new(move |target| Box::pin(gate(target).map(|answer| answer.is_ok()))))
    }

    async fn allows(&self, target: Target) -> bool {
        let Ok(asked) = catch_unwind(AssertUnwindSafe(|| (self.0)(target))) else { return false };
        AssertUnwindSafe(asked).catch_unwind().await.unwrap_or(false)
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permit(..)")
    }
}

/// Asks whether a specification may be used for `target`. The user's own always may, and the gate is
/// not asked. Any other needs the specification's gate to allow it.
///
/// # Errors
/// [`SeamError::Blocked`], whatever the gate's reason, or when there is no gate.
pub async fn permit(spec: &ServerSpec, target: &Target) -> Result<(), SeamError> {
    ask(&spec.source, spec.permit.as_ref(), || target.clone()).await
}

pub(crate) async fn ask(
    source: &SpecSource,
    gate: Option<&Permit>,
    target: impl FnOnce() -> Target,
) -> Result<(), SeamError> {
    if *source == SpecSource::User {
        return Ok(());
    }
    match gate {
        Some(gate) if gate.allows(target()).await => Ok(()),
        _ => Err(SeamError::Blocked(source.clone())),
    }
}
