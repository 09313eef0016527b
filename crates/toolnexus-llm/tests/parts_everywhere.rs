//! Parts of tool results go out alike, buffered, streamed, and in a conversation that was stored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::{STYLES, options, reply, server, within};
use toolnexus_core::{ContentPart, Style, ToolResult, Toolkit, define_tool};
use toolnexus_llm::{RunOptions, Transcript, create_client};

const DATA: &str = "iVBORw0KGgo=";

fn shots() -> Toolkit {
    Toolkit::from_tools(["shot_a", "shot_b"].map(|name| {
        define_tool(name, "", None, |_args: Value, _context| async {
            ToolResult::success("a picture").with_parts(vec![
                ContentPart::text("more"),
                ContentPart::from_base64("image/png", DATA, None),
            ])
        })
    }))
}

/// What a request says of the conversation, but for the model's own words, which a stream and a whole
/// answer may put differently.
fn said(style: Style, body: &Value) -> Value {
    let messages = match style {
        Style::Gemini => &body["contents"],
        _ => &body["messages"],
    };
    let models = |message: &&Value| !matches!(message["role"].as_str(), Some("assistant" | "model"));
    messages.as_array().unwrap().iter().filter(models).cloned().collect()
}

// CORE-43, CORE-44, CORE-45, CORE-46, CORE-47: the same request, whichever way it comes about
#[tokio::test]
async fn a_tools_parts_are_sent_alike_on_every_path() {
    for style in STYLES {
        let turns = || {
            let calls =
                reply(style).tool_call("c1", "shot_a", json!({})).tool_call("c2", "shot_b", json!({}));
            [calls, reply(style).text("seen")]
        };
        let server = server(
            turns().into_iter().chain(turns()).chain([reply(style).text("again")]).collect::<Vec<_>>(),
        )
        .await;
        let client = create_client(options(style, server.base_url()));
        let run = within(client.run("look", &shots())).await.unwrap();
        let streamed = within(client.stream("look", &shots()).finish()).await.unwrap();
        assert_eq!(run.messages.len(), streamed.messages.len(), "{style}");

        // Through JSON, as a store has it.
        let stored: Transcript =
            serde_json::from_str(&serde_json::to_string(&run.messages).unwrap()).unwrap();
        let again = RunOptions { history: stored, ..Default::default() };
        within(client.run_with("and now?", &shots(), again)).await.unwrap();

        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        let with_results = said(style, &bodies[1]);
        assert_eq!(with_results, said(style, &bodies[3]), "{style}: streamed");
        let results = with_results.as_array().unwrap();
        let restored = said(style, &bodies[4]);
        assert_eq!(restored.as_array().unwrap()[..results.len()], results[..], "{style}: restored");

        let sent = with_results.to_string();
        assert_eq!(sent.matches(DATA).count(), 2, "{style}: {sent}");
        assert_eq!(
            sent.matches("\"mimeType\"").count(),
            if style == Style::Gemini { 2 } else { 0 },
            "{style}"
        );
        // The extra message of OpenAI's is on the wire alone.
        let stored = serde_json::to_string(&run.messages).unwrap();
        assert_eq!(sent.contains("Output of tool shot_a (c1):"), style != Style::Anthropic, "{style}");
        assert!(!stored.contains("Output of tool"), "{style}: {stored}");
    }
}
