//! `toolnexus run`.

use std::io::{self, IsTerminal as _};

use tokio::time::Instant;
use toolnexus::client::StreamOptions;
use toolnexus::{ClientOptions, Prompt, create_client};

use crate::cli::RunArgs;
use crate::exit::{Exit, Failure, timed_out};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::provider::{self, Choice, Wanted};
use crate::render::{Human, Json, Render};
use crate::screen::Screen;
use crate::session::Attempts;
use crate::{person, prompt, session};

/// Carries the command out.
pub(crate) async fn run(args: RunArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let mut render: Box<dyn Render> = if args.json {
        Box::new(Json::new(screen))
    } else {
        Box::new(Human::new(screen, screen.stdout_is_terminal()))
    };
    let ended = prepare_and_ask(args, render.as_mut(), screen, interrupt).await;
    if let Err(failure) = &ended
        && failure.exit != Exit::StdoutClosed
    {
        // The failure itself is the news, also when nobody reads stdout any more.
        let _ = render.failure(failure);
    }
    ended
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
    let prompt = prompt::read(args.prompt.clone(), screen, interrupt).await?;
    let wait_for = io::stdin().is_terminal().then(|| person::resolver(screen));
    let deadline = args.timeout.and_then(|time| Instant::now().checked_add(time));
    let loaded = before(deadline, loading::load(sources, wait_for, screen, interrupt)).await?;
    let options = client_options(&args, &choice, deadline);
    let ended = ask(prompt, options, &choice, &loaded, render, interrupt).await;
    loaded.toolkit.close().await;
    ended
}

/// Loads, or gives up at the deadline: dropping a load ends what it has started.
async fn before(
    deadline: Option<Instant>,
    loading: impl Future<Output = Result<Loaded, Failure>>,
) -> Result<Loaded, Failure> {
    let Some(deadline) = deadline else { return loading.await };
    let late = |_| Err(timed_out("not every MCP server has answered"));
    tokio::time::timeout_at(deadline, loading).await.unwrap_or_else(late)
}

async fn ask(
    prompt: String,
    options: ClientOptions,
    choice: &Choice,
    loaded: &Loaded,
    render: &mut dyn Render,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    render.loaded(loaded, choice)?;
    let attempts = Attempts::default();
    let client = create_client(ClientOptions { on_error: Some(attempts.watch()), ..options });
    let options = StreamOptions { cancel: Some(interrupt.token()), ..Default::default() };
    let stream = client.stream_with(Prompt::Text(prompt), &loaded.toolkit, options);
    let result = session::drive(stream, render, choice, &attempts, interrupt).await?;
    Ok(session::exit_of(&result))
}

fn client_options(args: &RunArgs, choice: &Choice, deadline: Option<Instant>) -> ClientOptions {
    ClientOptions {
        system_prompt: args.system.clone().unwrap_or_default(),
        max_turns: args.max_turns,
        timeout_ms: deadline.map_or(0, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            // 0 would be no limit.
            u64::try_from(left).unwrap_or(u64::MAX).max(1)
        }),
        ..choice.client_options()
    }
}
