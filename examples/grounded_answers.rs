//! Answers that cite only what was read. A search tool returns database ids; the model sees `doc://1` and
//! `chunk://1` in their place and cites with them; people get real links, and so does whatever is stored.
//! A handle that the model makes up is refused. The model is a scripted server on this machine, so no key
//! is needed.
//!
//! `cargo run -p toolnexus --example grounded_answers`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolnexus::client::RunOptions;
use toolnexus::context::{CitationFormat, CitedSource, ContextOptions, RegistryConfig, ToolPolicy};
use toolnexus::{Client, ClientOptions, Tool, ToolResult, Toolkit, create_client, define_sync_tool};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

/// A passage of the handbook, as a database has it.
struct Passage {
    id: &'static str,
    document: &'static str,
    title: &'static str,
    text: &'static str,
}

const HANDBOOK: [Passage; 2] = [
    Passage {
        id: "5b0a7c1e-98f3-4c60-a0a6-5d9f2f8f3a11",
        document: "36283d3d-a495-40d2-a13f-e925fc322996",
        title: "Travel policy",
        text: "Trains are booked in second class. Journeys above six hours may be booked in first class.",
    },
    Passage {
        id: "c7a1f6d2-0f7b-4a35-8b1f-0c1f9a2d6e42",
        document: "8f7a5b68-a7ab-4565-b6f3-1cae2578f040",
        title: "Expenses",
        text: "Receipts are handed in within thirty days.",
    },
];

/// Where people read the handbook.
const SITE: &str = "https://handbook.example/";

/// What the scripted model says. Nobody ever showed it `chunk://9`.
const ANSWER: &str = "First class, if it takes more than six hours <ref id=\"chunk://1\"/>.
Chancellors fly <ref id=\"chunk://9\"/>.
Remember for next time: the rules are in doc://1.";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What the ids are, and which tools take and return them. Everything else stays as it is.
    let config = RegistryConfig::default()
        .policy("search_handbook", ToolPolicy::default().rendered())
        .policy("read_document", ToolPolicy::default().id_keys(["knowledge_id"]))
        .citation_format("chunk", CitationFormat::new("handbook-link", link, read_link));
    let boundary = Arc::new(ContextOptions::new(config)?);
    let toolkit = Toolkit::from_tools([search_handbook(), read_document()]);

    let server = ModelServer::start(
        Script::new()
            .reply(Reply::openai().tool_call("c1", "search_handbook", json!({"query": "train"})))
            .reply(
                Reply::openai()
                    .tool_call("c2", "read_document", json!({"knowledge_id": "doc://1"}))
                    .tool_call("c3", "read_document", json!({"knowledge_id": "doc://7"})),
            )
            .reply(Reply::openai().text(ANSWER))
            // Another agent, which is given what the first one said.
            .reply(Reply::openai().tool_call("d1", "read_document", json!({"knowledge_id": "doc://1"})))
            .reply(Reply::openai().text("It still says second class.")),
    )
    .await?;
    let client = |boundary| -> Client {
        create_client(ClientOptions {
            base_url: server.base_url(),
            model: "scripted".into(),
            api_key: "unused".into(),
            boundary: Some(boundary),
            ..Default::default()
        })
    };

    let answer = client(boundary.clone()).run("May I take the train first class?", &toolkit).await?;
    println!("the model was shown:\n{}\n", last_tool_result(&server, 1));
    for call in &answer.tool_calls {
        println!("{}({}): {}", call.name, Value::Object(call.args.clone()), call.output);
    }
    println!("\nthe model wrote:\n{ANSWER}");
    println!("\nthe person reads:\n{}\n", answer.text);

    // What was said holds no handle, so it can be stored and told to anybody.
    let instruction = format!("Check again what you noted: {}", answer.text);
    let second = client(boundary).run_with(instruction, &toolkit, RunOptions::default()).await?;
    println!("another agent, later:");
    for call in &second.tool_calls {
        println!("{}({}): {}", call.name, Value::Object(call.args.clone()), call.output);
    }
    println!("{}", second.text);
    Ok(())
}

/// How a citation looks to people. Titles are text; whoever writes a tag escapes them.
fn link(source: &CitedSource) -> String {
    let title = source.title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    format!("<handbook-link title=\"{title}\" href=\"{SITE}{}#{}\"/>", source.document_id, source.id)
}

/// Reads a citation of an earlier answer, which the model then sees as a handle again.
fn read_link(tag: &str) -> Option<CitedSource> {
    let (document, rest) = tag.split_once(SITE)?.1.split_once('#')?;
    let mut source = CitedSource::default();
    source.document_id = document.to_owned();
    source.id = rest.split('"').next()?.to_owned();
    Some(source)
}

/// Rows as a retrieval service gives them. `display_type` says how they are shown to the model in this run;
/// what it knows of them in later turns of a conversation is the output.
fn search_handbook() -> Tool {
    define_sync_tool("search_handbook", "Finds passages of the handbook", None, |args: Value, _context| {
        let query = args.get("query").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let rows: Vec<Value> = HANDBOOK
            .iter()
            .filter(|passage| passage.text.to_lowercase().contains(&query))
            .map(|passage| {
                json!({
                    "chunk_id": passage.id,
                    "knowledge_id": passage.document,
                    "knowledge_title": passage.title,
                    "content": passage.text,
                })
            })
            .collect();
        let output = Value::from(rows.clone()).to_string();
        let mut metadata = Map::new();
        metadata.insert("context".into(), json!({"display_type": "search_results", "results": rows}));
        ToolResult::success(output).with_metadata(metadata)
    })
}

/// A tool that knows ids of the database and nothing of handles.
fn read_document() -> Tool {
    define_sync_tool("read_document", "Reads a document", None, |args: Value, _context| {
        let id = args.get("knowledge_id").and_then(Value::as_str).unwrap_or_default();
        match HANDBOOK.iter().find(|passage| passage.document == id) {
            Some(passage) => Ok(passage.text.to_owned()),
            None => Err(format!("no document {id}")),
        }
    })
}

/// The result of a tool as it stood in that request.
fn last_tool_result(server: &ModelServer, request: usize) -> String {
    let requests = server.requests();
    let body = requests.get(request).map(|request| request.json()).unwrap_or_default();
    body.get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .rev()
        .find(|message| message["role"] == "tool")
        .map_or_else(String::new, |message| message["content"].as_str().unwrap_or_default().to_owned())
}
