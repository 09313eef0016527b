//! Background shells under any order of calls, against what the rules say.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/shells.rs"]
mod shells;

use std::collections::BTreeMap;

use common::facts;
use proptest::prelude::*;
use serde_json::{Value, json};
use shells::Shells;

/// What a shell does: what it prints, how it ends by itself (`None`: it does not).
const COMMANDS: [(&str, &str, Option<i32>); 6] = [
    ("printf 'a\\nb'", "a\nb", Some(0)),
    ("printf '\\303\\251'; exit 3", "é", Some(3)),
    ("kill -9 $$", "", Some(-1)),
    ("echo x & wait; exit 143", "x\n", Some(143)),
    ("exec sleep 600", "", None),
    ("printf here; sleep 600 & sleep 600", "here", None),
];

#[derive(Debug, Clone)]
enum Call {
    Start(usize),
    Read(usize),
    KillShell(usize),
    Kill(usize),
    UntilEnded(usize),
    CloseAll,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let which = 0..5_usize;
    let call = prop_oneof![
        5 => (0..COMMANDS.len()).prop_map(Call::Start),
        5 => which.clone().prop_map(Call::Read),
        2 => which.clone().prop_map(Call::KillShell),
        1 => which.clone().prop_map(Call::Kill),
        2 => which.prop_map(Call::UntilEnded),
        1 => Just(Call::CloseAll),
    ];
    proptest::collection::vec(call, 1..14)
}

/// What is known of one shell.
struct Model {
    printed: &'static str,
    code: Option<i32>,
    /// Somebody has tried to end it.
    attacked: bool,
    read: String,
    /// The final status, once it was read.
    end: Option<Value>,
}

impl Model {
    /// One read must fit to all before it.
    fn reads(&mut self, output: &str, facts: &Value) {
        if let Some(end) = &self.end {
            assert_eq!((output, facts), ("", end), "a final status is final, and nothing follows it");
            return;
        }
        self.read += output;
        assert!(self.printed.starts_with(&self.read), "{:?} of {:?}", self.read, self.printed);
        match facts["status"].as_str().unwrap() {
            "running" => return,
            "exited" => {
                assert_eq!(facts["exitCode"].as_i64(), self.code.map(i64::from));
                assert_eq!(self.read, self.printed, "the status comes with the last of the output");
            }
            "killed" => assert!(self.attacked && facts.get("exitCode").is_none(), "{facts}"),
            other => panic!("{other}"),
        }
        self.end = Some(facts.clone());
    }
}

async fn play(calls: Vec<Call>) {
    let shells = Shells::new();
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    let mut closed = false;
    let id = |index: usize| format!("bg{}", index + 1);
    for call in calls {
        match call {
            Call::Start(index) => {
                let (command, printed, code) = COMMANDS[index];
                let result =
                    shells.call("bash", json!({"command": command, "run_in_background": true})).await;
                if closed {
                    assert_eq!(result.output, "bash: background shells are closed");
                    continue;
                }
                let started = id(models.len());
                assert_eq!(result.output, format!("Started background shell {started}"));
                let model = Model { printed, code, attacked: false, read: String::new(), end: None };
                models.insert(started, model);
            }
            Call::Read(index) => match models.get_mut(&id(index)) {
                Some(model) => {
                    let (output, facts) = shells.read(&id(index)).await;
                    model.reads(&output, &facts);
                }
                None => {
                    let result = shells.call("bash_output", json!({"id": id(index)})).await;
                    assert_eq!(
                        result.output,
                        format!("bash_output: no background shell with id {}", id(index))
                    );
                }
            },
            Call::KillShell(index) => {
                let result = shells.call("kill_shell", json!({"id": id(index)})).await;
                let Some(model) = models.get_mut(&id(index)) else {
                    assert_eq!(
                        result.output,
                        format!("kill_shell: no background shell with id {}", id(index))
                    );
                    continue;
                };
                model.attacked = true;
                let (output, end) = shells.read(&id(index)).await;
                model.reads(&output, &end);
                assert_eq!(facts(&result)["killed"], end["status"] == "killed");
                let finished = format!("already finished ({})", end["text"].as_str().unwrap());
                assert!(
                    result.output == format!("Killed background shell {}", id(index))
                        || result.output == format!("Background shell {} {finished}", id(index)),
                    "{}",
                    result.output
                );
            }
            Call::Kill(index) => {
                let before = models.get(&id(index)).and_then(|model| model.end.clone());
                let killed = shells.registry.kill(&id(index)).await;
                let Some(model) = models.get_mut(&id(index)) else {
                    assert!(!killed);
                    continue;
                };
                model.attacked = true;
                let (output, end) = shells.read(&id(index)).await;
                model.reads(&output, &end);
                assert!(model.end.is_some());
                assert!(!killed || before.is_none() && end["status"] == "killed");
            }
            Call::UntilEnded(index) => {
                let Some(model) = models.get_mut(&id(index)).filter(|model| model.code.is_some()) else {
                    continue;
                };
                while model.end.is_none() {
                    shells::pause().await;
                    let (output, facts) = shells.read(&id(index)).await;
                    model.reads(&output, &facts);
                }
            }
            Call::CloseAll => {
                shells.registry.close_all().await;
                closed = true;
                models.values_mut().for_each(|model| model.attacked = true);
                assert!(shells.registry.list().iter().all(|info| !info.running));
            }
        }
        let list = shells.registry.list();
        assert_eq!(list.len(), models.len());
        for (info, index) in list.iter().zip(0..) {
            assert_eq!(info.id, id(index));
            let model = &models[&info.id];
            assert!(!info.running || model.end.is_none());
            assert!(!info.killed || model.attacked);
            assert_eq!(info.running, info.exit_code.is_none());
        }
    }
    shells.registry.close_all().await;
    for (id, model) in &mut models {
        model.attacked = true;
        let (output, facts) = shells.read(id).await;
        model.reads(&output, &facts);
        assert!(model.end.is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    // BUILTIN-88, BUILTIN-90, BUILTIN-91, BUILTIN-92, BUILTIN-93, BUILTIN-94, BUILTIN-95
    #[test]
    fn any_order_of_calls_keeps_the_rules(calls in calls()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(calls));
    }
}
