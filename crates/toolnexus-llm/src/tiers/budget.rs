//! Demoting tools until what a request carries fits into a budget.
//!
//! The core tool that was used least becomes a listed one, until the definitions fit. When no core
//! tool is left, listed ones become deferred. Of tools used equally often the more expensive goes
//! first, then the one whose name sorts first.

use std::cmp::Reverse;

use serde_json::Value;
use toolnexus_core::{Style, adapters};

use super::plan::{Placed, search_tool};
use super::{CountTokens, ToolTier, ToolTierOptions, meta};

/// How many bytes of JSON count as a token.
const BYTES_PER_TOKEN: usize = 4;

/// Demotes tools until the core ones and the two extra tools cost no more than `budget`.
pub(super) fn demote(placed: &mut [Placed<'_>], style: Style, options: &ToolTierOptions, budget: usize) {
    let count = options.count_tokens.as_ref();
    let costs: Vec<usize> =
        placed.iter().map(|placed| tokens(count, &adapters::request_entry(style, placed.tool))).collect();
    let call_tool = tokens(count, &adapters::request_entry(style, &meta::call_tool()));
    let mut core = sum(&costs, placed);
    let mut search = SearchCost::of(placed, style, count);
    let mut total = core.saturating_add(call_tool).saturating_add(search.tokens(placed));
    if total <= budget {
        return;
    }
    for at in demotions(placed, &costs, options) {
        let (Some(victim), Some(cost)) = (placed.get_mut(at), costs.get(at)) else { continue };
        let before = victim.tier;
        victim.tier = match before {
            ToolTier::Core => ToolTier::Listed,
            ToolTier::Listed | ToolTier::Deferred => ToolTier::Deferred,
        };
        if before == ToolTier::Core {
            core = core.saturating_sub(*cost);
        }
        search.moved(victim, before);
        total = core.saturating_add(call_tool).saturating_add(search.tokens(placed));
        if total <= budget {
            return;
        }
    }
    tracing::warn!(
        "[toolnexus] tool tiers: the budget of {budget} tokens cannot be met, naming every tool costs {total}; \
         raise budget_tokens or context_window, or give the toolkit fewer tools"
    );
}

fn sum(costs: &[usize], placed: &[Placed<'_>]) -> usize {
    placed
        .iter()
        .zip(costs)
        .filter(|(placed, _)| placed.tier == ToolTier::Core)
        .fold(0, |sum, (_, cost)| sum.saturating_add(*cost))
}

/// Where the tools lie that are demoted, in the order in which they are: the core ones, then every
/// one that is listed by then.
fn demotions(placed: &[Placed<'_>], costs: &[usize], options: &ToolTierOptions) -> Vec<usize> {
    let usage = |name: &str| options.usage_count.as_ref().map_or(0, |count| count(name));
    // `placed` is sorted by name, which is the last of the criteria.
    let mut order: Vec<_> = placed
        .iter()
        .zip(costs)
        .enumerate()
        .filter(|(_, (placed, _))| placed.tier != ToolTier::Deferred)
        .map(|(at, (placed, cost))| (usage(&placed.tool.name), Reverse(*cost), at, placed.tier))
        .collect();
    order.sort_unstable();
    let core = order.iter().filter(|(.., tier)| *tier == ToolTier::Core).map(|(_, _, at, _)| *at);
    core.chain(order.iter().map(|(_, _, at, _)| *at)).collect()
}

/// What `tool_search` costs while its listing changes.
enum SearchCost<'a> {
    /// The host counts, and is shown the whole definition each time.
    Host { count: &'a CountTokens, style: Style },
    /// The size of the definition's JSON and the lines of its listing, kept up to date: writing a
    /// long listing anew for each demotion would take quadratic time.
    Bytes { bytes: usize, lines: usize },
}

impl<'a> SearchCost<'a> {
    fn of(placed: &[Placed<'_>], style: Style, count: Option<&'a CountTokens>) -> Self {
        match count {
            Some(count) => SearchCost::Host { count, style },
            None => SearchCost::Bytes {
                bytes: json_bytes(&adapters::request_entry(style, &search_tool(placed))),
                lines: placed.iter().filter(|placed| placed.tier != ToolTier::Core).count(),
            },
        }
    }

    /// A tool is somewhere else than `before`.
    fn moved(&mut self, victim: &Placed<'_>, before: ToolTier) {
        let SearchCost::Bytes { bytes, lines } = self else { return };
        let written = |tier| match tier {
            ToolTier::Core => 0,
            // Inside a JSON string each character is written by itself, whatever stands around it.
            tier => string_bytes(&format!("\n{}", meta::line(victim.tool, tier))),
        };
        *bytes = (*bytes + written(victim.tier)).saturating_sub(written(before));
        if before == ToolTier::Core {
            if *lines == 0 {
                *bytes += string_bytes(meta::LISTING_HEADING);
            }
            *lines += 1;
        }
    }

    fn tokens(&self, placed: &[Placed<'_>]) -> usize {
        match self {
            SearchCost::Host { count, style } => {
                count(&adapters::request_entry(*style, &search_tool(placed)))
            }
            SearchCost::Bytes { bytes, .. } => bytes.div_ceil(BYTES_PER_TOKEN),
        }
    }
}

fn tokens(count: Option<&CountTokens>, definition: &Value) -> usize {
    match count {
        Some(count) => count(definition),
        None => json_bytes(definition).div_ceil(BYTES_PER_TOKEN),
    }
}

/// The size of compact JSON.
fn json_bytes(value: &Value) -> usize {
    let mut counter = Counter(0);
    // Nothing in a JSON value fails to be written, and the counter takes everything.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// The size of text inside a JSON string, without its quotes.
fn string_bytes(text: &str) -> usize {
    let mut counter = Counter(0);
    let _ = serde_json::to_writer(&mut counter, text);
    counter.0.saturating_sub(2)
}

/// Counts what is written to it.
struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolnexus_core::{Tool, ToolResult};

    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        Tool::new(name, |_, _| async { ToolResult::success("") }).description(description)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        // CLIENT-86: the cost that is kept up to date is that of the definition as it is sent
        #[test]
        fn the_running_cost_of_the_search_is_its_cost(
            descriptions in prop::collection::vec("(?s).{0,200}", 1..6),
            steps in prop::collection::vec(0..6_usize, 0..16),
            style in prop::sample::select(vec![Style::OpenAI, Style::Anthropic, Style::Gemini]),
        ) {
            let tools: Vec<Tool> = descriptions
                .iter()
                .enumerate()
                .map(|(at, description)| tool(&format!("t\"{at}"), description))
                .collect();
            let mut placed: Vec<Placed<'_>> =
                tools.iter().map(|tool| Placed { tool, tier: ToolTier::Core }).collect();
            let mut running = SearchCost::of(&placed, style, None);
            for step in steps {
                let at = step % placed.len();
                let before = placed[at].tier;
                placed[at].tier =
                    if before == ToolTier::Core { ToolTier::Listed } else { ToolTier::Deferred };
                running.moved(&placed[at], before);
                let sent = adapters::request_entry(style, &search_tool(&placed));
                prop_assert_eq!(running.tokens(&placed), sent.to_string().len().div_ceil(4));
            }
        }
    }
}
