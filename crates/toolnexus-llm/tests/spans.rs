//! What of a run is traced: a span for each model call and each tool call, with the attributes of
//! OpenTelemetry's GenAI conventions, and nothing of what is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde_json::json;
use support::double::{Answer, Double};
use support::tools::{add, fixed};
use toolnexus_core::{Style, ToolResult, Toolkit, define_tool};
use toolnexus_llm::create_client;
use toolnexus_testkit::tracing_listener::listen_on_this_thread;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// One span: its name and its fields.
#[derive(Clone, Debug, Default)]
struct Span {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Keeps the spans of this crate.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

impl Spans {
    fn named(&self, name: &str) -> Vec<Span> {
        self.0.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("toolnexus_llm")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut span = Span { name: attributes.metadata().name(), ..Default::default() };
        attributes.record(&mut span);
        let mut spans = self.0.lock().unwrap();
        spans.push(span);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let at = usize::try_from(id.into_u64()).unwrap() - 1;
        values.record(&mut self.0.lock().unwrap()[at]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

// Design: spans around every model call and tool call, no payloads
#[tokio::test]
async fn model_and_tool_calls_are_spans_with_genai_attributes() {
    for (style, provider) in
        [(Style::OpenAI, "openai"), (Style::Anthropic, "anthropic"), (Style::Gemini, "gcp.gemini")]
    {
        let spans = Spans::default();
        let guard = listen_on_this_thread(spans.clone());
        let fails = define_tool("fails", "fails", None, |_args, _context| async {
            ToolResult::failure("a reason nobody else should read")
        });
        let double = Double::new([
            Answer::calls(style, &[("c1", "add", json!({"a": 40, "b": 2})), ("c2", "fails", json!({}))]),
            Answer::text(style, "a sentence nobody else should read"),
        ]);
        let client = create_client(double.options(style));
        client.run("a prompt nobody else should read", &Toolkit::from_tools([add(), fails])).await.unwrap();
        drop(guard);

        let chats = spans.named("chat");
        assert_eq!(chats.len(), 2, "{style:?}");
        for chat in &chats {
            let field = |name: &str| chat.fields.get(name).map(String::as_str);
            assert_eq!(field("otel.name"), Some("chat m"));
            assert_eq!(field("otel.kind"), Some("client"));
            assert_eq!(field("gen_ai.operation.name"), Some("chat"));
            assert_eq!(field("gen_ai.provider.name"), Some(provider));
            assert_eq!(field("gen_ai.request.model"), Some("m"));
            assert_eq!(field("server.address"), Some("double.test"));
            assert_eq!(field("server.port"), Some("80"));
            assert!(field("gen_ai.usage.input_tokens").is_some() && field("error.type").is_none());
        }
        assert_eq!(chats[0].fields["gen_ai.response.finish_reasons"], "tool_calls");
        assert_eq!(chats[1].fields["gen_ai.response.finish_reasons"], "stop");

        let tools = spans.named("execute_tool");
        let of = |name: &str| tools.iter().find(|span| span.fields["gen_ai.tool.name"] == name).unwrap();
        assert_eq!(tools.len(), 2);
        assert_eq!(of("add").fields["otel.name"], "execute_tool add");
        assert_eq!(of("add").fields["gen_ai.operation.name"], "execute_tool");
        assert_eq!(of("add").fields["gen_ai.tool.call.id"], "c1");
        assert!(!of("add").fields.contains_key("error.type"));
        assert_eq!(of("fails").fields["error.type"], "tool_error");

        let all = format!("{:?}", spans.0.lock().unwrap());
        assert!(!all.contains("nobody else should read"), "{all}");
    }
}

#[tokio::test]
async fn a_failed_model_call_says_what_kind_of_failure_it_was() {
    let spans = Spans::default();
    let guard = listen_on_this_thread(spans.clone());
    let double = Double::new([Answer::status(500, &[], "down")]);
    let client = create_client(double.options(Style::OpenAI));
    client.run("hi", &Toolkit::from_tools([fixed("a", "a")])).await.unwrap_err();
    drop(guard);
    let chats = spans.named("chat");
    assert_eq!(chats.len(), 1);
    assert_eq!(chats[0].fields["error.type"], "provider");
    assert!(!chats[0].fields.contains_key("gen_ai.usage.input_tokens"));
}
