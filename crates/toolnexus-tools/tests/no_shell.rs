//! A machine without a shell.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::process::Command;

use common::{Place, call};
use serde_json::json;
use toolnexus_tools::{BackgroundShells, BuiltinsConfig, create_builtin_tools, select_builtins};

/// In the environment of the process that has no shell.
const WITHOUT: &str = "TOOLNEXUS_TOOLS_TEST_WITHOUT_SHELL";

const TEXT: &str = "no shell interpreter found (tried: sh -c); set builtins.shell, or disable the bash builtin \
                    with builtins.tools {\"bash\": false}";

// BUILTIN-26
#[test]
fn without_a_shell_the_rest_still_works() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["without_a_shell", "--exact", "--nocapture"])
        .env(WITHOUT, "1")
        .env("PATH", empty.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

// BUILTIN-26: with PATH leading to nothing
#[tokio::test]
async fn without_a_shell() {
    if std::env::var_os(WITHOUT).is_none() {
        return;
    }
    assert_eq!(select_builtins(None).unwrap_err().to_string(), TEXT);
    let place = Place::new();
    let off = BuiltinsConfig { tools: [("bash".to_owned(), false)].into(), ..place.config() };
    assert!(select_builtins(Some(&off)).is_ok(), "nobody needs it then");
    let own = BuiltinsConfig { shell: vec!["/bin/sh".into(), "-c".into()], ..place.config() };
    assert!(select_builtins(Some(&own)).is_ok());
    assert_eq!(call(&own, "bash", json!({"command": "echo x"})).await.output, "x\n");

    // Building the tools cannot fail, so the call does.
    let with = BuiltinsConfig { background: Some(BackgroundShells::new()), ..place.config() };
    assert_eq!(create_builtin_tools(Some(&with)).len(), 12);
    for arguments in [json!({"command": "true"}), json!({"command": "true", "run_in_background": true})] {
        let result = call(&with, "bash", arguments).await;
        assert_eq!((result.output, result.is_error), (format!("bash: {TEXT}"), true));
    }
}
