//! What came of each scenario, from the files that the suite writes: `server-<name>-<time>/checks.json`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toolnexus_conformance::Outcome;

use crate::scenarios::Expected;

/// What came of one scenario: the checks that failed, or gave a warning.
pub(crate) struct Ended(Vec<String>);

impl Ended {
    /// Whether that was to be expected.
    pub(crate) fn as_expected(&self, expected: Option<Expected>) -> Outcome {
        match (expected, self.0.is_empty()) {
            (Some(Expected::Passes), true) | (Some(Expected::LeftOut), false) => Ok(()),
            (Some(Expected::Passes), false) => Err(self.0.join("; ")),
            (Some(Expected::LeftOut), true) => Err("it passes: take it into the list as such".into()),
            (None, passes) => {
                Err(format!("it is not in the list; it {}", if passes { "passes" } else { "fails" }))
            }
        }
    }
}

/// What came of all of them, by name.
pub(crate) struct Outcomes(BTreeMap<String, Ended>);

impl Outcomes {
    pub(crate) fn read(results: &Path) -> Result<Self, String> {
        let mut outcomes = BTreeMap::new();
        let entries = std::fs::read_dir(results).map_err(|error| error.to_string())?;
        for entry in entries.flatten() {
            let folder = entry.file_name().to_string_lossy().into_owned();
            let Some(name) = scenario_of(&folder) else { continue };
            let text = std::fs::read_to_string(entry.path().join("checks.json"));
            let text = text.map_err(|error| format!("{folder}: {error}"))?;
            let checks: Value = serde_json::from_str(&text).map_err(|error| format!("{folder}: {error}"))?;
            outcomes.insert(name.to_owned(), ended(&checks));
        }
        Ok(Outcomes(outcomes))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Ended)> {
        self.0.iter().map(|(name, ended)| (name.as_str(), ended))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Ended> {
        self.0.get(name)
    }
}

/// The scenario of a folder such as `server-tools-list-2026-01-02T03-04-05-678Z`.
fn scenario_of(folder: &str) -> Option<&str> {
    let name = folder.strip_prefix("server-")?;
    let time = name.rfind('T').and_then(|at| at.checked_sub("-2026-01-02".len()))?;
    name.get(..time)
}

/// The suite warns where a server leaves out what the protocol recommends: that counts as a failure too.
fn ended(checks: &Value) -> Ended {
    let text =
        |check: &Value, key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let bad =
        checks.as_array().into_iter().flatten().filter(|check| {
            matches!(check.get("status").and_then(Value::as_str), Some("FAILURE" | "WARNING"))
        });
    Ended(bad.map(|check| format!("{} ({})", text(check, "id"), text(check, "errorMessage"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn folders_are_named_after_scenarios() {
        let folder = "server-tools-call-sampling-2026-11-30T11-22-33-444Z";
        assert_eq!(scenario_of(folder), Some("tools-call-sampling"));
        assert_eq!(scenario_of("other"), None);
    }

    #[test]
    fn warnings_count() {
        let check = |status: &str| json!([{"id": "a", "status": status, "errorMessage": "why"}]);
        assert!(ended(&check("SUCCESS")).0.is_empty() && ended(&check("INFO")).0.is_empty());
        assert_eq!(ended(&check("WARNING")).0, ["a (why)"]);
        assert!(ended(&check("FAILURE")).as_expected(Some(Expected::LeftOut)).is_ok());
        assert!(ended(&check("SUCCESS")).as_expected(Some(Expected::LeftOut)).is_err());
        assert!(ended(&check("SUCCESS")).as_expected(None).is_err());
    }
}
