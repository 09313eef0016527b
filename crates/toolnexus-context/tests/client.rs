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
use toolnexus_context::{ArgumentResolution, Registry, RegistryConfig, ToolPolicy};
use toolnexus_core::{Style, Tool, ToolResult, ToolSource, Toolkit, relay_calls_of, relay_tool};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{
    ClientOptions, InProcessOptions, InProcessResponse, InProcessToolCall, ModelBoundary, RunOptions,
    RunStatus, ToolTierOptions, create_client, create_in_process_client,
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

// CTX-48: with tool tiers `call_tool` is transparent: the policy, the hooks, the events and the audit are
// those of the tool inside
#[tokio::test]
async fn the_call_inside_call_tool_has_the_policy_of_its_tool() {
    for (style, mode) in every_way() {
        let inner = json!({"knowledge_id": "doc://1"});
        for arguments in [inner.clone(), json!(inner.to_string())] {
            let server = server([
                reply(style)
                    .tool_call("c1", "call_tool", json!({"name": "read_source", "arguments": arguments}))
                    .tool_call(
                        "c2",
                        "call_tool",
                        json!({"name": "read_source", "arguments": {"knowledge_id": "d9"}}),
                    ),
                reply(style).text("ok"),
            ])
            .await;
            let (hooked, hooks) = Hooked::new();
            let audit = Audit::new();
            let client = create_client(ClientOptions {
                hooks: Some(hooks),
                tool_tiers: Some(ToolTierOptions::default()),
                boundary: Some(audit.boundary(config())),
                ..plain(style, &server)
            });
            let (read, args) = tool("read_source", |_| ToolResult::success("about doc-new-1"));
            let told = mode.tell(&client, &Toolkit::from_tools([read]), NEW, "").await;

            let durable = json!({"knowledge_id": "doc-new-1"});
            assert_eq!(args.all(), std::slice::from_ref(&durable), "{style:?} {mode:?}");
            let before = hooked.before_tool.all();
            assert_eq!(
                (before.len(), &before[0]["name"], &before[0]["args"]),
                (1, &json!("read_source"), &durable)
            );
            let calls: Vec<Value> = told.events.iter().map(|event| json!(event)).collect();
            let calls: Vec<&Value> = calls.iter().filter(|event| event["type"] == "tool_call").collect();
            assert_eq!((&calls[0]["name"], &calls[0]["args"]), (&json!("read_source"), &durable));
            let audited = audit.calls.all();
            assert_eq!(audited[0].name, "read_source");
            assert_eq!(audited[0].model_arguments.as_deref(), Some(inner.to_string().as_str()));
            assert_eq!(audited[0].resolved_arguments.as_deref(), Some(durable.to_string().as_str()));
            assert_eq!(audited[1].unresolved_handles, ["d9"]);
            assert!(told.result.tool_calls[1].output.starts_with("unresolved model handles: d9. "));
            // Its result has the view of its tool, and its replayed call the handles.
            let second = server.requests()[1].json();
            assert_eq!(result_texts(sent(style, &second))[0], "about doc://1");
            let replayed = &call_args(sent(style, &second))[0];
            assert_eq!(*replayed, json!({"name": "read_source", "arguments": arguments}));
            let stored = call_args(&values(&told.result.messages))[0].to_string();
            assert!(stored.contains("doc-new-1") && !stored.contains("doc://"), "{stored}");
        }
    }
}

// CTX-48: a later run over the stored conversation sees it in the same way
#[tokio::test]
async fn a_stored_call_tool_is_replayed_with_the_policy_of_its_tool() {
    for style in STYLES {
        let call = json!({"name": "read_source", "arguments": {"knowledge_id": "doc://1"}});
        let server = server([
            reply(style).tool_call("c1", "call_tool", call.clone()),
            reply(style).text("ok"),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(ClientOptions {
            tool_tiers: Some(ToolTierOptions::default()),
            ..options(style, &server, config())
        });
        let toolkit = Toolkit::from_tools([fixed("read_source", "about doc-new-1")]);
        Mode::Run.tell(&client, &toolkit, NEW, "c").await;
        Mode::Run.tell(&client, &toolkit, "again", "c").await;
        let body = server.requests()[2].json();
        assert_eq!(call_args(sent(style, &body)), [call], "{style:?}");
        if style != Style::Gemini {
            assert_eq!(result_texts(sent(style, &body)), ["about doc://1"], "{style:?}");
        }
    }
}

// CTX-61, CTX-56: what a successful call was about may be cited from then on; what a failed one was about
// may not, nor what was only named
#[tokio::test]
async fn a_fetched_page_is_evidence() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style)
                .text("<ref id=\"url://1\"/>a")
                .tool_call("c1", "webfetch", json!({"url": "https://good.example/"}))
                .tool_call("c2", "webfetch", json!({"url": "https://bad.example/"})),
            reply(style).text("<ref id=\"url://1\"/> <ref id=\"url://2\"/>b"),
        ])
        .await;
        let client = create_client(options(style, &server, RegistryConfig::default()));
        let (fetch, _) = tool("webfetch", |args| match args["url"].as_str().unwrap() {
            "https://good.example/" => ToolResult::success("page"),
            _ => ToolResult::failure("no answer"),
        });
        let result = mode.run(&client, &Toolkit::from_tools([fetch]), "hi").await;
        assert_eq!(result.text, "<web url=\"https://good.example/\" title=\"\" /> b", "{style:?} {mode:?}");
        let body = server.requests()[1].json();
        assert_eq!(call_args(sent(style, &body))[0], json!({"url": "url://1"}));
    }
}

// CTX-61: evidence is what the tool really ran with, when a hook gave it other arguments
#[tokio::test]
async fn evidence_is_what_was_fetched() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("c1", "webfetch", json!({"url": "https://asked.example/"})),
            reply(style).text("<ref id=\"url://1\"/>|<ref id=\"url://2\"/>"),
        ])
        .await;
        let hooks = toolnexus_llm::Hooks::default().with_before_tool(|_event| async {
            let args = json!({"url": "https://fetched.example/"}).as_object().unwrap().clone();
            Ok(Some(toolnexus_llm::ToolOverride { args: Some(args), ..Default::default() }))
        });
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            ..options(style, &server, RegistryConfig::default())
        });
        let result = mode.run(&client, &Toolkit::from_tools([fixed("webfetch", "page")]), "hi").await;
        // The model's own argument is the first URL; it was not fetched.
        assert_eq!(result.text, "|<web url=\"https://fetched.example/\" title=\"\" />", "{style:?} {mode:?}");
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

/// A tool that is an agent: it runs a client of its own.
fn agent(client: toolnexus_llm::Client, prompts: client_support::Seen<String>) -> Tool {
    toolnexus_core::define_tool(
        "task",
        "task",
        None,
        move |args: Value, _context: toolnexus_core::ToolContext| {
            let (client, prompts) = (client.clone(), prompts.clone());
            async move {
                let prompt = args["prompt"].as_str().unwrap().to_owned();
                prompts.push(prompt.clone());
                let toolkit = Toolkit::from_tools([fixed(
                    "read_source",
                    "<chunk chunk_id=\"chunk-of-child\" knowledge_id=\"doc-new-1\" knowledge_title=\"N\">x</chunk>",
                )]);
                let result = client.run(prompt, &toolkit).await.map_err(|error| error.to_string())?;
                Ok::<_, String>(result.text)
            }
        },
    )
}

// CTX-106, CTX-64: a task leaves with durable URIs and enters the child's registry; the child's answer
// comes back durable, and its public citations are evidence for the parent
#[tokio::test]
async fn a_sub_agent_has_a_registry_of_its_own() {
    for style in STYLES {
        let child_server = server([
            reply(style).tool_call("c1", "read_source", json!({"knowledge_id": "doc://1"})),
            reply(style).text("doc://1 says <ref id=\"chunk://1\"/>"),
        ])
        .await;
        let child = create_client(options(style, &child_server, config()));
        let server = server([
            reply(style).tool_call("c1", "task", json!({"prompt": "look at doc://2"})),
            reply(style).text("as found <ref id=\"chunk://2\"/>"),
        ])
        .await;
        let client = create_client(plain(style, &server));
        let prompts = client_support::Seen::new();
        let toolkit = Toolkit::from_tools([agent(child, prompts.clone())]);
        let options = RunOptions { boundary: of(&fixture()), ..Default::default() };
        let result = within(client.run_with(NEW, &toolkit, options)).await.unwrap();

        assert_eq!(prompts.all(), [format!("look at {NEW}")]);
        // The child numbers for itself.
        assert!(child_server.requests()[0].text().contains("look at doc://1"));
        let cited = "<kb doc=\"N\" chunk_id=\"chunk-of-child\" />";
        assert_eq!(result.tool_calls[0].output, format!("{NEW} says {cited}"));
        let view = &result_texts(sent(style, &server.requests()[1].json()))[0];
        assert_eq!(view, "doc://2 says <ref id=\"chunk://2\"/>");
        assert_eq!(result.text, format!("as found {cited}"), "{style:?}");
    }
}

// CTX-107: a relay tool hands the host durable arguments, within the request that suspends the run
#[tokio::test]
async fn a_relay_tool_hands_out_durable_arguments() {
    for (style, mode) in every_way() {
        let server =
            server([reply(style).tool_call("c1", "show", json!({"what": "doc://1", "at": "x/doc://1"}))])
                .await;
        let client = create_client(options(style, &server, config()));
        let toolkit = Toolkit::from_tools([relay_tool("show", "shows", None)]);
        let result = mode.run(&client, &toolkit, NEW).await;
        assert_eq!(result.status, RunStatus::Pending);
        let calls = relay_calls_of(&result.pending.unwrap()).unwrap();
        let durable = json!({"what": NEW, "at": "x/doc-new-1"});
        assert_eq!(json!(calls[0].input), durable, "{style:?} {mode:?}");
        assert_eq!(serde_json::from_str::<Value>(&calls[0].arguments).unwrap(), durable);
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

// CTX-111: `tool_search` lists and returns definitions as they are sent: a routing enum does not reach
// the model through its result
#[tokio::test]
async fn found_definitions_are_encoded() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("c1", "tool_search", json!({"query": "select:discover_mcp_tools"})),
            reply(style).tool_call(
                "c2",
                "call_tool",
                json!({"name": "discover_mcp_tools", "arguments": {"server_id": "ms1"}}),
            ),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(ClientOptions {
            tool_tiers: Some(ToolTierOptions::default()),
            ..options(style, &server, config())
        });
        let (discover, args) = tool("discover_mcp_tools", |_| ToolResult::success("{}"));
        let schema =
            json!({"type": "object", "properties": {"server_id": {"type": "string", "enum": [support::S]}}});
        let toolkit = Toolkit::from_tools([discover.input_schema(schema)]);
        let result = mode.run(&client, &toolkit, "hi").await;
        assert!(result.tool_calls[0].output.contains(support::S));
        assert_eq!(args.all(), [json!({"server_id": support::S})]);
        for request in server.requests() {
            assert!(!request.text().contains(support::S), "{style:?} {mode:?}");
        }
        assert!(result_texts(sent(style, &server.requests()[1].json()))[0].contains("\"enum\":[\"ms1\"]"));
    }
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

// CTX-97, CTX-88: within a run the boundary knows which tools are those of MCP servers: their results are
// opaque and their links are listed; the same text of another tool gets no list
#[tokio::test]
async fn links_of_mcp_results_are_listed() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("c1", "remote", json!({})).tool_call("c2", "local", json!({})),
            reply(style).text("x<ref id=\"url://1\"/>"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let body = "see https://example.com/a";
        let toolkit =
            Toolkit::from_tools([fixed("remote", body).source(ToolSource::Mcp), fixed("local", body)]);
        let result = mode.run(&client, &toolkit, "hi").await;
        let views = result_texts(sent(style, &server.requests()[1].json()));
        assert!(views[0].starts_with(&format!("{body}\n\n<external_source_candidates>\n")), "{}", views[0]);
        assert!(views[0].contains("<source id=\"url://1\" url=\"https://example.com/a\"/>"));
        assert_eq!(views[1], body);
        assert_eq!(result.tool_calls[0].output, body);
        assert_eq!(result.text, "x<web url=\"https://example.com/a\" title=\"\" />");
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

// CTX-103: the view of a result is made of it as `after_tool` left it
#[tokio::test]
async fn the_view_is_that_of_the_final_result() {
    for (style, mode) in every_way() {
        let server =
            server([reply(style).tool_call("c1", "read_source", json!({})), reply(style).text("ok")]).await;
        let hooks = toolnexus_llm::Hooks::default().with_after_tool(|_event| async {
            let result = ToolResult::success("<knowledge_id>doc-of-hook</knowledge_id>");
            Ok(Some(toolnexus_llm::ToolOverride::result(result)))
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, config()) });
        let toolkit = Toolkit::from_tools([fixed("read_source", "<knowledge_id>doc-of-tool</knowledge_id>")]);
        let result = mode.run(&client, &toolkit, "hi").await;
        assert_eq!(result.tool_calls[0].output, "<knowledge_id>doc-of-hook</knowledge_id>");
        let views = result_texts(sent(style, &server.requests()[1].json()));
        assert_eq!(views, ["<knowledge_id>doc://1</knowledge_id>"]);
    }
}
