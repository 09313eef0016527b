//! A run as lines of JSON on stdout.

use std::io;

use serde::Serialize;
use serde_json::json;
use toolnexus::{StreamEvent, ToolkitSources as _};

use super::Render;
use crate::exit::Failure;
use crate::loading::Loaded;
use crate::provider::Choice;
use crate::screen::Screen;

/// Writes each event as it is, one a line.
pub(crate) struct Json {
    screen: Screen,
}

impl Json {
    pub(crate) fn new(screen: &Screen) -> Self {
        Json { screen: screen.clone() }
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

    fn event(&mut self, event: &StreamEvent) -> io::Result<()> {
        self.line(event)?;
        if let StreamEvent::Done { result } = event {
            super::note_empty(result, &self.screen);
        }
        Ok(())
    }

    fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        self.line(&json!({"type": "error", "message": failure.message, "exit_code": failure.exit.code()}))
    }
}
