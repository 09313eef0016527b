//! `toolnexus demo`: an agent at work, without a key and without a network.
//!
//! The model is scripted ([`model`] speaks its dialect, [`story`] is what it says). Everything
//! else is what `toolnexus run` uses: the loop, a stdio MCP server ([`server`], this same program
//! as a child process), a skill folder ([`shop`]), a built-in tool and a Rust function.

mod model;
mod server;
mod shop;
mod story;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use toolnexus::client::StreamOptions;
use toolnexus::mcp::{McpConfigInput, McpStatus, parse_mcp_config};
use toolnexus::{
    BuiltinsConfig, ClientOptions, RunResult, RunStatus, Tool, ToolSource, Toolkit, create_client,
    define_tool,
};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::provider::{Choice, Key};
use crate::render::{Human, Render as _};
use crate::screen::Screen;
use crate::session;

pub(crate) use server::serve as serve_mcp;

/// The sub-command that makes this program the demo's MCP server.
const SERVER_COMMAND: &str = "demo-mcp-server";

/// Carries the command out.
pub(crate) async fn run(screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    // The show is the output: all of it belongs on stdout.
    let screen = &screen.on_stdout();
    let folder =
        shop::open().map_err(|error| failed(format!("the demo's files cannot be written: {error}")))?;
    introduce(screen);
    let loaded = loading::load(sources(folder.path())?, None, screen, interrupt).await?;
    let ended = play(&loaded.toolkit, screen, interrupt).await;
    loaded.toolkit.close().await;
    let result = ended?;
    check(&loaded, &result)?;
    conclude(screen);
    Ok(Exit::Done)
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, message)
}

fn introduce(screen: &Screen) {
    let paint = screen.paint();
    screen.note(&format!(
        "{}\n{}\n",
        paint.bold("toolnexus demo"),
        "The model is scripted, a part of this program: no key and no network are needed.\n\
         The loop around it and every tool it calls are real:"
    ));
}

fn conclude(screen: &Screen) {
    let paint = screen.paint();
    screen.note(&format!(
        "\nNow with a model of yours, in a directory of yours:\n  {}\n  {}\n{}",
        paint.name("OPENAI_API_KEY=… toolnexus run \"What is in this directory?\""),
        paint.name("toolnexus run --base-url http://localhost:11434/v1 --model qwen3 \"Hello\""),
        paint.dim("`toolnexus help run` has the rest."),
    ));
}

fn sources(folder: &Path) -> Result<Sources, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        failed(format!("the demo cannot find its own program, which is its MCP server: {error}"))
    })?;
    let document = json!({"mcpServers": {"warehouse": {"command": program, "args": [SERVER_COMMAND]}}});
    let mcp =
        parse_mcp_config(&McpConfigInput::Value(document)).map_err(|error| failed(error.to_string()))?;
    Ok(Sources {
        mcp: Some(mcp),
        skills: vec![folder.join(shop::SKILLS)],
        builtins: Some(BuiltinsConfig { base_dir: Some(folder.to_owned()), ..Default::default() }),
        extra_tools: vec![add_up()],
        ..Default::default()
    })
}

/// The demo's native tool: a Rust function.
fn add_up() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
        "required": ["numbers"],
    });
    define_tool("add_up", "Adds numbers", Some(schema), |args, _context| async move {
        let numbers: Option<Vec<f64>> = args
            .get("numbers")
            .and_then(|numbers| numbers.as_array())
            .map(|numbers| numbers.iter().filter_map(|number| number.as_f64()).collect());
        numbers.map(|numbers| numbers.iter().sum::<f64>()).ok_or("\"numbers\" must be an array of numbers")
    })
}

async fn play(toolkit: &Toolkit, screen: &Screen, interrupt: &Interrupt) -> Result<RunResult, Failure> {
    let paint = screen.paint();
    let server = match toolkit.mcp_status().get("warehouse") {
        Some(McpStatus::Connected) => "an MCP server over stdio: a child process",
        _ => "an MCP server that did not start",
    };
    for (source, name, what) in [
        ("mcp", story::STOCK, server),
        ("skill", story::SKILL, "a folder with a SKILL.md"),
        ("builtin", story::READ, "a built-in tool that reads files"),
        ("native", story::ADD, "a Rust function"),
    ] {
        screen.note(&format!(
            "  {}  {}  {}",
            paint.dim(&format!("{source:<7}")),
            paint.name(&format!("{name:<15}")),
            what
        ));
    }
    screen.note(&format!("\n{} {}", paint.bold("you ›"), story::PROMPT));
    let choice = Choice {
        base_url: "http://scripted.invalid".into(),
        host: "this program".into(),
        style: toolnexus::Style::OpenAI,
        model: "the scripted model".into(),
        key: Key::Placeholder,
    };
    let client = create_client(ClientOptions {
        base_url: choice.base_url.clone(),
        model: choice.model.clone(),
        api_key: "none".into(),
        http_client: Some(Arc::new(model::ScriptedModel)),
        ..Default::default()
    });
    let mut human = Human::new(screen, true);
    human.begin(&choice.model);
    let options = StreamOptions { cancel: Some(interrupt.token()), ..Default::default() };
    let stream = client.stream_with(story::PROMPT, toolkit, options);
    let ended = session::drive(stream, &mut human, &choice, &session::Attempts::default(), interrupt).await;
    if let Err(failure) = &ended {
        human.failure(failure)?;
    }
    ended
}

/// A demo in which something went wrong says so and fails: every source has to have served a call.
fn check(Loaded { toolkit, failed: servers }: &Loaded, result: &RunResult) -> Result<(), Failure> {
    if let Some(server) = servers.first() {
        return Err(failed(format!("the demo's {}", server.text())));
    }
    if let Some(call) = result.tool_calls.iter().find(|call| call.is_error) {
        return Err(failed(format!("the demo's tool {} failed: {}", call.name, call.output)));
    }
    let served: BTreeSet<ToolSource> =
        result.tool_calls.iter().filter_map(|call| toolkit.get(&call.name)).map(|tool| tool.source).collect();
    let wanted = [ToolSource::Mcp, ToolSource::Skill, ToolSource::Builtin, ToolSource::Native];
    match wanted.iter().find(|source| !served.contains(source)) {
        None if result.status == RunStatus::Done => Ok(()),
        None => Err(failed(format!("the demo ended as {}", result.status))),
        Some(source) => Err(failed(format!("the demo did not come to call a tool of source {source}"))),
    }
}
