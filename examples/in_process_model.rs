//! A function in place of a provider's API: it answers whole, calls a tool, and streams.
//!
//! `cargo run -p toolnexus --example in_process_model`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolnexus::client::{
    InProcessChunk, InProcessOptions, InProcessRequest, InProcessResponse, InProcessToolCall, Usage,
};
use toolnexus::{ClientOptions, StreamEvent, Toolkit, create_in_process_client, define_sync_tool};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let word_count = define_sync_tool("word_count", "Counts words", None, |args: Value, _context| {
        let text = args.get("text").and_then(Value::as_str).ok_or("no text given")?;
        Ok::<_, &str>(text.split_whitespace().count())
    });
    let toolkit = Toolkit::from_tools([word_count]);
    let options = ClientOptions { model: "bookkeeper-1".into(), ..Default::default() };

    // A whole answer for `run` and `ask`.
    let mut model = InProcessOptions::new(options, |request| async move { Ok(think(&request)) });
    // Without this one, `stream` is refused.
    model.generate_stream = Some(Arc::new(|request| {
        let text = format!("I am {}, and I speak word by word.", request.model);
        let words: Vec<_> = text.split_inclusive(' ').map(|word| Ok(InProcessChunk::from(word))).collect();
        futures::stream::iter(words).boxed()
    }));
    let client = create_in_process_client(model);

    let result = client.run("one two three", &toolkit).await?;
    println!("{} ({} tokens in {} turns)", result.text, result.usage.total_tokens, result.turns);

    let mut stream = client.stream("Who are you?", &toolkit);
    while let Some(event) = stream.next().await {
        if let StreamEvent::Text { delta } = event? {
            println!("delta: {delta:?}");
        }
    }
    Ok(())
}

/// Has the words of the prompt counted, then says how many there are.
fn think(request: &InProcessRequest) -> InProcessResponse {
    let usage = Some(Usage { prompt_tokens: 11, completion_tokens: 4, ..Default::default() });
    match request.messages.last() {
        Some(message) if message["role"] == "tool" => {
            let count = message["content"].as_str().unwrap_or_default();
            InProcessResponse { usage, ..InProcessResponse::text(format!("I count {count} words.")) }
        }
        _ => {
            let text = request.newest_user_text().unwrap_or_default();
            let call = InProcessToolCall::new("word_count", json!({"text": text}));
            InProcessResponse { tool_calls: vec![call], usage, ..Default::default() }
        }
    }
}
