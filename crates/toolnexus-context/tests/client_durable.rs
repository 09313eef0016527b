//! Durable runs behind a boundary: the log holds durable text alone, and a resume begins anew from it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use std::sync::Arc;

use client_support::{
    STYLES, call_args, fixed, options, reply, result_texts, sent, server, tool, values, within,
};
use serde_json::json;
use support::config;
use toolnexus_core::{Answer, Request, Tool, ToolContext, ToolResult, Toolkit, define_tool, pending};
use toolnexus_llm::run_log::{MemoryRunLog, RunLog};
use toolnexus_llm::{ResumeOptions, RunDurableOptions, RunStatus, create_client};

/// A document that no registry knows before.
const NEW: &str = "toolnexus://doc/doc-new-1";

/// A tool that asks first, and says what it was about once it is answered.
fn asking() -> Tool {
    define_tool("ask", "ask", None, |args: serde_json::Value, context: ToolContext| async move {
        match context.answer {
            None => pending(Request {
                kind: "input".into(),
                prompt: format!("about {}?", args["about"].as_str().unwrap()),
                ..Default::default()
            }),
            Some(_) => ToolResult::success(format!("answered about {}", args["about"].as_str().unwrap())),
        }
    })
}

// CTX-102, CTX-107, CTX-1: a suspension carries durable arguments; the log holds no handle; a resume opens
// a registry of its own, encodes the durable transcript anew and may number otherwise; a rejected call
// stays rejected
#[tokio::test]
async fn a_resume_encodes_the_durable_transcript_anew() {
    for style in STYLES {
        let log: Arc<dyn RunLog> = Arc::new(MemoryRunLog::default());
        let server = server([
            reply(style)
                .text("I look at doc://2")
                .tool_call("c1", "note", json!({"note": "doc://2"}))
                .tool_call("c2", "note", json!({"note": "kb://7"}))
                .tool_call("c3", "ask", json!({"about": "doc://2"})),
            reply(style).text("see doc://1 and doc://2"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let (note, args) = tool("note", |args| ToolResult::success(args["note"].as_str().unwrap()));
        let toolkit = Toolkit::from_tools([note, asking()]);
        // Another registry, that knows one document more.
        let registry = support::fixture();
        let start = RunDurableOptions {
            run_id: "r".into(),
            id: "c".into(),
            boundary: Some(Arc::new(registry)),
            ..RunDurableOptions::new(Arc::clone(&log))
        };
        let paused = within(client.run_durable(format!("read {NEW}"), &toolkit, start)).await.unwrap();
        assert_eq!(paused.status, RunStatus::Pending);
        let request = paused.pending.unwrap();
        assert_eq!(request.prompt, format!("about {NEW}?"));

        let answer = Answer { id: request.id, ok: true, ..Default::default() };
        let resume = ResumeOptions { answer: Some(answer), ..ResumeOptions::new(Arc::clone(&log), "r") };
        let result = within(client.resume(&toolkit, resume)).await.unwrap();

        // The number of the first process means nothing in the second.
        let body = server.requests()[1].json();
        let messages = sent(style, &body);
        assert!(json!(messages).to_string().contains("read doc://1"), "{style:?}: {body}");
        assert!(!body.to_string().contains("doc-new-1") && !json!(messages).to_string().contains("doc://2"));
        assert_eq!(call_args(messages)[0], json!({"note": "doc://1"}));
        let rejected = "unresolved model handles: kb://7. Use only handles shown in this conversation.";
        assert_eq!(result_texts(messages), ["doc://1", rejected, "answered about doc://1"], "{style:?}");
        assert_eq!(result.text, format!("see {NEW} and "));
        assert_eq!(args.all(), [json!({"note": NEW})]);
        assert_eq!((result.tool_calls[1].output.as_str(), result.tool_calls[1].is_error), (rejected, true));

        let events = json!(log.read("r", 0).await.unwrap()).to_string();
        let stored = json!(client.conversation_store().get("c").await.unwrap().unwrap()).to_string();
        for (what, text) in [("log", events), ("store", stored), ("result", json!(result).to_string())] {
            assert!(!text.contains("doc://"), "{what} of {style:?}: {text}");
            // The text of a rejected call is no handle: it resolves nowhere.
            assert!(text.replace(rejected, "").contains("kb://7"), "{what}");
        }
    }
}

// CTX-102: a resume can be given a registry too, which wins over the client's boundary
#[tokio::test]
async fn a_resume_can_be_given_a_registry() {
    for style in STYLES {
        let log: Arc<dyn RunLog> = Arc::new(MemoryRunLog::default());
        let server = server([
            reply(style).tool_call("c1", "ask", json!({"about": "x"})),
            reply(style).text("see doc://1 and doc://2"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let toolkit = Toolkit::from_tools([asking()]);
        let start = RunDurableOptions { run_id: "r".into(), ..RunDurableOptions::new(Arc::clone(&log)) };
        let paused = within(client.run_durable(format!("read {NEW}"), &toolkit, start)).await.unwrap();
        let resume = ResumeOptions {
            answer: Some(Answer { id: paused.pending.unwrap().id, ok: true, ..Default::default() }),
            boundary: Some(Arc::new(support::fixture())),
            ..ResumeOptions::new(Arc::clone(&log), "r")
        };
        let result = within(client.resume(&toolkit, resume)).await.unwrap();
        assert_eq!(result.text, format!("see toolnexus://doc/doc-real and {NEW}"), "{style:?}");
    }
}

// CTX-103, CTX-36: results that another process saw are replayed: navigation, not evidence. Those of this
// process are fresh
#[tokio::test]
async fn results_of_another_process_are_replayed() {
    for style in STYLES {
        let log: Arc<dyn RunLog> = Arc::new(MemoryRunLog::default());
        let server = server([
            reply(style).tool_call("c1", "read_source", json!({})).tool_call(
                "c2",
                "ask",
                json!({"about": "x"}),
            ),
            reply(style).text("a<ref id=\"chunk://1\"/>").tool_call("c3", "list_chunks", json!({})),
            reply(style).text("b<ref id=\"chunk://1\"/><ref id=\"chunk://2\"/>"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let chunk = |id: &str| {
            format!("<chunk chunk_id=\"{id}\" knowledge_id=\"doc-a-1\" knowledge_title=\"T\">x</chunk>")
        };
        let toolkit = Toolkit::from_tools([
            fixed("read_source", &chunk("chunk-old-1")),
            fixed("list_chunks", &chunk("chunk-new-2")),
            asking(),
        ]);
        let start = RunDurableOptions { run_id: "r".into(), ..RunDurableOptions::new(Arc::clone(&log)) };
        let paused = within(client.run_durable("hi", &toolkit, start)).await.unwrap();
        let answer = Answer { id: paused.pending.unwrap().id, ok: true, ..Default::default() };
        let resume = ResumeOptions { answer: Some(answer), ..ResumeOptions::new(Arc::clone(&log), "r") };
        let result = within(client.resume(&toolkit, resume)).await.unwrap();

        // The handle of the replayed chunk works, and may not be cited.
        assert!(
            result_texts(sent(style, &server.requests()[1].json()))[0].contains("chunk_id=\"chunk://1\"")
        );
        assert_eq!(result.text, "b<kb doc=\"T\" chunk_id=\"chunk-new-2\" />", "{style:?}");
        let texts = json!(values(&result.messages)).to_string();
        assert!(texts.contains("\"a\""), "{texts}");
    }
}
