//! The demo's MCP server: one tool over stdio, as small as the protocol allows.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::exit::Exit;

/// The protocol revision, where the client asks for one that is unknown here.
const REVISION: &str = "2025-11-25";
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", REVISION];

/// Kilograms on the shelf.
const STOCK: [(&str, f64); 3] = [("beans", 42.0), ("filters", 3.5), ("sugar", 11.0)];

/// Serves stdin and stdout until stdin ends.
pub(crate) fn serve() -> Exit {
    match serve_lines(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

fn serve_lines(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.lines() {
        let Some(answer) = answer(&line?) else { continue };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// The answer to one message; notifications and responses get none.
fn answer(line: &str) -> Option<Value> {
    let message: Value = match serde_json::from_str(line) {
        Ok(message) => message,
        Err(_) => {
            return Some(
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}),
            );
        }
    };
    let id = message.get("id")?;
    let method = message.get("method")?.as_str().unwrap_or_default();
    let params = message.get("params").unwrap_or(&Value::Null);
    Some(match result(method, params) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    })
}

fn result(method: &str, params: &Value) -> Result<Value, (i64, String)> {
    match method {
        "initialize" => {
            let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
            let revision = REVISIONS.into_iter().find(|known| *known == asked).unwrap_or(REVISION);
            Ok(json!({
                "protocolVersion": revision,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "warehouse", "version": env!("CARGO_PKG_VERSION")},
            }))
        }
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": [{
            "name": "stock",
            "description": "How much of an item the warehouse has, in kilograms",
            "inputSchema": {
                "type": "object",
                "properties": {"item": {"type": "string"}},
                "required": ["item"],
            },
            "annotations": {"readOnlyHint": true},
        }]})),
        "tools/call" => match params.get("name").and_then(Value::as_str) {
            Some("stock") => Ok(stock(params.pointer("/arguments/item").and_then(Value::as_str))),
            name => Err((-32602, format!("Unknown tool: {}", name.unwrap_or_default()))),
        },
        _ => Err((-32601, "Method not found".to_owned())),
    }
}

/// What the shelf holds, with the process that says so.
fn stock(item: Option<&str>) -> Value {
    let found = STOCK.into_iter().find(|(name, _)| Some(*name) == item);
    let (text, is_error) = match found {
        Some((item, kilograms)) => {
            (json!({"item": item, "kilograms": kilograms, "process": std::process::id()}).to_string(), false)
        }
        None => (format!("no item {:?} on the shelf", item.unwrap_or_default()), true),
    };
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &str) -> Vec<Value> {
        let mut output = Vec::new();
        serve_lines(lines.as_bytes(), &mut output).unwrap();
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn it_speaks_the_protocol() {
        let answers = said(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"stock","arguments":{"item":"sugar"}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"stock"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":4,"method":"server/discover"}"#,
            "\nnot json\n",
        ));
        assert_eq!(answers.len(), 5);
        assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(answers[1]["id"], "two");
        assert!(answers[1]["result"]["content"][0]["text"].as_str().unwrap().contains("11.0"));
        assert_eq!(answers[2]["result"]["isError"], true);
        assert_eq!(answers[3]["error"]["code"], -32601);
        assert_eq!(answers[4]["error"]["code"], -32700);
    }
}
