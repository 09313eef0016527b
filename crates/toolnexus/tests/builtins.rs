//! The built-in tools as a source of a toolkit.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is a test's failure report"
)]

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolnexus::builtins::{
    BUILTIN_NAMES, BackgroundShells, HostPolicy, builtin_toolkit, create_builtin_tools, select_builtins,
};
use toolnexus::{
    BuiltinsConfig, ClientOptions, Error, McpConfigInput, SourceStatus, Style, Tool, ToolSource, Toolkit,
    ToolkitOptions, create_client, create_toolkit, define_tool,
};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};
use toolnexus_testkit::model::{ModelServer, Reply, Script};
use toolnexus_testkit::warnings::Warnings;

const TEN: [&str; 10] =
    ["bash", "read", "write", "edit", "grep", "glob", "webfetch", "question", "apply_patch", "todowrite"];

/// Everything that must be asked for.
fn everything() -> BuiltinsConfig {
    BuiltinsConfig {
        background: Some(BackgroundShells::new()),
        web_search: Some(Arc::new(|_query, _limit, _cancel| Box::pin(async { Ok(Vec::new()) }))),
        notebook_edit: true,
        ..Default::default()
    }
}

fn names(toolkit: &Toolkit) -> Vec<String> {
    toolkit.tools().into_iter().map(|tool| tool.name).collect()
}

fn with(builtins: BuiltinsConfig) -> ToolkitOptions {
    ToolkitOptions { builtins: Some(builtins), ..Default::default() }
}

fn document(section: &Value) -> ToolkitOptions {
    let document = json!({"mcpServers": {}, "builtins": section});
    ToolkitOptions { mcp_config: Some(McpConfigInput::Value(document)), ..Default::default() }
}

async fn built(options: ToolkitOptions) -> Toolkit {
    create_toolkit(options).await.unwrap()
}

fn named(name: &str, output: &str) -> Tool {
    let output = output.to_owned();
    define_tool(name, "", None, move |_args, _context| {
        let output = output.clone();
        async move { Ok::<_, String>(output) }
    })
}

// BUILTIN-1, BUILTIN-2: case 1
#[tokio::test]
async fn ten_in_their_order_and_then_what_was_asked_for() {
    let toolkit = built(ToolkitOptions::default()).await;
    assert_eq!(names(&toolkit), TEN);
    assert_eq!(BUILTIN_NAMES, TEN);
    assert!(toolkit.tools().iter().all(|tool| tool.source == ToolSource::Builtin));
    let mut sorted = TEN.map(str::to_owned);
    sorted.sort();
    assert_eq!(toolkit.tool_names(), sorted, "the list of names is another order");

    let toolkit = built(with(everything())).await;
    assert_eq!(names(&toolkit)[..10], TEN);
    assert_eq!(names(&toolkit)[10..], ["bash_output", "kill_shell", "websearch", "notebook_edit"]);
    assert!(toolkit.tools().iter().all(|tool| tool.source == ToolSource::Builtin));
    assert!(toolkit.get("skill").is_none() && toolkit.get("memory").is_none());
}

// BUILTIN-7
#[tokio::test]
async fn without_bash_nothing_looks_after_shells() {
    let config = BuiltinsConfig { tools: [("bash".to_owned(), false)].into(), ..everything() };
    let toolkit = built(with(config)).await;
    assert_eq!(names(&toolkit)[..9], TEN[1..]);
    assert_eq!(names(&toolkit)[9..], ["websearch", "notebook_edit"]);
}

// BUILTIN-3: a configuration may name what does not exist, and building creates nothing
#[tokio::test]
async fn building_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("not/there");
    let config = BuiltinsConfig { base_dir: Some(base.clone()), confine_to_base_dir: true, ..everything() };
    let toolkit = built(with(config)).await;
    assert_eq!(toolkit.tools().len(), 14);
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    // What it needs, it looks for when it is called.
    std::fs::create_dir_all(&base).unwrap();
    std::fs::write(base.join("f"), "there now").unwrap();
    assert_eq!(toolkit.execute("read", json!({"path": "f"})).await.output, "there now");
}

// BUILTIN-3
#[tokio::test]
async fn nothing_is_kept_between_calls_and_nothing_needs_an_end() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "one").unwrap();
    let toolkit =
        built(with(BuiltinsConfig { base_dir: Some(dir.path().into()), ..Default::default() })).await;
    let todos = json!({"todos": [{"id": "1", "text": "a", "completed": false}]});
    let first = toolkit.execute("todowrite", todos.clone()).await;
    assert_eq!(toolkit.execute("todowrite", json!({})).await.output, "(no todos)");
    assert_eq!(toolkit.execute("todowrite", todos).await, first);
    assert_eq!(toolkit.execute("read", json!({"path": "f"})).await.output, "one");
    std::fs::write(dir.path().join("f"), "two").unwrap();
    assert_eq!(toolkit.execute("read", json!({"path": "f"})).await.output, "two");
    toolkit.close().await;
    toolkit.close().await;
    assert_eq!(
        toolkit.execute("read", json!({"path": "f"})).await.output,
        "two",
        "closing ends nothing here"
    );
}

// BUILTIN-3: background shells are the host's, and go on when a toolkit closes
#[cfg(unix)]
#[tokio::test]
async fn background_shells_belong_to_the_host() {
    let shells = BackgroundShells::new();
    let config = BuiltinsConfig { background: Some(Arc::clone(&shells)), ..Default::default() };
    let (first, second) = (built(with(config.clone())).await, built(with(config)).await);
    let started =
        first.execute("bash", json!({"command": "echo up; exec sleep 600", "run_in_background": true})).await;
    assert!(!started.is_error, "{started:?}");
    first.close().await;
    drop(first);
    let running = || shells.list().iter().filter(|shell| shell.running).count();
    assert_eq!(running(), 1);
    // Another toolkit of the same registry ends it.
    let ended = second.execute("kill_shell", json!({"id": "bg1"})).await;
    assert_eq!((ended.is_error, running()), (false, 0), "{ended:?}");
    shells.close_all().await;
}

// BUILTIN-4: the tools are in the request's array, and nowhere else
#[tokio::test]
async fn a_model_hears_of_them_through_the_tool_array_alone() {
    for style in [Style::OpenAI, Style::Anthropic, Style::Gemini] {
        let reply = || match style {
            Style::Anthropic => Reply::anthropic().text("hi"),
            Style::Gemini => Reply::gemini().text("hi"),
            _ => Reply::openai().text("hi"),
        };
        let script = Script::new().reply(reply()).reply(reply()).reply(reply());
        let server = ModelServer::start(script).await.unwrap();
        let ask = async |builtins: BuiltinsConfig, system: &str| {
            let client = create_client(ClientOptions {
                base_url: server.base_url(),
                style,
                model: "m".into(),
                api_key: "k".into(),
                system_prompt: system.into(),
                ..Default::default()
            });
            let toolkit = built(with(builtins)).await;
            client.run("hello", &toolkit).await.unwrap();
            server.requests().last().unwrap().json()
        };
        let mut with_tools = ask(everything(), "Be brief.").await;
        let without_tools = ask(BuiltinsConfig::off(), "Be brief.").await;
        let plain = ask(BuiltinsConfig::default(), "").await;

        let tools = with_tools.as_object_mut().unwrap().remove("tools").unwrap();
        let expected = built(with(everything())).await;
        let (shown, listed): (Value, usize) = match style {
            Style::Anthropic => (json!(expected.to_anthropic()), 14),
            Style::Gemini => (tools.clone(), tools[0]["functionDeclarations"].as_array().unwrap().len()),
            _ => (json!(expected.to_openai()), 14),
        };
        assert_eq!((&tools, listed), (&shown, 14), "{style:?}");
        // Taken away, what is left is the request without any tool.
        for key in ["tool_choice", "toolConfig"] {
            with_tools.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(with_tools, without_tools, "{style:?}");
        let plain = plain.to_string();
        assert!(!plain.contains("\"system\"") && !plain.contains("systemInstruction"), "{plain}");
        server.stop().await;
    }
}

// BUILTIN-5, BUILTIN-10: cases 2, 3
#[tokio::test]
async fn off_is_reported_as_on_is() {
    for (section, on) in [
        (json!({"enabled": true, "disabled": true}), false),
        (json!({"disabled": true, "tools": {"bash": true}}), false),
        (json!({"enabled": false, "tools": {"bash": true}, "notebookEdit": true}), false),
        (json!(false), false),
        (json!(true), true),
        (json!(null), true),
        (json!({"enabled": true, "disabled": false}), true),
    ] {
        let toolkit = built(document(&section)).await;
        assert_eq!(toolkit.tools().len(), if on { 10 } else { 0 }, "{section}");
        let status = if on { SourceStatus::Connected } else { SourceStatus::Disabled };
        assert_eq!(toolkit.statuses()["builtin"], status, "{section}");
        assert!(toolkit.errors().is_empty() && toolkit.mcp_status().is_empty());
        // BUILTIN-101: the same decision as for a host that assembles by hand.
        let config = BuiltinsConfig::from_value(&section).unwrap();
        let by_hand = builtin_toolkit(config.as_ref()).unwrap();
        assert_eq!(by_hand.statuses()["builtin"], status);
        assert_eq!(by_hand.to_openai(), toolkit.to_openai());
    }
    // All dropped one by one is not off.
    let tools = TEN.map(|name| (name.to_owned(), false)).into();
    let toolkit = built(with(BuiltinsConfig { tools, ..Default::default() })).await;
    assert!(toolkit.tools().is_empty());
    assert_eq!(toolkit.statuses()["builtin"], SourceStatus::Connected);
}

// BUILTIN-6: cases 4, 5, 6
#[tokio::test]
async fn the_map_only_drops() {
    for (tools, expected) in [
        (json!({"bash": true}), &TEN[..]),
        (
            json!({"bash": false, "apply_patch": false, "read": true, "nope": false}),
            &["read", "write", "edit", "grep", "glob", "webfetch", "question", "todowrite"],
        ),
        (
            json!({"bash": false, "write": false, "edit": false, "apply_patch": false}),
            &["read", "grep", "glob", "webfetch", "question", "todowrite"],
        ),
        (json!({"notebook_edit": true}), &TEN[..]),
    ] {
        assert_eq!(names(&built(document(&json!({"tools": tools}))).await), expected, "{tools}");
    }
    let section = json!({"notebookEdit": true, "tools": {"notebook_edit": false}});
    assert_eq!(names(&built(document(&section)).await), TEN);
}

// BUILTIN-8: the same section for each form of the document; the option wins over it
#[tokio::test]
async fn the_section_counts_for_each_form_of_the_document() {
    let base = tempfile::tempdir().unwrap();
    std::fs::write(base.path().join("f"), "from the base").unwrap();
    let section = json!({
        "enabled": true, "disabled": false, "tools": {"webfetch": false}, "baseDir": base.path(),
        "confineToBaseDir": true, "killGraceMs": 5, "notebookEdit": true, "respectGitignore": true,
        "web": {"allow": ["*.example.com"], "deny": ["loopback"]},
        "limits": {"readBytes": 20, "bashBytes": 1, "bashSpillBytes": 1, "lineBytes": 1, "webBytes": 1, "searchMs": 0}
    });
    let text = json!({"mcpServers": {}, "builtins": section}).to_string();
    let path = base.path().join("mcp.json");
    std::fs::write(&path, &text).unwrap();
    let inputs = [
        McpConfigInput::Value(serde_json::from_str(&text).unwrap()),
        McpConfigInput::Json(text),
        McpConfigInput::Path(path),
    ];
    for input in inputs {
        let warnings = Warnings::listen();
        let options =
            |builtins| ToolkitOptions { mcp_config: Some(input.clone()), builtins, ..Default::default() };
        let toolkit = built(options(None)).await;
        assert_eq!(warnings.take(), [""; 0]);
        assert_eq!(toolkit.tools().len(), 10);
        assert!(toolkit.get("notebook_edit").is_some() && toolkit.get("webfetch").is_none());
        let read = async |path: &str| toolkit.execute("read", json!({"path": path})).await.output;
        assert_eq!(read("f").await, "from the base");
        let refused = format!("read: .. resolves outside baseDir {}", base.path().display());
        assert_eq!(read("..").await, refused);
        assert!(read("mcp.json").await.contains("over the limit of 20"));
        assert!(toolkit.errors().is_empty());

        let toolkit = built(options(Some(BuiltinsConfig::default()))).await;
        assert_eq!(names(&toolkit), TEN, "nothing of the section is left");
        let toolkit = built(options(Some(BuiltinsConfig::off()))).await;
        assert!(toolkit.tools().is_empty());
    }
}

// BUILTIN-8: the section as any configuration of the host's
#[test]
fn a_section_can_be_read_by_itself() {
    let read = |text: &str| serde_json::from_str::<BuiltinsConfig>(text).unwrap();
    assert_eq!(select_builtins(Some(&read("false"))).unwrap().len(), 0);
    assert_eq!(select_builtins(Some(&read("null"))).unwrap().len(), 10);
    assert_eq!(select_builtins(Some(&read("true"))).unwrap().len(), 10);
    let config = read(r#"{"notebookEdit": true, "baseDir": "x", "shell": ["sh", "-c"]}"#);
    assert_eq!((config.base_dir.clone(), config.shell.len()), (Some(PathBuf::from("x")), 2));
    assert_eq!(select_builtins(Some(&config)).unwrap().len(), 11);
}

// BUILTIN-9: case 7
#[tokio::test]
async fn a_lock_down_that_cannot_be_read_builds_no_toolkit() {
    for (section, named) in [
        (json!({"tools": {"bash": "false"}}), "builtins.tools.bash must be a boolean"),
        (json!({"tools": {"bash": null}}), "builtins.tools.bash must be a boolean"),
        (json!({"disabled": 1}), "builtins.disabled must be a boolean"),
        (json!({"enabled": "no"}), "builtins.enabled must be a boolean"),
        (json!("off"), "builtins must be a boolean or an object"),
        (json!([]), "builtins must be a boolean or an object"),
        (json!(0), "builtins must be a boolean or an object"),
        (json!({"confineToBaseDir": "true"}), "builtins.confineToBaseDir must be a boolean"),
        (json!({"web": {"deny": ["10.0.0.0/99"]}}), "10.0.0.0/99"),
    ] {
        let error = create_toolkit(document(&section)).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Builtins(_)), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let web = HostPolicy { deny: vec!["10.0.0.0/99".into()], ..Default::default() };
    assert!(create_toolkit(with(BuiltinsConfig { web, ..Default::default() })).await.is_err());
}

/// A server whose tool is called as a built-in one: `apply` + `patch`.
fn server_with_the_name_of_a_built_in() -> Value {
    McpFixture::new().tool(FixtureTool::echo("patch")).mcp_json("apply").unwrap()
}

// BUILTIN-11
#[tokio::test]
async fn other_sources_come_before_the_built_in_tools() {
    let toolkit = built(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server_with_the_name_of_a_built_in())),
        extra_tools: vec![named("read", "the host's"), named("write", "the host's")],
        ..Default::default()
    })
    .await;
    for (name, source) in
        [("apply_patch", ToolSource::Mcp), ("read", ToolSource::Native), ("write", ToolSource::Native)]
    {
        assert_eq!(toolkit.get(name).unwrap().source, source);
        assert_eq!(names(&toolkit).iter().filter(|other| *other == name).count(), 1);
    }
    assert_eq!(toolkit.execute("read", json!({})).await.output, "the host's");
    assert_eq!(toolkit.execute("apply_patch", json!({"x": 1})).await.output, r#"{"x":1}"#);
    assert_eq!(toolkit.tools().len(), 10);
    toolkit.close().await;
}

// BUILTIN-11: a name that is disabled is gone from all sources at once
#[tokio::test]
async fn disabling_a_name_uncovers_nothing() {
    let toolkit = built(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server_with_the_name_of_a_built_in())),
        extra_tools: vec![named("read", "the host's")],
        disable_tools: ["read", "apply_patch", "bash", "nope"].map(str::to_owned).to_vec(),
        ..Default::default()
    })
    .await;
    assert_eq!(names(&toolkit), ["write", "edit", "grep", "glob", "webfetch", "question", "todowrite"]);
    toolkit.close().await;
}

// BUILTIN-17: a gate of the host's sees the hints of each tool
#[tokio::test]
async fn hints_are_there_for_gates_and_not_for_models() {
    let toolkit = built(with(everything())).await;
    let hints = |name: &str| {
        let hints = toolkit.get(name).unwrap().hints.unwrap();
        (hints.read_only, hints.destructive, hints.open_world)
    };
    for name in ["read", "grep", "glob", "question", "todowrite", "bash_output"] {
        assert_eq!(hints(name), (true, false, false), "{name}");
    }
    for name in ["write", "edit", "apply_patch", "kill_shell", "notebook_edit"] {
        assert_eq!(hints(name), (false, true, false), "{name}");
    }
    for name in ["webfetch", "websearch"] {
        assert_eq!(hints(name), (true, false, true), "{name}");
    }
    assert_eq!(hints("bash"), (false, true, true));
    for array in [toolkit.to_openai(), toolkit.to_anthropic(), toolkit.to_gemini()] {
        let text = json!(array).to_string().to_lowercase();
        for word in ["hint", "readonly", "read_only", "destructive", "openworld", "open_world"] {
            assert!(!text.contains(word), "{word}");
        }
    }
}

// BUILTIN-21: the whole schema, and nothing else, is what a provider gets
#[tokio::test]
async fn schemas_arrive_as_they_are() {
    let toolkit = built(with(everything())).await;
    for (tool, shown) in toolkit.tools().iter().zip(toolkit.to_openai()) {
        assert_eq!(shown["function"]["parameters"], tool.input_schema, "{}", tool.name);
        let schema = tool.input_schema.as_object().unwrap();
        assert_eq!(schema.keys().collect::<Vec<_>>(), ["type", "properties", "required"]);
        for property in schema["properties"].as_object().unwrap().values() {
            assert!(!property["description"].as_str().unwrap().is_empty());
        }
        let required = schema["required"].as_array().unwrap();
        assert!(required.iter().all(|name| schema["properties"].get(name.as_str().unwrap()).is_some()));
    }
}

// BUILTIN-23
#[tokio::test]
async fn the_host_does_not_show_in_names_and_schemas() {
    let elsewhere = BuiltinsConfig {
        shell: vec!["pwsh".into(), "-Command".into()],
        base_dir: Some("elsewhere".into()),
        confine_to_base_dir: true,
        respect_gitignore: true,
        ..everything()
    };
    let here = built(with(everything())).await.to_openai();
    assert_eq!(built(with(elsewhere.clone())).await.to_openai(), here);
    let tools = create_builtin_tools(Some(&elsewhere));
    assert_eq!(Toolkit::from_tools(tools).to_openai(), here);
}

// BUILTIN-104: case 84
#[tokio::test]
async fn a_typing_error_is_said_once() {
    let warnings = Warnings::listen();
    let section = json!({"tools": {"Bash": false, "shell": true}, "confine": true, "base_dir": "x"});
    let toolkit = built(document(&section)).await;
    assert_eq!(names(&toolkit), TEN);
    let mut heard = warnings.take();
    heard.sort();
    assert_eq!(
        heard,
        [
            "[toolnexus] builtins.tools: no built-in named \"Bash\"",
            "[toolnexus] builtins.tools: no built-in named \"shell\"",
            "[toolnexus] builtins: unknown key \"base_dir\"",
            "[toolnexus] builtins: unknown key \"confine\"",
        ]
    );
    // From code, too; and not for what is off, where the map is not consulted.
    let tools = || [("Bash".to_owned(), false)].into();
    built(with(BuiltinsConfig { tools: tools(), ..Default::default() })).await;
    assert_eq!(warnings.take(), ["[toolnexus] builtins.tools: no built-in named \"Bash\""]);
    built(with(BuiltinsConfig { tools: tools(), ..BuiltinsConfig::off() })).await;
    assert_eq!(warnings.take(), [""; 0]);
}
