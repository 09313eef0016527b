//! `toolnexus mcp call`.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolnexus::mcp::McpStatus;
use toolnexus::reports::{LogLevel, ToolReport, report_channel};
use toolnexus::{Tool, ToolContext, ToolResult};

use super::args::CallArgs;
use super::inspect::remote_name;
use super::servers::{self, Servers};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::list::document;
use crate::render::{one_line, plain, plain_lines, progress_in_words};
use crate::screen::Screen;
use crate::{person, stdin};

/// How many tools are named when the wanted one is not among them.
const NAMED: usize = 30;

/// Carries the command out.
pub(super) async fn call(args: &CallArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let (_, config) = servers::only(&args.config, std::slice::from_ref(&args.server))?;
    // Everything that can be wrong by itself is looked at before the server is started.
    let arguments = arguments(&args.arguments, screen, interrupt).await?;
    let wait_for = io::stdin().is_terminal().then(|| person::resolver(screen));
    let servers = Servers::load(Some(config), wait_for, screen, interrupt).await?;
    let ended = match wanted(&servers, args) {
        Ok(tool) => run(&tool, arguments, args, screen, interrupt).await,
        Err(failure) => Err(failure),
    };
    servers.close().await;
    ended
}

/// The arguments of the command line, of stdin or of a file.
async fn arguments(given: &str, screen: &Screen, interrupt: &Interrupt) -> Result<Value, Failure> {
    let (text, origin) = match given.strip_prefix('@') {
        Some(path) => (of_file(Path::new(path))?, format!("in {path:?}")),
        None if given == "-" => {
            if io::stdin().is_terminal() {
                screen.note("Type the arguments, a JSON object; end them with Ctrl-D on a line of its own.");
            }
            (stdin::text("the arguments", interrupt).await?, "on stdin".to_owned())
        }
        None => (given.to_owned(), "on the command line".to_owned()),
    };
    parse(&text, &origin)
}

fn of_file(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(stdin::LIMIT + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = bytes.map_err(|error| {
        Failure::usage(format!("the arguments in {path:?} cannot be read: {error}; check the path behind @"))
    })?;
    stdin::decode(bytes, &format!("the arguments in {path:?}"))
}

fn parse(text: &str, origin: &str) -> Result<Value, Failure> {
    const HINT: &str = "write a JSON object, as in '{\"query\": \"retries\"}'";
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(Value::Object(arguments)),
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "an array",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                Value::Bool(_) => "a boolean",
                _ => "null",
            };
            Err(Failure::usage(format!("the arguments {origin} are {kind}: {HINT}")))
        }
        Err(error) => Err(Failure::usage(format!("the arguments {origin} are not JSON ({error}): {HINT}"))),
    }
}

/// The tool that is asked for, of a server that works.
fn wanted(servers: &Servers, args: &CallArgs) -> Result<Tool, Failure> {
    if let Some(failed) = servers.failure(&args.server) {
        return Err(Failure::new(Exit::Failed, failed.text()));
    }
    let connection = servers.connections.first();
    let Some(connection) = connection.filter(|connection| connection.status() == McpStatus::Connected) else {
        return Err(Failure::usage(format!(
            "MCP server {} is switched off in the configuration: remove \"disabled\", or set \"enabled\" to true",
            args.server
        )));
    };
    let tools = connection.tools();
    find(&tools, &args.tool)
        .cloned()
        .ok_or_else(|| Failure::usage(no_such_tool(&args.server, &tools, &args.tool)))
}

/// A server may call one tool as another reads to a model: its own names win.
fn find<'t>(tools: &'t [Tool], name: &str) -> Option<&'t Tool> {
    let by_its_own = tools.iter().find(|tool| remote_name(tool) == name);
    by_its_own.or_else(|| tools.iter().find(|tool| tool.name == name))
}

fn no_such_tool(server: &str, tools: &[Tool], name: &str) -> String {
    let names: Vec<&str> = tools.iter().map(remote_name).take(NAMED).collect();
    let listed = match (names.is_empty(), tools.len().saturating_sub(names.len())) {
        (true, _) => "no tool".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    };
    format!("MCP server {server} has no tool \"{name}\": it has {listed}")
}

async fn run(
    tool: &Tool,
    arguments: Value,
    args: &CallArgs,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let (reporter, mut reports) = report_channel();
    let context = ToolContext {
        cancel: interrupt.token(),
        timeout_ms: args.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        reporter,
        ..Default::default()
    };
    screen.busy(&format!("calling {}", remote_name(tool)));
    let calling = tool.execute_with(arguments, context);
    tokio::pin!(calling);
    let result = loop {
        tokio::select! {
            biased;
            Some(report) = reports.next() => show_report(remote_name(tool), &report, screen),
            result = &mut calling => break result,
        }
    };
    for report in reports.take_waiting() {
        show_report(remote_name(tool), &report, screen);
    }
    screen.idle();
    if interrupt.token().is_cancelled() {
        return Err(interrupt.failure());
    }
    show_result(&result, args.json, screen)?;
    Ok(if result.is_error { Exit::Failed } else { Exit::Done })
}

fn show_report(name: &str, report: &ToolReport, screen: &Screen) {
    let paint = screen.paint();
    match report {
        ToolReport::Progress { progress, total, message } => {
            let told = progress_in_words(name, *progress, *total, message.as_deref());
            if screen.has_spinner() {
                screen.busy(&told);
            } else {
                screen.note(&one_line(&told, screen.width()));
            }
        }
        ToolReport::Log { level, message, dropped } => {
            if *dropped > 0 {
                screen.note(&paint.dim(&format!("… {dropped} lines came too fast")));
            }
            let label = format!("{level}:");
            let label = match level {
                LogLevel::Debug | LogLevel::Info => paint.dim(&label),
                LogLevel::Notice | LogLevel::Warning => paint.warn(&label),
                _ => paint.bad(&label),
            };
            screen.note(&format!("{label} {}", plain_lines(message)));
        }
        _ => {}
    }
}

fn show_result(result: &ToolResult, json: bool, screen: &Screen) -> io::Result<()> {
    if json {
        return document(screen, &json!(result));
    }
    let text = if screen.stdout_is_terminal() {
        plain_lines(&result.output).into_owned()
    } else {
        result.output.clone()
    };
    if !text.is_empty() {
        let gap = if text.ends_with('\n') { "" } else { "\n" };
        screen.answer(&format!("{text}{gap}"))?;
    }
    // A result of parts alone has these lines as its text.
    let told: Vec<String> = result.parts.iter().map(|part| part.summarize()).collect();
    if told.join("\n") != result.output {
        for line in told {
            screen.note(&screen.paint().dim(&format!("{}, in the result of --json", plain(&line))));
        }
    }
    Ok(())
}
