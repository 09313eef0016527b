//! The texts that a model reads about skills. They are contract to the byte.

use std::collections::BinaryHeap;
use std::path::Path;

use serde_json::{Map, Value};
use toolnexus_core::ToolResult;

use crate::discover::{SKILL_FILE, display};
use crate::options::SkillPathDisplay;
use crate::skill::SkillInfo;
use crate::walk::{Ended, walk};

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

/// One skill's instructions and a sample of its files. `dir` is set for a disk skill. When `stop` says so
/// the search for files ends, and with it the call.
pub(crate) fn skill(
    skill: &SkillInfo,
    dir: Option<&Path>,
    sample_limit: i64,
    path_display: SkillPathDisplay,
    stop: &dyn Fn() -> bool,
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
    let files = match sample(skill, dir, sample_limit, hide_paths, stop) {
        Ok(files) => files,
        Err(Cancelled) => return ToolResult::failure("skill: cancelled"),
    };
    if let Some(files) = files {
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

/// Somebody no longer wants the answer.
struct Cancelled;

/// The files to list. `None`: the list is left out, heading and all.
fn sample(
    skill: &SkillInfo,
    dir: Option<&Path>,
    sample_limit: i64,
    relative: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<String>>, Cancelled> {
    let limit = match sample_limit {
        0 => DEFAULT_SAMPLE,
        limit => match usize::try_from(limit) {
            Ok(limit) => limit,
            Err(_) => return Ok(None),
        },
    };
    match dir {
        Some(dir) => files_below(dir, limit, relative, stop).map(Some),
        None if skill.resources.is_empty() => Ok(None),
        None => Ok(Some(skill.resources.iter().take(limit).cloned().collect())),
    }
}

/// The first `limit` files below `dir` by relative path, as absolute or as relative paths.
fn files_below(
    dir: &Path,
    limit: usize,
    relative: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<String>, Cancelled> {
    // The heap keeps the smallest paths seen, its largest on top, so memory is bounded by the
    // limit and not by the tree.
    let mut kept = BinaryHeap::new();
    let ended = walk(dir, stop, |entry| {
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
    if ended == Ended::Stopped {
        return Err(Cancelled);
    }
    // A walk that was cut needs no word: the list is a sample, and says so.
    let sorted = kept.into_sorted_vec();
    Ok(sorted.into_iter().map(|(below, absolute)| if relative { below } else { absolute }).collect())
}
