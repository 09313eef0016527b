//! What a local server sees of the environment.

use std::collections::BTreeSet;
use std::ffi::OsString;

use serde_json::{Map, Value, json};
use toolnexus::Toolkit;
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, Wire, call};

/// What a server gets that inherits nothing.
const SAFE_BASE: &[&str] = &[
    "PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "USER", "LOGNAME", "SHELL", "TERM",
];

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    report.check("environment: inherited, with additions", inherited(setting)).await;
    report.check("environment: the safe base alone", safe_base(setting)).await;
    report.check("environment: the safe base and a named variable", named(setting)).await;
    Ok(())
}

async fn seen(toolkit: &Toolkit) -> Result<Map<String, Value>, String> {
    let result = call(toolkit, "everything_get-env", json!({})).await?;
    serde_json::from_str(&result.output).map_err(|error| format!("{error}: {}", result.output))
}

fn own() -> Map<String, Value> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), Value::String(text(value)))).collect()
}

// MCP-11
async fn inherited(setting: &Setting) -> Outcome {
    let more = json!({"environment": {"ADDED": "ünï \"x\" ${HOME}", "EMPTY": ""}});
    let toolkit = setting.load_everything_with(Wire::Stdio, more).await?;
    let seen = seen(&toolkit).await?;
    toolkit.close().await;
    let mut expected = own();
    expected.insert("ADDED".into(), "ünï \"x\" ${HOME}".into());
    expected.insert("EMPTY".into(), "".into());
    let sorted = |variables: Map<String, Value>| -> Vec<String> {
        let mut names: Vec<String> = variables.into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    };
    let differing: Vec<&String> = expected
        .iter()
        .filter(|(name, value)| seen.get(*name) != Some(value))
        .map(|(name, _)| name)
        .collect();
    holds(differing.is_empty(), || format!("lost or changed: {differing:?}"))?;
    equal("names", &sorted(seen), &sorted(expected))
}

// MCP-12
async fn safe_base(setting: &Setting) -> Outcome {
    let more = json!({"inheritEnv": [], "environment": {"ADDED": "1"}});
    let toolkit = setting.load_everything_with(Wire::Stdio, more).await?;
    let seen = seen(&toolkit).await?;
    toolkit.close().await;
    let names: BTreeSet<&str> = seen.keys().map(String::as_str).collect();
    equal("names", &names, &base_and("ADDED"))
}

async fn named(setting: &Setting) -> Outcome {
    let own = own();
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = own.keys().find(|name| plain(name) && !SAFE_BASE.contains(&name.as_str()));
    let name = name.ok_or("this program has no variable to pass on")?;
    let more = json!({"inheritEnv": [name, "TOOLNEXUS_NO_SUCH_VARIABLE"]});
    let toolkit = setting.load_everything_with(Wire::Stdio, more).await?;
    let seen = seen(&toolkit).await?;
    toolkit.close().await;
    let names: BTreeSet<&str> = seen.keys().map(String::as_str).collect();
    equal("names", &names, &base_and(name))
}

fn base_and(name: &str) -> BTreeSet<&str> {
    let own = own();
    SAFE_BASE.iter().copied().filter(|name| own.contains_key(*name)).chain([name]).collect()
}
