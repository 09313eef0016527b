//! The older HTTP transport, with one standing event stream.

use serde_json::json;
use toolnexus_conformance::{Outcome, Report, equal};

use crate::servers::{Setting, call, json_of, load, text};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let server = setting.start_sse().await?;
    let url = server.url("/sse");
    report.check("sse: named in the entry", echoes(json!({"type": "sse", "url": url}))).await;
    report.check("sse: found after a refusal of the newer one", echoes(json!({"url": url}))).await;
    Ok(())
}

// MCP-6, MCP-36
async fn echoes(entry: serde_json::Value) -> Outcome {
    let toolkit = load(json!({"old": entry})).await?;
    let result = call(&toolkit, "old_echo", json!({"message": "hello"})).await?;
    toolkit.close().await;
    equal("result", &json_of(&result), &text("old", "Echo: hello"))
}
