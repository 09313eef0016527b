//! Withdrawing calls that are under way.

use std::time::{Duration, Instant};

use futures::poll;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolnexus::{ToolContext, ToolResult, Toolkit};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, Wire, call, call_with, failure, json_of, text};

/// What server-everything writes for every message that is posted to it.
pub(crate) const POSTED: &str = "Received MCP POST request";

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let toolkit = setting.load_everything(wire).await?;
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report.check(&name("a cancelled call ends at once"), cancelled(&toolkit, setting, wire)).await;
        report.check(&name("a dropped call is no burden"), dropped(&toolkit, setting, wire)).await;
        report.check(&name("a cancel touches no other call"), others(&toolkit, setting, wire)).await;
        toolkit.close().await;
    }
    Ok(())
}

/// A call of half a minute that the server has received.
pub(crate) async fn under_way(
    toolkit: &Toolkit,
    setting: &Setting,
    wire: Wire,
    context: ToolContext,
) -> Result<JoinHandle<Result<ToolResult, String>>, String> {
    let posted = setting.http.count(POSTED);
    let other = toolkit.clone();
    let mut call = Box::pin(async move {
        let name = format!("{}trigger-long-running-operation", wire.prefix());
        call_with(&other, &name, json!({"duration": 30, "steps": 60}), context).await
    });
    // The first poll hands the request over. Those of one pipe are read in turn: with the next one
    // answered, this one was received.
    holds(poll!(call.as_mut()).is_pending(), || "the long call is done already".into())?;
    let running = tokio::spawn(call);
    if wire == Wire::Http {
        holds(setting.http.says(POSTED, posted + 1).await, || "the call was not posted".into())?;
    }
    echo(toolkit, wire, "in the meantime").await?;
    holds(!running.is_finished(), || "the long call is done already".into())?;
    Ok(running)
}

pub(crate) async fn echo(toolkit: &Toolkit, wire: Wire, message: &str) -> Outcome {
    let result = call(toolkit, &format!("{}echo", wire.prefix()), json!({"message": message})).await?;
    equal("echo", &json_of(&result), &text(wire.server(), format!("Echo: {message}")))
}

// MCP-89, MCP-90
async fn cancelled(toolkit: &Toolkit, setting: &Setting, wire: Wire) -> Outcome {
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let running = under_way(toolkit, setting, wire, context).await?;
    let posted = setting.http.count(POSTED);
    let started = Instant::now();
    cancel.cancel();
    let result = running.await.map_err(|error| error.to_string())??;
    let took = started.elapsed();
    holds(took < Duration::from_secs(2), || format!("it took {took:?}"))?;
    let output = format!("mcp server {:?} failed at tools/call: cancelled", wire.server());
    equal("result", &json_of(&result), &failure(wire.server(), output))?;
    if wire == Wire::Http {
        holds(setting.http.says(POSTED, posted + 1).await, || {
            "the server was not told of the cancel".into()
        })?;
    }
    echo(toolkit, wire, "after the cancel").await
}

// MCP-90: dropping the call withdraws it too
async fn dropped(toolkit: &Toolkit, setting: &Setting, wire: Wire) -> Outcome {
    let running = under_way(toolkit, setting, wire, ToolContext::default()).await?;
    let posted = setting.http.count(POSTED);
    running.abort();
    if wire == Wire::Http {
        holds(setting.http.says(POSTED, posted + 1).await, || "the server was not told of the drop".into())?;
    }
    echo(toolkit, wire, "after the drop").await
}

// MCP-92
async fn others(toolkit: &Toolkit, setting: &Setting, wire: Wire) -> Outcome {
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let running = under_way(toolkit, setting, wire, context).await?;
    let name = format!("{}trigger-long-running-operation", wire.prefix());
    let mut other = Box::pin(call(toolkit, &name, json!({"duration": 1, "steps": 2})));
    holds(poll!(other.as_mut()).is_pending(), || "the other call is done already".into())?;
    cancel.cancel();
    let result = running.await.map_err(|error| error.to_string())?;
    holds(result?.is_error, || "the cancelled call succeeded".into())?;
    let output = "Long running operation completed. Duration: 1 seconds, Steps: 2.";
    equal("the other", &json_of(&other.await?), &text(wire.server(), output))
}
