//! `create_toolkit`: order, collisions, isolation.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is a test's failure report"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus::skills::SkillDef;
use toolnexus::{
    BuiltinsConfig, McpConfigInput, SourceStatus, Tool, ToolSource, ToolkitOptions, ToolkitSources as _,
    create_toolkit, define_tool, relay_tool,
};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};

fn named(name: &str, output: &str) -> Tool {
    let output = output.to_owned();
    define_tool(name, "", None, move |_args, _context| {
        let output = output.clone();
        async move { Ok::<_, String>(output) }
    })
}

fn server(tools: &[&str]) -> Value {
    let fixture =
        tools.iter().fold(McpFixture::new(), |fixture, tool| fixture.tool(FixtureTool::echo(*tool)));
    fixture.mcp_json("srv").unwrap()
}

fn skill(dir: &Path, name: &str) {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(
        dir.join("SKILL.md"),
        format!("---\nname: {name}\ndescription: About {name}.\n---\nBody\n"),
    )
    .unwrap();
}

fn names(toolkit: &toolnexus::Toolkit) -> Vec<String> {
    toolkit.tools().into_iter().map(|tool| tool.name).collect()
}

// CORE-48, CORE-49, CORE-56, case 12
#[tokio::test]
async fn all_defaults_give_the_built_in_tools() {
    let toolkit = create_toolkit(ToolkitOptions::default()).await.unwrap();
    assert_eq!(names(&toolkit), toolnexus::builtins::BUILTIN_NAMES);
    assert!(toolkit.tools().iter().all(|tool| tool.source == ToolSource::Builtin));
    assert_eq!(toolkit.statuses()["builtin"], SourceStatus::Connected);
    assert!(toolkit.mcp_status().is_empty());
    assert!(toolkit.errors().is_empty());
    // CORE-58, SKILL-1
    assert_eq!(toolkit.skills_prompt(), "");
    assert!(toolkit.get("skill").is_none());
}

// CORE-49: MCP, skill, built-ins, extra tools
#[tokio::test]
async fn sources_come_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    skill(dir.path(), "deploy");
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server(&["b", "a"]))),
        skills_dir: vec![dir.path().into()],
        extra_tools: vec![named("zeta", ""), named("alpha", "")],
        ..Default::default()
    })
    .await
    .unwrap();
    let built_in = toolnexus::builtins::BUILTIN_NAMES;
    let expected = ["srv_a", "srv_b", "skill"].into_iter().chain(built_in).chain(["zeta", "alpha"]);
    assert_eq!(names(&toolkit), expected.collect::<Vec<_>>());
    assert!(toolkit.skills_prompt().contains("- **deploy**: About deploy."));
    assert_eq!(toolkit.statuses()["srv"], SourceStatus::Connected);
    // MCP-67, D18
    assert_eq!(toolkit.connected_servers(), 1);
    assert_eq!(toolkit.mcp().unwrap().connections.len(), 1);
    assert_eq!(toolkit.skills().unwrap().skills().len(), 1);
    assert_eq!(toolkit.execute("srv_a", json!({"x": 1})).await.output, r#"{"x":1}"#);
    toolkit.close().await;
    toolkit.close().await; // CORE-63, case 25
    assert!(toolkit.execute("srv_a", json!({})).await.is_error);
    assert_eq!(toolkit.execute("zeta", json!({})).await.output, "");
}

// CORE-50, cases 16 and 17
#[tokio::test]
async fn names_collide_by_rule() {
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server(&["x"]))),
        skills: vec![SkillDef { name: "s".into(), ..Default::default() }],
        extra_tools: vec![named("read", "HOST_READ"), named("srv_x", "HOST_X"), named("skill", "HOST_SKILL")],
        ..Default::default()
    })
    .await
    .unwrap();
    assert_eq!(toolkit.get("read").unwrap().source, ToolSource::Native);
    assert_eq!(toolkit.execute("read", json!({})).await.output, "HOST_READ");
    assert_eq!(toolkit.get("srv_x").unwrap().source, ToolSource::Mcp);
    assert_eq!(toolkit.get("skill").unwrap().source, ToolSource::Skill);
    assert_eq!(names(&toolkit).iter().filter(|name| *name == "read").count(), 1);
    // The replaced built-in's place is not taken over: the tool stands where extra tools stand.
    let left = toolnexus::builtins::BUILTIN_NAMES.into_iter().filter(|name| *name != "read");
    let expected = ["srv_x", "skill"].into_iter().chain(left).chain(["read"]);
    assert_eq!(names(&toolkit), expected.collect::<Vec<_>>());
    toolkit.close().await;
}

// CORE-51, case 19, MCP-33
#[tokio::test]
async fn disabled_names_are_gone_from_every_source() {
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server(&["x", "y"]))),
        extra_tools: vec![named("mine", "")],
        disable_tools: ["bash", "srv_x", "mine", "no_such_tool"].map(String::from).to_vec(),
        ..Default::default()
    })
    .await
    .unwrap();
    let left = toolnexus::builtins::BUILTIN_NAMES.into_iter().filter(|name| *name != "bash");
    assert_eq!(names(&toolkit), ["srv_y"].into_iter().chain(left).collect::<Vec<_>>());
    // Not applied to what is added later.
    toolkit.register([named("mine", "later")]);
    assert_eq!(toolkit.execute("mine", json!({})).await.output, "later");
    toolkit.close().await;
}

// CORE-51: disabling a name uncovers nothing
#[tokio::test]
async fn disabling_a_shared_name_removes_both() {
    let toolkit = create_toolkit(ToolkitOptions {
        extra_tools: vec![named("read", "HOST")],
        disable_tools: vec!["read".into()],
        ..Default::default()
    })
    .await
    .unwrap();
    assert!(toolkit.get("read").is_none());
}

// CORE-52, CORE-53, cases 20 and 21
#[tokio::test]
async fn skills_are_filtered_for_prompt_and_tool_alike() {
    let build = async |disable: &[&str], filter: &[(&str, bool)]| {
        create_toolkit(ToolkitOptions {
            skills: ["legacy", "new"]
                .map(|name| SkillDef { name: name.into(), description: "d".into(), ..Default::default() })
                .to_vec(),
            disable_skills: disable.iter().map(|name| (*name).to_owned()).collect(),
            skills_filter: filter.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
            ..Default::default()
        })
        .await
        .unwrap()
    };
    let toolkit = build(&["legacy"], &[]).await;
    assert!(toolkit.execute("skill", json!({"name": "legacy"})).await.is_error);
    assert!(!toolkit.skills_prompt().contains("legacy"));
    let toolkit = build(&["legacy"], &[("legacy", true)]).await;
    assert!(!toolkit.execute("skill", json!({"name": "legacy"})).await.is_error);
    assert!(toolkit.skills_prompt().contains("legacy"));
    assert!(!toolkit.skills_prompt().contains("**new**"));
}

// CORE-54, cases 13 and 15
#[tokio::test]
async fn built_ins_can_be_switched_off() {
    for off in [
        BuiltinsConfig::off(),
        BuiltinsConfig { enabled: Some(true), disabled: Some(true), ..Default::default() },
        BuiltinsConfig { enabled: Some(false), ..Default::default() },
        BuiltinsConfig { disabled: Some(true), tools: [("read".into(), true)].into(), ..Default::default() },
    ] {
        let options = ToolkitOptions { builtins: Some(off), ..Default::default() };
        let toolkit = create_toolkit(options).await.unwrap();
        assert!(toolkit.tools().is_empty());
        assert_eq!(toolkit.statuses()["builtin"], SourceStatus::Disabled);
    }
}

// CORE-55, BUILTIN-8: the config's section counts for a value and for a path, the option wins
#[tokio::test]
async fn the_config_document_may_configure_the_built_ins() {
    let document = json!({"mcpServers": {}, "builtins": {"tools": {"bash": false}}});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mcp.json");
    std::fs::write(&path, document.to_string()).unwrap();
    for input in [McpConfigInput::Value(document.clone()), McpConfigInput::Path(path)] {
        let options = ToolkitOptions { mcp_config: Some(input.clone()), ..Default::default() };
        let all = toolnexus::builtins::BUILTIN_NAMES;
        assert_eq!(names(&create_toolkit(options).await.unwrap()), all[1..]);
        let options = ToolkitOptions {
            mcp_config: Some(input),
            builtins: Some(BuiltinsConfig::default()),
            ..Default::default()
        };
        assert_eq!(names(&create_toolkit(options).await.unwrap()), all);
    }
}

// CORE-57, BUILTIN-9, case 72: a lock-down must not fail open
#[tokio::test]
async fn a_restriction_that_is_not_understood_is_an_error() {
    let document = json!({"builtins": {"tools": {"bash": "no"}}});
    let options = ToolkitOptions { mcp_config: Some(McpConfigInput::Value(document)), ..Default::default() };
    let error = create_toolkit(options).await.unwrap_err().to_string();
    assert!(error.contains("builtins.tools.bash"), "{error}");
}

// CORE-57, BUILTIN-9: the later of two must not arm what the earlier took away; an option settles it
#[tokio::test]
async fn a_restriction_that_is_given_twice_is_an_error() {
    let document = r#"{"builtins": {"tools": {"bash": false}, "tools": {}}}"#;
    let mcp_config = Some(McpConfigInput::Json(document.into()));
    let options = ToolkitOptions { mcp_config, ..Default::default() };
    let error = create_toolkit(options.clone()).await.unwrap_err().to_string();
    assert_eq!(error, "mcp config: the key builtins.tools is given twice; remove one of them");
    let options = ToolkitOptions { builtins: Some(BuiltinsConfig::off()), ..options };
    let toolkit = create_toolkit(options).await.unwrap();
    assert_eq!(toolkit.get("bash").map(|_| ()), None);
    assert_eq!(toolkit.errors()["<config>"], error);
}

// CORE-137, SUSPEND-38: a relay tool must not pose as a built-in one, on or off
#[tokio::test]
async fn a_relay_tool_cannot_have_the_name_of_a_built_in_tool() {
    for builtins in [None, Some(BuiltinsConfig::off())] {
        let extra_tools = ["read", "mine", "apply_patch", "read"].map(|name| relay_tool(name, "", None));
        let options = ToolkitOptions { builtins, extra_tools: extra_tools.to_vec(), ..Default::default() };
        let error = create_toolkit(options).await.map(|_| ()).unwrap_err().to_string();
        let start = "toolnexus: relay tool name collides with a built-in tool: [apply_patch, read]; rename";
        assert!(error.starts_with(start), "{error}");
    }
    let options = ToolkitOptions { extra_tools: vec![relay_tool("mine", "", None)], ..Default::default() };
    assert!(create_toolkit(options).await.unwrap().get("mine").is_some());
}

// CORE-56, MCP-20, D11, cases 22 and 23
#[tokio::test]
async fn a_source_that_fails_never_fails_the_build() {
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Json("{\"mcpServers\": oops".into())),
        skills: vec![SkillDef { name: "a".into(), description: "d".into(), ..Default::default() }],
        skill_provider: Some(Arc::new(|| Box::pin(async { Err("boom".into()) }))),
        extra_tools: vec![named("t", "ok")],
        ..Default::default()
    })
    .await
    .unwrap();
    assert_eq!(toolkit.execute("t", json!({})).await.output, "ok");
    let errors = toolkit.errors();
    assert!(errors["<config>"].contains("line 1"), "{errors:?}");
    assert!(errors["<skills>"].contains("boom"), "{errors:?}");
    assert!(toolkit.skills_prompt().contains("- **a**: d"));
}

// CORE-56, MCP-40: one server fails, the others load
#[tokio::test]
async fn a_failed_server_leaves_its_reason() {
    let mut document = server(&["x"]);
    document["mcpServers"]["gone"] = json!({"command": ["/no/such/program"]});
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(document)),
        ..Default::default()
    })
    .await
    .unwrap();
    assert_eq!(toolkit.mcp_status()["gone"], SourceStatus::Failed);
    assert_eq!(toolkit.mcp_status()["srv"], SourceStatus::Connected);
    assert!(
        toolkit.errors()["gone"].starts_with("mcp server \"gone\" failed at connect"),
        "{:?}",
        toolkit.errors()
    );
    assert!(toolkit.get("srv_x").is_some());
    toolkit.close().await;
}

// SKILL-27: asked once; a panic is its failure
#[tokio::test]
async fn the_skill_provider_is_asked_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let toolkit = create_toolkit(ToolkitOptions {
        skill_provider: Some(Arc::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(vec![SkillDef { name: "p".into(), ..Default::default() }]) })
        })),
        ..Default::default()
    })
    .await
    .unwrap();
    assert!(!toolkit.execute("skill", json!({"name": "p"})).await.is_error);
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let toolkit = create_toolkit(ToolkitOptions {
        skill_provider: Some(Arc::new(|| Box::pin(async { panic!("in the provider") }))),
        ..Default::default()
    })
    .await
    .unwrap();
    assert!(toolkit.errors()["<skills>"].contains("panicked"));
}

// CORE-57, MCP-57, MCP-60
#[tokio::test]
async fn a_cancelled_build_is_an_error_at_once() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let options = ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server(&["x"]))),
        cancel: Some(cancel),
        ..Default::default()
    };
    let error = create_toolkit(options).await.unwrap_err();
    assert!(matches!(error, toolnexus::Error::Cancelled), "{error}");
}
