//! Answering `tool_search`.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Map, Value};
use toolnexus_core::{Snapshot, Tool, ToolResult};

use super::TierPlan;
use super::meta::is_reserved;

/// How many tools keywords find when the model does not say.
const DEFAULT_LIMIT: usize = 5;

/// What a keyword is worth in a name, and in a description.
const IN_NAME: u32 = 3;
const IN_DESCRIPTION: u32 = 1;

/// A tool as a search finds it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

impl TierPlan {
    /// Answers a call of `tool_search` with definitions. `snapshot` is the toolkit's present one:
    /// what was registered after the plan was made is found too.
    pub(crate) fn search(&self, snapshot: &Snapshot, args: &Map<String, Value>) -> ToolResult {
        let query = args.get("query").and_then(Value::as_str).unwrap_or_default().trim();
        if query.is_empty() {
            return ToolResult::failure("tool_search needs a query");
        }
        let found = match query.strip_prefix("select:") {
            Some(names) => selected(snapshot, names),
            None => self.matching(snapshot, query, limit(args.get("limit"))),
        };
        let definitions: Vec<Definition<'_>> = found
            .into_iter()
            .map(|tool| Definition {
                name: &tool.name,
                description: &tool.description,
                input_schema: &tool.input_schema,
            })
            .collect();
        match serde_json::to_string(&definitions) {
            Ok(json) => ToolResult::success(json),
            Err(error) => ToolResult::failure(format!("the definitions cannot be written: {error}")),
        }
    }

    /// The tools that keywords fit best. Those whose definitions the model has are left out.
    fn matching<'a>(&self, snapshot: &'a Snapshot, query: &str, limit: usize) -> Vec<&'a Tool> {
        let keywords: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut scored: Vec<(Reverse<u32>, &str, &Tool)> = snapshot
            .tools()
            .iter()
            .filter(|tool| !is_reserved(&tool.name) && !self.is_core(&tool.name))
            .map(|tool| (Reverse(score(tool, &keywords)), tool.name.as_str(), &**tool))
            .filter(|(score, ..)| score.0 > 0)
            .collect();
        scored.sort_unstable_by_key(|(score, name, _)| (*score, *name));
        scored.into_iter().take(limit).map(|(.., tool)| tool).collect()
    }
}

/// The tools of these names, each once, in the order in which they are named.
fn selected<'a>(snapshot: &'a Snapshot, names: &str) -> Vec<&'a Tool> {
    let mut seen = HashSet::new();
    names
        .split(',')
        .map(str::trim)
        .filter(|name| !is_reserved(name) && seen.insert(*name))
        .filter_map(|name| snapshot.get(name).map(|tool| &**tool))
        .collect()
}

fn score(tool: &Tool, keywords: &[String]) -> u32 {
    let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
    let worth = |keyword: &String| {
        let in_name = if name.contains(keyword) { IN_NAME } else { 0 };
        let in_description = if description.contains(keyword) { IN_DESCRIPTION } else { 0 };
        in_name + in_description
    };
    keywords.iter().map(worth).fold(0, u32::saturating_add)
}

/// The limit as models write it: a number, or a number in a string.
fn limit(given: Option<&Value>) -> usize {
    let number = match given {
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => value.as_f64(),
        None => None,
    };
    match number {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        Some(number) if number >= 1.0 => number as usize,
        _ => DEFAULT_LIMIT,
    }
}
