//! `toolnexus skills list`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolnexus::skills::{LoadSkillsOptions, SkillInfo, SkillSkip, SkillSkipReason, list_skills};

use super::{document, rows};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading;
use crate::render::{count, plain};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(crate) async fn skills(
    dirs: Vec<PathBuf>,
    json: bool,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let dirs = loading::find_skills(&dirs, ", or name another with --skills", screen)?;
    let options = LoadSkillsOptions { dirs: dirs.clone(), ..Default::default() };
    let found = interrupt.or_else(move || list_skills(&options)).await?;
    if json {
        let skills: Vec<Value> = found.skills.iter().map(as_json).collect();
        document(screen, &json!({"skills": skills, "skipped": found.skipped}))?;
        return Ok(Exit::Done);
    }
    if dirs.is_empty() {
        if !loading::has_skills_entry() {
            screen.note("no directory skills here; name one with --skills DIR");
        }
        return Ok(Exit::Done);
    }
    let paint = Paint::stdout();
    let listing: Vec<(String, String)> = found
        .skills
        .iter()
        .map(|skill| {
            let description =
                skill.description.as_deref().unwrap_or("(no description: the model is not told of it)");
            (plain(&skill.name).into_owned(), description.to_owned())
        })
        .collect();
    let mut out = rows("", &listing, screen.listing_width(), |name| paint.name(name));
    for skip in &found.skipped {
        out.push_str(&skipped_line(skip, &paint));
    }
    let mut total = count(found.skills.len(), "skill");
    if !found.skipped.is_empty() {
        total.push_str(&format!(", {} skipped", count(found.skipped.len(), "file")));
    }
    out.push_str(&format!("{total}\n"));
    screen.answer(&out)?;
    Ok(Exit::Done)
}

/// Without the instructions: they are in the file.
fn as_json(skill: &SkillInfo) -> Value {
    json!({"name": skill.name, "description": skill.description, "location": skill.location})
}

/// One file that did not become a skill: where, why, and what to do.
pub(super) fn skipped_line(skip: &SkillSkip, paint: &Paint) -> String {
    let detail = skip.detail.as_deref().map(|detail| format!(": {}", plain(detail))).unwrap_or_default();
    let (label, location) = (paint.warn("skipped"), from_here(&skip.location));
    format!("{label} {}  {}{detail} ({})\n", plain(&location), skip.reason, remedy(skip.reason))
}

/// What to do about a file that did not become a skill.
pub(crate) fn remedy(reason: SkillSkipReason) -> &'static str {
    match reason {
        SkillSkipReason::MissingName => "begin it with a header: ---, name: …, description: …, ---",
        SkillSkipReason::MalformedFrontmatter => {
            "correct the header: it is YAML, so put values that hold `: ` or ` #`, or begin with a sign, in quotes"
        }
        SkillSkipReason::DuplicateName => "give one of them another name",
        SkillSkipReason::Unreadable => "make it UTF-8 text of at most 1 MiB that you may read",
    }
}

/// A location as seen from the working directory.
pub(crate) fn from_here(location: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let location = Path::new(location);
    location.strip_prefix(&here).unwrap_or(location).display().to_string()
}
