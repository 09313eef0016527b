//! A picture in a prompt, and what two providers are sent for it. Needs no key: a scripted model
//! on this machine answers.
//!
//! `cargo run -p toolnexus --example image_prompt`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use toolnexus::Prompt;
use toolnexus::content::ContentPart;
use toolnexus::prelude::*;
use toolnexus_testkit::model::{ModelServer, Reply, Script};

/// A picture of 8 by 8 pixels; `ContentPart::from_file("cat.png")` would read one from the disk.
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAGUlEQVR42mP4z8AARwyrkBAVJZClkAEVJQBm3VpRJDtqMQAAAABJRU5ErkJggg==";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let picture = ContentPart::from_data_url(PICTURE)?;
    println!("attached: {}", picture.summarize());

    for style in [Style::OpenAI, Style::Anthropic] {
        let reply = match style {
            Style::Anthropic => Reply::anthropic(),
            _ => Reply::openai(),
        };
        let script = Script::new().reply(reply.text("A small square of one colour.").usage(100, 8));
        let server = ModelServer::start(script).await?;
        let client = create_client(ClientOptions {
            base_url: server.base_url(),
            style,
            model: "scripted".into(),
            api_key: "not-needed".into(),
            ..Default::default()
        });
        let prompt = Prompt::from(["What is in this picture?".into(), picture.clone()]);
        let result = client.run(prompt, &Toolkit::default()).await?;

        println!("\n{style} is sent:");
        for request in server.requests() {
            let body = request.json();
            let blocks = body.pointer("/messages/0/content").and_then(|content| content.as_array());
            for block in blocks.into_iter().flatten() {
                println!("  {}", shortened(&block.to_string()));
            }
        }
        println!("it answers: {}", result.text);
        server.stop().await;
    }
    Ok(())
}

/// A long line without its middle.
fn shortened(line: &str) -> String {
    let (start, end) = (line.get(..90), line.len().checked_sub(20).and_then(|at| line.get(at..)));
    match (start, end) {
        (Some(start), Some(end)) if line.len() > 120 => format!("{start}…{end}"),
        _ => line.to_owned(),
    }
}
