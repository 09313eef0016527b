//! What servers write to standard error is kept, not shown.

use std::time::Duration;

use serde_json::json;
use toolnexus_conformance::processes::{eventually, with_variable};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{MARK, Setting, Wire, connection, load, marked};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path().canonicalize().map_err(|error| error.to_string())?.display().to_string();
    let toolkit = load(json!({
        "everything": marked(setting.everything(Wire::Stdio, json!({})), "stderr"),
        "every.thing": setting.everything(Wire::Http, json!({})),
        "files": setting.local("filesystem", &[&folder]),
        "memory": setting.local("memory", &[]),
    }))
    .await?;
    let roots = format!(
        "Client does not support MCP Roots, using allowed directories set from server args: [\n  '{folder}'\n]"
    );
    let roots_in_one_line = roots.replace("\n  ", " ").replace("\n]", " ]");
    let secure = "Secure MCP Filesystem Server running on stdio";
    for (server, texts) in [
        ("everything", vec!["Starting default (STDIO) server...".to_owned()]),
        ("memory", vec!["Knowledge Graph MCP Server running on stdio".to_owned()]),
        ("files", vec![format!("{secure}\n{roots}"), format!("{secure}\n{roots_in_one_line}")]),
        ("every.thing", vec![String::new()]),
    ] {
        let connection = connection(&toolkit, server)?;
        report
            .check(&format!("stderr: what {server} says is kept"), async {
                // It comes on a pipe of its own, in its own time.
                let said = || connection.stderr().join("\n");
                eventually(Duration::from_secs(5), || texts.contains(&said())).await;
                holds(texts.contains(&said()), || format!("expected {texts:?}, got {:?}", said()))
            })
            .await;
    }
    report.check("stderr: it is not this program's own", not_inherited()).await;
    toolkit.close().await;
    report
        .check("stderr: it stays readable after the end", async {
            let said = connection(&toolkit, "everything")?.stderr();
            equal("lines", &said, &["Starting default (STDIO) server..."])
        })
        .await;
    Ok(())
}

// MCP-49
async fn not_inherited() -> Outcome {
    let target =
        |pid: &str| std::fs::read_link(format!("/proc/{pid}/fd/2")).map_err(|error| error.to_string());
    let own = target("self")?;
    let children = with_variable(MARK, "stderr");
    equal("processes", &children.len(), &1)?;
    for child in children {
        let theirs = target(&child.to_string())?;
        holds(theirs != own, || format!("both are {}", own.display()))?;
    }
    Ok(())
}
