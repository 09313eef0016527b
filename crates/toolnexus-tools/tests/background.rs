//! Background shells: how they are started, read and ended.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/processes.rs"]
mod processes;
#[path = "common/shells.rs"]
mod shells;

use std::time::{Duration, SystemTime};

use common::{Place, call, facts, tool};
use processes::{alive, reaped, started};
use serde_json::{Value, json};
use shells::{Shells, start};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_tools::{BUILTIN_NAMES, BuiltinsConfig, create_builtin_tools, select_builtins};

fn failed(result: &ToolResult) -> &str {
    assert!(result.is_error, "{}", result.output);
    &result.output
}

fn names(config: &BuiltinsConfig) -> Vec<String> {
    create_builtin_tools(Some(config)).into_iter().map(|tool| tool.name).collect()
}

// BUILTIN-87, BUILTIN-23
#[tokio::test]
async fn background_shells_exist_only_where_a_registry_was_given() {
    let shells = Shells::new();
    let without = shells.place.config();
    assert_eq!(names(&without), BUILTIN_NAMES);
    assert_eq!(names(&shells.config()), [&BUILTIN_NAMES[..], &["bash_output", "kill_shell"]].concat());
    // A stray argument changes nothing.
    let result = call(&without, "bash", json!({"command": "echo x", "run_in_background": true})).await;
    assert_eq!((result.output.as_str(), facts(&result)), ("x\n", json!({"exitCode": 0, "shell": "sh -c"})));

    let mut with = create_builtin_tools(Some(&shells.config()));
    let schema = with[0].input_schema["properties"].as_object_mut().unwrap();
    let flag = schema.shift_remove("run_in_background").unwrap();
    assert_eq!(flag["type"], "boolean");
    assert!(flag["description"].as_str().is_some_and(|text| !text.is_empty()));
    let ten = |tools: Vec<toolnexus_core::Tool>| serde_json::to_value(&tools[..10]).unwrap();
    assert_eq!(ten(with), ten(create_builtin_tools(Some(&without))), "the ten are otherwise unchanged");

    let elsewhere = BuiltinsConfig {
        shell: vec!["pwsh".into(), "-Command".into()],
        base_dir: Some("elsewhere".into()),
        confine_to_base_dir: true,
        ..shells.config()
    };
    let face = |config: &BuiltinsConfig| serde_json::to_string(&create_builtin_tools(Some(config))).unwrap();
    assert_eq!(face(&elsewhere), face(&shells.config()), "where a tool runs does not show");
}

// BUILTIN-87, BUILTIN-94, BUILTIN-17
#[test]
fn the_tools_that_look_after_shells_take_an_id() {
    let shells = Shells::new();
    for (name, read_only) in [("bash_output", true), ("kill_shell", false)] {
        let tool = tool(&shells.config(), name);
        assert_eq!(tool.input_schema["properties"]["id"]["type"], "string");
        assert_eq!(tool.input_schema["required"], json!(["id"]));
        let hints = tool.hints.unwrap();
        assert_eq!((hints.read_only, hints.destructive, hints.open_world), (read_only, !read_only, false));
    }
}

// BUILTIN-7
#[test]
fn without_bash_there_is_nothing_to_look_after() {
    let tools = [("bash".to_owned(), false)].into();
    let config = BuiltinsConfig { tools, ..Shells::new().config() };
    let left: Vec<String> =
        select_builtins(Some(&config)).unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(left, BUILTIN_NAMES[1..]);
}

// BUILTIN-88
#[tokio::test]
async fn a_command_starts_and_the_call_returns_at_once() {
    let shells = Shells::new();
    // It would last for ever: the call waits for nothing.
    let arguments = json!({"command": "sleep 600", "run_in_background": true, "description": "waits"});
    let result = shells.call("bash", arguments).await;
    assert_eq!((result.output.as_str(), result.is_error), ("Started background shell bg1", false));
    assert_eq!(facts(&result), json!({"backgroundId": "bg1", "shell": "sh -c"}));
    assert_eq!(shells.read("bg1").await.1["status"], "running");
    shells.registry.close_all().await;
}

// BUILTIN-88, BUILTIN-96
#[tokio::test]
async fn ids_count_up_and_are_never_used_again() {
    let shells = Shells::new();
    assert_eq!(shells.run("true").await, "bg1");
    shells.until_ended("bg1").await;
    // What could not be started has no id.
    let nowhere = json!({"command": "true", "workdir": "nope", "run_in_background": true});
    assert!(shells.call("bash", nowhere).await.is_error);
    let bad = BuiltinsConfig { shell: vec![shells.place.at("no-shell")], ..shells.config() };
    assert!(call(&bad, "bash", json!({"command": "true", "run_in_background": true})).await.is_error);
    assert_eq!(shells.run("true").await, "bg2");
    shells.until_ended("bg2").await;
    for n in 3..40 {
        assert_eq!(shells.run("true").await, format!("bg{n}"));
        shells.until_ended(&format!("bg{n}")).await;
    }
    assert_eq!(shells.registry.list().len(), 39);
}

// BUILTIN-88: same shell and workdir rules, BUILTIN-39, BUILTIN-25, BUILTIN-27
#[tokio::test]
async fn shell_and_directory_are_those_of_bash() {
    let shells = Shells::new();
    shells.place.write("sub/f", "");
    let run = async |config: &BuiltinsConfig, workdir: Value| {
        call(config, "bash", json!({"command": "ls", "workdir": workdir, "run_in_background": "true"})).await
    };
    let result = run(&shells.config(), json!("sub")).await;
    assert_eq!(shells.until_ended(facts(&result)["backgroundId"].as_str().unwrap()).await.0, "f\n");
    let own = ["sh", "-c", "printf '%s|' \"$0\" \"$@\"", "zero"].map(String::from).to_vec();
    let result = run(&BuiltinsConfig { shell: own, ..shells.config() }, Value::Null).await;
    assert_eq!(facts(&result)["shell"], "sh -c printf '%s|' \"$0\" \"$@\" zero");
    assert_eq!(shells.until_ended("bg2").await.0, "zero|ls|");

    let result = run(&shells.config(), json!("nope")).await;
    assert_eq!(failed(&result), "bash: working directory not found: nope");
    assert_eq!(facts(&result), json!({"shell": "sh -c"}));
    let missing = BuiltinsConfig { shell: vec![shells.place.at("no-shell")], ..shells.config() };
    let result = run(&missing, Value::Null).await;
    assert!(failed(&result).starts_with("bash: No such file or directory"), "{}", result.output);

    let confined = BuiltinsConfig { confine_to_base_dir: true, ..shells.config() };
    let result = run(&confined, json!("..")).await;
    assert_eq!(
        failed(&result),
        format!("bash: .. resolves outside baseDir {}", shells.place.path().display())
    );
    let result = run(&confined, json!("sub")).await;
    assert_eq!(shells.until_ended(facts(&result)["backgroundId"].as_str().unwrap()).await.0, "f\n");
    assert_eq!(
        failed(&shells.call("bash", json!({"run_in_background": true})).await),
        "bash: command is required"
    );
}

// BUILTIN-88: the timeout is ignored, BUILTIN-102
#[tokio::test]
async fn a_timeout_means_nothing_to_a_background_shell() {
    let shells = Shells::new();
    for timeout in [json!(1), json!(0), json!(-1), json!("NaN")] {
        let command = "while [ ! -e go ]; do sleep 0.01; done; echo done";
        let arguments = json!({"command": command, "timeout": timeout, "run_in_background": true});
        let context = ToolContext { timeout_ms: Some(1), ..Default::default() };
        let result = tool(&shells.config(), "bash").execute_with(arguments, context).await;
        assert!(!result.is_error, "{}", result.output);
    }
    shells.place.write("go", "");
    for n in 1..=4 {
        let (printed, facts) = shells.until_ended(&format!("bg{n}")).await;
        assert_eq!((printed.as_str(), &facts["exitCode"]), ("done\n", &json!(0)));
    }
}

// BUILTIN-88: a process group of its own; BUILTIN-31: nothing to read
#[tokio::test]
async fn a_background_command_leads_a_group_and_reads_nothing() {
    let shells = Shells::new();
    let id = shells.run("cat; echo $$ > pid; exec sleep 600").await;
    let pid = started(&shells.place).await;
    assert_eq!(rustix::process::getpgid(Some(pid)).unwrap(), pid);
    assert!(shells.registry.kill(&id).await);
}

// BUILTIN-89
#[tokio::test]
async fn a_shell_outlives_the_call_and_the_tools_that_started_it() {
    let shells = Shells::new();
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let bash = tool(&shells.config(), "bash");
    let command =
        json!({"command": "while [ ! -e go ]; do sleep 0.01; done; echo done", "run_in_background": true});
    assert!(!bash.execute_with(command, context).await.is_error);
    cancel.cancel();
    drop(bash);
    assert_eq!(shells.read("bg1").await.1["status"], "running");
    shells.place.write("go", "");
    assert_eq!(shells.until_ended("bg1").await.0, "done\n");
}

// BUILTIN-89: several toolkits share one registry
#[tokio::test]
async fn toolkits_see_each_others_shells() {
    let shells = Shells::new();
    let other_place = Place::new();
    let other = BuiltinsConfig { base_dir: Some(other_place.path().to_owned()), ..shells.config() };
    assert_eq!(start(&shells.config(), "echo one").await, "bg1");
    assert_eq!(start(&other, "pwd -P").await, "bg2");
    let pwd = other_place.path().canonicalize().unwrap();
    assert_eq!(shells.until_ended("bg2").await.0, format!("{}\n", pwd.display()));
    assert_eq!(shells.until_ended("bg1").await.0, "one\n");
    assert_eq!(
        call(&other, "bash_output", json!({"id": "bg1"})).await.output,
        "\n[status: exited with code 0]"
    );
}

// BUILTIN-35: a call that is cancelled before it starts anything
#[tokio::test]
async fn a_cancelled_call_starts_nothing() {
    let shells = Shells::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let context = ToolContext { cancel, ..Default::default() };
    let arguments = json!({"command": "touch ran", "run_in_background": true});
    let result = tool(&shells.config(), "bash").execute_with(arguments, context).await;
    assert_eq!(failed(&result), "bash: command cancelled\n");
    assert_eq!(shells.registry.list(), []);
}

// BUILTIN-88, BUILTIN-90, BUILTIN-92: case 51
#[tokio::test]
async fn reads_together_are_the_output() {
    let shells = Shells::new();
    shells.run("echo one; sleep 0.2; echo two").await;
    let (printed, end) = shells.until_ended("bg1").await;
    assert_eq!(printed, "one\ntwo\n");
    assert_eq!(end, json!({"status": "exited", "exitCode": 0, "text": "exited with code 0"}));
    let again = shells.call("bash_output", json!({"id": "bg1"})).await;
    assert_eq!((again.output.as_str(), again.is_error), ("\n[status: exited with code 0]", false));
    assert_eq!(facts(&again), json!({"status": "exited", "exitCode": 0}));
}

// BUILTIN-90
#[tokio::test]
async fn a_read_gives_what_is_new_and_then_the_status() {
    let shells = Shells::new();
    // Output that ends in a newline, output that does not, and output that looks like a status.
    let wait = |n: u8| format!("while [ ! -e go{n} ]; do sleep 0.01; done");
    let script = format!(
        "{}; echo a; {}; printf b; {}; printf '\\n[status: killed]'; exit 7",
        wait(1),
        wait(2),
        wait(3)
    );
    shells.run(&script).await;
    let first = shells.call("bash_output", json!({"id": "bg1"})).await;
    assert_eq!((first.output.as_str(), first.is_error), ("\n[status: running]", false));
    assert_eq!(facts(&first), json!({"status": "running"}));
    shells.place.write("go1", "");
    shells.until_printed("bg1", "a\n").await;
    shells.place.write("go2", "");
    shells.until_printed("bg1", "b").await;
    shells.place.write("go3", "");
    let (printed, end) = shells.until_ended("bg1").await;
    assert_eq!(printed, "\n[status: killed]");
    // Another code is not an error of the tool: `read` has looked.
    assert_eq!(end, json!({"status": "exited", "exitCode": 7, "text": "exited with code 7"}));
}

// BUILTIN-91, BUILTIN-93: case 52
#[tokio::test]
async fn a_shell_that_is_killed_says_so() {
    let shells = Shells::new();
    shells.run("sleep 600").await;
    let result = shells.call("kill_shell", json!({"id": "bg1"})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("Killed background shell bg1", false));
    assert_eq!(facts(&result), json!({"killed": true}));
    let read = shells.call("bash_output", json!({"id": "bg1"})).await;
    assert_eq!((read.output.as_str(), facts(&read)), ("\n[status: killed]", json!({"status": "killed"})));
}

// BUILTIN-91: case 53
#[tokio::test]
async fn a_shell_ended_by_another_signal_exited_with_minus_one() {
    let shells = Shells::new();
    for (id, command, code) in [
        ("bg1", "kill -9 $$", -1),
        ("bg2", "kill -TERM $$", -1),
        ("bg3", "exit 129", 129),
        ("bg4", "exit 137", 137),
        ("bg5", "exit 143", 143),
        ("bg6", "exit 159", 159),
    ] {
        assert_eq!(shells.run(command).await, id);
        let (printed, end) = shells.until_ended(id).await;
        let text = format!("exited with code {code}");
        assert_eq!(
            (printed.as_str(), end),
            ("", json!({"status": "exited", "exitCode": code, "text": text}))
        );
    }
    assert!(shells.registry.list().iter().all(|info| !info.killed && !info.running));
}

// BUILTIN-91: `killed` is for what was ended from here, in each of the three ways
#[tokio::test]
async fn every_way_of_ending_a_shell_is_called_killed() {
    let shells = Shells::new();
    for _ in 0..3 {
        shells.run("trap 'echo bye; exit 3' TERM; while :; do sleep 0.01; done").await;
    }
    assert_eq!(facts(&shells.call("kill_shell", json!({"id": "bg1"})).await)["killed"], true);
    assert!(shells.registry.kill("bg2").await);
    shells.registry.close_all().await;
    for id in ["bg1", "bg2", "bg3"] {
        assert_eq!(shells.read(id).await.1, json!({"status": "killed", "text": "killed"}));
    }
}

// BUILTIN-92
#[tokio::test(start_paused = true)]
async fn no_output_appears_after_a_final_status() {
    let shells = Shells::new();
    // A child prints when the shell has gone. The clock stands still until it has.
    let late = "while kill -0 $$ 2>/dev/null; do :; done; echo late; touch said";
    shells.run(&format!("({late}) & echo first")).await;
    let ((printed, end), ()) =
        tokio::join!(shells.until_ended("bg1"), processes::appears(&shells.place, "said"));
    assert_eq!((printed.as_str(), &end["exitCode"]), ("first\nlate\n", &json!(0)));
    for _ in 0..10 {
        assert_eq!(shells.read("bg1").await.0, "");
    }
}

// BUILTIN-92, BUILTIN-38: the reader is bound as in the foreground
#[tokio::test]
async fn what_outlives_the_shell_is_ended() {
    let shells = Shells::new();
    shells.run("sleep 600 & echo $$ > pid; echo hi; exit 5").await;
    let group = started(&shells.place).await;
    let (printed, end) = shells.until_ended("bg1").await;
    assert_eq!((printed.as_str(), &end["exitCode"]), ("hi\n", &json!(5)));
    assert!(!alive(group));
}

// BUILTIN-93
#[tokio::test]
async fn killing_waits_for_the_whole_group() {
    let shells = Shells::new();
    let stubborn =
        "trap '' TERM; (trap '' TERM; sleep 600 & sleep 600) & echo $$ > pid; while :; do wait; done";
    let id = start(&shells.with_grace(50), stubborn).await;
    let group = started(&shells.place).await;
    let result = shells.call("kill_shell", json!({"id": id})).await;
    assert_eq!(result.output, "Killed background shell bg1");
    assert!(!alive(group), "gone when the call returns");
    assert!(reaped(group));
}

// BUILTIN-93: the grace is for saying goodbye, and is heard
#[tokio::test]
async fn a_shell_that_is_killed_may_clean_up() {
    let shells = Shells::new();
    let command = "trap 'echo bye; touch cleaned; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let id = start(&shells.with_grace(600_000), command).await;
    let group = started(&shells.place).await;
    assert_eq!(facts(&shells.call("kill_shell", json!({"shell_id": id})).await)["killed"], true);
    assert!(shells.place.path().join("cleaned").exists());
    assert!(!alive(group));
    let (printed, end) = shells.read(&id).await;
    assert!(printed.ends_with("bye\n"), "{printed}");
    assert_eq!(end["status"], "killed");
    // What it exited with is known to the host.
    let info = shells.registry.list().remove(0);
    assert_eq!((info.exit_code, info.killed, info.running), (Some(0), true, false));
}

// BUILTIN-92, BUILTIN-93: what a shell says last is heard, also when its end is seen first
#[tokio::test]
async fn the_last_words_of_a_shell_are_heard() {
    let shells = Shells::new();
    let command = "trap ': > asked; while [ ! -e go ]; do :; done; echo bye; exit 0' TERM; \
                   echo $$ > pid; while :; do :; done";
    let id = start(&shells.with_grace(600_000), command).await;
    let group = started(&shells.place).await;
    let (result, ()) = tokio::join!(shells.call("kill_shell", json!({"id": id})), async {
        processes::appears(&shells.place, "asked").await;
        shells.place.write("go", "");
        // It holds the only thread, so that nobody reads until the shell has gone.
        processes::assert_gone(group);
    });
    assert_eq!(facts(&result)["killed"], true);
    assert_eq!(shells.read(&id).await.0, "bye\n");
}

// BUILTIN-93: what has finished, and what nobody knows
#[tokio::test]
async fn a_finished_shell_cannot_be_killed() {
    let shells = Shells::new();
    shells.run("exit 4").await;
    shells.until_ended("bg1").await;
    let result = shells.call("kill_shell", json!({"id": "bg1"})).await;
    assert_eq!(result.output, "Background shell bg1 already finished (exited with code 4)");
    assert_eq!((facts(&result), result.is_error), (json!({"killed": false}), false));
    assert!(!shells.registry.kill("bg1").await);
    assert!(!shells.registry.kill("bg9").await);

    shells.run("sleep 600").await;
    assert!(shells.registry.kill("bg2").await);
    assert!(!shells.registry.kill("bg2").await);
    let result = shells.call("kill_shell", json!({"id": "bg2"})).await;
    assert_eq!(result.output, "Background shell bg2 already finished (killed)");
    assert_eq!((facts(&result), result.is_error), (json!({"killed": true}), false));
}

// BUILTIN-94, BUILTIN-13, BUILTIN-15
#[tokio::test]
async fn an_id_is_required_and_must_be_known() {
    let shells = Shells::new();
    for name in ["bash_output", "kill_shell"] {
        for arguments in
            [json!({}), Value::Null, json!({"id": ""}), json!({"id": ["bg1"]}), json!({"id": null})]
        {
            assert_eq!(failed(&shells.call(name, arguments).await), format!("{name}: id is required"));
        }
        for (arguments, id) in
            [(json!({"id": "bg1"}), "bg1"), (json!({"id": 1}), "1"), (json!({"id": "BG1"}), "BG1")]
        {
            let expected = format!("{name}: no background shell with id {id}");
            assert_eq!(failed(&shells.call(name, arguments).await), expected);
        }
    }
    shells.run("true").await;
    shells.until_ended("bg1").await;
    for arguments in
        [json!({"shell_id": "bg1"}), json!({"bash_id": "bg1"}), json!({"id": "bg1", "bash_id": "x"})]
    {
        for name in ["bash_output", "kill_shell"] {
            assert!(!shells.call(name, arguments.clone()).await.is_error);
        }
    }
}

// BUILTIN-95: case 54
#[tokio::test]
async fn closing_ends_what_runs_and_forgets_nothing() {
    let shells = Shells::new();
    let before = SystemTime::now();
    shells.run("exec sleep 600").await;
    shells.registry.close_all().await;
    let list = shells.registry.list();
    assert_eq!((list.len(), list.iter().filter(|info| info.running).count()), (1, 0));
    let info = &list[0];
    assert_eq!((info.id.as_str(), info.command.as_str()), ("bg1", "exec sleep 600"));
    assert!(info.started >= before && info.started <= SystemTime::now());
    assert_eq!((info.killed, info.exit_code), (true, Some(-1)));
    // Closing what is closed changes nothing.
    shells.registry.close_all().await;
    assert_eq!(shells.registry.list(), list);
    let result = shells.call("bash", json!({"command": "true", "run_in_background": true})).await;
    assert_eq!(failed(&result), "bash: background shells are closed");
    assert_eq!(facts(&result), json!({"shell": "sh -c"}));
    assert_eq!(
        shells.call("bash", json!({"command": "echo x"})).await.output,
        "x\n",
        "the foreground is open"
    );
    assert_eq!(shells.registry.list(), list);
}

// BUILTIN-95
#[tokio::test]
async fn the_list_has_the_running_and_the_finished() {
    let shells = Shells::new();
    shells.run("exit 3").await;
    shells.until_ended("bg1").await;
    shells.run("sleep 600").await;
    let facts: Vec<_> =
        shells.registry.list().into_iter().map(|i| (i.id, i.running, i.exit_code, i.killed)).collect();
    assert_eq!(facts, [("bg1".to_owned(), false, Some(3), false), ("bg2".to_owned(), true, None, false)]);
    assert!(shells.registry.kill("bg2").await);
}

// BUILTIN-96
#[tokio::test]
async fn sixteen_may_run_at_once() {
    let shells = Shells::new();
    for _ in 0..16 {
        shells.run("sleep 600").await;
    }
    let one_more = json!({"command": "touch ran", "run_in_background": true});
    let result = shells.call("bash", one_more.clone()).await;
    assert_eq!(failed(&result), "bash: too many background shells (16 running)");
    assert_eq!(shells.registry.list().len(), 16);
    assert!(shells.registry.kill("bg3").await);
    let result = shells.call("bash", one_more).await;
    assert_eq!(result.output, "Started background shell bg17");
    shells.until_ended("bg17").await;
    shells.registry.close_all().await;
    assert!(shells.registry.list().iter().all(|info| !info.running));
}

// BUILTIN-96
#[tokio::test]
async fn a_mebibyte_of_output_waits_for_its_reader() {
    let shells = Shells::new();
    // Nobody reads meanwhile, and the command comes to its end all the same.
    shells.run("head -c 3000000 /dev/zero | tr '\\0' x; printf end").await;
    while shells.registry.list()[0].running {
        shells::pause().await;
    }
    let (printed, end) = shells.read("bg1").await;
    let cut = format!("[… {} bytes dropped]\n", 3_000_003 - 1024 * 1024);
    let rest = printed.strip_prefix(&cut).unwrap_or_else(|| panic!("{:?}", printed.get(..60)));
    assert_eq!((rest.len(), rest.ends_with("xend")), (1024 * 1024, true));
    assert_eq!(end["exitCode"], 0);
    assert_eq!(shells.read("bg1").await.0, "");
}

// BUILTIN-99, BUILTIN-95: of many shells that have ended, the output of the newest waits
#[tokio::test]
async fn output_that_nobody_reads_is_dropped_in_the_end() {
    let shells = Shells::new();
    for n in 1..=66 {
        let id = shells.run("printf unread").await;
        assert_eq!(id, format!("bg{n}"));
        while shells.registry.list().last().unwrap().running {
            shells::pause().await;
        }
    }
    assert_eq!(shells.read("bg1").await.0, "[… 6 bytes dropped]\n");
    assert_eq!(shells.read("bg2").await.0, "unread");
    assert_eq!(shells.read("bg66").await.0, "unread");
    assert_eq!(shells.registry.list().len(), 66);
}

// BUILTIN-96
#[tokio::test]
async fn a_character_is_never_read_in_two_pieces() {
    let shells = Shells::new();
    let wait = |n: u8| format!("while [ ! -e go{n} ]; do sleep 0.01; done");
    let script = format!(
        "printf 'a\\346\\227'; touch there; {}; printf '\\245b'; {}; printf 'c\\303'",
        wait(1),
        wait(2)
    );
    shells.run(&script).await;
    processes::appears(&shells.place, "there").await;
    shells.until_printed("bg1", "a").await;
    assert_eq!(shells.read("bg1").await.0, "");
    shells.place.write("go1", "");
    shells.until_printed("bg1", "日b").await;
    shells.place.write("go2", "");
    assert_eq!(shells.until_ended("bg1").await.0, "c\u{fffd}", "no more will come");
}

// BUILTIN-90: reads of several callers at once share the output, and none of it is lost
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_side_by_side_lose_nothing() {
    let shells = Shells::new();
    shells.run("i=0; while [ $i -lt 2000 ]; do echo x; i=$((i+1)); done").await;
    let read = async || shells.until_ended("bg1").await.0.len();
    let sizes =
        tokio::time::timeout(Duration::from_secs(120), async { tokio::join!(read(), read(), read()) });
    let (one, two, three) = sizes.await.unwrap();
    assert_eq!(one + two + three, 4000);
}
