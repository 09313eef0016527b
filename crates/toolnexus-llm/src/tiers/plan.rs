//! Who is in which tier, and the tool array that follows from it.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use toolnexus_core::{Snapshot, Style, Tool, adapters};

use super::meta::{self, is_reserved};
use super::{ToolTier, ToolTierOptions, budget};

/// How the tools of one toolkit are divided, and the tools that requests carry because of it.
pub(crate) struct TierPlan {
    tiers: BTreeMap<String, ToolTier>,
    tools_json: Bytes,
}

/// A tool and its tier, while a plan is made.
pub(super) struct Placed<'a> {
    pub(super) tool: &'a Tool,
    pub(super) tier: ToolTier,
}

impl TierPlan {
    /// Divides the tools of a snapshot. A tool that has the name of one of the two extra tools is
    /// left out, with a warning.
    pub(crate) fn of(snapshot: &Snapshot, style: Style, options: &ToolTierOptions) -> Self {
        let mut placed = place(snapshot, options);
        if let Some(budget) = options.budget() {
            budget::demote(&mut placed, style, options, budget);
        }
        let tools_json = {
            let search = search_tool(&placed);
            let call = meta::call_tool();
            let core = placed.iter().filter(|placed| placed.tier == ToolTier::Core).map(|placed| placed.tool);
            adapters::request_json(style, core.chain([&search, &call])).into()
        };
        let tiers = placed.iter().map(|placed| (placed.tool.name.clone(), placed.tier)).collect();
        TierPlan { tiers, tools_json }
    }

    /// The tier of each tool, by name.
    pub(crate) fn tiers(&self) -> &BTreeMap<String, ToolTier> {
        &self.tiers
    }

    /// The tool array of every request: core tools by name, `tool_search`, `call_tool`.
    pub(crate) fn tools_json(&self) -> Bytes {
        self.tools_json.clone()
    }

    /// Whether a tool's definition is in the array.
    pub(super) fn is_core(&self, name: &str) -> bool {
        self.tiers.get(name) == Some(&ToolTier::Core)
    }
}

/// The tools sorted by name, each in the tier that the options name.
fn place<'a>(snapshot: &'a Snapshot, options: &ToolTierOptions) -> Vec<Placed<'a>> {
    let core: HashSet<&str> = options.core.iter().map(String::as_str).collect();
    let deferred: HashSet<&str> = options.deferred.iter().map(String::as_str).collect();
    let mut placed = Vec::with_capacity(snapshot.tools().len());
    for tool in snapshot.tools() {
        let name = tool.name.as_str();
        if is_reserved(name) {
            tracing::warn!(
                "[toolnexus] tool \"{name}\" ({}) is hidden: tool tiers have a tool of that name; rename it",
                tool.source
            );
            continue;
        }
        let tier = if core.contains(name) {
            ToolTier::Core
        } else if deferred.contains(name) {
            ToolTier::Deferred
        } else {
            ToolTier::Listed
        };
        placed.push(Placed { tool, tier });
    }
    placed.sort_unstable_by(|a, b| a.tool.name.cmp(&b.tool.name));
    placed
}

/// `tool_search` as it describes these tools.
pub(super) fn search_tool(placed: &[Placed<'_>]) -> Tool {
    let lines: Vec<String> = placed
        .iter()
        .filter(|placed| placed.tier != ToolTier::Core)
        .map(|placed| meta::line(placed.tool, placed.tier))
        .collect();
    meta::tool_search(lines.iter().map(String::as_str))
}
