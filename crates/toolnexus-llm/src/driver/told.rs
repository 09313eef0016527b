//! The results of a turn, told in call order, whatever order they came in.

use std::sync::Arc;

use toolnexus_core::ToolResult;

use super::Events;
use crate::StreamEvent;
use crate::run::{ModelCall, Run};

/// Whether a call's result is to be told.
#[derive(Clone)]
enum Slot {
    Awaited,
    Here(Arc<ToolResult>),
    /// Or had been when the run was taken up again.
    Told,
}

/// What is told of a turn's results.
pub(super) struct Results<'a> {
    events: &'a Events,
    /// Empty when nobody listens.
    calls: Vec<(ModelCall, Slot)>,
    told: usize,
}

impl<'a> Results<'a> {
    pub(super) fn new(events: &'a Events, run: &Run) -> Self {
        let slot = |(index, call): (usize, &ModelCall)| {
            let over = run.finished_call(index).is_some();
            (call.clone(), if over { Slot::Told } else { Slot::Awaited })
        };
        let calls =
            if events.has_listener() { run.open_calls().enumerate().map(slot).collect() } else { Vec::new() };
        Results { events, calls, told: 0 }
    }

    /// Keeps a result until its turn to be told.
    pub(super) fn note(&mut self, index: usize, result: &Arc<ToolResult>) {
        if let Some((_, slot)) = self.calls.get_mut(index) {
            *slot = Slot::Here(Arc::clone(result));
        }
    }

    /// Tells the results that have none before them to wait for.
    pub(super) fn tell(&mut self) {
        while let Some((call, slot)) = self.calls.get_mut(self.told) {
            match std::mem::replace(slot, Slot::Told) {
                Slot::Awaited => {
                    *slot = Slot::Awaited;
                    return;
                }
                Slot::Told => {}
                Slot::Here(result) => tell_result(self.events, call, &result),
            }
            self.told += 1;
        }
    }
}

/// Tells one result.
pub(super) fn tell_result(events: &Events, call: &ModelCall, result: &ToolResult) {
    events.tell(|| StreamEvent::ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        output: result.output.clone(),
        is_error: result.is_error,
        metadata: result.metadata.clone(),
        via: call.via.clone(),
    });
}
