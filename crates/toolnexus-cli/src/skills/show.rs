//! `toolnexus skills show`.

use std::path::Path;

use serde_json::json;
use toolnexus::skills::{LoadSkillsOptions, SkillSource, load_skills};

use super::args::ShowArgs;
use crate::calling::named;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::list::{document, from_here};
use crate::loading;
use crate::render::{plain, plain_lines};
use crate::screen::Screen;

/// Carries the command out.
pub(super) async fn show(args: ShowArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let dirs = loading::find_skills(&args.skills, ", or name another with --skills", screen)?;
    if dirs.is_empty() && !loading::has_skills_entry() {
        return Err(Failure::usage("no directory skills here; name one with --skills DIR"));
    }
    let ShowArgs { name, json, .. } = args;
    let options = LoadSkillsOptions { dirs, ..Default::default() };
    let found = interrupt.or_else(move || {
        let source = load_skills(&options);
        let skill = source.get(&name).cloned().ok_or_else(|| no_such_skill(&source, &name))?;
        // The list of its files takes another search.
        let output = if json { String::new() } else { source.load(&name, None).output };
        Ok::<_, Failure>((skill, output))
    });
    let (skill, output) = found.await??;
    if json {
        document(screen, &json!(skill))?;
        return Ok(Exit::Done);
    }
    let output = if screen.stdout_is_terminal() { plain_lines(&output).into_owned() } else { output };
    screen.answer(&format!("{output}\n"))?;
    Ok(Exit::Done)
}

/// Names those that are there, and a file that was meant to be this one.
fn no_such_skill(source: &SkillSource, name: &str) -> Failure {
    let mut names: Vec<&str> = source.skills().iter().map(|skill| skill.name.as_str()).collect();
    names.sort_unstable();
    let there =
        if names.is_empty() { "there is none".to_owned() } else { format!("there are {}", named(&names)) };
    let mut failure = Failure::usage(format!("no skill \"{name}\": {there}"));
    let meant = source.skipped().iter().find(|skip| {
        let folder = Path::new(&skip.location).parent().and_then(Path::file_name);
        folder.is_some_and(|folder| folder.to_string_lossy() == name)
    });
    failure.advice = meant.map(|skip| {
        let detail = skip.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
        plain(&format!("skipped {}  {}{detail}", from_here(&skip.location), skip.reason)).into_owned()
    });
    failure
}
