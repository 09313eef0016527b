//! A client with a boundary: what the model sees, and what everybody else sees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use std::sync::Arc;

use client_support::{
    Audit, Hooked, Metrics, Mode, STYLES, boundary, call_args, every_way, fixed, options, plain, reply,
    result_texts, sent, server, system_of, tool, values, within,
};
use serde_json::{Value, json};
use support::{KB, R, U, config, fixture};
use toolnexus_context::{ArgumentResolution, Registry, ToolPolicy};
use toolnexus_core::{Style, ToolResult, Toolkit};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{
    ClientOptions, InProcessOptions, InProcessResponse, InProcessToolCall, ModelBoundary, RunOptions,
    RunStatus, create_client, create_in_process_client,
};
use toolnexus_testkit::warnings::Warnings;

fn of(registry: &Registry) -> Option<Arc<dyn ModelBoundary>> {
    Some(Arc::new(registry.clone()))
}

/// A document that no registry knows before.
const NEW: &str = "toolnexus://doc/doc-new-1";

// CTX-103, CTX-102: the whole of a turn, in order: encoded to the model, durable for all others
#[tokio::test]
async fn a_turn_is_encoded_for_the_model_and_durable_for_everybody_else() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).text("I look.").tool_call("c1", "read_source", json!({"knowledge_id": "doc://1"})),
            reply(style).text("See doc://1 and <ref id=\"chunk://1\"/>"),
        ])
        .await;
        let (hooked, hooks) = Hooked::new();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            system_prompt: format!("Mind {NEW}."),
            ..options(style, &server, config())
        });
        let (read, args) = tool("read_source", |_| {
            ToolResult::success(
                "<chunk chunk_id=\"chunk-new-1\" knowledge_id=\"doc-new-1\" knowledge_title=\"New\">text</chunk>",
            )
        });
        let told = mode.tell(&client, &Toolkit::from_tools([read]), &format!("What is {NEW}?"), "c").await;

        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        let prompt = Registry::with_config(config()).unwrap().protocol_prompt();
        for body in &bodies {
            assert_eq!(system_of(style, body), format!("Mind doc://1.\n\n{prompt}"), "{style:?}");
            assert!(json!(sent(style, body)).to_string().contains("What is doc://1?"));
            assert!(!body.to_string().contains("doc-new-1") && !body.to_string().contains("toolnexus://"));
        }
        let second = sent(style, &bodies[1]);
        assert_eq!(call_args(second), [json!({"knowledge_id": "doc://1"})]);
        let view =
            "<chunk chunk_id=\"chunk://1\" knowledge_id=\"doc://1\" knowledge_title=\"New\">text</chunk>";
        assert_eq!(result_texts(second), [view], "{style:?}");

        let durable = json!({"knowledge_id": "doc-new-1"});
        assert_eq!(args.all(), std::slice::from_ref(&durable));
        assert_eq!(hooked.before_tool.all()[0]["args"], durable);
        assert_eq!(hooked.after_tool.all()[0]["args"], durable);
        assert!(hooked.before_llm.all()[0].to_string().contains(NEW));
        let text = format!("See {NEW} and <kb doc=\"New\" chunk_id=\"chunk-new-1\" />");
        assert_eq!(told.result.text, text, "{style:?} {mode:?}");
        if mode == Mode::Run {
            let said = json!(text).to_string();
            assert!(hooked.after_llm.all()[1].to_string().contains(said.trim_matches('"')));
        }
        let saved = client.conversation_store().get("c").await.unwrap().unwrap();
        assert_eq!(saved, told.result.messages);
        let stored = values(&saved);
        assert_eq!(call_args(&stored), [durable]);
        assert!(result_texts(&stored)[0].contains("chunk-new-1"));
        // The prompt is for the model alone.
        assert!(!json!(saved).to_string().contains("Source handling protocol"));
    }
}

// CTX-112, CTX-102: without a boundary, and for `call_provider`, the bytes are as they were
#[tokio::test]
async fn without_a_boundary_nothing_changes() {
    for style in STYLES {
        let server = server([reply(style).text("doc://1 <ref/>"), reply(style).text("doc://1 <ref/>")]).await;
        let client = create_client(plain(style, &server));
        let result = within(client.run(NEW, &Toolkit::default())).await.unwrap();
        assert_eq!(result.text, "doc://1 <ref/>");
        assert!(server.requests()[0].text().contains(NEW));

        let client = create_client(options(style, &server, config()));
        let body = json!({"model": "m", "messages": [{"role": "user", "content": NEW}]});
        let answer = within(client.call_provider(body.as_object().unwrap().clone())).await.unwrap();
        assert_eq!(server.requests()[1].json()["messages"], body["messages"]);
        assert!(answer.to_string().contains("doc://1 <ref/>"), "{answer}");
    }
}

// CTX-47, CTX-45: a call with a handle that nobody issued does not run and no hook sees it; its siblings
// run; the model reads why; it counts as an error of the tool. Case 31
#[tokio::test]
async fn a_call_with_an_unknown_handle_is_rejected() {
    const REJECTION: &str =
        "unresolved model handles: doc://7, res://0009. Use only handles shown in this conversation.";
    for (style, mode) in every_way() {
        let server = server([
            reply(style)
                .tool_call("c1", "note", json!({"note": "doc://7", "more": ["res://0009", "doc://7"]}))
                .tool_call("c2", "note", json!({"note": "plain"}))
                .tool_call("c3", "ask", json!({"about": "doc://8"})),
            reply(style).text("ok"),
        ])
        .await;
        let (hooked, hooks) = Hooked::new();
        let metrics = Metrics::new();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            on_metric: Some(metrics.sink()),
            ..options(style, &server, config())
        });
        let (note, args) = tool("note", |_| ToolResult::success("noted"));
        let (ask, asked) = tool("ask", |_| {
            toolnexus_core::pending(toolnexus_core::Request { prompt: "?".into(), ..Default::default() })
        });
        let told = mode.tell(&client, &Toolkit::from_tools([note, ask]), "hi", "").await;

        assert_eq!((args.all(), asked.len()), (vec![json!({"note": "plain"})], 0));
        let calls = &told.result.tool_calls;
        assert_eq!((calls[0].output.as_str(), calls[0].is_error), (REJECTION, true));
        assert_eq!((calls[1].output.as_str(), calls[1].is_error), ("noted", false));
        // No suspension either: the run went on.
        assert!(calls[2].output.starts_with("unresolved model handles: doc://8. "));
        assert_eq!(told.result.status, RunStatus::Done);
        let ids = |seen: Vec<Value>| seen.iter().map(|event| event["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(hooked.before_tool.all()), ["c2"]);
        assert_eq!(ids(hooked.after_tool.all()), ["c2"]);
        let errors = [("note".to_owned(), true), ("ask".to_owned(), true), ("note".to_owned(), false)];
        let mut told_of = metrics.tools();
        told_of.sort_by_key(|(name, is_error)| (!is_error, name != "note"));
        assert_eq!(told_of, errors);
        // The model reads the text as it is.
        assert_eq!(result_texts(sent(style, &server.requests()[1].json()))[0], REJECTION);
    }
}

// CTX-101: an observer sees exactly what is sent and what comes back, and each call; of a sensitive tool
// its keys and counts alone
#[tokio::test]
async fn an_observer_sees_what_crosses() {
    for (style, mode) in every_way() {
        let config = config().policy("secret", ToolPolicy::default().id_keys(["knowledge_id"]).sensitive());
        let server = server([
            reply(style)
                .text("a doc://1")
                .tool_call("c1", "read_source", json!({"knowledge_id": "doc://1", "n": 1}))
                .tool_call("c2", "secret", json!({"knowledge_id": "doc://9", "pin": "1234"})),
            reply(style).text("ok"),
        ])
        .await;
        let audit = Audit::new();
        let client = create_client(ClientOptions {
            boundary: Some(audit.boundary(config)),
            system_prompt: "SYS".into(),
            ..plain(style, &server)
        });
        let toolkit = Toolkit::from_tools([fixed("read_source", "x"), fixed("secret", "x")]);
        mode.run(&client, &toolkit, NEW).await;

        let requests = audit.requests.all();
        assert_eq!(requests.len(), 2);
        for ((system, messages), request) in requests.iter().zip(server.requests()) {
            let body = request.json();
            assert_eq!(values(messages), *sent(style, &body), "{style:?}");
            assert_eq!(*system, if style == Style::OpenAI { String::new() } else { system_of(style, &body) });
        }
        let answers = audit.answers.all();
        assert_eq!(answers.len(), 2);
        assert!(answers[0].to_string().contains("a doc://1"), "{}", answers[0]);
        assert_eq!(call_args(&answers[..1])[0], json!({"knowledge_id": "doc://1", "n": 1}));

        let [read, secret] = audit.calls.all().try_into().unwrap();
        assert_eq!((read.id.as_str(), read.name.as_str()), ("c1", "read_source"));
        assert_eq!(read.model_arguments.as_deref(), Some(r#"{"knowledge_id":"doc://1","n":1}"#));
        assert_eq!(read.resolved_arguments.as_deref(), Some(r#"{"knowledge_id":"doc-new-1","n":1}"#));
        assert_eq!(read.argument_resolution, ArgumentResolution::Resolved);
        assert_eq!((read.unresolved, read.unresolved_handles.len()), (0, 0));
        assert_eq!((secret.model_arguments, secret.resolved_arguments), (None, None));
        assert_eq!(secret.argument_keys, ["knowledge_id", "pin"]);
        assert_eq!((secret.unresolved, secret.unresolved_handles), (1, Vec::new()));
        assert_eq!(secret.argument_resolution, ArgumentResolution::Unresolved);
    }
}

// CTX-102, CTX-2, CTX-3: each execution has a registry of its own; a host's own registry is given to one
// run, wins there, and can be filled before and read after it
#[tokio::test]
async fn a_registry_can_be_given_to_one_run() {
    for style in STYLES {
        let known = reply(style).text("doc://1");
        let cited = reply(style).text("doc://1 <ref id=\"chunk://1\"/>");
        let server = server([known.clone(), known.clone(), known.clone(), known, cited]).await;
        let client = create_client(options(style, &server, config()));
        // Two runs of the client's own boundary know nothing of each other, however they are made.
        let none = Toolkit::default();
        assert_eq!(Mode::Run.run(&client, &none, NEW).await.text, NEW);
        assert_eq!(Mode::Run.run(&client, &none, "hi").await.text, "");
        assert_eq!(Mode::Stream.run(&client, &none, "hi").await.text, "");
        assert_eq!(within(client.ask("hi", &none, "other")).await.unwrap().text, "");

        let registry = fixture();
        let options = RunOptions { boundary: of(&registry), ..Default::default() };
        let prompt = format!("read doc-real {R} and {NEW}");
        let result = within(client.run_with(prompt, &Toolkit::default(), options)).await.unwrap();
        assert_eq!(result.text, format!("toolnexus://doc/doc-real {KB}"));
        assert!(server.requests()[4].text().contains("read doc-real res://0001 and doc://2"));
        assert_eq!(registry.register_document("doc-new-1").as_deref(), Some("doc://2"));
    }
}

// CTX-99, CTX-100: at every model call a warning says what identifiers are left, in lines that name the
// place and count, and nothing else; nothing is left, nothing is said
#[tokio::test(flavor = "current_thread")]
async fn identifiers_that_are_left_are_reported_without_any_text() {
    for style in STYLES {
        let server = server([
            reply(style).tool_call("c1", "run", json!({"id": U})),
            reply(style).text("ok"),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(ClientOptions {
            system_prompt: format!("secret words {U}"),
            ..options(style, &server, config())
        });
        let warnings = Warnings::listen();
        let toolkit = Toolkit::from_tools([fixed("run", &format!("secret words {U}"))]);
        Mode::Run.run(&client, &toolkit, &format!("secret words {U}")).await;
        let said = warnings.take();
        assert_eq!(said.len(), 2, "{said:?}");
        let lines: Vec<Vec<&str>> = said.iter().map(|warning| warning.lines().skip(1).collect()).collect();
        let system = "message 0 system content: registered=0 unregistered=1";
        assert_eq!(lines[0], [system], "{style:?}");
        let role = if style == Style::Gemini { "model" } else { "assistant" };
        let call = format!("message 2 {role}/run tool_call_arguments: registered=0 unregistered=1");
        assert_eq!(lines[1][..2], [system, call.as_str()]);
        assert!(lines[1][2].starts_with("message 3 tool/run "), "{style:?}: {}", lines[1][2]);
        assert!(lines[1][2].ends_with(": registered=0 unregistered=1"), "{style:?}: {}", lines[1][2]);
        assert_eq!(lines[1].len(), 3);
        assert!(said.iter().all(|warning| !warning.contains(U) && !warning.contains("secret")));

        let client = create_client(options(style, &server, config()));
        Mode::Run.run(&client, &Toolkit::default(), "no ids").await;
        assert_eq!(warnings.take(), Vec::<String>::new());
    }
}

// CTX-107: a model of this process receives encoded requests and is decoded in the same way
#[tokio::test]
async fn a_model_of_this_process_is_behind_the_boundary_too() {
    let seen = client_support::Seen::new();
    let kept = seen.clone();
    let options =
        ClientOptions { model: "m".into(), boundary: Some(boundary(config())), ..Default::default() };
    let client = create_in_process_client(InProcessOptions::new(options, move |request| {
        kept.push(json!(request.messages));
        let first = kept.len() == 1;
        async move {
            Ok(match first {
                true => InProcessResponse {
                    tool_calls: vec![InProcessToolCall::new(
                        "read_source",
                        json!({"knowledge_id": "doc://1"}),
                    )],
                    ..Default::default()
                },
                false => InProcessResponse::text("see doc://1"),
            })
        }
    }));
    let (read, args) = tool("read_source", |_| ToolResult::success("about doc-new-1"));
    let result = within(client.run(NEW, &Toolkit::from_tools([read]))).await.unwrap();
    assert_eq!(args.all(), [json!({"knowledge_id": "doc-new-1"})]);
    assert_eq!(result.text, format!("see {NEW}"));
    assert!(
        seen.all().iter().all(|messages| !messages.to_string().contains("doc-new-1")),
        "{:?}",
        seen.all()
    );
    assert!(seen.all()[1].to_string().contains("about doc://1"));
}

// CTX-103, CTX-93: the tools are encoded first, so the first prompt may name a server of their definitions
#[tokio::test]
async fn what_definitions_name_is_known_in_the_first_prompt() {
    for style in STYLES {
        let server = server([reply(style).text("ok")]).await;
        let client = create_client(options(style, &server, config()));
        let schema =
            json!({"type": "object", "properties": {"server_id": {"type": "string", "enum": [support::S]}}});
        let toolkit = Toolkit::from_tools([fixed("discover_mcp_tools", "{}").input_schema(schema)]);
        Mode::Run.run(&client, &toolkit, &format!("Use server_id=\"{}\"", support::S)).await;
        let body = server.requests()[0].text();
        assert!(body.contains("Use server_id=\\\"ms1\\\"") && !body.contains(support::S), "{body}");
    }
}

// CTX-91: the client knows which tools are those of MCP servers, whose descriptions name servers by handle
#[tokio::test]
async fn descriptions_of_mcp_tools_name_servers_by_handle() {
    for style in STYLES {
        let server = server([reply(style).text("ok")]).await;
        let client = create_client(options(style, &server, config()));
        let schema =
            json!({"type": "object", "properties": {"server_id": {"type": "string", "enum": [support::S]}}});
        let described =
            |name: &str| fixed(name, "{}").description(format!("of {name} server_id=\"{}\"", support::S));
        let toolkit = Toolkit::from_tools([
            described("remote").source(toolnexus_core::ToolSource::Mcp),
            described("local"),
            fixed("discover_mcp_tools", "{}").input_schema(schema),
        ]);
        Mode::Run.run(&client, &toolkit, "hi").await;
        let body = server.requests()[0].text();
        assert!(body.contains(r#"of remote server_id=\"ms1\""#), "{body}");
        assert!(body.contains(&format!(r#"of local server_id=\"{}\""#, support::S)), "{body}");
    }
}

// CTX-102, CTX-103: a translated call is encoded and decoded, its hooks and its raw answer are durable
#[tokio::test]
async fn a_translation_passes_the_boundary() {
    for style in [Style::OpenAI, Style::Anthropic] {
        let server = server([reply(style)
            .text("see doc://1")
            .tool_call("c1", "read_source", json!({"knowledge_id": "doc://1"}))
            .tool_call("c2", "note", json!({"note": "doc://1"}))])
        .await;
        let (hooked, hooks) = Hooked::new();
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, config()) });
        let request = TranslateRequest {
            messages: vec![json!({"role": "user", "content": format!("what is {NEW}?")})],
            system: Some(format!("Mind {NEW}")),
            ..Default::default()
        };
        let answer = within(client.translate(request)).await.unwrap();
        assert_eq!(answer.text, format!("see {NEW}"));
        assert_eq!(answer.tool_calls.len(), 2);
        assert_eq!(answer.tool_calls[0].arguments, r#"{"knowledge_id":"doc-new-1"}"#);
        assert_eq!(answer.tool_calls[1].arguments, json!({"note": NEW}).to_string());
        let body = server.requests()[0].json();
        assert!(system_of(style, &body).starts_with("Mind doc://1\n\n"), "{body}");
        assert!(!body.to_string().contains("doc-new-1"));
        for seen in [answer.raw.to_string(), hooked.all().to_string()] {
            assert!(!seen.contains("doc://"), "{style:?}: {seen}");
        }
    }
}
