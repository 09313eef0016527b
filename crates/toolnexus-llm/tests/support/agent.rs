//! A fixture agent under an ACP client, and what it has received.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use toolnexus_llm::acp::{AcpClient, AcpError, AcpOptions};
use toolnexus_llm::{Client, ClientOptions, InProcessOptions, create_in_process_client};
use toolnexus_testkit::acp::AcpFixture;
use toolnexus_testkit::mcp::{FixtureCommand, Ledger};

use super::within;

/// No turn of a test that is not about time takes that long.
pub(crate) const PATIENT: u64 = 20_000;

pub(crate) fn patient() -> AcpOptions {
    AcpOptions { start_timeout_ms: PATIENT, prompt_timeout_ms: PATIENT, ..Default::default() }
}

/// A ledger in a directory that goes with it.
pub(crate) struct Noted {
    pub(crate) ledger: Ledger,
    _dir: TempDir,
}

impl Noted {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Noted { ledger: Ledger::at(dir.path().join("ledger.jsonl")), _dir: dir }
    }

    /// The texts of the prompts so far.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let prompts = self.ledger.of_method("session/prompt").unwrap();
        let text = |prompt: &Value| prompt["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
        prompts.iter().map(text).collect()
    }

    /// The outcomes of permission requests, and cancels, in the order they came.
    pub(crate) fn answers(&self) -> Vec<String> {
        let told = |message: Value| match message["method"].as_str() {
            Some("session/cancel") => Some("session/cancel".to_owned()),
            Some(_) => None,
            None => {
                let outcome = &message["result"]["outcome"];
                let id = outcome["optionId"].as_str();
                Some(id.or(outcome["outcome"].as_str())?.to_owned())
            }
        };
        self.ledger.messages().unwrap().into_iter().filter_map(told).collect()
    }
}

/// How to start the fixture, whose binary may have to be built first.
pub(crate) async fn command(fixture: AcpFixture) -> FixtureCommand {
    tokio::task::spawn_blocking(move || fixture.command().unwrap()).await.unwrap()
}

pub(crate) async fn start(fixture: AcpFixture, mut options: AcpOptions) -> Result<AcpClient, AcpError> {
    let command = command(fixture).await;
    options.env.extend(command.env);
    within(AcpClient::start(command.program, command.args, options)).await
}

/// A fixture whose messages are noted, running.
pub(crate) async fn noted(fixture: AcpFixture, options: AcpOptions) -> (AcpClient, Noted) {
    let noted = Noted::new();
    let agent = start(fixture.ledger(noted.ledger.path()), options).await.unwrap();
    (agent, noted)
}

pub(crate) fn client(agent: &AcpClient) -> Client {
    create_in_process_client(InProcessOptions {
        generate: agent.generate_ctx(),
        generate_stream: Some(agent.generate_stream()),
        client: ClientOptions {
            model: "fixture".into(),
            system_prompt: "be brief".into(),
            ..Default::default()
        },
    })
}

/// Whether a process runs. One that was killed and not yet reaped by its parent does not; where
/// there is no `/proc` to tell, it counts as running until it is reaped.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    !is_zombie && rustix::process::test_kill_process(pid).is_ok()
}

/// Waits until a process is gone. It is no child of this test to be waited for, so it is asked for.
pub(crate) async fn gone(pid: u32) {
    within(async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
