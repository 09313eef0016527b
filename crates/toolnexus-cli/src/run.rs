//! `toolnexus run`.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolnexus::client::run_log::{FileRunLog, RunLog as _, RunLogError, check_run_id};
use toolnexus::client::{RunDurableOptions, StreamOptions};
use toolnexus::{ClientOptions, Prompt, create_client};

use crate::cli::RunArgs;
use crate::exit::{Exit, Failure, timed_out};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::provider::{self, Choice, Wanted};
use crate::render::{self, Render};
use crate::runs::{self, Directory, Recorded};
use crate::screen::Screen;
use crate::session::Attempts;
use crate::{person, prompt, session};

/// Carries the command out.
pub(crate) async fn run(args: RunArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let mut render = render::of(args.json, screen);
    let ended = prepare_and_ask(args, render.as_mut(), screen, interrupt).await;
    session::tell_failure(ended, render.as_mut())
}

async fn prepare_and_ask(
    args: RunArgs,
    render: &mut dyn Render,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let wanted = Wanted { model: args.model.model.clone(), ..Wanted::of(&args.model.provider) };
    // Everything that can be wrong by itself is looked at before anything is started.
    let choice = provider::choose(&wanted, |name| std::env::var(name).ok())?;
    let sources = Sources::find(&args.sources, screen)?;
    let place = Place::find(&args).await?;
    let prompt = prompt::read(args.prompt.clone(), screen, interrupt).await?;
    let wait_for = io::stdin().is_terminal().then(|| person::resolver(screen));
    let deadline = deadline_of(args.timeout);
    let loaded = before(deadline, loading::load(sources, wait_for, screen, interrupt)).await?;
    let options = ClientOptions {
        system_prompt: args.system.clone().unwrap_or_default(),
        max_turns: args.max_turns,
        timeout_ms: timeout_ms(deadline),
        ..choice.client_options()
    };
    let ask = Ask { args: &args, choice: &choice, loaded: &loaded, place: place.as_ref(), screen, interrupt };
    let ended = ask.ask(prompt, options, render).await;
    loaded.toolkit.close().await;
    ended
}

/// When the time of `--timeout` is up.
pub(crate) fn deadline_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|time| Instant::now().checked_add(time))
}

/// The time that is left, for a client.
pub(crate) fn timeout_ms(deadline: Option<Instant>) -> u64 {
    deadline.map_or(0, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        // 0 would be no limit.
        u64::try_from(left).unwrap_or(u64::MAX).max(1)
    })
}

/// Loads, or gives up at the deadline: dropping a load ends what it has started.
pub(crate) async fn before(
    deadline: Option<Instant>,
    loading: impl Future<Output = Result<Loaded, Failure>>,
) -> Result<Loaded, Failure> {
    let Some(deadline) = deadline else { return loading.await };
    let late = |_| Err(timed_out("not every MCP server has answered"));
    tokio::time::timeout_at(deadline, loading).await.unwrap_or_else(late)
}

/// Where a durable run is written to.
struct Place {
    directory: Directory,
    log: FileRunLog,
    /// Empty: a new one.
    run_id: String,
}

impl Place {
    /// The place that flags and environment name, in which there is no run of that id yet.
    async fn find(args: &RunArgs) -> Result<Option<Self>, Failure> {
        let run_id = args.run_id.clone();
        let Some(directory) = Directory::find(args.durable.as_deref())? else {
            return match run_id {
                None => Ok(None),
                Some(_) => Err(Failure::usage(
                    "--run-id is for a run that is written down: add --durable DIR, or set TOOLNEXUS_RUNS",
                )),
            };
        };
        if let Some(run_id) = &run_id {
            check_run_id(run_id).map_err(|error| directory.failure(&error))?;
        }
        let log = directory.create()?;
        if let Some(run_id) = &run_id {
            match log.read(run_id, u64::MAX).await {
                Err(RunLogError::NotFound { .. }) => {}
                Err(error) => return Err(directory.failure(&error)),
                Ok(_) => return Err(Failure::usage(runs::exists(run_id, &directory.flag()))),
            }
        }
        Ok(Some(Place { directory, log, run_id: run_id.unwrap_or_default() }))
    }
}

/// Everything there is for a run.
struct Ask<'a> {
    args: &'a RunArgs,
    choice: &'a Choice,
    loaded: &'a Loaded,
    place: Option<&'a Place>,
    screen: &'a Screen,
    interrupt: &'a Interrupt,
}

impl Ask<'_> {
    async fn ask(
        &self,
        prompt: String,
        options: ClientOptions,
        render: &mut dyn Render,
    ) -> Result<Exit, Failure> {
        render.loaded(self.loaded, self.choice)?;
        let attempts = Attempts::default();
        let client = create_client(ClientOptions { on_error: Some(attempts.watch()), ..options });
        let toolkit = &self.loaded.toolkit;
        let cancel = Some(self.interrupt.token());
        let prompt = Prompt::Text(prompt);
        let Some(Place { directory, log, run_id }) = self.place else {
            let options = StreamOptions { cancel, ..Default::default() };
            let stream = client.stream_with(prompt, toolkit, options);
            let result = session::drive(stream, render, self.choice, &attempts, self.interrupt).await?;
            return Ok(session::exit_of(&result));
        };
        let options = RunDurableOptions {
            run_id: run_id.clone(),
            cancel,
            ..RunDurableOptions::new(Arc::new(log.clone()))
        };
        let stream = client.stream_durable(prompt, toolkit, options);
        let run_id = stream.run_id().unwrap_or_default().to_owned();
        let recorded = Recorded::new(directory.clone(), run_id)
            .with_flags(&self.args.model.provider, &self.args.sources);
        render.recorded(&recorded, None)?;
        match session::drive(stream, render, self.choice, &attempts, self.interrupt).await {
            Ok(result) => Ok(session::conclude(&result, &recorded, self.screen)),
            Err(failure) => Err(recorded.advise(log, failure).await),
        }
    }
}
