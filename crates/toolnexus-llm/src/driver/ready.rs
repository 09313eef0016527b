//! A tool call that was looked at: its tool, where that comes from, and what starting it means.

use std::sync::Arc;

use toolnexus_core::{Answer, Snapshot, Tool, ToolResult, ToolSource};

use super::Driver;
use crate::run::{Args, PlannedCall};

/// A call that may start.
pub(super) struct Ready {
    pub(super) index: usize,
    pub(super) args: Args,
    pub(super) tool: Option<Arc<Tool>>,
    /// Where the tool comes from; `None` for a name that the toolkit does not know.
    pub(super) source: Option<ToolSource>,
    pub(super) way: Way,
}

/// What starting a call means.
pub(super) enum Way {
    /// The tool runs; with an answer, if it was suspended before.
    Run(Option<Box<Answer>>),
    /// It has its result without running.
    Reply(Box<ToolResult>),
    /// The same, for a suspension that ended: the `after_tool` hook has not seen it yet.
    Settle(Box<ToolResult>),
}

impl Ready {
    pub(super) fn of(planned: &PlannedCall<'_>, driver: &Driver, snapshot: &Snapshot) -> Self {
        let name = &planned.call.name;
        let tool = driver.tool_of(name, snapshot);
        let refused = planned.call.invalid.is_some() || planned.call.rejected.is_some();
        let mut source = tool.as_ref().map(|tool| tool.source);
        let way = match &planned.reply {
            Some(reply) if refused => Way::Reply(reply.clone()),
            Some(reply) => Way::Settle(reply.clone()),
            None => match driver.found(name, planned.args, snapshot) {
                Some(found) => {
                    source = Some(ToolSource::Builtin);
                    Way::Reply(Box::new(found))
                }
                None => Way::Run(planned.answer.cloned().map(Box::new)),
            },
        };
        Ready { index: planned.index, args: Arc::clone(planned.args), tool, source, way }
    }

    /// The answer to run with.
    pub(super) fn take_answer(&mut self) -> Option<Answer> {
        match &mut self.way {
            Way::Run(answer) => answer.take().map(|answer| *answer),
            Way::Reply(_) | Way::Settle(_) => None,
        }
    }
}
