//! The text of random numbers, read back and counted again.

use std::collections::BTreeMap;

use proptest::prelude::*;

use toolnexus_core::ToolSource;

use super::LlmStatus;
use super::registry::Registry;

/// One event, by the numbers.
#[derive(Debug, Clone)]
enum Noted {
    Llm { model: String, ok: bool, ms: u64, prompt: u64, completion: u64 },
    Tool { tool: String, source: ToolSource, is_error: bool, pending: bool, ms: u64 },
    RunFailed,
}

/// Names with everything that labels escape.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("gpt-x".to_owned()), "[a-b\\\\\"\n{},=é ]{0,4}"]
}

/// Durations around the bounds of the buckets.
fn ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..200_000u64,
        prop::sample::select(vec![0, 49, 50, 51, 100, 250, 251, 2_500, 60_000, 60_001, 1_230]),
    ]
}

fn noted() -> impl Strategy<Value = Noted> {
    prop_oneof![
        4 => (name(), any::<bool>(), ms(), 0..9_000u64, 0..9_000u64)
            .prop_map(|(model, ok, ms, prompt, completion)| Noted::Llm { model, ok, ms, prompt, completion }),
        4 => (name(), prop::sample::select(vec![ToolSource::Native, ToolSource::Mcp]), any::<bool>(), any::<bool>(), ms())
            .prop_map(|(tool, source, is_error, pending, ms)| Noted::Tool { tool, source, is_error, pending, ms }),
        1 => Just(Noted::RunFailed),
    ]
}

/// A sample: the metric's name, its labels in order, its value as written.
type Sample = (String, Vec<(String, String)>, String);

/// Reads a line as the exposition format says.
fn sample(line: &str) -> Sample {
    let Some((name, rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ').unwrap();
        return (name.to_owned(), Vec::new(), value.to_owned());
    };
    let mut labels = Vec::new();
    let mut rest = rest;
    loop {
        let (label, quoted) = rest.split_once("=\"").unwrap();
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next().unwrap() {
                (_, '\\') => value.push(match characters.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                (at, '"') => break at,
                (_, other) => value.push(other),
            }
        };
        labels.push((label.to_owned(), value));
        match quoted[end + 1..].split_at(1) {
            (",", more) => rest = more,
            ("}", value) => return (name.to_owned(), labels, value.trim_start().to_owned()),
            other => panic!("{other:?}"),
        }
    }
}

/// What the samples must be, each by its name and labels.
fn expected(events: &[Noted]) -> BTreeMap<(String, Vec<(String, String)>), String> {
    let mut counts: BTreeMap<(String, Vec<(String, String)>), u64> = BTreeMap::new();
    let mut sums: BTreeMap<(String, Vec<(String, String)>), u64> = BTreeMap::new();
    let key = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        (format!("toolnexus_{name}"), labels)
    };
    let mut observe = |counts: &mut BTreeMap<_, u64>, name: &str, label: &str, value: &str, ms: u64| {
        for bound in ["0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30", "60", "+Inf"] {
            let below = bound == "+Inf" || ms <= (bound.parse::<f64>().unwrap() * 1000.0) as u64;
            let bucket = key(&format!("{name}_bucket"), &[(label, value), ("le", bound)]);
            *counts.entry(bucket).or_default() += u64::from(below);
        }
        *counts.entry(key(&format!("{name}_count"), &[(label, value)])).or_default() += 1;
        *sums.entry(key(&format!("{name}_sum"), &[(label, value)])).or_default() += ms;
    };
    for event in events {
        match event {
            Noted::Llm { model, ok, ms, prompt, completion } => {
                let status = if *ok { "ok" } else { "error" };
                *counts
                    .entry(key("llm_requests_total", &[("model", model), ("status", status)]))
                    .or_default() += 1;
                if *ok {
                    *counts.entry(key("llm_tokens_total", &[("type", "prompt")])).or_default() += prompt;
                    *counts.entry(key("llm_tokens_total", &[("type", "completion")])).or_default() +=
                        completion;
                }
                observe(&mut counts, "llm_request_duration_seconds", "model", model, *ms);
            }
            Noted::Tool { tool, source, is_error, pending, ms } => {
                let (is_error, pending) = (is_error.to_string(), pending.to_string());
                let labels = [
                    ("tool", tool.as_str()),
                    ("source", source.as_str()),
                    ("is_error", &is_error),
                    ("pending", &pending),
                ];
                *counts.entry(key("tool_calls_total", &labels)).or_default() += 1;
                observe(&mut counts, "tool_duration_seconds", "tool", tool, *ms);
            }
            Noted::RunFailed => *counts.entry(key("run_errors_total", &[])).or_default() += 1,
        }
    }
    // The shortest decimal of a double is that of thousandths.
    let seconds = |ms: u64| (ms as f64 / 1000.0).to_string();
    let counts = counts.into_iter().map(|(key, count)| (key, count.to_string()));
    counts.chain(sums.into_iter().map(|(key, ms)| (key, seconds(ms)))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CLIENT-76, CLIENT-77
    #[test]
    fn the_text_parses_and_sums_up(events in proptest::collection::vec(noted(), 0..24)) {
        let registry = Registry::default();
        for event in &events {
            match event {
                Noted::Llm { model, ok, ms, prompt, completion } => {
                    let status = if *ok { LlmStatus::Ok } else { LlmStatus::Error };
                    registry.llm(model, status, *ms, *prompt, *completion);
                }
                Noted::Tool { tool, source, is_error, pending, ms } => {
                    registry.tool(tool, Some(*source), *is_error, *ms, *pending);
                }
                Noted::RunFailed => registry.run_failed(),
            }
        }
        let text = registry.text();
        prop_assert!(text.ends_with('\n') && !text.contains("\n\n"));
        prop_assert_eq!(&text, &registry.text());

        let mut samples = BTreeMap::new();
        let mut heads = Vec::new();
        let mut block: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                let (name, _) = head.split_once(' ').unwrap();
                heads.push(name);
                block.clear();
            } else if !line.starts_with('#') {
                let (name, labels, value) = sample(line);
                // Each sample stands in its metric's block.
                prop_assert!(name.starts_with(heads.last().unwrap()), "{}", line);
                if !line.contains("_seconds") {
                    block.push(line.rsplit_once(' ').unwrap().0);
                    prop_assert!(block.is_sorted(), "{:?}", block);
                }
                prop_assert!(samples.insert((name, labels), value).is_none(), "twice: {}", line);
            }
        }
        prop_assert_eq!(heads, [
            "toolnexus_llm_requests_total",
            "toolnexus_llm_tokens_total",
            "toolnexus_llm_request_duration_seconds",
            "toolnexus_tool_calls_total",
            "toolnexus_tool_duration_seconds",
            "toolnexus_run_errors_total",
        ]);
        prop_assert_eq!(samples, expected(&events));
    }
}
