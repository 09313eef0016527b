//! `toolnexus tools`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolnexus::{Style, Tool, ToolSource, Toolkit, ToolkitSources as _};

use super::{Form, document, rows};
use crate::cli::SourceArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::render::{count, plain};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(crate) async fn tools(
    args: &SourceArgs,
    form: Form,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = loading::load(Sources::find(args, screen)?, None, screen, interrupt).await?;
    let printed = print(&loaded, form, screen);
    loaded.toolkit.close().await;
    printed?;
    Ok(Exit::Done)
}

fn print(loaded: &Loaded, form: Form, screen: &Screen) -> std::io::Result<()> {
    let toolkit = &loaded.toolkit;
    match form {
        Form::Text => screen.answer(&text(loaded, screen.listing_width())),
        Form::Json => document(screen, &as_json(toolkit)),
        Form::Schema(style) => {
            // An array for a program, so what is missing from it is said elsewhere.
            for server in &loaded.failed {
                screen.note(&format!("{} {}", screen.paint().warn("warning:"), server.text()));
            }
            let array = match style {
                Style::OpenAI => toolkit.to_openai(),
                Style::Anthropic => toolkit.to_anthropic(),
                Style::Gemini => toolkit.to_gemini(),
            };
            document(screen, &Value::Array(array))
        }
    }
}

fn as_json(toolkit: &Toolkit) -> Value {
    let tools: Vec<Value> = toolkit
        .snapshot()
        .tools()
        .iter()
        .map(|tool| {
            let mut value = json!(**tool);
            if let (Some(map), Some(origin)) = (value.as_object_mut(), &tool.origin) {
                map.insert("server".into(), origin.server.clone().into());
            }
            value
        })
        .collect();
    let skipped = toolkit.skills().map(|skills| json!(skills.skipped()));
    json!({
        "tools": tools,
        "statuses": toolkit.statuses(),
        "errors": toolkit.errors(),
        "skipped": skipped.unwrap_or_else(|| json!([])),
    })
}

/// Under one heading: the tools of one server, or of one other source.
fn groups<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> BTreeMap<(usize, String), Vec<&'a Tool>> {
    let mut groups: BTreeMap<(usize, String), Vec<&Tool>> = BTreeMap::new();
    for tool in tools {
        let key = match (&tool.origin, tool.source) {
            (Some(origin), _) => (0, format!("MCP server {}", plain(&origin.server))),
            (None, ToolSource::Skill) => (1, "skills".into()),
            (None, ToolSource::Builtin) => (2, "built-in".into()),
            (None, source) => (3, source.to_string()),
        };
        groups.entry(key).or_default().push(tool);
    }
    groups
}

fn text(Loaded { toolkit, failed }: &Loaded, width: usize) -> String {
    let paint = Paint::stdout();
    let snapshot = toolkit.snapshot();
    let mut out = String::new();
    for ((_, heading), tools) in groups(snapshot.tools().iter().map(|tool| &**tool)) {
        out.push_str(&format!("{}\n", paint.bold(&heading)));
        let listing: Vec<(String, String)> = tools
            .iter()
            .map(|tool| (plain(&tool.name).into_owned(), first_line(&tool.description)))
            .collect();
        out.push_str(&rows("  ", &listing, width, |name| paint.name(name)));
        out.push('\n');
    }
    for server in failed {
        let reason = server.lines().join("\n  ");
        out.push_str(&format!("{} MCP server {}\n  {reason}\n\n", paint.bad("failed"), plain(&server.name)));
    }
    let skipped = toolkit.skills();
    let skipped = skipped.as_ref().map(|skills| skills.skipped()).unwrap_or_default();
    for skip in skipped {
        out.push_str(&super::skills::skipped_line(skip, &paint));
    }
    if !skipped.is_empty() {
        out.push('\n');
    }
    let mut total = count(snapshot.tools().len(), "tool");
    if !failed.is_empty() {
        total.push_str(&format!(", {} failed", count(failed.len(), "server")));
    }
    if !skipped.is_empty() {
        total.push_str(&format!(", {} skipped", count(skipped.len(), "skill file")));
    }
    out.push_str(&format!("{total}\n"));
    out
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().to_owned()
}
