//! `toolnexus skills validate`.

use std::path::{Path, PathBuf};

use serde_json::json;
use toolnexus::skills::{LoadSkillsOptions, SkillInventory, SkillSkipReason, list_skills};

use super::args::ValidateArgs;
use super::findings::{Finding, Level, findings};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::list::{document, from_here};
use crate::loading;
use crate::render::{count, plain};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(super) async fn validate(
    args: &ValidateArgs,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let dirs = directories(&args.dirs, screen)?;
    let options = LoadSkillsOptions { dirs: dirs.clone(), ..Default::default() };
    let check = move || {
        let found = seen_once(list_skills(&options));
        let problems = findings(&found);
        (found, problems)
    };
    let (found, problems) = interrupt.or_else(check).await?;
    let number = |level| problems.iter().filter(|problem| problem.level == level).count();
    let (errors, warnings) = (number(Level::Error), number(Level::Warning));
    let nothing = found.skills.is_empty() && found.skipped.is_empty();
    let well = !nothing && errors == 0 && !(args.strict && warnings > 0);
    if args.json {
        let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
        let document_ = json!({
            "ok": well, "skills": names, "errors": errors, "warnings": warnings, "problems": problems,
        });
        document(screen, &document_)?;
    } else if !nothing {
        screen.answer(&text(&problems, found.skills.len(), errors, warnings))?;
    }
    if nothing {
        let searched = match dirs.as_slice() {
            [] => "there is no directory skills here".to_owned(),
            dirs => {
                let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
                format!("there is no SKILL.md below {}", dirs.join(", "))
            }
        };
        let remedy = "name a directory that has one, as in `toolnexus skills validate DIR`";
        return Err(Failure::new(Exit::Failed, format!("nothing to check: {searched}; {remedy}")));
    }
    Ok(if well { Exit::Done } else { Exit::Failed })
}

/// The directories to search: those named, which have to be there, or the one that `list` finds.
fn directories(given: &[PathBuf], screen: &Screen) -> Result<Vec<PathBuf>, Failure> {
    if given.is_empty() {
        return loading::find_skills(given, ", or name another", screen);
    }
    for path in given {
        loading::readable(path).map_err(|error| {
            let remedy = if path.is_file() { "name the directory it is in" } else { "check the path" };
            Failure::usage(format!("{path:?} is not a directory that can be read: {error}; {remedy}"))
        })?;
    }
    Ok(given.to_vec())
}

/// Without what directories that lie in each other show twice: a file is no duplicate of itself.
fn seen_once(mut found: SkillInventory) -> SkillInventory {
    let real = |location: &str| Path::new(location).canonicalize().ok();
    let skills: Vec<Option<PathBuf>> = found.skills.iter().map(|skill| real(&skill.location)).collect();
    let mut skipped = Vec::new();
    for skip in found.skipped {
        let twice = skip.reason == SkillSkipReason::DuplicateName && {
            let place = real(&skip.location);
            place.is_some() && skills.contains(&place)
        };
        if !twice && !skipped.contains(&skip) {
            skipped.push(skip);
        }
    }
    found.skipped = skipped;
    found
}

fn text(problems: &[Finding], skills: usize, errors: usize, warnings: usize) -> String {
    let paint = Paint::stdout();
    let mut out = String::new();
    for problem in problems {
        let label = match problem.level {
            Level::Error => paint.bad("error"),
            Level::Warning => paint.warn("warning"),
        };
        let location = from_here(&problem.location);
        let detail = problem.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
        let told = format!("{location}  {}{detail} ({})", problem.reason, problem.remedy);
        out.push_str(&format!("{label} {}\n", plain(&told)));
    }
    let mut total = count(skills, "skill");
    for (number, noun) in [(errors, "error"), (warnings, "warning")] {
        if number > 0 {
            total.push_str(&format!(", {}", count(number, noun)));
        }
    }
    if problems.is_empty() {
        total.push_str(", no problem");
    }
    out + &total + "\n"
}
