//! The `bash` tool with what nobody expects.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/processes.rs"]
mod processes;

use std::os::unix::fs::PermissionsExt as _;

use common::{Place, call, facts, limited, tool};
use processes::{alive, assert_gone, read_pid, reaped, started, started_in};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::BuiltinsConfig;

async fn bash(place: &Place, command: &str) -> ToolResult {
    place.call("bash", json!({"command": command})).await
}

fn failed(result: &ToolResult) -> &str {
    assert!(result.is_error, "{}", result.output);
    &result.output
}

// BUILTIN-39, BUILTIN-12
#[tokio::test]
async fn a_command_that_no_program_can_be_given_says_why() {
    let place = Place::new();
    let nul = bash(&place, "echo a\0b").await;
    assert_eq!(failed(&nul), "bash: command has a NUL character, which no program can be given; remove it");
    assert_eq!(facts(&nul), json!({"shell": "sh -c"}));
    let workdir = place.call("bash", json!({"command": "true", "workdir": "a\0b"})).await;
    assert_eq!(failed(&workdir), "bash: working directory not found: a\0b");
}

// BUILTIN-39: a command line of a mebibyte
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_is_too_long_says_what_to_do() {
    let place = Place::new();
    let command = format!(": {}", "x".repeat(1 << 20));
    assert_eq!(
        failed(&bash(&place, &command).await),
        "bash: Argument list too long (os error 7): command has 1048578 bytes; put it into a file and run that"
    );
    // A hundred thousand bytes are no problem.
    let command = format!("echo {} | wc -c", "x".repeat(100_000));
    assert_eq!(bash(&place, &command).await.output.trim(), "100001");
}

// BUILTIN-39
#[tokio::test]
async fn a_shell_that_is_no_program_says_so() {
    let place = Place::new();
    place.write("plain", "not a program").write("garbage", [0x7f, b'E', b'L', b'F', 0, 0]);
    let garbage = place.path().join("garbage");
    std::fs::set_permissions(&garbage, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (shell, text) in [("plain", "Permission denied"), ("garbage", "")] {
        let config = BuiltinsConfig { shell: vec![place.at(shell), "-c".into()], ..place.config() };
        let result = call(&config, "bash", json!({"command": "true"})).await;
        assert!(failed(&result).starts_with(&format!("bash: {text}")), "{}", result.output);
        assert!(!result.output.contains("working directory"), "{}", result.output);
        assert_eq!(facts(&result), json!({"shell": format!("{} -c", place.at(shell))}));
    }
}

// BUILTIN-39: a directory that was there when the tools were made
#[tokio::test]
async fn a_directory_that_was_removed_is_not_found() {
    let place = Place::new();
    place.write("sub/f", "");
    let config = BuiltinsConfig { base_dir: Some(place.path().join("sub")), ..Default::default() };
    let bash = tool(&config, "bash");
    assert_eq!(bash.execute(json!({"command": "ls"})).await.output, "f\n");
    std::fs::remove_dir_all(place.path().join("sub")).unwrap();
    let result = bash.execute(json!({"command": "ls"})).await;
    assert_eq!(failed(&result), format!("bash: working directory not found: {}", place.at("sub")));
    // By the command itself, while it runs in it.
    place.write("own/f", "");
    let arguments = json!({"command": "rm -r ../own; echo still here", "workdir": "own"});
    assert_eq!(place.call("bash", arguments).await.output, "still here\n");
}

// BUILTIN-25, BUILTIN-27: a confined directory, and nothing else is
#[tokio::test]
async fn a_confined_command_starts_inside() {
    let place = Place::new();
    place.write("sub/f", "");
    std::os::unix::fs::symlink("/", place.path().join("out")).unwrap();
    let run = async |workdir: Value| {
        call(&place.confined(), "bash", json!({"command": "pwd -P", "workdir": workdir})).await
    };
    let base = place.path().canonicalize().unwrap();
    assert_eq!(run(Value::Null).await.output, format!("{}\n", base.display()));
    assert_eq!(run(json!("sub")).await.output, format!("{}\n", base.join("sub").display()));
    for outside in ["..", "/", "out", "sub/../.."] {
        let expected = format!("bash: {outside} resolves outside baseDir {}", place.path().display());
        assert_eq!(failed(&run(json!(outside)).await), expected);
    }
}

// BUILTIN-34, BUILTIN-14, BUILTIN-15
#[tokio::test]
async fn a_timeout_is_read_leniently_and_told_as_an_integer() {
    let place = Place::new();
    for (timeout, shown) in
        [(json!(1.9), 1), (json!(0.2), 1), (json!("3.7"), 3), (json!(" 5 "), 5), (json!(4), 4)]
    {
        let result = place.call("bash", json!({"command": "sleep 600", "timeout": timeout})).await;
        assert_eq!(failed(&result), format!("bash: command timed out after {shown}ms\n"));
        assert_eq!(facts(&result), json!({"timedOut": true, "killedTree": true, "shell": "sh -c"}));
    }
    for timeout in [json!(1e300), json!(u64::MAX), json!("1e18"), json!(true), json!({}), Value::Null] {
        let result = place.call("bash", json!({"command": "echo x", "timeout": timeout})).await;
        assert_eq!(result.output, "x\n", "{timeout}");
    }
    for timeout in [json!("-1e300"), json!("-inf"), json!("infinity"), json!(-0.0), json!("0")] {
        let result = place.call("bash", json!({"command": "touch ran", "timeout": timeout})).await;
        assert_eq!(failed(&result), "bash: timeout must be greater than 0", "{timeout}");
    }
    assert!(!place.path().join("ran").exists());
}

// BUILTIN-13
#[tokio::test]
async fn unknown_arguments_are_ignored() {
    let place = Place::new();
    let arguments = json!({"command": "echo x", "nope": [1], "Timeout": 0, "id": null, "env": {"A": "b"}});
    assert_eq!(place.call("bash", arguments).await.output, "x\n");
}

// BUILTIN-34: the default
#[tokio::test(start_paused = true)]
async fn a_command_has_a_minute() {
    let place = Place::new();
    let call = place.call("bash", json!({"command": "echo $$ > pid; exec sleep 600"}));
    let (result, group) = tokio::join!(call, started(&place));
    assert_eq!(failed(&result), "bash: command timed out after 60000ms\n");
    assert_gone(group);
}

// BUILTIN-102: a host that leaves no time
#[tokio::test]
async fn no_time_is_no_time() {
    let place = Place::new();
    let result =
        tool(&place.config(), "bash").execute_with(json!({"command": "sleep 600"}), limited(0)).await;
    assert_eq!(failed(&result), "bash: command timed out after 0ms\n");
}

// BUILTIN-31, BUILTIN-33: a command that closes its output early is still waited for
#[tokio::test]
async fn closed_output_is_not_the_end_of_the_command() {
    let place = Place::new();
    let command = "echo before; exec >&- 2>&-; sleep 0.1; touch late; exit 5";
    let result = bash(&place, command).await;
    assert_eq!(failed(&result), "before\n\nbash: command exited with code 5");
    assert!(place.path().join("late").exists());
}

// BUILTIN-31: decoded once at the end, wherever the chunks end
#[tokio::test]
async fn characters_are_not_cut_by_chunks() {
    let place = Place::new();
    // A pipe holds 65536 bytes: the character stands across that border.
    let command = "head -c 65535 /dev/zero | tr '\\0' x; printf '\\303\\251'; head -c 65535 /dev/zero | tr '\\0' y; \
                   printf '\\360\\237'; printf '\\230\\200\\377'";
    let result = bash(&place, command).await;
    let expected = format!("{}é{}😀\u{fffd}", "x".repeat(65535), "y".repeat(65535));
    assert!(result.output == expected, "{}", result.output.len());
}

// BUILTIN-32: a single line without an end, as large as may be shown
#[tokio::test]
async fn output_without_a_newline_is_kept_as_it_is() {
    let place = Place::new();
    let result = bash(&place, "head -c 1048576 /dev/zero | tr '\\0' x").await;
    assert_eq!(result.output.len(), 1 << 20);
    assert_eq!(facts(&result), json!({"exitCode": 0, "shell": "sh -c"}));
}

// BUILTIN-99, BUILTIN-100: without a word from the host
#[tokio::test]
async fn the_default_limits_hold() {
    let place = Place::new();
    let result = bash(&place, "head -c 70000000 /dev/zero | tr '\\0' x").await;
    let file = facts(&result)["outputFile"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 64 << 20);
    std::fs::remove_file(&file).unwrap();
    let half = "x".repeat(512 * 1024);
    let omitted = 70_000_000 - (1 << 20);
    let cut = format!("\n[… {omitted} bytes omitted; first 67108864 bytes of output in {file}]\n");
    assert!(result.output == format!("{half}{cut}{half}"), "{}", result.output.len());
}

// BUILTIN-38: a daemon, which left group and session and has no parent, is out of reach
#[tokio::test]
async fn a_daemon_does_not_hold_the_call() {
    let place = Place::new();
    let command = "(setsid sh -c 'sh -c \"echo \\$\\$ > pid; exec sleep 600\" &' &) ; \
                   while [ ! -s pid ]; do sleep 0.01; done; echo up; exit 3";
    let result = bash(&place, command).await;
    assert_eq!(failed(&result), "up\n\nbash: command exited with code 3");
    let daemon = read_pid(&place.path().join("pid"));
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
}

// BUILTIN-36: a tree of many, all deaf, that goes on growing
#[tokio::test]
async fn a_command_that_multiplies_is_killed_whole() {
    let place = Place::new();
    let command = "trap '' TERM; echo $$ > pid; \
                   grow() { if [ $1 -gt 0 ]; then (grow $(($1-1))) & (grow $(($1-1))) & fi; \
                            if [ $1 -eq 0 ]; then sleep 600; else wait; fi; }; \
                   grow 5";
    let config = BuiltinsConfig { kill_grace_ms: Some(20), ..place.config() };
    let result = tool(&config, "bash").execute_with(json!({"command": command}), limited(300)).await;
    assert_eq!(failed(&result), "bash: command timed out after 300ms\n");
    assert_eq!(facts(&result)["killedTree"], true);
    if place.path().join("pid").exists() {
        let group = read_pid(&place.path().join("pid"));
        assert!(!alive(group));
        assert!(reaped(group));
    }
}

// BUILTIN-37: many calls at once, each with its own output and its own end
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_calls_do_not_get_mixed_up() {
    let place = Place::new();
    let calls = (0..50).map(|n| {
        let bash = tool(&place.config(), "bash");
        let command =
            format!("i=0; while [ $i -lt 20 ]; do echo {n}; echo {n} >&2; i=$((i+1)); done; exit {}", n % 3);
        tokio::spawn(async move { bash.execute(json!({"command": command})).await })
    });
    let calls: Vec<_> = calls.collect();
    for (n, call) in calls.into_iter().enumerate() {
        let result = call.await.unwrap();
        let printed = format!("{n}\n").repeat(40);
        assert_eq!(facts(&result)["exitCode"], n % 3);
        match n % 3 {
            0 => assert_eq!(result.output, printed),
            code => assert_eq!(failed(&result), format!("{printed}\nbash: command exited with code {code}")),
        }
    }
}

// BUILTIN-37: many calls dropped at once, with their trees
#[tokio::test]
async fn twenty_dropped_calls_leave_nothing_behind() {
    let place = Place::new();
    let bash = tool(&place.config(), "bash");
    let commands = (0..20).map(|n| format!("trap '' TERM; sleep 600 & echo $$ > pid{n}; wait"));
    let calls = futures::future::join_all(commands.map(|command| bash.execute(json!({"command": command}))));
    let groups = async {
        let mut groups = Vec::new();
        for n in 0..20 {
            groups.push(started_in(&place, &format!("pid{n}")).await);
        }
        groups
    };
    let groups = tokio::select! {
        results = calls => panic!("ended: {results:?}"),
        groups = groups => groups,
    };
    groups.into_iter().for_each(assert_gone);
}
