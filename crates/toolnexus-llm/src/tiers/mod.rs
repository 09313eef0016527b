//! Tool tiers: a model is shown a few tools and finds the others when it needs them.
//!
//! A toolkit of hundreds of tools costs thousands of tokens a turn, most of it for definitions
//! that a run never uses. With [`ToolTierOptions`] each tool has a [`ToolTier`], and a request
//! carries
//!
//! 1. the definitions of the *core* tools, sorted by name,
//! 2. `tool_search`, which finds definitions; its description names every other tool, the
//!    *listed* ones with a line about what they do, the *deferred* ones by name alone,
//! 3. `call_tool`, which calls any tool by its name.
//!
//! The array of tools must not change from one request to the next, or the provider's prompt cache
//! starts anew. So what is found is handed over as a tool *result*, and the division is worked out
//! once and frozen:
//!
//! ```text
//! Snapshot ─┐
//! Style ────┼─ TierPlan::of ──► TierPlan ──► tools_json()   the array of every request
//! options ──┘   │                  │
//!               └─ budget          ├──► tiers()             who is where
//!                                  └──► search(snapshot, …) ◄── tool_search's arguments
//! TierPlans: Toolkit ──► Arc<TierPlan>, until reset
//! inner_call: call_tool's arguments ──► the call that is meant
//! ```
//!
//! Nothing here does I/O or knows the driver. `plan` divides, `budget` demotes what is too much,
//! `meta` has the two tools, `search` answers the first of them and `inner_call` unwraps the other,
//! `plans` keeps what was worked out for each toolkit.

mod budget;
mod inner_call;
mod meta;
mod plan;
mod plans;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use inner_call::inner_call;
pub(crate) use meta::{CALL_TOOL, TOOL_SEARCH};
pub(crate) use plan::TierPlan;
pub(crate) use plans::TierPlans;

/// How often a tool has been used, by its name.
///
/// Asked once for each tool when a plan is made, and only under a budget. It must not ask the
/// client for that plan in turn.
pub type UsageCount = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

/// How many tokens a tool's definition costs, as the dialect spells it.
pub type CountTokens = Arc<dyn Fn(&Value) -> usize + Send + Sync>;

/// Which tools a model is shown, and which it finds by searching.
///
/// Every tool of a toolkit is in one tier: named in `core`, it is sent with every request; named in
/// `deferred`, a model reads its name; any other is listed with a line of its description. A name
/// in both is core, and a name that no tool has is ignored. All of them can be called.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_llm::ToolTierOptions;
/// let tiers = ToolTierOptions {
///     core: vec!["read".into(), "bash".into()],
///     // At most 5 % of the window are for tools; the least used give way first.
///     context_window: 200_000,
///     usage_count: Some(Arc::new(|name| if name == "bash" { 12 } else { 0 })),
///     ..Default::default()
/// };
/// assert_eq!(tiers.budget_tokens, 0);
/// ```
#[derive(Clone, Default)]
pub struct ToolTierOptions {
    /// The tools whose definitions are sent.
    pub core: Vec<String>,
    /// The tools of which a model is told the name alone.
    pub deferred: Vec<String>,
    /// The most tokens that the definitions in a request may cost, those of the two extra tools
    /// among them. 0: 5 % of `context_window`.
    pub budget_tokens: usize,
    /// The size of the model's context in tokens. 0 here and in `budget_tokens`: no budget.
    pub context_window: usize,
    /// Under a budget the least used tools are demoted first. `None`: none has been used.
    pub usage_count: Option<UsageCount>,
    /// What a definition costs. `None`: a quarter of the bytes of its JSON, rounded up.
    pub count_tokens: Option<CountTokens>,
}

impl std::fmt::Debug for ToolTierOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolTierOptions")
            .field("core", &self.core.len())
            .field("deferred", &self.deferred.len())
            .field("budget_tokens", &self.budget_tokens)
            .field("context_window", &self.context_window)
            .field("usage_count", &self.usage_count.is_some())
            .field("count_tokens", &self.count_tokens.is_some())
            .finish()
    }
}

impl ToolTierOptions {
    /// The most tokens of a request's tools; `None` without a budget.
    fn budget(&self) -> Option<usize> {
        match (self.budget_tokens, self.context_window) {
            (0, 0) => None,
            // A twentieth, rounded down.
            (0, window) => Some(window / 20),
            (budget, _) => Some(budget),
        }
    }
}

/// How much of a tool a model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolTier {
    /// Its definition, with every request.
    Core,
    /// Its name and the first line of its description.
    Listed,
    /// Its name.
    Deferred,
}

impl ToolTier {
    /// The spelling in listings: `core`, `listed`, `deferred`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolTier::Core => "core",
            ToolTier::Listed => "listed",
            ToolTier::Deferred => "deferred",
        }
    }
}

impl std::fmt::Display for ToolTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
