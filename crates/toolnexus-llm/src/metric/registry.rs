//! Cumulative numbers, and their text in the Prometheus exposition format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolnexus_core::ToolSource;

use super::LlmStatus;

/// The upper bounds of the histograms' buckets in milliseconds, and how they are written in seconds.
const BUCKETS: [(u64, &str); 10] = [
    (50, "0.05"),
    (100, "0.1"),
    (250, "0.25"),
    (500, "0.5"),
    (1_000, "1"),
    (2_500, "2.5"),
    (5_000, "5"),
    (10_000, "10"),
    (30_000, "30"),
    (60_000, "60"),
];

/// How many names that models invented have a series of their own, and how long such a name may be:
/// series are kept for as long as their client.
const MOST_UNKNOWN_TOOLS: usize = 100;
const LONGEST_UNKNOWN_TOOL: usize = 128;

/// The series that all other invented names share.
const OTHER_UNKNOWN_TOOLS: &str = "(unknown)";

#[derive(Default)]
pub(crate) struct Registry(Mutex<Numbers>);

#[derive(Default)]
struct Numbers {
    models: BTreeMap<String, Model>,
    tools: BTreeMap<String, Tool>,
    /// How many of the tools' names models invented.
    unknown_tools: usize,
    prompt_tokens: u64,
    completion_tokens: u64,
    /// Whether any tokens were counted: a series that never was is not shown.
    tokens_counted: bool,
    run_errors: u64,
}

impl Numbers {
    /// The series of a name that a model invented: its own as long as there are few of them.
    fn unknown_tool<'n>(&mut self, name: &'n str) -> &'n str {
        if self.tools.contains_key(name) {
            return name;
        }
        if self.unknown_tools >= MOST_UNKNOWN_TOOLS || name.len() > LONGEST_UNKNOWN_TOOL {
            return OTHER_UNKNOWN_TOOLS;
        }
        self.unknown_tools += 1;
        name
    }
}

#[derive(Default)]
struct Model {
    ok: u64,
    errors: u64,
    durations: Histogram,
}

#[derive(Default)]
struct Tool {
    /// By source, failure and suspension: few of them, so they are looked through.
    calls: Vec<((&'static str, bool, bool), u64)>,
    durations: Histogram,
}

/// How often a duration lay at or under each bound, but over the one before.
#[derive(Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    count: u64,
    sum_ms: u64,
}

impl Histogram {
    fn observe(&mut self, ms: u64) {
        let bucket = BUCKETS.iter().position(|(bound, _)| ms <= *bound);
        if let Some(count) = bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            *count += 1;
        }
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    fn write(&self, out: &mut String, name: &str, label: &str) {
        let mut below = 0;
        for ((_, bound), count) in BUCKETS.iter().zip(self.counts) {
            below += count;
            line(out, format_args!("{name}_bucket{{{label},le=\"{bound}\"}} {below}"));
        }
        line(out, format_args!("{name}_bucket{{{label},le=\"+Inf\"}} {}", self.count));
        line(out, format_args!("{name}_sum{{{label}}} {}", Seconds(self.sum_ms)));
        line(out, format_args!("{name}_count{{{label}}} {}", self.count));
    }
}

/// Milliseconds as seconds, in the shortest decimal.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{rest:03}").trim_end_matches('0'))
    }
}

/// Changes the series of a key, whose name is copied for its first value alone.
fn change<V: Default>(series: &mut BTreeMap<String, V>, key: &str, change: impl FnOnce(&mut V)) {
    match series.get_mut(key) {
        Some(known) => change(known),
        None => change(series.entry(key.to_owned()).or_default()),
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn llm(&self, model: &str, status: LlmStatus, ms: u64, prompt: u64, completion: u64) {
        let numbers = &mut *self.lock();
        if status == LlmStatus::Ok {
            numbers.tokens_counted = true;
            numbers.prompt_tokens = numbers.prompt_tokens.saturating_add(prompt);
            numbers.completion_tokens = numbers.completion_tokens.saturating_add(completion);
        }
        change(&mut numbers.models, model, |series| {
            series.durations.observe(ms);
            match status {
                LlmStatus::Ok => series.ok += 1,
                LlmStatus::Error => series.errors += 1,
            }
        });
    }

    pub(super) fn tool(
        &self,
        tool: &str,
        source: Option<ToolSource>,
        is_error: bool,
        ms: u64,
        pending: bool,
    ) {
        let numbers = &mut *self.lock();
        let name = if source.is_some() { tool } else { numbers.unknown_tool(tool) };
        change(&mut numbers.tools, name, |series| {
            let kind = (source.unwrap_or(ToolSource::Custom).as_str(), is_error, pending);
            match series.calls.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => series.calls.push((kind, 1)),
            }
            series.durations.observe(ms);
        });
    }

    pub(super) fn run_failed(&self) {
        self.lock().run_errors += 1;
    }

    /// Every metric with its help and type, also those without data; series in the order of their
    /// labels.
    pub(super) fn text(&self) -> String {
        let numbers = &*self.lock();
        let mut out = String::new();

        head(&mut out, "toolnexus_llm_requests_total", "Total LLM requests.", "counter");
        let mut series = Vec::new();
        for (model, counts) in &numbers.models {
            for (status, count) in [(LlmStatus::Ok, counts.ok), (LlmStatus::Error, counts.errors)] {
                if count > 0 {
                    series.push((
                        format!("model=\"{}\",status=\"{}\"", Escaped(model), status.as_str()),
                        count,
                    ));
                }
            }
        }
        counters(&mut out, "toolnexus_llm_requests_total", series);

        head(&mut out, "toolnexus_llm_tokens_total", "Total tokens, by type.", "counter");
        if numbers.tokens_counted {
            let types = [("completion", numbers.completion_tokens), ("prompt", numbers.prompt_tokens)];
            let series = types.map(|(kind, count)| (format!("type=\"{kind}\""), count));
            counters(&mut out, "toolnexus_llm_tokens_total", series.into());
        }

        let name = "toolnexus_llm_request_duration_seconds";
        head(&mut out, name, "LLM request duration in seconds.", "histogram");
        let models = numbers.models.iter().map(|(model, series)| ("model", model, &series.durations));
        histograms(&mut out, name, models);

        head(&mut out, "toolnexus_tool_calls_total", "Total tool calls.", "counter");
        let mut series = Vec::new();
        for (tool, counts) in &numbers.tools {
            for ((source, is_error, pending), count) in &counts.calls {
                let tool = Escaped(tool);
                let label = format!(
                    "tool=\"{tool}\",source=\"{source}\",is_error=\"{is_error}\",pending=\"{pending}\""
                );
                series.push((label, *count));
            }
        }
        counters(&mut out, "toolnexus_tool_calls_total", series);

        let name = "toolnexus_tool_duration_seconds";
        head(&mut out, name, "Tool execution duration in seconds.", "histogram");
        let tools = numbers.tools.iter().map(|(tool, series)| ("tool", tool, &series.durations));
        histograms(&mut out, name, tools);

        head(&mut out, "toolnexus_run_errors_total", "Total run errors.", "counter");
        if numbers.run_errors > 0 {
            line(&mut out, format_args!("toolnexus_run_errors_total {}", numbers.run_errors));
        }
        out
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string never fails.
    let _ = out.write_fmt(text);
    out.push('\n');
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    line(out, format_args!("# HELP {name} {help}"));
    line(out, format_args!("# TYPE {name} {kind}"));
}

fn counters(out: &mut String, name: &str, mut series: Vec<(String, u64)>) {
    series.sort_unstable();
    for (label, count) in series {
        line(out, format_args!("{name}{{{label}}} {count}"));
    }
}

fn histograms<'n>(
    out: &mut String,
    name: &str,
    series: impl Iterator<Item = (&'static str, &'n String, &'n Histogram)>,
) {
    let mut series: Vec<_> = series
        .map(|(label, value, durations)| (format!("{label}=\"{}\"", Escaped(value)), durations))
        .collect();
    series.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    for (label, durations) in series {
        durations.write(out, name, &label);
    }
}

/// A label's value between its quotes.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
