//! `toolnexus runs resume`.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use toolnexus::client::ResumeOptions;
use toolnexus::client::run::Run;
use toolnexus::{ClientOptions, RunResult, StreamEvent, create_client};

use super::args::ResumeArgs;
use super::directory::Stored;
use super::taken_up::TakenUp;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading::{self, Sources};
use crate::person;
use crate::provider::{self, Choice, Wanted};
use crate::render::{self, Render};
use crate::run::{before, deadline_of, timeout_ms};
use crate::screen::Screen;
use crate::session::{self, Attempts};

/// Carries the command out.
pub(crate) async fn resume(
    args: ResumeArgs,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let mut render = render::of(args.json, screen);
    let ended = prepare_and_go_on(&args, render.as_mut(), screen, interrupt).await;
    session::tell_failure(ended, render.as_mut())
}

async fn prepare_and_go_on(
    args: &ResumeArgs,
    render: &mut dyn Render,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let mut stored = Stored::read(args.place.flag(), &args.run_id).await?;
    stored.recorded = stored.recorded.with_flags(&args.model.provider, &args.sources);
    let answer = args.answers.to(&stored.run)?;
    let in_terminal = io::stdin().is_terminal();
    if let Some(result) = standing(&stored.run, answer.is_some() || in_terminal) {
        render.recorded(&stored.recorded, None)?;
        render.event(&StreamEvent::Done { result: Box::new(result.clone()) })?;
        return Ok(session::conclude(&result, &stored.recorded, screen));
    }
    let choice = choose(args, &stored.run)?;
    let sources = Sources::find(&args.sources, screen)?;
    let wait_for = in_terminal.then(|| person::resolver(screen));
    let deadline = deadline_of(args.timeout);
    let loaded = before(deadline, loading::load(sources, wait_for, screen, interrupt)).await?;
    let ended = async {
        render.loaded(&loaded, &choice)?;
        let taken_up = TakenUp::of(&stored.run, args.in_doubt, &loaded.toolkit);
        render.recorded(&stored.recorded, Some(&taken_up))?;
        let options = ResumeOptions {
            answer,
            in_doubt: args.in_doubt.into(),
            cancel: Some(interrupt.token()),
            ..ResumeOptions::new(Arc::new(stored.log.clone()), args.run_id.as_str())
        };
        let attempts = Attempts::default();
        let client = create_client(ClientOptions {
            on_error: Some(attempts.watch()),
            timeout_ms: timeout_ms(deadline),
            ..choice.client_options()
        });
        let stream = client.stream_resume(&loaded.toolkit, options);
        session::drive(stream, render, &choice, &attempts, interrupt).await
    }
    .await;
    loaded.toolkit.close().await;
    match ended {
        Ok(result) => Ok(session::conclude(&result, &stored.recorded, screen)),
        Err(failure) => Err(stored.recorded.advise(&stored.log, failure).await),
    }
}

/// The result of a run that needs nothing any more, or waits for an answer that nobody gives.
fn standing(run: &Run, has_answer: bool) -> Option<RunResult> {
    if run.is_sealed() { run.clone().into_result() } else { run.clone().paused().filter(|_| !has_answer) }
}

/// The model: that of the run, where flags and environment name no other.
fn choose(args: &ResumeArgs, run: &Run) -> Result<Choice, Failure> {
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let given = Wanted::of(&args.model.provider);
    let model = args.model.model.clone().or_else(|| environment("TOOLNEXUS_MODEL"));
    let style = match environment("TOOLNEXUS_STYLE") {
        Some(_) => given.style,
        None => given.style.or(Some(run.style())),
    };
    let model = model.unwrap_or_else(|| run.model().to_owned());
    let choice = provider::choose(&Wanted { model: Some(model), style, ..given }, environment)?;
    if choice.style != run.style() {
        return Err(Failure::usage(format!(
            "the run \"{}\" was begun in style {style} and this model speaks {}: use --style {style}, and \
             --base-url if its model is elsewhere",
            run.run_id(),
            choice.style,
            style = run.style()
        )));
    }
    Ok(choice)
}
