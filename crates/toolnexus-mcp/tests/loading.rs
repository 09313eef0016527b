//! Loading servers: names, filters, statuses, and what a failure says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{gone, inherited, noted, output, servers, stdio, tool, with};
use toolnexus_core::{ToolHints, ToolOrigin, ToolSource};
use toolnexus_mcp::{
    LoadMcpOptions, McpFailureKind, McpPhase, McpServerEvent, McpSource, McpStatus, connect_mcp_server,
    load_mcp, load_mcp_with, mcp_tool_name, sanitize,
};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture, Paging, ProcessFaults, Reply, StderrSpam, Step};
use toolnexus_testkit::warnings::Warnings;

async fn load(entries: Value) -> McpSource {
    load_mcp(&servers(entries)).await
}

/// Loads one server named `x`.
async fn load_one(fixture: &McpFixture, more: Value) -> McpSource {
    load(json!({"x": stdio(fixture, more)})).await
}

fn names(source: &McpSource) -> Vec<&str> {
    source.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn abc() -> McpFixture {
    McpFixture::new().tools(["c", "a", "b"].map(FixtureTool::echo))
}

// MCP-23, MCP-24, cases 1 to 4; CORE-17 (of MCP)
#[test]
fn names_are_a_pure_function() {
    assert_eq!(mcp_tool_name("remote api", "zebra note"), "remote_api_zebra_note");
    assert_eq!(mcp_tool_name("remote api", "alpha/stats"), "remote_api_alpha_stats");
    assert_eq!(sanitize("a.b-c_d é"), "a_b-c_d__");
    assert_eq!(sanitize("  ..é😀"), "______");
}

// MCP-25, MCP-26, MCP-34, MCP-35, MCP-36, cases 3 and 29
#[tokio::test]
async fn a_remote_tool_is_an_ordinary_tool() {
    let schema = r#"{"properties":{"q":{"type":"string"}},"additionalProperties":true,"x-a":1,"$defs":{}}"#;
    let fixture = McpFixture::new()
        .tool(
            FixtureTool::echo("read file")
                .title("Read")
                .description("Reads")
                .input_schema(toolnexus_testkit::mcp::RawJson::parse(schema).unwrap()),
        )
        .tool(FixtureTool::echo("drop").annotations(json!({"readOnlyHint": true, "title": "Drop it"})))
        .tool(FixtureTool::echo("bare").without_input_schema());
    let source = load(json!({"fs": stdio(&fixture, json!({}))})).await;
    assert_eq!(names(&source), ["fs_bare", "fs_drop", "fs_read_file"]);

    let read = tool(&source, "fs_read_file");
    assert_eq!(read.source, ToolSource::Mcp);
    assert_eq!(read.origin, Some(ToolOrigin { server: "fs".into(), remote_name: "read file".into() }));
    assert_eq!((read.description.as_str(), read.title.as_deref(), read.hints), ("Reads", Some("Read"), None));
    assert_eq!(read.input_schema.to_string(), schema);

    let drop = tool(&source, "fs_drop");
    let read_only = ToolHints { read_only: true, open_world: true, ..Default::default() };
    assert_eq!((drop.title.as_deref(), drop.hints), (Some("Drop it"), Some(read_only)));
    let bare = tool(&source, "fs_bare");
    assert_eq!(
        (bare.description.as_str(), bare.input_schema.to_string().as_str()),
        ("", r#"{"type":"object"}"#)
    );
    source.close().await;
}

// MCP-27, case 28
#[tokio::test]
async fn the_first_server_keeps_a_name() {
    let warnings = Warnings::listen();
    let says = |text: &str| McpFixture::new().tool(FixtureTool::text("t", text));
    let source = load(json!({
        "x_y": stdio(&says("second"), json!({})), "x y": stdio(&says("first"), json!({}))
    }))
    .await;
    assert_eq!(names(&source), ["x_y_t"]);
    assert_eq!(tool(&source, "x_y_t").origin.as_ref().unwrap().server, "x y");
    assert_eq!(output(&source, "x_y_t").await, "first");
    let said = warnings.with("x_y_t");
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("\"x y\"") && said[0].contains("\"x_y\""), "{said:?}");
    source.close().await;
}

// MCP-28, MCP-29, MCP-30, MCP-32, cases 21 to 26
#[tokio::test]
async fn the_filter_goes_by_original_names() {
    let warnings = Warnings::listen();
    let source = load(json!({
        "allow": stdio(&abc(), json!({"tools": {"a": true, "b": true, "c": false, "nope": true}})),
        "drop": stdio(&abc(), json!({"tools": {"c": false}})),
        "empty": stdio(&abc(), json!({"tools": {}})),
        "srv": stdio(&abc(), json!({"tools": {"srv_a": true}})),
        "off": stdio(&abc(), json!({"enabled": false})),
    }))
    .await;
    assert_eq!(names(&source), ["allow_a", "allow_b", "drop_a", "drop_b", "empty_a", "empty_b", "empty_c"]);
    assert_eq!(source.status["srv"], McpStatus::Connected);
    assert_eq!(source.status["off"], McpStatus::Disabled);
    let mut said = warnings.with("tools filter name");
    said.sort();
    assert_eq!(
        said,
        [
            "[toolnexus] server \"allow\" tools filter name \"nope\" matched no tool",
            "[toolnexus] server \"srv\" tools filter name \"srv_a\" matched no tool",
        ]
    );
    source.close().await;
}

// MCP-11, MCP-10, case 12
#[tokio::test]
async fn a_child_sees_the_environment_and_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (name, value) = inherited();
    let fixture = McpFixture::new()
        .tool(FixtureTool::environment("a", "A"))
        .tool(FixtureTool::environment("inherited", name))
        .tool(FixtureTool::scripted("cwd", [Step::Answer(Reply::WorkingDirectory)]));
    let more = json!({"environment": {"A": "${HOME}"}, "env": {"A": "2", "B": "3"}, "cwd": folder.path()});
    let source = load_one(&fixture, more).await;
    assert_eq!(output(&source, "x_a").await, "${HOME}");
    assert_eq!(output(&source, "x_inherited").await, value);
    let cwd = std::fs::canonicalize(folder.path()).unwrap();
    assert_eq!(output(&source, "x_cwd").await, cwd.to_str().unwrap());
    source.close().await;
}

// MCP-12, cases 17 and 18
#[tokio::test]
async fn a_child_may_see_less() {
    let (name, _) = inherited();
    let fixture = McpFixture::new()
        .tool(FixtureTool::environment("secret", &name))
        .tool(FixtureTool::environment("path", "PATH"))
        .tool(FixtureTool::environment("k", "K"));
    let nothing = json!({"inheritEnv": [], "environment": {"K": "v"}});
    let named = json!({"inheritEnv": [name], "environment": {"K": "v"}});
    let entries = json!({
        "none": stdio(&fixture, nothing), "named": stdio(&fixture, named), "unset": stdio(&fixture, json!({}))
    });
    let seen = async |opts: LoadMcpOptions| {
        let source = load_mcp_with(&servers(entries.clone()), opts).await;
        let secret = [
            output(&source, "none_secret").await,
            output(&source, "named_secret").await,
            output(&source, "unset_secret").await,
        ];
        assert_eq!(output(&source, "none_path").await, std::env::var("PATH").unwrap());
        assert_eq!(output(&source, "none_k").await, "v");
        source.close().await;
        secret.map(|text| text != "unset")
    };
    assert_eq!(seen(LoadMcpOptions::default()).await, [false, true, true]);
    let strict = LoadMcpOptions { default_inherit_env: Some(vec![]), ..Default::default() };
    assert_eq!(seen(strict).await, [false, true, false]);
    let loose = LoadMcpOptions { default_inherit_env: Some(vec![name.clone()]), ..Default::default() };
    assert_eq!(seen(loose).await, [false, true, true]);
}

// MCP-37, MCP-126, case 92: the messages of a load, in order
#[tokio::test]
async fn the_handshake_is_the_legacy_one() {
    let (fixture, ledger, _folder) = noted(abc());
    let source = load_one(&fixture, json!({})).await;
    let messages = ledger.messages().unwrap();
    assert_eq!(
        messages[0],
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "toolnexus", "version": env!("CARGO_PKG_VERSION")}
        }})
    );
    let methods: Vec<&str> = messages.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list"]);
    let connection = source.connection("x").unwrap();
    assert_eq!(connection.protocol_version(), Some("2025-11-25"));
    assert_eq!(connection.server_info().unwrap().name, "fixture");
    source.close().await;
}

// MCP-38, MCP-45, case 34: a silent server costs one phase's limit
#[tokio::test]
async fn a_silent_server_times_out() {
    let started = Instant::now();
    let silent = json!({"command": ["sleep", "30"], "timeout": 300});
    let source = load(json!({"a": silent, "b": silent})).await;
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(1900), "{took:?}");
    assert_eq!(source.errors["a"], "mcp server \"a\" failed at initialize: timeout");
    assert_eq!(source.errors["b"], "mcp server \"b\" failed at initialize: timeout");
}

// MCP-38: each phase and each page has the whole limit
#[tokio::test]
async fn every_phase_has_its_own_limit() {
    let slow = abc().page_size(1).delays("initialize", 700).delays("tools/list", 700);
    let source = load_one(&slow, json!({"timeout": 1500})).await;
    assert_eq!(names(&source), ["x_a", "x_b", "x_c"]);
    source.close().await;

    let (hung, ledger, _folder) = noted(abc().never_answers("tools/list"));
    let source = load_one(&hung, json!({"timeout": 1500})).await;
    assert_eq!(source.errors["x"], "mcp server \"x\" failed at tools/list: timeout");
    gone(ledger.started().await.unwrap().0).await;
}

// MCP-40, MCP-41, MCP-42, MCP-7, case 31
#[tokio::test]
async fn every_server_has_a_status_and_a_record() {
    let (off, ledger, _folder) = noted(abc());
    let source = load(json!({
        "live": stdio(&abc(), json!({})),
        "huh": {"description": "neither"},
        "off": stdio(&off, json!({"disabled": true})),
        "nothing": {"type": "local"},
        "nowhere": {"type": "remote"},
        "five": 5,
    }))
    .await;
    let status: Vec<(&str, &str)> =
        source.status.iter().map(|(name, status)| (name.as_str(), status.as_str())).collect();
    assert_eq!(
        status,
        [
            ("five", "failed"),
            ("huh", "failed"),
            ("live", "connected"),
            ("nothing", "failed"),
            ("nowhere", "failed"),
            ("off", "disabled")
        ]
    );
    assert_eq!(serde_json::to_value(source.status["off"]).unwrap(), json!("disabled"));
    assert_eq!(source.errors.len(), 4);
    assert_eq!(source.errors["huh"], "mcp server \"huh\" failed at config: config");
    assert!(source.errors["nothing"].starts_with("mcp server \"nothing\" failed at config: config"));
    assert_eq!(source.tools.len(), 3, "the others are untouched");

    let names: Vec<&str> = source.connections.iter().map(|connection| connection.name()).collect();
    assert_eq!(names, ["five", "huh", "live", "nothing", "nowhere", "off"]);
    let huh = source.connection("huh").unwrap();
    assert_eq!((huh.status(), huh.phase()), (McpStatus::Failed, McpPhase::Config));
    assert_eq!(huh.error().unwrap().kind(), McpFailureKind::Config);
    let live = source.connection("live").unwrap();
    assert_eq!((live.phase(), live.tools().len(), live.error()), (McpPhase::ListTools, 3, None));
    assert_eq!(live.server_info().unwrap().version, "1.0.0");
    let off = source.connection("off").unwrap();
    assert_eq!((off.status(), off.error(), off.is_connected()), (McpStatus::Disabled, None, false));
    assert!(ledger.entries().unwrap().is_empty(), "a disabled server is not started");
    source.close().await;
}

// MCP-19, MCP-31, MCP-183: the reason names the key and no value
#[tokio::test]
async fn a_broken_entry_fails_alone() {
    let source = load(json!({
        "filter": {"command": ["x"], "tools": {"a": "secret"}},
        "header": {"url": "http://h", "headers": {"X-Note": "a\nsecret"}},
        "variable": {"command": ["x"], "env": {"KEY": ["secret"]}},
    }))
    .await;
    for (name, key) in [("filter", "\"a\""), ("header", "X-Note"), ("variable", "KEY")] {
        let text = &source.errors[name];
        assert!(text.starts_with(&format!("mcp server \"{name}\" failed at config: config (")), "{text}");
        assert!(text.contains(key) && !text.contains("secret"), "{text}");
    }
}

// MCP-43: told in the order of readiness, whatever the callback does
#[tokio::test]
async fn each_server_is_announced_once() {
    let events: Arc<Mutex<Vec<McpServerEvent>>> = Arc::default();
    let kept = Arc::clone(&events);
    let opts = LoadMcpOptions {
        on_server: Some(Arc::new(move |event| {
            let name = event.name.clone();
            kept.lock().unwrap().push(event);
            assert_ne!(name, "off", "a panic here changes nothing");
        })),
        ..Default::default()
    };
    let entries = json!({
        "a-slow": stdio(&abc().delays("initialize", 1000), json!({"tools": {"a": true}})),
        "b-fast": stdio(&abc(), json!({})),
        "dead": {"command": ["no-such-program-anywhere"]},
        "off": {"command": ["x"], "enabled": false},
    });
    let source = load_mcp_with(&servers(entries.clone()), opts).await;
    let quiet = load(entries).await;
    let events = events.lock().unwrap().clone();
    let place = |name: &str| events.iter().position(|event| event.name == name).unwrap();
    assert_eq!(events.len(), 4);
    assert!(place("b-fast") < place("a-slow"));
    let slow = &events[place("a-slow")];
    assert_eq!(
        (slow.status, slow.tools.len(), slow.tools[0].name.as_str()),
        (McpStatus::Connected, 1, "a-slow_a")
    );
    let dead = &events[place("dead")];
    assert_eq!(dead.status, McpStatus::Failed);
    assert_eq!(dead.error.as_deref(), Some(source.errors["dead"].as_str()));
    assert!(dead.tools.is_empty());
    assert_eq!(events[place("off")].status, McpStatus::Disabled);

    assert_eq!(names(&source), names(&quiet));
    assert_eq!((&source.status, &source.errors), (&quiet.status, &quiet.errors));
    source.close().await;
    quiet.close().await;
}

// MCP-46, MCP-47, MCP-51, case 32
#[tokio::test]
async fn a_missing_program_fails_at_connect() {
    let warnings = Warnings::listen();
    let source = load(json!({"x": {"command": ["no-such-program", "--token=secret"]}})).await;
    let text = "mcp server \"x\" failed at connect: transport (spawn-failed)";
    assert_eq!(source.errors["x"], text);
    assert_eq!(warnings.all(), [format!("[toolnexus] MCP server \"x\" failed: {text}")]);
    let missing = tempfile::tempdir().unwrap().path().join("gone");
    let source = load(json!({"x": {"command": ["sleep", "1"], "cwd": missing}})).await;
    assert_eq!(source.errors["x"], text);
}

// MCP-44, MCP-49, MCP-50, case 33
#[tokio::test]
async fn a_child_that_dies_is_quoted() {
    let source = load_one(&McpFixture::new().exits_at_start(3, ["l1", "l2"]), json!({})).await;
    assert_eq!(
        source.errors["x"],
        "mcp server \"x\" failed at initialize: peer-exited (status 3); stderr: l1 | l2"
    );
    let connection = source.connection("x").unwrap();
    assert_eq!(connection.exit_code(), Some(3));
    assert_eq!(connection.error().unwrap().kind(), McpFailureKind::PeerEof);
    assert_eq!(connection.stderr(), ["l1", "l2"]);

    let lines = (1..=7).map(|n| format!("line {n}"));
    let killed = McpFixture::new().on_start(lines.map(Step::Stderr).chain([Step::Kill]));
    let source = load_one(&killed, json!({})).await;
    assert_eq!(
        source.errors["x"],
        "mcp server \"x\" failed at initialize: peer-exited (signal 9); \
         stderr: line 3 | line 4 | line 5 | line 6 | line 7"
    );
    assert_eq!(source.connection("x").unwrap().exit_code(), None);
}

// MCP-44, MCP-50: a child that closes its output and lives on is not waited for, and does not stay
#[tokio::test]
async fn a_closed_output_is_the_end() {
    let (fixture, ledger, _folder) = noted(
        McpFixture::new()
            .on("initialize", [Step::CloseStdout])
            .faults(ProcessFaults { ignore_stdin_close: true, ..Default::default() }),
    );
    let started = Instant::now();
    let source = load_one(&fixture, json!({})).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(
        source.errors["x"],
        "mcp server \"x\" failed at initialize: peer-eof (stdout closed, exit status unknown)"
    );
    gone(ledger.started().await.unwrap().0).await;
}

// MCP-49: noise on standard error blocks nobody and stays readable
#[tokio::test]
async fn standard_error_is_read_and_bounded() {
    let spam = StderrSpam { lines: None, bytes: 400 };
    let fixture = abc().faults(ProcessFaults { stderr_spam: Some(spam), ..Default::default() });
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(source.status["x"], McpStatus::Connected);
    for _ in 0..20 {
        assert_eq!(output(&source, "x_a").await, "{}");
    }
    let lines = source.connection("x").unwrap().stderr();
    assert!(
        lines.len() <= 201 && lines.iter().map(String::len).sum::<usize>() <= 64 * 1024 + 400,
        "{}",
        lines.len()
    );
    assert!(lines[0].starts_with("sss"));
    source.close().await;
}

// MCP-52, case 37
#[tokio::test]
async fn pages_are_followed_and_guarded() {
    for paging in [Paging::Normal, Paging::EmptyCursor, Paging::NullCursor] {
        let source = load_one(&abc().page_size(1).paging(paging), json!({})).await;
        assert_eq!(names(&source), ["x_a", "x_b", "x_c"], "{paging:?}");
        source.close().await;
    }
    let source = load_one(&abc().page_size(1).paging(Paging::DuplicateCursor), json!({})).await;
    assert_eq!(
        source.errors["x"],
        "mcp server \"x\" failed at tools/list: malformed-body (MCP list returned duplicate cursor: again)"
    );
    let source = load_one(&abc().paging(Paging::Endless), json!({})).await;
    assert_eq!(
        source.errors["x"],
        "mcp server \"x\" failed at tools/list: malformed-body (MCP list exceeded 1000 pages)"
    );
}

// MCP-53
#[tokio::test]
async fn a_nameless_tool_is_skipped() {
    let warnings = Warnings::listen();
    let fixture = abc()
        .tool(FixtureTool::listed_as(json!({"description": "no name"})))
        .tool(FixtureTool::listed_as(json!(7)))
        .tool(FixtureTool::listed_as(
            json!({"name": "odd", "inputSchema": 7, "annotations": {"readOnlyHint": "x"}}),
        ));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(names(&source), ["x_a", "x_b", "x_c", "x_odd"]);
    assert_eq!(warnings.with("skipped").len(), 2);
    source.close().await;
}

// MCP-54
#[tokio::test]
async fn a_server_without_tools_is_connected() {
    let source = load_one(&McpFixture::new().without_tools_capability(), json!({})).await;
    assert_eq!((source.status["x"], source.tools.len()), (McpStatus::Connected, 0));
    source.close().await;
    let source = load_one(&McpFixture::new().fails("tools/list", -32601, "secret words"), json!({})).await;
    assert_eq!(source.errors["x"], "mcp server \"x\" failed at tools/list: rpc-error (code -32601)");
    let other = McpFixture::new().capabilities(json!({})).fails("tools/list", -32000, "no");
    let source = load_one(&other, json!({})).await;
    assert_eq!(source.errors["x"], "mcp server \"x\" failed at tools/list: rpc-error (code -32000)");
}

// MCP-55, MCP-130: no message, and messages that are nobody's
#[tokio::test]
async fn noise_on_standard_output_is_passed_over() {
    const STRAY: [&str; 2] = [
        r#"{"jsonrpc":"2.0","id":999,"result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/nobody/knows","params":[]}"#,
    ];
    let noise = ["Listening…", "{", "[1,2]", "42", "{\"level\":\"info\"}", "", STRAY[0], STRAY[1]];
    let fixture =
        abc().on_start(noise.map(|line| Step::Line(line.into()))).tool(FixtureTool::garbage("noisy", noise));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(source.status["x"], McpStatus::Connected);
    assert_eq!(output(&source, "x_noisy").await, "after garbage");
    source.close().await;
}

// MCP-56, MCP-118, MCP-48, case 93
#[tokio::test]
async fn a_sparse_handshake_is_accepted() {
    let sparse = abc().initialize_with(|result| {
        *result = json!({"protocolVersion": "2024-11-05", "capabilities": null, "more": [1]});
    });
    let source = load_one(&sparse, json!({})).await;
    assert_eq!(names(&source).len(), 3);
    let connection = source.connection("x").unwrap();
    assert_eq!(connection.protocol_version(), Some("2024-11-05"));
    assert_eq!(connection.server_info().unwrap().name, "");
    source.close().await;

    let source = load_one(&abc().protocol_version("1999-01-01"), json!({})).await;
    assert_eq!(
        source.errors["x"],
        "mcp server \"x\" failed at initialize: malformed-body (unsupported protocol version)"
    );
    let source = load_one(&abc().protocol_version("2026-07-28"), json!({})).await;
    assert!(source.errors["x"].ends_with("malformed-body (unsupported protocol version)"));
    for result in [json!({}), json!({"protocolVersion": 5}), json!("x"), json!(null)] {
        let source = load_one(&abc().on("initialize", [Step::result(result)]), json!({})).await;
        assert_eq!(source.errors["x"], "mcp server \"x\" failed at initialize: malformed-body");
    }
    let source = load_one(&abc().fails("initialize", -32600, "secret words"), json!({})).await;
    assert_eq!(source.errors["x"], "mcp server \"x\" failed at initialize: rpc-error (code -32600)");
}

// MCP-41: one server by itself
#[tokio::test]
async fn one_server_can_be_connected_alone() {
    let config = servers(json!({"x": stdio(&abc(), json!({}))}));
    let connection = connect_mcp_server(&config.servers[0], LoadMcpOptions::default()).await;
    assert!(connection.is_connected());
    assert_eq!(connection.tools()[0].name, "x_c", "in listed order");
    connection.close().await;
    assert!(!connection.is_connected());
    assert_eq!(connection.status(), McpStatus::Connected, "as the load found it");
    let failed = servers(json!({"x": with(json!({"command": ["no-such-program"]}), json!({}))}));
    let connection = connect_mcp_server(&failed.servers[0], LoadMcpOptions::default()).await;
    assert_eq!(connection.error().unwrap().detail(), Some("spawn-failed"));
}
