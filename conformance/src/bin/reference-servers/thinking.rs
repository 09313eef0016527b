//! server-sequential-thinking: state that grows over the calls of one connection, hints, a long description.

use serde_json::{Value, json};
use toolnexus::{ToolHints, Toolkit};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, call, connection, json_of, load, structured};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let toolkit = load(json!({"thinking": setting.local("sequential-thinking", &[])})).await?;
    report.check("thinking: the tool as it is listed", listed(&toolkit)).await;
    report.check("thinking: thoughts add up", thoughts(&toolkit)).await;
    report.check("thinking: what is missing is named", missing(&toolkit)).await;
    report.check("thinking: thoughts are told on stderr", told(&toolkit)).await;
    toolkit.close().await;
    Ok(())
}

// MCP-34, MCP-35, CORE-6
async fn listed(toolkit: &Toolkit) -> Outcome {
    let tool = toolkit.get("thinking_sequentialthinking").ok_or("no tool")?;
    equal("title", &tool.title.as_deref(), &Some("Sequential Thinking"))?;
    let lines = tool.description.lines().count();
    holds(lines > 50, || format!("{lines} lines of description"))?;
    let hints = ToolHints { read_only: true, destructive: false, idempotent: true, open_world: false };
    equal("hints", &tool.hints, &Some(hints))?;
    let required = json!(["thought", "nextThoughtNeeded", "thoughtNumber", "totalThoughts"]);
    equal("required", &tool.input_schema.get("required"), &Some(&required))
}

// MCP-80: the server counts, so it is one process for all calls
async fn thoughts(toolkit: &Toolkit) -> Outcome {
    let branch = json!({"branchFromThought": 1, "branchId": "b"});
    for (number, more, branches, total) in
        [(1, json!({}), json!([]), 2), (2, branch, json!(["b"]), 2), (3, json!({}), json!(["b"]), 3)]
    {
        let result = call(toolkit, "thinking_sequentialthinking", thought(number, more)).await?;
        let content = json!({"thoughtNumber": number, "totalThoughts": total, "nextThoughtNeeded": true,
            "branches": branches, "thoughtHistoryLength": number});
        equal("thought", &json_of(&result), &structured("thinking", content))?;
    }
    Ok(())
}

fn thought(number: u32, more: Value) -> Value {
    let mut args = json!({"thought": format!("step {number}"), "nextThoughtNeeded": true,
        "thoughtNumber": number, "totalThoughts": 2});
    if let (Some(args), Value::Object(more)) = (args.as_object_mut(), more) {
        args.extend(more);
    }
    args
}

// MCP-79
async fn missing(toolkit: &Toolkit) -> Outcome {
    let result = call(toolkit, "thinking_sequentialthinking", json!({"thought": "alone"})).await?;
    holds(result.is_error && result.output.contains("thoughtNumber"), || format!("{result:?}"))
}

// MCP-49
async fn told(toolkit: &Toolkit) -> Outcome {
    let stderr = connection(toolkit, "thinking")?.stderr();
    holds(stderr.iter().any(|line| line.contains("step 3")), || format!("stderr: {stderr:?}"))
}
