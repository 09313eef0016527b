//! The texts that a model reads about skills. They are contract to the byte.

use std::collections::BinaryHeap;
use std::path::Path;

use serde_json::{Map, Value};
use toolnexus_core::ToolResult;

use crate::discover::{SKILL_FILE, display};
use crate::options::SkillPathDisplay;
use crate::skill::SkillInfo;
use crate::walk::walk;

/// How many files are listed when no limit is set.
const DEFAULT_SAMPLE: usize = 10;

const PREAMBLE: &str = "Skills provide specialized instructions and workflows for specific tasks.\n\
    Use the skill tool to load a skill when a task matches its description.\n\
    \n\
    ## Available Skills";

/// The catalogue for a system prompt: described skills only, by name.
pub(crate) fn catalogue(skills: &[SkillInfo]) -> String {
    let mut described: Vec<(&str, &str)> = skills
        .iter()
        .filter_map(|skill| Some((skill.name.as_str(), skill.description.as_deref()?)))
        .collect();
    if described.is_empty() {
        return "No skills are currently available.".to_owned();
    }
    described.sort_unstable();
    described
        .iter()
        .fold(PREAMBLE.to_owned(), |text, (name, description)| text + "\n- **" + name + "**: " + description)
}

/// What the model reads when it asks for a skill that is not there.
pub(crate) fn not_found(name: &str, skills: &[SkillInfo]) -> ToolResult {
    let mut names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    names.sort_unstable();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    ToolResult::failure(format!("Skill \"{name}\" not found. Available skills: {names}"))
}

/// One skill's instructions and a sample of its files. `dir` is set for a disk skill.
pub(crate) fn skill(
    skill: &SkillInfo,
    dir: Option<&Path>,
    sample_limit: i64,
    path_display: SkillPathDisplay,
) -> ToolResult {
    let hide_paths = dir.is_some() && path_display == SkillPathDisplay::Logical;
    let logical = format!("skill://{}/", skill.name);
    let (base, shown_dir) = if hide_paths {
        (logical.as_str(), logical.as_str())
    } else {
        (skill.base.as_str(), skill.dir.as_str())
    };

    let mut lines = vec![
        format!("<skill_content name=\"{}\">", skill.name),
        format!("# Skill: {}", skill.name),
        String::new(),
        skill.content.trim().to_owned(),
        String::new(),
        format!("Base directory for this skill: {base}"),
        "Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory."
            .to_owned(),
    ];
    if let Some(files) = sample(skill, dir, sample_limit, hide_paths) {
        lines.push("Note: file list is sampled.".to_owned());
        lines.push(String::new());
        lines.push("<skill_files>".to_owned());
        lines.push(files.iter().map(|file| format!("<file>{file}</file>")).collect::<Vec<_>>().join("\n"));
        lines.push("</skill_files>".to_owned());
    }
    lines.push("</skill_content>".to_owned());

    let mut metadata = Map::new();
    metadata.insert("name".into(), Value::from(skill.name.as_str()));
    metadata.insert("dir".into(), Value::from(shown_dir));
    ToolResult::success(lines.join("\n")).with_metadata(metadata)
}

/// The files to list. `None`: the list is left out, heading and all.
fn sample(skill: &SkillInfo, dir: Option<&Path>, sample_limit: i64, relative: bool) -> Option<Vec<String>> {
    let limit = match sample_limit {
        0 => DEFAULT_SAMPLE,
        limit => usize::try_from(limit).ok()?,
    };
    match dir {
        Some(dir) => Some(files_below(dir, limit, relative)),
        None if skill.resources.is_empty() => None,
        None => Some(skill.resources.iter().take(limit).cloned().collect()),
    }
}

/// The first `limit` files below `dir` by relative path, as absolute or as relative paths.
fn files_below(dir: &Path, limit: usize, relative: bool) -> Vec<String> {
    // The heap keeps the smallest paths seen, its largest on top, so memory is bounded by the
    // limit and not by the tree.
    let mut kept = BinaryHeap::new();
    walk(dir, |entry| {
        let listed = entry.name != SKILL_FILE && entry.path.is_file();
        if listed
            && (kept.len() < limit
                || kept.peek().is_some_and(|(last, _)| entry.relative < String::as_str(last)))
        {
            kept.push((entry.relative.to_owned(), display(entry.path)));
            if kept.len() > limit {
                kept.pop();
            }
        }
    });
    let sorted = kept.into_sorted_vec();
    sorted.into_iter().map(|(below, absolute)| if relative { below } else { absolute }).collect()
}
