//! Reading an MCP document.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use serde_json::{Value, json};
use support::{config, inherited, server, servers};
use toolnexus_mcp::{
    Headers, McpConfig, McpConfigError, McpConfigInput, ServerKind, expand_env_headers, header_shape,
    parse_mcp_config, parse_mcp_config_file,
};
use toolnexus_testkit::warnings::Warnings;

fn names(config: &McpConfig) -> Vec<&str> {
    config.servers.iter().map(|server| server.name.as_str()).collect()
}

// MCP-1, MCP-4: a path, a text and a value give the same servers, by name
#[test]
fn every_form_of_a_document_gives_the_same_servers() {
    let document = json!({"mcpServers": {
        "zeta": {"command": ["z"]}, "Alpha": {"url": "http://h/mcp"}, "beta": {"command": ["b"], "disabled": true}
    }});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    std::fs::write(&path, format!("\u{feff}{document}")).unwrap();
    let from_file = parse_mcp_config_file(&path).unwrap();
    let shown = format!("{from_file:?}");
    assert_eq!(names(&from_file), ["Alpha", "beta", "zeta"]);
    for input in [
        McpConfigInput::Path(path),
        McpConfigInput::Json(document.to_string()),
        McpConfigInput::Value(document),
        McpConfigInput::Config(from_file),
    ] {
        assert_eq!(format!("{:?}", parse_mcp_config(&input).unwrap()), shown);
    }
    // As the published examples write it.
    assert!(matches!(McpConfigInput::Path("mcp.json".into()), McpConfigInput::Path(_)));
}

// MCP-2, MCP-3, cases 5 to 8
#[test]
fn the_first_wrapper_holds_the_servers() {
    for document in [
        json!({"mcpServers": {"one": {"command": ["a"]}}}),
        json!({"servers": {"one": {"command": ["a"]}}}),
        json!({"mcp": {"one": {"command": ["a"]}}}),
        json!({"one": {"command": ["a"]}}),
        json!({"builtins": true, "agents": {}, "a2a": {}, "mcpServer": {}, "one": {"command": ["a"]}, "note": 5}),
        json!({"mcpServers": null, "one": {"command": ["a"]}}),
    ] {
        let config = config(document.clone());
        assert_eq!(names(&config), ["one"], "{document}");
        assert_eq!(config.servers[0].kind, ServerKind::Local);
    }
    assert_eq!(names(&config(json!({"mcpServers": null, "servers": {"x": {"url": "http://h/mcp"}}}))), ["x"]);
    let both = json!({"mcpServers": {"a": {"command": ["x"]}}, "mcp": {"b": {"command": ["x"]}}});
    assert_eq!(names(&config(both)), ["a"]);
    // Inside a wrapper the reserved words are names like any other.
    let reserved = json!({"mcpServers": {"builtins": {"command": ["x"]}, "mcpServer": {"url": "http://h"}}});
    assert_eq!(names(&config(reserved)), ["builtins", "mcpServer"]);
}

// MCP-3: the sibling sections are kept as they stand
#[test]
fn sibling_sections_are_kept() {
    let config = config(json!({
        "mcpServers": {"one": {"command": ["a"]}},
        "builtins": {"tools": {"bash": false}}, "agents": [1], "a2a": {"name": "n"}, "mcpServer": {"name": "m"}
    }));
    assert_eq!(config.builtins, Some(json!({"tools": {"bash": false}})));
    assert_eq!(config.agents, Some(json!([1])));
    assert_eq!(config.a2a, Some(json!({"name": "n"})));
    assert_eq!(config.mcp_server, Some(json!({"name": "m"})));
}

// MCP-21
#[test]
fn a_document_may_have_no_servers() {
    for document in [json!({}), json!({"mcpServers": {}}), json!({"builtins": false, "a2a": {}})] {
        assert!(config(document).servers.is_empty());
    }
}

// MCP-6, MCP-7, case 9
#[test]
fn the_kind_is_told_or_inferred() {
    let config = config(json!({"mcpServers": {
        "loc": {"command": ["x", "y"]}, "rem": {"url": "https://example.com/mcp"}, "huh": {"description": "neither"},
        "over": {"type": "remote", "url": "https://example.com/mcp"}
    }}));
    assert_eq!(names(&config), ["huh", "loc", "over", "rem"]);
    let kinds: Vec<ServerKind> = config.servers.iter().map(|server| server.kind).collect();
    assert_eq!(kinds, [ServerKind::Unknown, ServerKind::Local, ServerKind::Remote, ServerKind::Remote]);
    assert_eq!(config.server("loc").unwrap().command, ["x", "y"]);

    for (told, kind) in [
        ("local", ServerKind::Local),
        ("stdio", ServerKind::Local),
        ("remote", ServerKind::Remote),
        ("http", ServerKind::Remote),
        ("streamable-http", ServerKind::Remote),
        ("streamableHttp", ServerKind::Remote),
        ("sse", ServerKind::Remote),
        ("pigeon", ServerKind::Local),
    ] {
        assert_eq!(server(json!({"type": told, "command": ["x"]})).kind, kind, "{told}");
    }
    assert_eq!(server(json!({"type": "local", "command": ["x"], "url": "http://h"})).kind, ServerKind::Local);
}

// MCP-8
#[test]
fn url_wins_over_command_with_one_warning() {
    let warnings = Warnings::listen();
    assert_eq!(server(json!({"command": ["x"], "url": "http://h/mcp"})).kind, ServerKind::Remote);
    let said = warnings.all();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("\"x\"") && said[0].contains("\"command\" is ignored"), "{said:?}");
}

// MCP-9
#[test]
fn a_command_is_an_argument_vector() {
    let command = |entry: Value| server(entry).command;
    assert_eq!(command(json!({"command": ["a b", "c"]})), ["a b", "c"]);
    assert_eq!(command(json!({"command": "a b", "args": ["c", 5, true]})), ["a b", "c", "5", "true"]);
    assert_eq!(command(json!({"command": ["a"], "args": ["b"]})), ["a", "b"]);
    assert!(command(json!({"url": "http://h"})).is_empty());
}

// MCP-10, case 12; MCP-183
#[test]
fn environment_goes_before_env() {
    let environment = |entry: Value| -> Value {
        json!(server(entry).environment.into_iter().collect::<std::collections::BTreeMap<_, _>>())
    };
    let both = json!({"command": ["x"], "environment": {"A": "1"}, "env": {"A": "2", "B": "3"}});
    assert_eq!(environment(both), json!({"A": "1"}));
    let alias = json!({"command": ["x"], "env": {"A": 2, "B": true, "C": "${HOME}"}});
    assert_eq!(environment(alias), json!({"A": "2", "B": "true", "C": "${HOME}"}));
}

// MCP-13, MCP-14, cases 10 and 11; MCP-88 for the total
#[test]
fn switches_and_limits_have_defaults() {
    let read = |entry: Value| {
        let server = server(entry);
        (server.enabled, server.timeout_ms, server.max_total_timeout_ms)
    };
    assert_eq!(read(json!({"command": ["x"], "disabled": true})), (false, 30_000, 3_600_000));
    assert_eq!(read(json!({"command": ["x"], "enabled": false})), (false, 30_000, 3_600_000));
    assert_eq!(read(json!({"command": ["x"]})), (true, 30_000, 3_600_000));
    assert_eq!(read(json!({"command": ["x"], "timeout": 1234, "maxTotalTimeout": 0})), (true, 1234, 0));
    assert!(!read(json!({"command": ["x"], "disabled": true, "enabled": true})).0);
    assert!(read(json!({"command": ["x"], "disabled": "true", "enabled": 0})).0);
    for odd in [json!(0), json!(-5), json!("9"), json!(null), json!([])] {
        assert_eq!(read(json!({"command": ["x"], "timeout": odd})).1, 30_000);
    }
    assert_eq!(read(json!({"command": ["x"], "timeout": 0.5})).1, 1);
    assert_eq!(read(json!({"command": ["x"], "maxTotalTimeout": -1})).2, 3_600_000);
}

// MCP-5: other keys do not matter
#[test]
fn unknown_keys_are_ignored() {
    let server = server(json!({"command": ["x"], "icon": {"a": 1}, "lazy": true, "autoApprove": ["t"]}));
    assert_eq!((server.kind, server.invalid), (ServerKind::Local, None));
}

// MCP-15, MCP-16, MCP-17, cases 13 to 16
#[test]
fn header_values_are_filled_in() {
    let (known, value) = inherited();
    let entry = json!({
        "url": "https://h/${X}",
        "headers": {"Authorization": format!("Bearer ${{{known}}}"), "X-Client": "toolnexus", "X-Odd": "$HOME ${A-B} ${}"}
    });
    let read = server(entry);
    assert_eq!(read.headers.get("authorization"), Some(format!("Bearer {value}").as_str()));
    assert_eq!(read.headers.get("X-Odd"), Some("$HOME ${A-B} ${}"));
    assert_eq!(read.raw_headers.get("Authorization"), Some(format!("Bearer ${{{known}}}").as_str()));
    assert_eq!(read.url.as_deref(), Some("https://h/${X}"));
    let shape = read.header_shape();
    assert_eq!(shape.keys, ["Authorization", "X-Client", "X-Odd"]);
    assert!(shape.expanded);
    assert_eq!(serde_json::to_value(&shape).unwrap(), json!({"keys": shape.keys, "expanded": true}));
    assert!(read.missing_env().is_empty());

    let missing = server(json!({
        "url": "https://h", "headers": {"Authorization": "Bearer ${TOOLNEXUS_TEST_UNSET_B}", "X-A": "${TOOLNEXUS_TEST_UNSET_A}"}
    }));
    assert_eq!(missing.headers.get("Authorization"), Some("Bearer "));
    assert!(!missing.header_shape().expanded);
    assert_eq!(missing.missing_env(), ["TOOLNEXUS_TEST_UNSET_A", "TOOLNEXUS_TEST_UNSET_B"]);
    assert_eq!(missing.invalid, None);
}

// MCP-15, MCP-17: the functions by themselves
#[test]
fn the_shape_holds_names_only() {
    let (known, value) = inherited();
    let raw: Headers = [("b", format!("${{{known}}}")), ("A", "plain".to_owned())].into_iter().collect();
    let expanded = expand_env_headers(&raw);
    assert_eq!(expanded.get("B"), Some(value.as_str()));
    let shape = header_shape(&raw, &expanded);
    assert_eq!((shape.keys, shape.expanded), (vec!["A".to_owned(), "b".to_owned()], true));
    let plain: Headers = [("A", "plain ${} $X")].into_iter().collect();
    assert!(!header_shape(&plain, &expand_env_headers(&plain)).expanded);
}

// MCP-16, MCP-22: Debug shows names only
#[test]
fn debug_shows_no_secret() {
    let config = servers(json!({
        "r": {"url": "https://user:pass-1@h.test:8/a?api_key=key-1#frag-1", "headers": {"Authorization": "secret-1"}},
        "l": {"command": ["tool", "--token=secret-2"], "environment": {"TOKEN": "secret-3"}, "cwd": "."}
    }));
    let shown = format!("{config:?}");
    for secret in ["secret-1", "secret-2", "secret-3", "user", "pass-1", "key-1", "frag-1"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    for name in ["Authorization", "TOKEN", "https://h.test:8/a", "tool"] {
        assert!(shown.contains(name), "{name} not in {shown}");
    }
}

// MCP-22: neither a document before it is read, nor its sibling sections
#[test]
fn debug_of_a_document_shows_no_secret() {
    let document = json!({
        "mcpServers": {"r": {"url": "http://h", "headers": {"Authorization": "secret-1"}}},
        "agents": {"a": {"headers": {"Authorization": "secret-2"}}},
        "mcpServer": {"token": "secret-3"},
    });
    let config = parse_mcp_config(&McpConfigInput::Value(document.clone())).unwrap();
    for input in [
        McpConfigInput::Json(document.to_string()),
        McpConfigInput::Value(document),
        McpConfigInput::Config(config),
    ] {
        let shown = format!("{input:?}");
        assert!(!shown.contains("secret-"), "{shown}");
    }
}

fn invalid(entry: Value) -> String {
    server(entry).invalid.expect("the entry is invalid")
}

// MCP-18
#[test]
fn a_header_that_cannot_be_sent_is_named() {
    let reason = invalid(json!({"url": "http://h", "headers": {"X-Note": "a\nsecret"}}));
    assert!(reason.contains("X-Note") && !reason.contains("secret"), "{reason}");
    assert!(invalid(json!({"url": "http://h", "headers": {"X Note": "a"}})).contains("X Note"));
}

// MCP-19, case 19
#[test]
fn a_broken_entry_costs_the_others_nothing() {
    let config = servers(json!({"a": 5, "b": {"command": ["ok"]}}));
    assert!(config.servers[0].invalid.is_some());
    assert_eq!(config.servers[1].invalid, None);
    assert!(invalid(json!({"command": 5})).contains("command"));
    assert!(invalid(json!({"url": ["http://h"]})).contains("url"));
    assert!(invalid(json!({"command": ["x"], "cwd": 5})).contains("cwd"));
    assert!(invalid(json!({"command": ["x"], "args": "y"})).contains("args"));
    assert!(invalid(json!({"command": ["x"], "inheritEnv": true})).contains("inheritEnv"));
    // A key that the server has no use for does not matter.
    assert_eq!(server(json!({"url": "http://h", "cwd": 5})).invalid, None);
}

// MCP-183
#[test]
fn values_must_be_texts() {
    for odd in [json!(null), json!([]), json!({})] {
        assert!(invalid(json!({"command": ["x"], "environment": {"KEY": odd}})).contains("KEY"));
        assert!(invalid(json!({"command": ["x"], "env": {"KEY": odd}})).contains("KEY"));
        assert!(invalid(json!({"url": "http://h", "headers": {"X-Key": odd}})).contains("X-Key"));
        assert!(invalid(json!({"command": ["x", odd]})).contains("command"));
        assert!(invalid(json!({"command": "x", "args": [odd]})).contains("args"));
    }
}

// MCP-184
#[test]
fn headers_of_the_protocol_are_left_out() {
    let warnings = Warnings::listen();
    let read = server(json!({"url": "http://h", "headers": {
        "Accept": "a", "content-type": "b", "Content-Length": "1", "Transfer-Encoding": "c", "Connection": "d",
        "Last-Event-ID": "e", "Mcp-Session-Id": "f", "MCP-Protocol-Version": "g", "mcp-anything": "h",
        "Host": "example.test", "Authorization": "i"
    }}));
    assert_eq!(read.header_shape().keys, ["Authorization", "Host"]);
    let said = warnings.all();
    assert_eq!(said.len(), 9, "{said:?}");
    assert_eq!(warnings.with("Mcp-Session-Id").len(), 1);
}

// MCP-31, case 27
#[test]
fn a_broken_filter_is_no_filter() {
    assert!(invalid(json!({"command": ["x"], "tools": {"a": "yes"}})).contains("\"a\""));
    assert!(invalid(json!({"command": ["x"], "tools": ["a"]})).contains("tools"));
    let none = server(json!({"command": ["x"], "tools": null}));
    assert!(none.invalid.is_none() && none.tools.is_empty());
    let read = server(json!({"command": ["x"], "tools": {"a": true, "b": false}}));
    assert_eq!(read.tools, [("a".to_owned(), true), ("b".to_owned(), false)].into());
}

// MCP-20, case 20
#[test]
fn a_document_that_is_none_is_an_error() {
    let parse = |text: &str| parse_mcp_config(&McpConfigInput::Json(text.into()));
    let malformed = parse("{\n  \"secret\": oops\n}").unwrap_err();
    assert!(matches!(malformed, McpConfigError::Malformed { line: 2, column: 13, .. }), "{malformed:?}");
    assert_eq!(malformed.to_string(), "mcp config is not valid JSON at line 2 column 13");
    let text = parse(" [1]").unwrap_err().to_string();
    assert_eq!(text, "mcp config: the top level (line 1 column 2) must be a JSON object");
    let text = parse("{\"x\": 1,\n \"mcpServers\": [\"secret\"]}").unwrap_err().to_string();
    assert_eq!(text, "mcp config: mcpServers (line 2 column 16) must be a JSON object");
    assert!(parse("").is_err());
    assert!(parse_mcp_config(&McpConfigInput::Value(json!({"servers": 5}))).is_err());

    let folder = tempfile::tempdir().unwrap();
    let missing = parse_mcp_config_file(folder.path().join("nowhere.json")).unwrap_err();
    assert!(missing.to_string().contains("nowhere.json"), "{missing}");
    let broken = folder.path().join("broken.json");
    std::fs::write(&broken, "{oops").unwrap();
    let text = parse_mcp_config_file(&broken).unwrap_err().to_string();
    assert!(text.contains("broken.json") && text.contains("line 1") && !text.contains("oops"), "{text}");
}

// MCP-20, D15: only a regular file of a sane size is read, whatever a link makes of its name
#[test]
fn only_a_regular_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let refused = |path: &std::path::Path| {
        let from_path = parse_mcp_config(&McpConfigInput::Path(path.to_owned())).unwrap_err().to_string();
        assert_eq!(from_path, parse_mcp_config_file(path).unwrap_err().to_string());
        from_path
    };
    let text = refused(folder.path());
    assert!(text.ends_with("cannot be read: it is a directory, give the path of a regular file"), "{text}");

    let large = at("large.json");
    let room = 16 * 1024 * 1024;
    std::fs::write(&large, "{}".to_owned() + &" ".repeat(room - 2)).unwrap();
    assert!(parse_mcp_config_file(&large).unwrap().servers.is_empty());
    std::fs::File::options().write(true).open(&large).unwrap().set_len(room as u64 + 1).unwrap();
    let text = refused(&large);
    assert!(text.contains("large.json") && text.contains("it is larger than 16 MiB"), "{text}");

    #[cfg(unix)]
    {
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(refused(&at("socket")).contains("it is a socket"));
        std::os::unix::fs::symlink("/dev/zero", at("link")).unwrap();
        let text = refused(&at("link"));
        assert!(text.contains("link") && text.contains("it is a device"), "{text}");
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        assert!(refused(&at("pipe")).contains("it is a named pipe"));
        std::fs::write(at("real.json"), r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
        std::os::unix::fs::symlink(at("real.json"), at("to-real")).unwrap();
        assert_eq!(parse_mcp_config_file(at("to-real")).unwrap().servers.len(), 1);
    }
}
