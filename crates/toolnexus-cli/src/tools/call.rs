//! `toolnexus tools call`.

use std::io::{self, IsTerminal as _};

use toolnexus::Tool;

use super::args::CallArgs;
use crate::calling::{Call, named, read_arguments};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::person;
use crate::screen::Screen;

/// Carries the command out.
pub(super) async fn call(args: &CallArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    // Everything that can be wrong by itself is looked at before a server is started.
    let arguments = read_arguments(&args.arguments, screen, interrupt).await?;
    let wait_for = io::stdin().is_terminal().then(|| person::resolver(screen));
    let sources = Sources::find(&args.sources, screen)?;
    let loaded = loading::load(sources, wait_for.clone(), screen, interrupt).await?;
    let ended = match wanted(&loaded, &args.tool, screen) {
        Ok(tool) => {
            let (name, timeout, result) = (tool.name.as_str(), args.timeout, &args.result);
            let call = Call { tool: &tool, name, arguments, timeout, wait_for, result };
            call.carry_out(screen, interrupt).await
        }
        Err(failure) => Err(failure),
    };
    loaded.toolkit.close().await;
    ended
}

/// The tool of this name. Servers that failed are told of where it is missing, since it may be theirs.
fn wanted(loaded: &Loaded, name: &str, screen: &Screen) -> Result<Tool, Failure> {
    if let Some(tool) = loaded.toolkit.get(name) {
        return Ok(tool);
    }
    for server in &loaded.failed {
        screen.note(&format!("{} {}", screen.paint().warn("warning:"), server.text()));
    }
    let names = loaded.toolkit.tool_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let there = match names.is_empty() {
        true => "there is none; look at `toolnexus tools`".to_owned(),
        false => format!("there are {}", named(&names)),
    };
    Err(Failure::usage(format!("no tool \"{name}\": {there}")))
}
