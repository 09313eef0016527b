//! `toolnexus mcp inspect`.

use serde_json::{Map, Value, json};
use toolnexus::Tool;
use toolnexus::mcp::{McpConnection, McpServerInfo, McpStatus};

use super::args::InspectArgs;
use super::servers::{self, Servers};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::list::document;
use crate::render::{count, plain, plain_lines};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(super) async fn inspect(
    args: &InspectArgs,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let (_, config) = servers::only(&args.config, std::slice::from_ref(&args.server))?;
    let servers = Servers::load(Some(config), None, screen, interrupt).await?;
    let printed = servers.connections.iter().try_for_each(|connection| {
        if args.json {
            let tools = connection.tools().iter().map(|tool| Value::Object(tool_as_json(tool))).collect();
            document(screen, &Value::Object(servers.one_as_json(connection, tools)))
        } else {
            screen.answer(&text(&servers, connection))
        }
    });
    let exit = if servers.any_failed() { Exit::Failed } else { Exit::Done };
    servers.close().await;
    printed?;
    Ok(exit)
}

/// A tool under the server's own name and under the one a model sees.
fn tool_as_json(tool: &Tool) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("name".into(), remote_name(tool).into());
    fields.insert("toolName".into(), tool.name.as_str().into());
    if let Some(title) = &tool.title {
        fields.insert("title".into(), title.as_str().into());
    }
    fields.insert("description".into(), tool.description.as_str().into());
    fields.insert("inputSchema".into(), tool.input_schema.clone());
    if let Some(hints) = &tool.hints {
        fields.insert("hints".into(), json!(hints));
    }
    fields
}

/// The name that the server gives it.
pub(super) fn remote_name(tool: &Tool) -> &str {
    tool.origin.as_ref().map_or(tool.name.as_str(), |origin| origin.remote_name.as_str())
}

fn text(servers: &Servers, connection: &McpConnection) -> String {
    let paint = Paint::stdout();
    let name = paint.name(&plain(connection.name()));
    let mut out = match connection.status() {
        McpStatus::Connected => format!("{name}  {}\n", paint.good("connected")),
        McpStatus::Disabled => {
            format!("{name}  {}  switched off in the configuration\n", paint.dim("disabled"))
        }
        McpStatus::Failed => {
            let lines = servers.failure(connection.name()).map(|failed| failed.lines()).unwrap_or_default();
            format!("{name}  {}\n  {}\n", paint.bad("failed"), lines.join("\n  "))
        }
    };
    if connection.status() != McpStatus::Connected {
        return out;
    }
    if let Some(info) = connection.server_info() {
        out.push_str(&format!("  server    {}\n", plain(&implementation(info))));
    }
    if let Some(version) = connection.protocol_version() {
        out.push_str(&format!("  protocol  {}\n", plain(version)));
    }
    let instructions = connection.server_info().and_then(|info| info.instructions.as_deref());
    if let Some(instructions) = instructions.filter(|text| !text.trim().is_empty()) {
        out.push_str(&format!(
            "\n{}\n{}",
            paint.bold("instructions"),
            indented(instructions.trim_end(), "  ")
        ));
    }
    for tool in connection.tools().iter() {
        out.push_str(&format!("\n{}", paint.name(&plain(remote_name(tool)))));
        if let Some(title) = tool.title.as_deref().filter(|title| *title != remote_name(tool)) {
            out.push_str(&format!("  {}", plain(title)));
        }
        out.push_str(&format!("\n{}", indented(tool.description.trim(), "  ")));
        let hints = tool.hints.map(hints_in_words).unwrap_or_default();
        if !hints.is_empty() {
            out.push_str(&format!("  {}\n", paint.dim(&hints)));
        }
        out.push_str(&paint.dim(&indented(&format!("{:#}", tool.input_schema), "  ")));
    }
    out.push_str(&format!("\n{}\n", count(connection.tools().len(), "tool")));
    let stderr = connection.stderr();
    if !stderr.is_empty() {
        out.push_str(&format!("\n{}\n{}", paint.bold("stderr"), indented(&stderr.join("\n"), "  ")));
    }
    out
}

/// `Docs (docs-server 1.2.0)`, or what of it is known.
fn implementation(info: &McpServerInfo) -> String {
    let name = if info.name.is_empty() { "(no name)" } else { &info.name };
    let version = format!("{name} {}", info.version);
    match info.title.as_deref().filter(|title| *title != info.name) {
        Some(title) => format!("{title} ({})", version.trim_end()),
        None => version.trim_end().to_owned(),
    }
}

fn hints_in_words(hints: toolnexus::ToolHints) -> String {
    let words = [
        (hints.read_only, "read-only"),
        (hints.destructive && !hints.read_only, "destructive"),
        (hints.idempotent, "idempotent"),
        (hints.open_world, "reaches out"),
    ];
    words.into_iter().filter(|(set, _)| *set).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

/// Text of others, every line indented and ended.
fn indented(text: &str, indent: &str) -> String {
    plain_lines(text).lines().map(|line| format!("{indent}{line}").trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_what_it_said() {
        let info = |name: &str, version: &str, title: Option<&str>| {
            let mut info = McpServerInfo::default();
            info.name = name.into();
            info.version = version.into();
            info.title = title.map(Into::into);
            implementation(&info)
        };
        assert_eq!(info("docs", "1.2", Some("The docs")), "The docs (docs 1.2)");
        assert_eq!(info("docs", "1.2", Some("docs")), "docs 1.2");
        assert_eq!(info("", "", None), "(no name)");
    }

    #[test]
    fn every_line_is_indented_and_nothing_steers() {
        assert_eq!(indented("a\n\n\u{1b}[2Jb", "  "), "  a\n\n  ␛[2Jb\n");
        assert_eq!(indented("", "  "), "");
    }
}
