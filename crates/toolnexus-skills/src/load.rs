//! Merging what directories and definitions offer into one list.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Map;

use crate::discover::{self, Candidate};
use crate::filter::admits;
use crate::options::{LoadSkillsOptions, SkillDef};
use crate::skill::{SkillInfo, SkillInventory, SkillOrigin, SkillSkip, SkillSkipReason};
use crate::source::SkillSource;

/// Every skill that the options lead to, and every candidate that was skipped.
///
/// Reads the disk anew at each call and never fails. `filter` and `sample_limit` are not
/// consulted. Blocks while it reads.
///
/// ```
/// use toolnexus_skills::{LoadSkillsOptions, SkillDef, SkillSkipReason, list_skills};
/// let nameless = SkillDef { content: "…".into(), ..Default::default() };
/// let inventory = list_skills(&LoadSkillsOptions { skills: vec![nameless], ..Default::default() });
/// assert_eq!(inventory.skipped[0].reason, SkillSkipReason::MissingName);
/// ```
pub fn list_skills(opts: &LoadSkillsOptions) -> SkillInventory {
    let merged = merge(opts, Vec::new());
    SkillInventory {
        skills: merged.skills.into_iter().map(|(skill, _)| skill).collect(),
        skipped: merged.skipped,
    }
}

/// The source of the `skill` tool and of the catalogue.
///
/// Reads the disk once, now; only the list of a skill's files is made at each call of the tool.
/// Never fails. Blocks while it reads.
///
/// ```
/// use toolnexus_skills::{LoadSkillsOptions, load_skills};
/// assert_eq!(load_skills(&LoadSkillsOptions::default()).prompt(), "No skills are currently available.");
/// ```
pub fn load_skills(opts: &LoadSkillsOptions) -> SkillSource {
    load_skills_with(opts, Vec::new())
}

/// [`load_skills`] with more definitions, which come after those of the options: what a
/// [`SkillProvider`](crate::SkillProvider) gave.
pub fn load_skills_with(opts: &LoadSkillsOptions, extra: Vec<SkillDef>) -> SkillSource {
    let mut merged = merge(opts, extra);
    let unmatched: Vec<String> = opts
        .filter
        .keys()
        .filter(|name| !merged.skills.iter().any(|(skill, _)| skill.name == **name))
        .cloned()
        .collect();
    for name in &unmatched {
        tracing::warn!("[toolnexus] skill filter name \"{name}\" matched no skill");
    }
    merged.skills.retain(|(skill, _)| admits(&opts.filter, &skill.name));
    SkillSource::new(merged.skills, merged.skipped, unmatched, opts)
}

/// Skills with their directories, and skips.
struct Merged {
    skills: Vec<(SkillInfo, Option<PathBuf>)>,
    skipped: Vec<SkillSkip>,
}

fn merge(opts: &LoadSkillsOptions, extra: Vec<SkillDef>) -> Merged {
    let on_disk = opts.dirs.iter().flat_map(|root| discover::candidates(root));
    let as_data = opts.skills.iter().cloned().chain(extra).map(from_def);

    // Who has a name already, by where it is.
    let mut names: HashMap<String, String> = HashMap::new();
    let mut merged = Merged { skills: Vec::new(), skipped: Vec::new() };
    for candidate in on_disk.chain(as_data) {
        match candidate {
            Candidate::Skip(skip) => merged.skipped.push(skip),
            Candidate::Skill(skill, dir) => match names.get(&skill.name) {
                None => {
                    names.insert(skill.name.clone(), skill.location.clone());
                    merged.skills.push((*skill, dir));
                }
                Some(owner) => {
                    let SkillInfo { name, location, .. } = *skill;
                    tracing::warn!("[toolnexus] skill \"{name}\" at {location} skipped: the name is taken");
                    merged.skipped.push(SkillSkip {
                        location,
                        reason: SkillSkipReason::DuplicateName,
                        detail: Some(format!("\"{name}\" is the name of {owner}")),
                    });
                }
            },
        }
    }
    merged
}

fn from_def(def: SkillDef) -> Candidate {
    let blank_name = def.name.trim().is_empty();
    let base = match def.base {
        base if !base.trim().is_empty() => base,
        _ if blank_name => "skill://".to_owned(),
        _ => format!("skill://{}/", def.name),
    };
    if blank_name {
        return Candidate::Skip(SkillSkip {
            location: base,
            reason: SkillSkipReason::MissingName,
            detail: None,
        });
    }
    let info = SkillInfo {
        name: def.name,
        description: Some(def.description).filter(|text| !text.trim().is_empty()),
        location: base.clone(),
        content: def.content,
        dir: base.clone(),
        base,
        origin: SkillOrigin::Logical,
        resources: def.resources,
        meta: Map::new(),
    };
    Candidate::Skill(Box::new(info), None)
}
