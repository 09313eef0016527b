//! Programs that published examples are made of must compile against this crate. Nothing here
//! reaches a network: what would is only compiled.
//
// D25 and the rust-surface list, as far as the crate goes today: S1, S4 to S10, S12, S15.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "example programs do all of this"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolnexus::client::{ClientOptions, Style, create_client};
use toolnexus::mcp::{load_mcp, parse_mcp_config_file};
use toolnexus::skills::{LoadSkillsOptions, SkillDef, list_skills};
use toolnexus::{
    Answer, BuiltinsConfig, McpConfigInput, Request, Tool, ToolContext, Toolkit, ToolkitOptions,
    create_toolkit, define_tool, define_typed_tool, pending,
};

#[allow(dead_code)]
async fn s1_whole_program() -> Result<(), Box<dyn Error>> {
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Path("./mcp.json".into())),
        skills_dir: vec!["./skills".into()],
        ..Default::default()
    })
    .await?;
    let client = create_client(ClientOptions {
        base_url: "https://openrouter.ai/api/v1".into(),
        style: Style::OpenAI,
        model: "openai/gpt-4o-mini".into(),
        ..Default::default()
    });
    let result = client.run("What can you do?", &toolkit).await?;
    println!("{}", result.text);
    toolkit.close().await;
    Ok(())
}

fn s4_all_sources() -> ToolkitOptions {
    ToolkitOptions {
        mcp_config: Some(McpConfigInput::Path("mcp.json".into())),
        skills_dir: vec!["skills".into()],
        skills: vec![SkillDef { name: "inline".into(), ..Default::default() }],
        skill_provider: Some(Arc::new(|| Box::pin(async { Ok(Vec::<SkillDef>::new()) }))),
        skills_filter: [("inline".to_string(), true)].into(),
        skill_sample_limit: 0,
        builtins: None,
        ..Default::default()
    }
}

fn s4_provider_with_question_mark() -> ToolkitOptions {
    ToolkitOptions {
        skill_provider: Some(Arc::new(|| {
            Box::pin(async {
                let text = std::fs::read_to_string("no such file")?;
                Ok(vec![SkillDef { name: "x".into(), content: text, ..Default::default() }])
            })
        })),
        ..Default::default()
    }
}

fn s5_skill_def() -> SkillDef {
    SkillDef {
        name: "deploy".into(),
        description: "How to deploy".into(),
        content: "Run the script.".into(),
        resources: vec!["scripts/deploy.sh".into()],
        base: "skill://deploy/".into(),
    }
}

#[allow(dead_code)]
async fn s7_mcp() -> Result<(), Box<dyn Error>> {
    let config = parse_mcp_config_file("mcp.json")?;
    let source = load_mcp(&config).await;
    source.close().await;
    Ok(())
}

#[allow(dead_code)]
async fn s9_conversation_by_id(toolkit: &Toolkit, key: String) -> Result<(), Box<dyn Error>> {
    let client = create_client(ClientOptions { api_key: "literal".into(), ..Default::default() });
    let other = create_client(ClientOptions { api_key: key.into(), ..Default::default() });
    let first = client.ask("hello", toolkit, "").await?;
    let second = other.clone().ask("hello", toolkit, "conversation").await?;
    assert_eq!(first.text, second.text);
    Ok(())
}

fn s10_native_tool() -> Tool {
    define_tool("add", "Adds two numbers", None, |a: Value, _ctx| async move {
        let sum = a["a"].as_f64().unwrap_or(0.0) + a["b"].as_f64().unwrap_or(0.0);
        Ok::<_, String>(format!("{sum}"))
    })
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: f64,
    b: f64,
}

/// The three spellings of a typed tool.
fn s10_typed_tools() -> [Tool; 3] {
    [
        define_typed_tool::<Sum>(
            "one",
            "",
            None,
            |args, _ctx| async move { Ok::<_, String>(args.a + args.b) },
        ),
        define_typed_tool("two", "", None, |args: Sum, _ctx| async move { Ok::<_, String>(args.a + args.b) }),
        define_typed_tool::<Sum>(
            "three",
            "",
            Some(json!({"type": "object"})),
            |args: Sum, _ctx: ToolContext| async move { Ok::<_, String>(args.a + args.b) },
        ),
    ]
}

fn s12_builtins_toggle() -> ToolkitOptions {
    ToolkitOptions {
        builtins: Some(BuiltinsConfig { tools: [("bash".to_string(), false)].into(), ..Default::default() }),
        ..Default::default()
    }
}

fn s15_resolver() -> ToolkitOptions {
    ToolkitOptions {
        wait_for: Some(Arc::new(|req: Request| {
            Box::pin(async move {
                let mut data = Map::new();
                data.insert("city".into(), json!("Rome"));
                Ok(Answer { id: req.id, ok: true, data: Some(data), ..Default::default() })
            })
        })),
        ..Default::default()
    }
}

fn s15_suspending_tool() -> [Tool; 2] {
    let request = || Request { kind: "input".into(), prompt: "Which city?".into(), ..Default::default() };
    [
        define_tool("ask", "", None, move |_a: Value, _ctx| async move { pending(request()) }),
        define_tool(
            "ask_ok",
            "",
            None,
            move |_a: Value, _ctx| async move { Ok::<_, String>(pending(request())) },
        ),
    ]
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn the_published_programs_run_where_they_need_no_network() {
    // S6
    let inventory =
        list_skills(&LoadSkillsOptions { dirs: vec!["no such directory".into()], ..Default::default() });
    assert!(inventory.skills.is_empty() && inventory.skipped.is_empty());

    // S8: plain values
    let toolkit = Toolkit::from_tools([s10_native_tool()]);
    assert_eq!(toolkit.to_openai()[0]["function"]["name"], "add");
    assert_eq!(toolkit.to_anthropic()[0]["name"], "add");
    assert_eq!(toolkit.to_gemini()[0]["functionDeclarations"][0]["name"], "add");
    assert_eq!(toolkit.execute("add", json!({"a": 2, "b": 3})).await.output, "5");

    for tool in s10_typed_tools() {
        assert_eq!(tool.execute(json!({"a": 2.0, "b": 3.5})).await.output, "5.5");
    }
    for tool in s15_suspending_tool() {
        assert_eq!(toolnexus::pending_of(&tool.execute(json!({})).await).unwrap().prompt, "Which city?");
    }
    assert!(s12_builtins_toggle().builtins.is_some_and(|b| !b.tools["bash"]));
    assert_eq!(BuiltinsConfig::off().disabled, Some(true));
    assert!(s15_resolver().wait_for.is_some());
    assert!(s4_all_sources().skill_provider.is_some());
    assert!(s4_provider_with_question_mark().skill_provider.is_some());
    assert_eq!(s5_skill_def().resources.len(), 1);
    let _: &BTreeMap<String, bool> = &s4_all_sources().skills_filter;

    // Every future that a host spawns is Send.
    drop(is_send(create_toolkit(ToolkitOptions::default())));
    let client = create_client(ClientOptions::default());
    drop(is_send(client.run("x", &toolkit)));
    drop(is_send(client.ask("x", &toolkit, "")));
    drop(is_send(client.stream("x", &toolkit)));
}
