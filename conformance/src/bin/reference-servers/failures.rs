//! Calls that the server refuses: error results with the server's own words, and nothing breaks.

use serde_json::{Value, json};
use toolnexus::Toolkit;
use toolnexus_conformance::{Outcome, Report, equal};

use crate::servers::{Setting, Wire, call, failure, json_of, text};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let toolkit = setting.load_everything(wire).await?;
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report.check(&name("arguments that do not fit the schema"), misfits(&toolkit, wire)).await;
        report.check(&name("a tool that throws"), throws(&toolkit, wire)).await;
        report.check(&name("a tool that wants to run as a task"), task_only(&toolkit, wire)).await;
        report.check(&name("arguments that are no object"), no_object(&toolkit, wire)).await;
        report.check(&name("the connection outlives all that"), still_there(&toolkit, wire)).await;
        toolkit.close().await;
    }
    Ok(())
}

// MCP-79, MCP-82
async fn refused(toolkit: &Toolkit, wire: Wire, tool: &str, args: Value, output: &str) -> Outcome {
    let result = call(toolkit, &format!("{}{tool}", wire.prefix()), args).await?;
    equal("result", &json_of(&result), &failure(wire.server(), output))
}

// MCP-78: nothing is validated on this side
async fn misfits(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let invalid = "MCP error -32602: Input validation error: Invalid arguments for tool ";
    let output = format!("{invalid}get-sum: Invalid input: expected number, received string at b");
    refused(toolkit, wire, "get-sum", json!({"a": 1, "b": "x"}), &output).await?;
    let output = format!(
        "{invalid}get-structured-content: Invalid option: expected one of \"New York\"|\"Chicago\"|\"Los Angeles\" at location"
    );
    refused(toolkit, wire, "get-structured-content", json!({"location": "Paris"}), &output).await?;
    let output = format!("{invalid}echo: Invalid input: expected string, received undefined at message");
    refused(toolkit, wire, "echo", Value::Null, &output).await
}

async fn throws(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let args = json!({"resourceType": "Blob", "resourceId": 0});
    let output = "Invalid resourceId: 0. Must be a finite positive integer.";
    refused(toolkit, wire, "get-resource-reference", args, output).await
}

async fn task_only(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let output =
        "MCP error -32601: Tool simulate-research-query requires task augmentation (taskSupport: 'required')";
    refused(toolkit, wire, "simulate-research-query", json!({"topic": "x"}), output).await
}

// Refused before it reaches the server: so without metadata.
async fn no_object(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let name = format!("{}echo", wire.prefix());
    let result = call(toolkit, &name, json!(["hello"])).await?;
    let output = format!("invalid arguments for tool {name:?}: expected a JSON object");
    equal("result", &json_of(&result), &json!({"output": output, "isError": true}))
}

async fn still_there(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let result = call(toolkit, &format!("{}echo", wire.prefix()), json!({"message": "still"})).await?;
    equal("result", &json_of(&result), &text(wire.server(), "Echo: still"))
}
