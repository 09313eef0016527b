//! Short yes-or-no checks in front of tools.

use std::sync::Arc;

use toolnexus_core::ToolResult;

use super::{BeforeToolEvent, Hooks, ToolOverride};

/// Says why a call must not run. `None`, an empty text and `allow` let it run.
pub type Guardrail = Arc<dyn Fn(&BeforeToolEvent) -> Option<String> + Send + Sync>;

/// Guardrails as a hook: the first that denies a call wins, the tool does not run, and the model reads
/// `denied: <reason>`.
///
/// Put it in front of hooks of your own with [`chain_hooks`](crate::chain_hooks); those see only calls
/// that every guardrail allows.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_llm::{BeforeToolEvent, Guardrail, guardrails};
/// let no_shell: Guardrail =
///     Arc::new(|event: &BeforeToolEvent| (event.name == "bash").then(|| "no shell here".to_owned()));
/// let hooks = guardrails([no_shell]);
/// # assert!(hooks.before_tool.is_some());
/// ```
pub fn guardrails(guardrails: impl IntoIterator<Item = Guardrail>) -> Hooks {
    let guardrails: Arc<[Guardrail]> = guardrails.into_iter().collect();
    if guardrails.is_empty() {
        return Hooks::default();
    }
    Hooks::default().with_before_tool(move |event| {
        let guardrails = Arc::clone(&guardrails);
        async move {
            let denied = guardrails.iter().find_map(|guardrail| denial(guardrail(&event)));
            Ok(denied.map(|reason| ToolOverride::result(ToolResult::failure(format!("denied: {reason}")))))
        }
    })
}

fn denial(verdict: Option<String>) -> Option<String> {
    verdict.filter(|reason| !reason.is_empty() && reason != "allow")
}
