//! server-memory: a graph that is built, read back, and still there for the next connection.

use serde_json::{Value, json};
use toolnexus::Toolkit;
use toolnexus_conformance::{Outcome, Report, equal};

use crate::servers::{Setting, call, failure, json_of, load, structured, with};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("graph.jsonl").display().to_string();
    let environment = json!({"environment": {"MEMORY_FILE_PATH": file}});
    let servers = json!({"memory": with(setting.local("memory", &[]), environment)});

    let toolkit = load(servers.clone()).await?;
    report.check("memory: an empty graph", reads(&toolkit, json!({"entities": [], "relations": []}))).await;
    report.check("memory: create and read back", create(&toolkit)).await;
    report.check("memory: search and open", find(&toolkit)).await;
    report.check("memory: an observation on nobody", nobody(&toolkit)).await;
    toolkit.close().await;

    // The variable of the entry has reached the server: the file is where it said.
    let toolkit = load(servers).await?;
    report.check("memory: the graph outlives a connection", reads(&toolkit, graph())).await;
    report.check("memory: delete", delete(&toolkit)).await;
    toolkit.close().await;
    Ok(())
}

fn ada() -> Value {
    json!({"name": "Ada", "entityType": "person", "observations": ["wrote the first program", "liked 漢字 & \"quotes\""]})
}

fn engine() -> Value {
    json!({"name": "Engine", "entityType": "machine", "observations": []})
}

fn programs() -> Value {
    json!({"from": "Ada", "to": "Engine", "relationType": "programs"})
}

fn graph() -> Value {
    json!({"entities": [ada(), engine()], "relations": [programs()]})
}

async fn gives(toolkit: &Toolkit, tool: &str, args: Value, content: Value) -> Outcome {
    let result = call(toolkit, &format!("memory_{tool}"), args).await?;
    equal(tool, &json_of(&result), &structured("memory", content))
}

async fn reads(toolkit: &Toolkit, graph: Value) -> Outcome {
    gives(toolkit, "read_graph", json!({}), graph).await
}

async fn create(toolkit: &Toolkit) -> Outcome {
    let entities = json!({"entities": [ada(), engine()]});
    gives(toolkit, "create_entities", entities.clone(), entities).await?;
    let relations = json!({"relations": [programs()]});
    gives(toolkit, "create_relations", relations.clone(), relations).await?;
    reads(toolkit, graph()).await
}

async fn find(toolkit: &Toolkit) -> Outcome {
    let found = json!({"entities": [ada()], "relations": [programs()]});
    gives(toolkit, "search_nodes", json!({"query": "FIRST program"}), found.clone()).await?;
    gives(toolkit, "open_nodes", json!({"names": ["Ada"]}), found).await
}

async fn nobody(toolkit: &Toolkit) -> Outcome {
    let args = json!({"observations": [{"entityName": "Nobody", "contents": ["x"]}]});
    let result = call(toolkit, "memory_add_observations", args).await?;
    equal("result", &json_of(&result), &failure("memory", "Entity with name Nobody not found"))
}

async fn delete(toolkit: &Toolkit) -> Outcome {
    let done = json!({"success": true, "message": "Entities deleted successfully"});
    gives(toolkit, "delete_entities", json!({"entityNames": ["Ada"]}), done).await?;
    reads(toolkit, json!({"entities": [engine()], "relations": []})).await
}
