//! A run as lines of JSON on stdout.

use std::io;

use serde::Serialize;
use serde_json::{Value, json};
use toolnexus::{StreamEvent, ToolkitSources as _};

use super::Render;
use crate::exit::Failure;
use crate::loading::Loaded;
use crate::provider::Choice;
use crate::runs::{Recorded, TakenUp};
use crate::screen::Screen;

/// Writes each event as it is, one a line.
pub(crate) struct Json {
    screen: Screen,
    /// Of a run that is written down.
    run_id: Option<String>,
}

impl Json {
    pub(crate) fn new(screen: &Screen) -> Self {
        Json { screen: screen.clone(), run_id: None }
    }

    fn line(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_string(value)?;
        line.push('\n');
        self.screen.answer(&line)
    }
}

impl Render for Json {
    fn loaded(&mut self, loaded: &Loaded, choice: &Choice) -> io::Result<()> {
        let toolkit = &loaded.toolkit;
        self.line(&json!({
            "type": "toolkit",
            "model": choice.model,
            "style": choice.style,
            "host": choice.host,
            "servers": toolkit.mcp_status(),
            "tools": toolkit.snapshot().tools().len(),
            "skills": toolkit.skills().map_or(0, |skills| skills.skills().len()),
            "errors": toolkit.errors(),
        }))
    }

    fn recorded(&mut self, recorded: &Recorded, taken_up: Option<&TakenUp<'_>>) -> io::Result<()> {
        self.run_id = Some(recorded.run_id.clone());
        let mut line = json!({
            "type": "run",
            "runId": recorded.run_id,
            "durable": recorded.directory.to_string(),
            "resumed": taken_up.is_some(),
        });
        if let (Some(taken_up), Some(line)) = (taken_up, line.as_object_mut()) {
            let in_doubt: Vec<Value> = taken_up
                .in_doubt
                .iter()
                .map(|(planned, becomes)| {
                    let call = planned.call;
                    json!({"id": call.id, "name": call.name, "args": planned.args, "becomes": becomes.as_str()})
                })
                .collect();
            line.insert("inDoubt".into(), in_doubt.into());
        }
        self.line(&line)
    }

    fn event(&mut self, event: &StreamEvent) -> io::Result<()> {
        self.line(event)?;
        if let StreamEvent::Done { result } = event {
            super::note_empty(result, &self.screen);
        }
        Ok(())
    }

    fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        let mut line = json!({"type": "error", "message": failure.message, "exit_code": failure.exit.code()});
        if let (Some(run_id), Some(line)) = (&self.run_id, line.as_object_mut()) {
            line.insert("runId".into(), run_id.as_str().into());
        }
        self.line(&line)
    }
}
