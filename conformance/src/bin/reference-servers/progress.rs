//! Long calls: progress keeps them alive, and nothing else does.

use std::time::{Duration, Instant};

use serde_json::json;
use toolnexus::{ToolContext, Toolkit};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, Wire, call, call_with, failure, json_of, text};

const LONG: &str = "trigger-long-running-operation";

/// The server's time limit: it has to start within it too, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(3);

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let toolkit =
            setting.load_everything_with(wire, json!({"timeout": LIMIT.as_millis() as u64})).await?;
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        // All of them at once: they mostly wait.
        let (kept, lost, capped, own) = tokio::join!(
            kept_alive(&toolkit, wire),
            lost(&toolkit, wire),
            capped(setting, wire),
            own_limit(&toolkit, wire),
        );
        report.record(&name("progress keeps a call alive past its limit"), kept);
        report.record(&name("without progress the limit ends a call"), lost);
        report.record(&name("the total limit ends a call whatever its progress"), capped);
        report.record(&name("a limit of the call's own goes first"), own);
        report.check(&name("the connection outlives a timeout"), still_there(&toolkit, wire)).await;
        toolkit.close().await;
    }
    Ok(())
}

// MCP-88: six seconds under a limit of three, a sign of life every half second
async fn kept_alive(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let started = Instant::now();
    let args = json!({"duration": 6, "steps": 12});
    let result = call(toolkit, &format!("{}{LONG}", wire.prefix()), args).await?;
    let output = "Long running operation completed. Duration: 6 seconds, Steps: 12.";
    equal("result", &json_of(&result), &text(wire.server(), output))?;
    let took = started.elapsed();
    holds(took > LIMIT, || format!("it took {took:?} only, so no limit was put to the test"))
}

// MCP-88, MCP-90
async fn lost(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let started = Instant::now();
    let args = json!({"duration": 6, "steps": 1});
    let result = call(toolkit, &format!("{}{LONG}", wire.prefix()), args).await?;
    timed_out(&result, wire)?;
    let took = started.elapsed();
    holds(took >= LIMIT && took < Duration::from_secs(5), || format!("it took {took:?} for {LIMIT:?}"))
}

// MCP-88: maxTotalTimeout
async fn capped(setting: &Setting, wire: Wire) -> Outcome {
    let toolkit = setting.load_everything_with(wire, json!({"maxTotalTimeout": 2000})).await?;
    let started = Instant::now();
    let args = json!({"duration": 6, "steps": 24});
    let result = call(&toolkit, &format!("{}{LONG}", wire.prefix()), args).await?;
    timed_out(&result, wire)?;
    let took = started.elapsed();
    toolkit.close().await;
    holds(took >= Duration::from_secs(2) && took < Duration::from_secs(4), || {
        format!("it took {took:?} for 2 s")
    })
}

// MCP-88: ToolContext.timeout_ms
async fn own_limit(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let started = Instant::now();
    let context = ToolContext { timeout_ms: Some(500), ..Default::default() };
    let args = json!({"duration": 6, "steps": 1});
    let result = call_with(toolkit, &format!("{}{LONG}", wire.prefix()), args, context).await?;
    timed_out(&result, wire)?;
    let took = started.elapsed();
    holds(took < LIMIT, || format!("it took {took:?} for 500 ms"))
}

/// A timeout, which may quote what the server wrote to standard error.
fn timed_out(result: &toolnexus::ToolResult, wire: Wire) -> Outcome {
    let head = format!("mcp server {:?} failed at tools/call: timeout", wire.server());
    let output = match wire {
        Wire::Stdio => format!("{head}; stderr: Starting default (STDIO) server..."),
        Wire::Http => head,
    };
    equal("result", &json_of(result), &failure(wire.server(), output))
}

async fn still_there(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let result = call(toolkit, &format!("{}echo", wire.prefix()), json!({"message": "still"})).await?;
    equal("result", &json_of(&result), &text(wire.server(), "Echo: still"))
}
