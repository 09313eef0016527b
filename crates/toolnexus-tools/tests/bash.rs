//! The `bash` tool: what a command gives back.

#![cfg(unix)]
// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{Place, call, facts, limited, tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_tools::{BuiltinLimits, BuiltinsConfig};

async fn bash(place: &Place, command: &str) -> ToolResult {
    place.call("bash", json!({"command": command})).await
}

fn failed(result: &ToolResult) -> &str {
    assert!(result.is_error);
    &result.output
}

// BUILTIN-13
#[tokio::test]
async fn a_command_is_required() {
    let place = Place::new();
    for arguments in [json!({}), Value::Null, json!({"command": ""})] {
        assert_eq!(failed(&place.call("bash", arguments).await), "bash: command is required");
    }
}

// BUILTIN-32: case 22
#[tokio::test]
async fn a_command_that_succeeds_gives_its_output_unchanged() {
    let result = bash(&Place::new(), "printf hello-bash").await;
    assert_eq!((result.output.as_str(), result.is_error), ("hello-bash", false));
    assert_eq!(facts(&result).to_string(), r#"{"exitCode":0,"shell":"sh -c"}"#);
    assert_eq!(bash(&Place::new(), "true").await.output, "");
}

// BUILTIN-33: cases 23, 24
#[tokio::test]
async fn another_exit_code_is_an_error_after_the_output() {
    let place = Place::new();
    let result = bash(&place, "exit 3").await;
    assert_eq!(failed(&result), "\nbash: command exited with code 3");
    assert_eq!(facts(&result), json!({"exitCode": 3, "shell": "sh -c"}));
    assert_eq!(failed(&bash(&place, "echo hi; exit 3").await), "hi\n\nbash: command exited with code 3");
}

// BUILTIN-33
#[tokio::test]
async fn a_shell_ended_by_a_signal_has_code_minus_one() {
    let result = bash(&Place::new(), "kill -9 $$").await;
    assert_eq!(failed(&result), "\nbash: command exited with code -1");
    assert_eq!(facts(&result)["exitCode"], -1);
}

// BUILTIN-31: case 25
#[tokio::test]
async fn both_streams_are_one_in_the_order_of_writing() {
    let place = Place::new();
    assert_eq!(bash(&place, "echo a; echo b >&2; echo c").await.output, "a\nb\nc\n");
    let lines: String = (0..200).map(|n| format!("{n}\n")).collect();
    let command = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done";
    assert_eq!(bash(&place, command).await.output, lines);
}

// BUILTIN-31
#[tokio::test]
async fn stdin_is_empty_and_the_environment_is_the_hosts() {
    let place = Place::new();
    assert_eq!(bash(&place, "cat; echo end").await.output, "end\n");
    let path = std::env::var("PATH").unwrap();
    assert_eq!(bash(&place, "printf %s \"$PATH\"").await.output, path);
}

// BUILTIN-31
#[tokio::test]
async fn what_is_no_utf8_is_replaced() {
    assert_eq!(bash(&Place::new(), r"printf 'a\377b\303\251'").await.output, "a\u{fffd}bé");
}

// BUILTIN-25, BUILTIN-15
#[tokio::test]
async fn a_command_runs_in_the_base_or_below_it() {
    let place = Place::new();
    place.write("sub/f", "");
    assert_eq!(bash(&place, "ls").await.output, "sub\n");
    for arguments in [
        json!({"command": "ls", "workdir": "sub"}),
        json!({"command": "ls", "cwd": "sub"}),
        json!({"command": "ls", "workdir": place.at("sub")}),
    ] {
        assert_eq!(place.call("bash", arguments).await.output, "f\n");
    }
}

// BUILTIN-39
#[tokio::test]
async fn a_missing_directory_is_told_from_a_missing_shell() {
    let place = Place::new();
    place.write("file", "");
    for workdir in ["nope", "file"] {
        let result = place.call("bash", json!({"command": "true", "workdir": workdir})).await;
        assert_eq!(failed(&result), format!("bash: working directory not found: {workdir}"));
        assert_eq!(facts(&result), json!({"shell": "sh -c"}));
    }
    let gone = BuiltinsConfig { base_dir: Some(place.path().join("gone")), ..Default::default() };
    let result = call(&gone, "bash", json!({"command": "true"})).await;
    assert_eq!(failed(&result), format!("bash: working directory not found: {}", place.at("gone")));
    let no_shell = BuiltinsConfig { shell: vec![place.at("no-shell")], ..place.config() };
    let result = call(&no_shell, "bash", json!({"command": "true"})).await;
    assert!(failed(&result).starts_with("bash: No such file or directory"), "{}", result.output);
}

// BUILTIN-26
#[tokio::test]
async fn the_command_is_the_last_argument_of_the_shell() {
    let place = Place::new();
    let shell = ["sh", "-c", "printf '%s|' \"$@\"", "zero", "one"].map(String::from).to_vec();
    let config = BuiltinsConfig { shell, ..place.config() };
    let result = call(&config, "bash", json!({"command": "a  \"b\" $c"})).await;
    assert_eq!(result.output, "one|a  \"b\" $c|");
    assert_eq!(facts(&result)["shell"], "sh -c printf '%s|' \"$@\" zero one");
}

// BUILTIN-40, BUILTIN-13, BUILTIN-14, BUILTIN-15
#[tokio::test]
async fn other_arguments_change_nothing() {
    let place = Place::new();
    for arguments in [
        json!({"command": "echo x", "description": "says x"}),
        json!({"command": "echo x", "run_in_background": true}),
        json!({"command": "echo x", "timeout": "60000"}),
        json!({"command": "echo x", "timeout": [1]}),
        json!({"command": "echo x", "timeout": "soon"}),
    ] {
        assert_eq!(place.call("bash", arguments).await.output, "x\n");
    }
    assert_eq!(place.call("bash", json!({"command": true})).await.output, "");
}

// BUILTIN-34
#[tokio::test]
async fn a_timeout_must_be_a_time() {
    let place = Place::new();
    for timeout in [json!(0), json!(-1), json!("NaN"), json!("inf"), json!(-0.5)] {
        let result = place.call("bash", json!({"command": "echo x", "timeout": timeout})).await;
        assert_eq!(failed(&result), "bash: timeout must be greater than 0", "{timeout}");
    }
}

// BUILTIN-35
#[tokio::test]
async fn a_call_cancelled_before_it_started_runs_nothing() {
    let place = Place::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let context = ToolContext { cancel, ..Default::default() };
    let result = tool(&place.config(), "bash").execute_with(json!({"command": "touch ran"}), context).await;
    assert_eq!(failed(&result), "bash: command cancelled\n");
    assert_eq!(facts(&result), json!({"timedOut": false, "killedTree": false, "shell": "sh -c"}));
    assert!(!place.path().join("ran").exists());
}

// BUILTIN-102
#[tokio::test]
async fn the_hosts_limit_replaces_the_default_and_bounds_the_models() {
    let place = Place::new();
    for (timeout, shown) in [(Value::Null, 20), (json!(60_000), 20), (json!(10), 10)] {
        let arguments = json!({"command": "sleep 60", "timeout": timeout});
        let result = tool(&place.config(), "bash").execute_with(arguments, limited(20)).await;
        assert_eq!(failed(&result), format!("bash: command timed out after {shown}ms\n"));
    }
}

fn small(place: &Place, bash_bytes: u64, bash_spill_bytes: u64) -> BuiltinsConfig {
    BuiltinsConfig {
        limits: BuiltinLimits { bash_bytes, bash_spill_bytes, ..Default::default() },
        ..place.config()
    }
}

/// The file that the metadata names; it is removed, and its text returned.
fn spilled(result: &ToolResult) -> (String, String) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = facts(result)["outputFile"].as_str().unwrap().to_owned();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "only the user may read it");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (path, text)
}

// BUILTIN-100, BUILTIN-99
#[tokio::test]
async fn large_output_loses_its_middle_and_goes_to_a_file() {
    let place = Place::new();
    let command = json!({"command": "printf 'aaaaa\nbbbbbccccc\nddddd'"});
    let result = call(&small(&place, 12, 0), "bash", command.clone()).await;
    let (path, text) = spilled(&result);
    assert_eq!(text, "aaaaa\nbbbbbccccc\nddddd");
    assert_eq!(result.output, format!("aaaaa\n[… 10 bytes omitted; full output in {path}]\n\nddddd"));
    assert_eq!(facts(&result)["truncated"], true);

    let exact = call(&small(&place, 22, 0), "bash", command).await;
    assert_eq!(exact.output, "aaaaa\nbbbbbccccc\nddddd");
    assert_eq!(facts(&exact), json!({"exitCode": 0, "shell": "sh -c"}));
}

// BUILTIN-100
#[tokio::test]
async fn the_file_has_an_end_too() {
    let place = Place::new();
    let result = call(&small(&place, 4, 10), "bash", json!({"command": "printf 0123456789abcdef"})).await;
    let (path, text) = spilled(&result);
    assert_eq!(text, "0123456789");
    assert_eq!(result.output, format!("01\n[… 12 bytes omitted; first 10 bytes of output in {path}]\nef"));
}

// BUILTIN-100: a model that is confined could not read the file
#[tokio::test]
async fn under_confinement_no_file_is_written() {
    let place = Place::new();
    let config = BuiltinsConfig { confine_to_base_dir: true, ..small(&place, 4, 0) };
    let result = call(&config, "bash", json!({"command": "printf 0123456789; exit 1"})).await;
    assert_eq!(result.output, "01\n[… 6 bytes omitted]\n89\nbash: command exited with code 1");
    assert_eq!(facts(&result), json!({"exitCode": 1, "truncated": true, "shell": "sh -c"}));
}

// BUILTIN-99: 0 is no limit
#[tokio::test]
async fn without_a_limit_everything_is_returned() {
    let place = Place::new();
    let command = json!({"command": "head -c 3000000 /dev/zero | tr '\\0' x"});
    assert_eq!(call(&small(&place, 0, 0), "bash", command).await.output.len(), 3_000_000);
}
