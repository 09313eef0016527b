//! A server that cannot be had, or is lost, costs the others nothing.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinHandle;
use toolnexus::{SourceStatus, ToolContext, ToolResult, Toolkit};
use toolnexus_conformance::processes::{eventually, with_variable};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::cancel::{echo, under_way};
use crate::servers::{MARK, Setting, Wire, call, connection, failure, json_of, load, load_any, marked};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    report.check("isolation: broken servers beside a good one", broken(setting)).await;
    report.check("isolation: a killed server fails its own calls", killed(setting)).await;
    Ok(())
}

// MCP-40 to MCP-49
async fn broken(setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let nowhere = folder.path().join("nowhere").display().to_string();
    let closed_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| error.to_string())?;
    let toolkit = load_any(json!({
        "everything": setting.everything(Wire::Stdio, json!({})),
        "exits": setting.local("filesystem", &[&nowhere]),
        "missing": {"command": ["toolnexus-no-such-program"]},
        "odd": 7,
        "off": {"command": ["toolnexus-no-such-program"], "disabled": true},
        "refused": {"url": format!("http://{closed_port}/mcp")},
        "wrong-path": {"url": setting.http.url("/nothing-here")},
    }))
    .await?;
    use SourceStatus::{Connected, Disabled, Failed};
    let status: Vec<(String, SourceStatus)> = toolkit.mcp_status().into_iter().collect();
    let expected = [
        ("everything", Connected),
        ("exits", Failed),
        ("missing", Failed),
        ("odd", Failed),
        ("off", Disabled),
        ("refused", Failed),
        ("wrong-path", Failed),
    ];
    equal("status", &status, &expected.map(|(name, status)| (name.to_owned(), status)))?;
    let exits = format!(
        "peer-exited (status 1); stderr: Warning: Cannot access directory {nowhere}, skipping | \
         Error: None of the specified directories are accessible"
    );
    let errors: BTreeMap<String, String> = [
        ("exits", "initialize", exits.as_str()),
        ("missing", "connect", "transport (spawn-failed)"),
        ("refused", "initialize", "transport (connect-failed)"),
        ("wrong-path", "initialize", "http-status (HTTP 404)"),
    ]
    .into_iter()
    .map(|(name, phase, what)| (name.to_owned(), format!("mcp server {name:?} failed at {phase}: {what}")))
    .collect();
    let mut actual = toolkit.errors();
    let odd = actual.remove("odd").unwrap_or_default();
    holds(odd.starts_with("mcp server \"odd\" failed at config: config"), || format!("odd: {odd:?}"))?;
    equal("errors", &actual, &errors)?;
    echo(&toolkit, Wire::Stdio, "undisturbed").await?;
    toolkit.close().await;
    Ok(())
}

// MCP-44, MCP-68
async fn killed(setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path().display().to_string();
    let toolkit = load(json!({
        "everything": marked(setting.everything(Wire::Stdio, json!({})), "killed"),
        "files": setting.local("filesystem", &[&folder]),
    }))
    .await?;
    let running = under_way(&toolkit, setting, Wire::Stdio, ToolContext::default()).await?;
    for pid in with_variable(MARK, "killed") {
        let kill = Command::new("kill").args(["-KILL", &pid.to_string()]).status().await;
        holds(kill.is_ok_and(|status| status.success()), || format!("process {pid} cannot be killed"))?;
    }
    lost_with_its_server(&toolkit, running).await?;
    let result = call(&toolkit, "files_list_directory", json!({"path": folder})).await?;
    equal("the other server", &result.is_error, &false)?;
    equal("status", &toolkit.mcp_status().get("everything"), &Some(&SourceStatus::Connected))?;
    toolkit.close().await;
    Ok(())
}

async fn lost_with_its_server(toolkit: &Toolkit, running: JoinHandle<Result<ToolResult, String>>) -> Outcome {
    let output = "mcp server \"everything\" failed at tools/call: peer-exited (signal 9); \
                  stderr: Starting default (STDIO) server...";
    let result = running.await.map_err(|error| error.to_string())??;
    equal("the call in flight", &json_of(&result), &failure("everything", output))?;
    let connection = connection(toolkit, "everything")?;
    let noticed = eventually(Duration::from_secs(2), || !connection.is_connected()).await;
    holds(noticed, || "the connection still counts as standing".into())?;
    let result = call(toolkit, "everything_echo", json!({"message": "anybody?"})).await?;
    equal("a later call", &json_of(&result), &failure("everything", output))
}
