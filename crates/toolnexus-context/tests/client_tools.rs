//! Tools behind a boundary: calls through other tools, evidence, agents, relays, results from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use std::sync::Arc;

use client_support::{
    Audit, Hooked, Mode, STYLES, call_args, every_way, fixed, options, plain, reply, result_texts, sent,
    server, tool, values, within,
};
use serde_json::{Value, json};
use support::{config, fixture};
use toolnexus_context::RegistryConfig;
use toolnexus_core::{Style, Tool, ToolResult, ToolSource, Toolkit, relay_calls_of, relay_tool};
use toolnexus_llm::{ClientOptions, RunOptions, RunStatus, ToolTierOptions, create_client};

/// A document that no registry knows before.
const NEW: &str = "toolnexus://doc/doc-new-1";

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
        let options = RunOptions { boundary: Some(Arc::new(fixture())), ..Default::default() };
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
