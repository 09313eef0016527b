//! Resources, prompts and completions through the handler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::sync::{Arc, Mutex};

use handler_support::{Client, error, handler};
use serde_json::{Value, json};
use toolnexus_core::ContentPart;
use toolnexus_mcp::server::{
    CompleteHook, McpCompletion, McpCompletionReference, McpHandlerOptions, McpHookError, McpPage, McpPrompt,
    McpPromptArgument, McpPromptContent, McpPromptMessage, McpPromptResult, McpPromptRole, McpResource,
    McpResourceContents, McpResourceTemplate,
};

fn resource(uri: &str) -> McpResource {
    McpResource { uri: uri.into(), name: uri.into(), ..Default::default() }
}

/// Resources in two pages, of which one can be read.
fn resources() -> McpHandlerOptions {
    McpHandlerOptions {
        list_resources: Some(Arc::new(|_context, cursor| {
            Box::pin(async move {
                Ok(match cursor.as_deref() {
                    None => McpPage {
                        items: vec![McpResource {
                            title: Some("A".into()),
                            description: Some("The first".into()),
                            mime_type: Some("text/plain".into()),
                            size: Some(3),
                            ..resource("mem:a")
                        }],
                        next_cursor: Some("2".into()),
                    },
                    Some("2") => vec![resource("mem:b")].into(),
                    Some(other) => {
                        return Err(McpHookError::invalid_params(format!("unknown cursor: {other}")).into());
                    }
                })
            })
        })),
        read_resource: Some(Arc::new(|context, uri| {
            Box::pin(async move {
                assert!(context.session_id.is_some());
                match uri.as_str() {
                    "mem:a" => Ok(vec![
                        McpResourceContents::text("mem:a", "text/plain", "abc"),
                        McpResourceContents::bytes("mem:a/1", "image/png", [1, 2, 3]),
                    ]),
                    "mem:secret" => Err("secret reason".into()),
                    "mem:panic" => panic!("secret reason"),
                    _ => Err(McpHookError::resource_not_found(uri).into()),
                }
            })
        })),
        ..Default::default()
    }
}

fn prompts() -> McpHandlerOptions {
    McpHandlerOptions {
        list_prompts: Some(Arc::new(|_context, _cursor| {
            let argument = McpPromptArgument { name: "city".into(), required: true, ..Default::default() };
            let prompt =
                McpPrompt { name: "weather".into(), arguments: vec![argument], ..Default::default() };
            Box::pin(async { Ok(vec![prompt].into()) })
        })),
        get_prompt: Some(Arc::new(|_context, name, arguments| {
            Box::pin(async move {
                if name != "weather" {
                    return Err(McpHookError::prompt_not_found(name).into());
                }
                let user = |content| McpPromptMessage { role: McpPromptRole::User, content };
                let file = McpResourceContents::text("mem:a", "text/plain", "abc");
                Ok(McpPromptResult {
                    description: Some("Weather".into()),
                    messages: vec![
                        McpPromptMessage::user(format!("Weather in {}?", arguments["city"])),
                        user(McpPromptContent::Part(ContentPart::from_base64("image/png", "AAAA", None))),
                        user(McpPromptContent::Resource(file)),
                        McpPromptMessage::assistant("Sunny"),
                    ],
                })
            })
        })),
        ..Default::default()
    }
}

// MCP-174, MCP-162, SERVE-78
#[tokio::test]
async fn what_is_not_there_is_not_offered() {
    let bare = handler([], McpHandlerOptions::default());
    let client = Client::in_session(&bare, json!({})).await;
    for method in [
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    ] {
        assert_eq!(
            error(&client.ask(method, json!({"uri": "u", "name": "n"})).await),
            (-32601, "Method not found")
        );
    }
    let capabilities = async |options: McpHandlerOptions| {
        let handler = handler([], options);
        Client::new(&handler).initialize("2025-06-18", json!({})).await["result"]["capabilities"].take()
    };
    let changes = json!({"listChanged": true});
    assert_eq!(capabilities(resources()).await["resources"], changes);
    assert_eq!(capabilities(resources()).await["prompts"], Value::Null);
    assert_eq!(capabilities(prompts()).await["prompts"], changes);
    assert_eq!(capabilities(prompts()).await["resources"], Value::Null);
    let subscribes =
        McpHandlerOptions { subscribe: Some(Arc::new(|_, _| Box::pin(async { Ok(()) }))), ..resources() };
    let offered = capabilities(subscribes.clone()).await;
    assert_eq!(offered["resources"], json!({"subscribe": true, "listChanged": true}));
    let offered = capabilities(McpHandlerOptions { stateless: true, ..subscribes }).await;
    assert_eq!(offered["resources"], json!({}));
    let completes: CompleteHook = Arc::new(|_, _| Box::pin(async { Ok(McpCompletion::default()) }));
    assert_eq!(
        capabilities(McpHandlerOptions { complete: Some(completes), ..Default::default() }).await["completions"],
        json!({})
    );
}

// MCP-174, SERVE-74
#[tokio::test]
async fn resources_are_listed_and_read() {
    let handler = handler([], resources());
    let client = Client::in_session(&handler, json!({})).await;
    let first = json!({
        "resources": [{"uri": "mem:a", "name": "mem:a", "title": "A", "description": "The first",
            "mimeType": "text/plain", "size": 3}],
        "nextCursor": "2",
    });
    assert_eq!(client.ask("resources/list", json!({})).await["result"], first);
    assert_eq!(client.ask("resources/list", json!({"cursor": null})).await["result"], first);
    let second = json!({"resources": [{"uri": "mem:b", "name": "mem:b"}]});
    assert_eq!(client.ask("resources/list", json!({"cursor": "2"})).await["result"], second);
    assert_eq!(
        error(&client.ask("resources/list", json!({"cursor": "9"})).await),
        (-32602, "unknown cursor: 9")
    );
    assert_eq!(
        error(&client.ask("resources/list", json!({"cursor": 2})).await),
        (-32602, "cursor must be a string")
    );
    assert_eq!(
        client.ask("resources/templates/list", json!({})).await["result"],
        json!({"resourceTemplates": []})
    );

    let read = async |uri: Value| client.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(
        read(json!("mem:a")).await["result"],
        json!({"contents": [
            {"uri": "mem:a", "mimeType": "text/plain", "text": "abc"},
            {"uri": "mem:a/1", "mimeType": "image/png", "blob": "AQID"},
        ]})
    );
    assert_eq!(error(&read(json!("mem:x")).await), (-32002, "resource not found: mem:x"));
    assert_eq!(error(&read(json!("mem:secret")).await), (-32603, "Internal error"));
    assert_eq!(error(&read(json!("mem:panic")).await), (-32603, "Internal error"));
    assert_eq!(error(&read(json!(7)).await), (-32602, "uri must be a string"));
}

// MCP-174
#[tokio::test]
async fn templates_are_listed() {
    let template = || McpResourceTemplate {
        uri_template: "mem:{name}".into(),
        name: "memory".into(),
        mime_type: Some("text/plain".into()),
        ..Default::default()
    };
    let options = McpHandlerOptions {
        list_resource_templates: Some(Arc::new(move |_, _| {
            Box::pin(async move { Ok(vec![template()].into()) })
        })),
        ..Default::default()
    };
    let handler = handler([], options);
    let client = Client::in_session(&handler, json!({})).await;
    assert_eq!(
        client.ask("resources/templates/list", json!({})).await["result"],
        json!({"resourceTemplates": [{"uriTemplate": "mem:{name}", "name": "memory", "mimeType": "text/plain"}]})
    );
    assert_eq!(error(&client.ask("resources/list", json!({})).await).0, -32601);
}

// MCP-174, SERVE-74
#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let handler = handler([], prompts());
    let client = Client::in_session(&handler, json!({})).await;
    assert_eq!(
        client.ask("prompts/list", json!({})).await["result"],
        json!({"prompts": [{"name": "weather", "arguments": [{"name": "city", "required": true}]}]})
    );
    let get = async |params: Value| client.ask("prompts/get", params).await;
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        get(json!({"name": "weather", "arguments": {"city": "Kochi"}})).await["result"],
        json!({"description": "Weather", "messages": [
            {"role": "user", "content": text("Weather in \"Kochi\"?")},
            {"role": "user", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "resource", "resource":
                {"uri": "mem:a", "mimeType": "text/plain", "text": "abc"}}},
            {"role": "assistant", "content": text("Sunny")},
        ]})
    );
    assert_eq!(error(&get(json!({"name": "x"})).await), (-32602, "prompt not found: x"));
    assert_eq!(error(&get(json!({})).await), (-32602, "name must be a string"));
    let odd = get(json!({"name": "weather", "arguments": [1]})).await;
    assert_eq!(error(&odd), (-32602, "arguments must be an object"));
    // The hook's own panic, over an argument that is missing.
    assert_eq!(error(&get(json!({"name": "weather"})).await), (-32603, "Internal error"));
}

// Beyond MCP-174: a client hears of the resources it asked to hear of
#[tokio::test]
async fn changes_of_resources_go_to_subscribers() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (noted, un_noted) = (Arc::clone(&log), Arc::clone(&log));
    let options = McpHandlerOptions {
        subscribe: Some(Arc::new(move |_context, uri| {
            noted.lock().unwrap().push(format!("+{uri}"));
            Box::pin(async move {
                if uri == "mem:x" { Err(McpHookError::resource_not_found(uri).into()) } else { Ok(()) }
            })
        })),
        unsubscribe: Some(Arc::new(move |_context, uri| {
            un_noted.lock().unwrap().push(format!("-{uri}"));
            Box::pin(async { Ok(()) })
        })),
        ..resources()
    };
    let handler = handler([], options);
    let client = Client::in_session(&handler, json!({})).await;
    let other = Client::in_session(&handler, json!({})).await;
    let (mut mine, mut theirs) = (client.listen().await, other.listen().await);
    handler.notify_resource_updated("mem:a");
    assert!(mine.is_quiet());
    assert_eq!(client.ask("resources/subscribe", json!({"uri": "mem:a"})).await["result"], json!({}));
    assert_eq!(client.ask("resources/subscribe", json!({"uri": "mem:a"})).await["result"], json!({}));
    assert_eq!(error(&client.ask("resources/subscribe", json!({"uri": "mem:x"})).await).0, -32002);
    for uri in ["mem:a", "mem:b", "mem:x"] {
        handler.notify_resource_updated(uri);
    }
    let message = mine.message().await;
    assert_eq!(message["method"], "notifications/resources/updated");
    assert_eq!(message["params"], json!({"uri": "mem:a"}));
    assert!(mine.is_quiet() && theirs.is_quiet());
    assert_eq!(client.ask("resources/unsubscribe", json!({"uri": "mem:a"})).await["result"], json!({}));
    handler.notify_resource_updated("mem:a");
    assert!(mine.is_quiet());
    assert_eq!(*log.lock().unwrap(), ["+mem:a", "+mem:a", "+mem:x", "-mem:a"]);

    for number in 0..1_000 {
        client.ask("resources/subscribe", json!({"uri": format!("mem:{number}")})).await;
    }
    let answer = client.ask("resources/subscribe", json!({"uri": "mem:more"})).await;
    assert_eq!(error(&answer), (-32602, "too many subscriptions"));
}

// Beyond MCP-174: arguments are completed
#[tokio::test]
async fn arguments_are_completed() {
    let options = McpHandlerOptions {
        complete: Some(Arc::new(|_context, request| {
            Box::pin(async move {
                let of = match request.reference {
                    McpCompletionReference::Prompt(name) => format!("prompt {name}"),
                    McpCompletionReference::Resource(uri) => format!("resource {uri}"),
                    _ => String::new(),
                };
                let asked =
                    format!("{of} {} {} {}", request.argument, request.value, json!(request.arguments));
                let values = if request.value == "many" { vec![asked; 150] } else { vec![asked] };
                Ok(McpCompletion { total: (values.len() > 1).then_some(150), values, has_more: false })
            })
        })),
        ..Default::default()
    };
    let handler = handler([], options);
    let client = Client::in_session(&handler, json!({})).await;
    let complete = async |params: Value| client.ask("completion/complete", params).await;
    let prompt = json!({"type": "ref/prompt", "name": "weather"});
    let argument = json!({"name": "city", "value": "Ko"});
    let context = json!({"arguments": {"country": "IN"}});
    assert_eq!(
        complete(json!({"ref": prompt, "argument": argument, "context": context})).await["result"],
        json!({"completion": {"values": [r#"prompt weather city Ko {"country":"IN"}"#], "hasMore": false}})
    );
    let template = json!({"type": "ref/resource", "uri": "mem:{name}"});
    let result = complete(json!({"ref": template, "argument": {"name": "name", "value": "many"}})).await;
    let completion = &result["result"]["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["hasMore"], &completion["total"]), (&json!(true), &json!(150)));
    for odd in [
        json!({}),
        json!({"ref": {"type": "ref/prompt"}, "argument": argument}),
        json!({"ref": prompt}),
        json!({"ref": prompt, "argument": {"name": "city"}}),
        json!({"ref": prompt, "argument": "city"}),
    ] {
        assert_eq!(error(&complete(odd).await).0, -32602);
    }
}
