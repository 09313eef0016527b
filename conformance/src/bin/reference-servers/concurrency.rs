//! Many calls at once, on one connection and across servers.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::json;
use toolnexus::Toolkit;
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::cancel::{POSTED, echo};
use crate::servers::{Setting, Wire, call, json_of, load, structured, text, with};

/// How long the slow calls take.
const SLOW: Duration = Duration::from_secs(3);
const SLOW_OUTPUT: &str = "Long running operation completed. Duration: 3 seconds, Steps: 6.";

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let toolkit = setting.load_everything(wire).await?;
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report.check(&name("two hundred calls at once"), many(&toolkit, wire)).await;
        report.check(&name("a slow call holds up no other"), overtaking(&toolkit, wire)).await;
        toolkit.close().await;
    }
    report.check("http: by default calls of a session take turns", in_turn(setting)).await;
    report.check("both: servers work at the same time", across_servers(setting)).await;
    Ok(())
}

// MCP-92: each call gets its own answer
async fn many(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let calls = (0..200).map(|number| {
        let toolkit = toolkit.clone();
        async move { echo(&toolkit, wire, &format!("number {number}")).await }
    });
    try_join_all(calls).await.map(drop)
}

async fn slow(toolkit: Toolkit, wire: Wire) -> Outcome {
    let name = format!("{}trigger-long-running-operation", wire.prefix());
    let result = call(&toolkit, &name, json!({"duration": SLOW.as_secs(), "steps": 6})).await?;
    equal("slow call", &json_of(&result), &text(wire.server(), SLOW_OUTPUT))
}

async fn overtaking(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let running = tokio::spawn(slow(toolkit.clone(), wire));
    for number in 0..20 {
        echo(toolkit, wire, &format!("beside {number}")).await?;
    }
    holds(!running.is_finished(), || "the slow call was not slower".into())?;
    running.await.map_err(|error| error.to_string())?
}

// MCP-134, MCP-135
async fn in_turn(setting: &Setting) -> Outcome {
    let toolkit = load(json!({Wire::Http.server(): setting.everything_in_turn()})).await?;
    let posted = setting.http.count(POSTED);
    let running = tokio::spawn(slow(toolkit.clone(), Wire::Http));
    holds(setting.http.says(POSTED, posted + 1).await, || "the call was not posted".into())?;
    let started = Instant::now();
    echo(&toolkit, Wire::Http, "in turn").await?;
    let waited = started.elapsed();
    running.await.map_err(|error| error.to_string())??;
    toolkit.close().await;
    holds(waited > SLOW / 2, || format!("the second call waited for {waited:?} only"))
}

// Two slow servers overlap, and two quick ones are done before them.
async fn across_servers(setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path().display().to_string();
    let memory = json!({"environment": {"MEMORY_FILE_PATH": format!("{folder}/graph.jsonl")}});
    let toolkit = load(json!({
        "everything": setting.everything(Wire::Stdio, json!({})),
        "every.thing": setting.everything(Wire::Http, json!({})),
        "files": setting.local("filesystem", &[&folder]),
        "memory": with(setting.local("memory", &[]), memory),
    }))
    .await?;
    let started = Instant::now();
    let both = Wire::BOTH.map(|wire| tokio::spawn(slow(toolkit.clone(), wire)));

    let path = format!("{folder}/a.txt");
    let file = async {
        call(&toolkit, "files_write_file", json!({"path": path, "content": "a"})).await?;
        let result = call(&toolkit, "files_read_text_file", json!({"path": path})).await?;
        equal("file", &json_of(&result), &structured("files", json!({"content": "a"})))
    };
    let entity = json!({"name": "a", "entityType": "letter", "observations": []});
    let graph = async {
        call(&toolkit, "memory_create_entities", json!({"entities": [entity]})).await?;
        let result = call(&toolkit, "memory_read_graph", json!({})).await?;
        let expected = structured("memory", json!({"entities": [entity], "relations": []}));
        equal("graph", &json_of(&result), &expected)
    };
    let (file, graph) = tokio::join!(file, graph);
    file?;
    graph?;
    holds(both.iter().all(|slow| !slow.is_finished()), || "the slow calls were not slower".into())?;
    for slow in both {
        slow.await.map_err(|error| error.to_string())??;
    }
    let took = started.elapsed();
    toolkit.close().await;
    holds(took < 2 * SLOW, || format!("two calls of {SLOW:?} at once took {took:?}"))
}
