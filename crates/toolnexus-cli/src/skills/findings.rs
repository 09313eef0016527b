//! What is wrong with skills, and what works and will surprise somebody.

use std::path::Path;

use serde::Serialize;
use toolnexus::skills::{SkillInfo, SkillInventory};
use url::Url;

use super::links::relative_links;
use crate::list::remedy;

/// The longest name and the longest description, in characters, that agents in general take.
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// The file is no skill.
    Error,
    /// It is one, and yet.
    Warning,
}

/// One thing to tell.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) location: String,
    pub(super) reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    pub(super) remedy: String,
}

/// Everything there is to tell, the files in the order of their locations.
pub(super) fn findings(found: &SkillInventory) -> Vec<Finding> {
    let errors = found.skipped.iter().map(|skip| Finding {
        level: Level::Error,
        location: skip.location.clone(),
        reason: skip.reason.as_str(),
        detail: skip.detail.clone(),
        remedy: remedy(skip.reason).to_owned(),
    });
    let mut all: Vec<Finding> = errors.chain(found.skills.iter().flat_map(warnings)).collect();
    // Stable: what is told of one file stays in its order.
    all.sort_by(|a, b| a.location.cmp(&b.location));
    all
}

/// What there is to tell of a skill.
fn warnings(skill: &SkillInfo) -> Vec<Finding> {
    let mut told = Vec::new();
    let mut tell = |reason, detail: String, remedy: String| {
        let location = skill.location.clone();
        told.push(Finding { level: Level::Warning, location, reason, detail: Some(detail), remedy });
    };
    // `meta` holds the name at least, unless YAML refused the header.
    if skill.meta.is_empty() {
        tell(
            "rescued-header",
            "the header is no YAML: name and description were read line by line, nothing else is kept".into(),
            "put values that hold `: ` or ` #`, or begin with a sign, in quotes".into(),
        );
    }
    let length = skill.description.as_deref().map(|text| text.chars().count());
    match length {
        None => tell(
            "no-description",
            "the model is not told of it".into(),
            "add description: what it does, and when to use it".into(),
        ),
        Some(length) if length > LONGEST_DESCRIPTION => tell(
            "long-description",
            format!("{length} characters, and many agents take {LONGEST_DESCRIPTION}"),
            "shorten it: details belong below the header".into(),
        ),
        Some(_) => {}
    }
    if !is_portable(&skill.name) {
        let slug = slug(&skill.name);
        let example = if slug.is_empty() { "fill-forms" } else { slug.as_str() };
        tell(
            "name-not-portable",
            format!(
                "\"{}\": many agents take 1 to {LONGEST_NAME} lower-case letters, digits and single hyphens",
                skill.name
            ),
            format!("rename it, as in {example}"),
        );
    }
    let folder = Path::new(&skill.dir).file_name().map(|name| name.to_string_lossy().into_owned());
    if let Some(folder) = folder.filter(|folder| *folder != skill.name) {
        tell(
            "name-differs",
            format!("\"{}\" is in the folder \"{folder}\"", skill.name),
            "give both the same name".into(),
        );
    }
    for link in relative_links(&skill.content) {
        if !leads_somewhere(skill, &link) {
            tell(
                "missing-file",
                format!("it links to {link}, which is not there"),
                "correct the link or add the file".into(),
            );
        }
    }
    told
}

/// Whether the agents that follow the published format of skills take the name.
fn is_portable(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let hyphens = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(allowed) && !hyphens
}

/// A name like the given one that every agent takes; empty when nothing of it can stay.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let slug = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    slug.get(..LONGEST_NAME).unwrap_or(&slug).trim_end_matches('-').to_owned()
}

/// Whether there is something at the end of a link in the skill's text. True for what is no path.
fn leads_somewhere(skill: &SkillInfo, link: &str) -> bool {
    let target = Url::parse(&format!("{}/", skill.base)).and_then(|base| base.join(link));
    target.ok().and_then(|url| url.to_file_path().ok()).is_none_or(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_agents_refuse_get_one_that_they_take() {
        let longest = "x".repeat(64);
        for name in ["a", "pdf-forms", "2fa", longest.as_str()] {
            assert!(is_portable(name), "{name}");
        }
        let long = "long name ".repeat(20);
        for (name, better) in [
            ("PDF Filler, v2", "pdf-filler-v2"),
            ("snake_case", "snake-case"),
            ("-a--b-", "a-b"),
            ("1.0", "1-0"),
            ("@team/deploy", "team-deploy"),
            ("会議", ""),
            ("", ""),
            (long.as_str(), "long-name-long-name-long-name-long-name-long-name-long-name-long"),
        ] {
            assert!(!is_portable(name), "{name}");
            assert_eq!(slug(name), better);
        }
    }

    proptest! {
        #[test]
        fn a_slug_is_portable(name in any::<String>()) {
            let slug = slug(&name);
            prop_assert!(slug.is_empty() || is_portable(&slug), "{slug}");
        }
    }
}
