//! An agent that works on a folder it cannot leave: it searches, reads, patches, starts a command in the
//! background and asks a person. The model is a scripted server on this machine, so no key is needed.
//!
//! `cargo run -p toolnexus --example coding_agent`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::json;
use toolnexus::builtins::BackgroundShells;
use toolnexus::{
    Answer, BuiltinsConfig, ClientOptions, Request, StreamEvent, ToolkitOptions, create_client,
    create_toolkit,
};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

const PATCH: &str = "\
*** Begin Patch
*** Update File: src/greet.sh
@@
-echo 'helo'
+echo 'hello'
*** Add File: CHANGES.md
+- The greeting is spelled right.
*** End Patch";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = tempfile::tempdir()?;
    std::fs::create_dir(project.path().join("src"))?;
    std::fs::write(project.path().join("src/greet.sh"), "#!/bin/sh\necho 'helo'\n")?;

    let ask = json!({"questions": [{"question": "Release it?", "options": ["yes", "no"]}]});
    let server = ModelServer::start(
        Script::new()
            .reply(Reply::openai().tool_call("c1", "grep", json!({"pattern": "helo"})).tool_call(
                "c2",
                "read",
                json!({"path": "../../etc/passwd"}),
            ))
            .reply(Reply::openai().tool_call("c3", "apply_patch", json!({"patchText": PATCH})))
            .reply(Reply::openai().tool_call(
                "c4",
                "bash",
                json!({"command": "sh src/greet.sh", "run_in_background": true}),
            ))
            .reply(Reply::openai().tool_call("c5", "question", ask))
            .reply(Reply::openai().text("The greeting is right now, and you want it released.")),
    )
    .await?;

    let shells = BackgroundShells::new();
    let toolkit = create_toolkit(ToolkitOptions {
        builtins: Some(BuiltinsConfig {
            base_dir: Some(project.path().into()),
            confine_to_base_dir: true,
            background: Some(Arc::clone(&shells)),
            ..Default::default()
        }),
        // A person would be asked here.
        wait_for: Some(Arc::new(|request: Request| {
            Box::pin(async move {
                println!("asked: {}", request.prompt);
                let data = json!({"answers": ["yes"]}).as_object().cloned();
                Ok(Answer { id: request.id, ok: true, data, reason: None })
            })
        })),
        ..Default::default()
    })
    .await?;
    let client = create_client(ClientOptions {
        base_url: server.base_url(),
        model: "scripted".into(),
        api_key: "unused".into(),
        ..Default::default()
    });

    let mut run = client.stream("Mend the greeting.", &toolkit);
    while let Some(event) = run.next().await {
        match event? {
            StreamEvent::ToolResult { name, output, metadata, .. } => {
                println!("{name}: {output}");
                if let Some(diff) = metadata.as_ref().and_then(|facts| facts.get("diff")?.as_str()) {
                    println!("{diff}");
                }
            }
            StreamEvent::Done { result } => println!("{}", result.text),
            _ => {}
        }
    }
    // Background shells belong to no run; whoever made the registry closes it.
    shells.close_all().await;
    toolkit.close().await;
    Ok(())
}
