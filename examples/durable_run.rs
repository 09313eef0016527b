//! A run that outlives its process: it is written down, stops at a question, and is taken up by another
//! client, which answers. The model is a scripted server on this machine, so no key is needed.
//!
//! `cargo run -p toolnexus --example durable_run`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;

use serde_json::{Value, json};
use toolnexus::client::run_log::{FileRunLog, RunFilter, RunLog};
use toolnexus::client::{ResumeOptions, RunDurableOptions};
use toolnexus::{Answer, BoxError, Client, ClientOptions, ToolContext, Toolkit, create_client, define_tool};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ModelServer::start(
        Script::new()
            .reply(Reply::openai().tool_call("c1", "refund", json!({"order": "A-7"})))
            .reply(Reply::openai().text("Order A-7 is refunded.")),
    )
    .await?;
    let client = || -> Client {
        create_client(ClientOptions {
            base_url: server.base_url(),
            model: "scripted".into(),
            api_key: "unused".into(),
            ..Default::default()
        })
    };
    // Somebody has to allow it. Until then the call is suspended.
    let refund =
        define_tool("refund", "Refund an order", None, |args: Value, context: ToolContext| async move {
            let order = args.get("order").and_then(Value::as_str).unwrap_or("?").to_owned();
            let answer = context.elicit(format!("Refund order {order}?"), json!({"type": "object"})).await?;
            let key = context.idempotency_key.unwrap_or_default();
            Ok::<_, BoxError>(if answer.ok {
                format!("refunded {order} (key {key})")
            } else {
                "refused".into()
            })
        });
    let toolkit = Toolkit::from_tools([refund]);
    let directory = tempfile::tempdir()?;

    // One process: it begins the run, hears the question, and may end.
    let log: Arc<dyn RunLog> = Arc::new(FileRunLog::open(directory.path())?);
    let options = RunDurableOptions { run_id: "refund-A-7".into(), ..RunDurableOptions::new(log) };
    let waiting = client().run_durable("Refund order A-7.", &toolkit, options).await?;
    println!("{}: {}", waiting.status, waiting.text);

    // Another process, next week.
    let log: Arc<dyn RunLog> = Arc::new(FileRunLog::open(directory.path())?);
    for run in log.list(RunFilter::default()).await? {
        println!("{} is {} after {} model call", run.run_id, run.status.as_str(), run.turns);
    }
    let question = waiting.pending.ok_or("nothing was asked")?;
    let answer = Answer { id: question.id, ok: true, ..Default::default() };
    let options =
        ResumeOptions { answer: Some(answer), ..ResumeOptions::new(Arc::clone(&log), "refund-A-7") };
    let result = client().resume(&toolkit, options.clone()).await?;
    for call in &result.tool_calls {
        println!("{} gave: {}", call.name, call.output);
    }
    println!("{}: {}", result.status, result.text);

    // A finished run gives its stored result. Nothing is called.
    let again = client().resume(&toolkit, ResumeOptions { answer: None, ..options }).await?;
    println!("again: {} ({} requests in all)", again.text, server.requests().len());
    Ok(())
}
