//! Text as an `mcp.json`. Nothing that goes wrong may quote a value: values hold secrets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolnexus_mcp::{McpConfig, McpConfigInput, parse_mcp_config};

/// Stands for a secret; looked for wherever it must not be.
const CANARY: &str = "canary-5e1f";

fuzz_target!(|text: &str| {
    let parsed = parse_mcp_config(&McpConfigInput::Json(text.to_owned()));
    if let Err(error) = &parsed {
        let shown = error.to_string();
        let words: String = shown.chars().filter(|c| !c.is_ascii_digit()).collect();
        assert!(KNOWN_ERRORS.contains(&words.as_str()), "the error quotes the document: {shown}");
    }
    // The text and its value are the same document.
    let Ok(mut value) = serde_json::from_str::<Value>(text.strip_prefix('\u{feff}').unwrap_or(text)) else {
        return;
    };
    let of_value = parse_mcp_config(&McpConfigInput::Value(value.clone()));
    assert_eq!(parsed.is_ok(), of_value.is_ok());
    let (Ok(parsed), Ok(of_value)) = (parsed, of_value) else { return };
    assert_eq!(shown(&parsed), shown(&of_value));
    assert!(parsed.servers.is_sorted_by(|a, b| a.name < b.name), "names are unique and in order");

    if text.contains("canary") || text.contains('\\') {
        return;
    }
    hide(&mut value);
    let Ok(config) = parse_mcp_config(&McpConfigInput::Value(value)) else { return };
    for server in &config.servers {
        let reason = server.invalid.as_deref().unwrap_or_default();
        assert!(!reason.contains(CANARY), "a reason quotes a value: {reason}");
        let shape = format!("{:?}", server.header_shape());
        assert!(!shape.contains(CANARY), "a header's value is shown: {shape}");
        // A program and a URL's path are shown on purpose.
        let named = [server.command.first(), server.url.as_ref()];
        if !named.into_iter().flatten().any(|shown| shown.contains(CANARY)) {
            let shown = format!("{server:?}");
            assert!(!shown.contains(CANARY), "a secret is shown: {shown}");
        }
    }
});

/// The errors of a document without their numbers.
const KNOWN_ERRORS: [&str; 5] = [
    "mcp config is not valid JSON at line  column ",
    "mcp config: the top level (line  column ) must be a JSON object",
    "mcp config: mcpServers (line  column ) must be a JSON object",
    "mcp config: servers (line  column ) must be a JSON object",
    "mcp config: mcp (line  column ) must be a JSON object",
];

fn shown(config: &McpConfig) -> Vec<String> {
    let one = |server| format!("{server:?}");
    config.servers.iter().map(one).collect()
}

/// Puts the canary into every text that is no word of the format.
fn hide(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(CANARY),
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(map) => {
            map.iter_mut().filter(|(key, _)| *key != "type").for_each(|(_, value)| hide(value))
        }
        _ => {}
    }
}
