//! What goes over the wire, byte for byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::fmt::Write as _;
use std::sync::Arc;

use handler_support::{Client, echo, handler, notification, request, soon, tool};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use toolnexus_core::{BoxError, LogLevel, ToolContext};
use toolnexus_mcp::server::{
    McpBody, McpDecision, McpHandlerOptions, McpServerDetails, McpSessionIds, mcp_close_stream,
};

/// An exchange, written down.
#[derive(Default)]
struct Transcript(String);

impl Transcript {
    fn asked(&mut self, method: &Method, body: &str) {
        writeln!(self.0, "{}", format!("> {method} {body}").trim_end()).unwrap();
    }

    fn head(&mut self, answer: &Response<McpBody>) {
        writeln!(self.0, "< {}", answer.status()).unwrap();
        let mut headers: Vec<_> = answer
            .headers()
            .iter()
            .map(|(name, value)| format!("< {name}: {}", value.to_str().unwrap()))
            .collect();
        headers.sort();
        writeln!(self.0, "{}", headers.join("\n")).unwrap();
    }

    fn body(&mut self, chunk: &[u8]) {
        self.0.push_str(std::str::from_utf8(chunk).unwrap());
    }

    fn done(&mut self) {
        if !self.0.ends_with('\n') {
            self.0.push('\n');
        }
        if !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    /// Sends a request and notes all of its answer. `reply` makes the answer to a question.
    async fn exchange(&mut self, client: &Client, method: Method, body: Value, reply: Option<Value>) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.asked(&method, &text);
        let answer = client.raw(method, text).await;
        self.head(&answer);
        let mut body = answer.into_body();
        while let Some(frame) = soon(body.frame()).await {
            let chunk = frame.unwrap().into_data().unwrap();
            self.body(&chunk);
            let question =
                chunk.strip_prefix(b"data: ").map(|data| serde_json::from_slice::<Value>(data).unwrap());
            if let (Some(question), Some(result)) =
                (question.filter(|message| message["method"] == "elicitation/create"), &reply)
            {
                let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
                self.asked(&Method::POST, &answer.to_string());
                let accepted = client.send(answer).await;
                self.head(&accepted);
            }
        }
        self.done();
    }
}

async fn busy(_args: Value, context: ToolContext) -> Result<String, BoxError> {
    context.progress(1.0, Some(2.0), Some("half"));
    context.log(LogLevel::Info, "half way");
    tokio::task::yield_now().await;
    let answer = context
        .elicit("Go on?", json!({"type": "object", "properties": {"sure": {"type": "boolean"}}}))
        .await?;
    Ok(format!("{:?}", answer.data))
}

// MCP-162, MCP-166, MCP-169, MCP-176, MCP-178, MCP-180, MCP-189
#[tokio::test(start_paused = true)]
async fn a_session_reads_like_this() {
    let polls = tool("polls", |_args, context| async move {
        mcp_close_stream(&context, std::time::Duration::from_millis(1500));
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        Ok("later".into())
    });
    let options = McpHandlerOptions {
        protocol_versions: vec!["2025-11-25".into()],
        server_info: Some(Arc::new(|_| {
            let instructions = Some("Be brief".into());
            Box::pin(async { Ok(McpServerDetails { instructions, ..Default::default() }) })
        })),
        before_call: Some(Arc::new(|_context, tool, _args| {
            Box::pin(async move {
                let message = "Really?".to_owned();
                Ok(if tool.name == "danger" {
                    McpDecision::Confirm { message, result: None }
                } else {
                    McpDecision::Allow
                })
            })
        })),
        session_ids: McpSessionIds {
            generate: Some(Arc::new(|_| Box::pin(async { Ok("session-1".into()) }))),
            ..Default::default()
        },
        ..Default::default()
    };
    let danger = tool("danger", |_args, _context| async { Ok("gone".into()) });
    let handler = handler([echo(), tool("busy", busy), danger, polls], options);
    let mut transcript = Transcript::default();
    let mut client = Client::new(&handler);
    let post = Method::POST;
    let capabilities = json!({"elicitation": {}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
    transcript.exchange(&client, post.clone(), request(0, "initialize", params), None).await;
    client.set("mcp-session-id", "session-1");
    client.set("mcp-protocol-version", "2025-11-25");
    let call = |id: &str, name: &str| {
        let meta = json!({"progressToken": "p"});
        request(id, "tools/call", json!({"name": name, "arguments": {"text": "hi"}, "_meta": meta}))
    };
    for message in [
        notification("notifications/initialized", json!({})),
        request(1, "tools/list", json!({})),
        request(2, "logging/setLevel", json!({"level": "info"})),
        call("a", "echo"),
        call("b", "none"),
    ] {
        transcript.exchange(&client, post.clone(), message, None).await;
    }
    let accept = json!({"action": "accept", "content": {"sure": true}});
    transcript.exchange(&client, post.clone(), call("c", "busy"), Some(accept)).await;
    transcript.exchange(&client, post.clone(), call("d", "danger"), Some(json!({"action": "decline"}))).await;
    transcript.exchange(&client, post.clone(), call("e", "polls"), None).await;
    let last = transcript.0.rsplit("id: ").next().unwrap().split('\n').next().unwrap().to_owned();
    transcript.exchange(&client.with("last-event-id", &last), Method::GET, Value::Null, None).await;
    transcript.exchange(&client, Method::DELETE, Value::Null, None).await;
    transcript.exchange(&client, post, request(3, "ping", json!({})), None).await;
    insta::assert_snapshot!(transcript.0);
}
