//! A response as a prepared program of bytes, waits and faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::gate::Gate;

/// Something that takes time and sends nothing.
#[derive(Clone, Debug)]
pub(crate) enum Pause {
    /// Until the test opens the gate.
    Gate(Gate),
    /// A tokio sleep, so a paused clock governs it.
    Delay(Duration),
    /// Until the client gives up or the server stops.
    Forever,
}

/// One step of an answer, executed in order by the connection.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write(Bytes),
    /// Writes the block `times` times, so that a huge body needs no memory.
    Repeat {
        block: Bytes,
        times: u64,
    },
    Pause(Pause),
    /// Closes the connection. With `reset` the client sees a connection reset instead of an end
    /// of stream.
    Close {
        reset: bool,
    },
}

/// A whole answer, head included. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) steps: Arc<[Step]>,
    /// Whether the connection may serve another request afterwards.
    pub(crate) keep_alive: bool,
}

/// Collects steps; bytes that follow each other without a pause become one write.
#[derive(Default)]
pub(crate) struct ExchangeBuilder {
    steps: Vec<Step>,
    pending: BytesMut,
}

impl ExchangeBuilder {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Bytes that are worth a write of their own, without a copy.
    pub(crate) fn write_owned(&mut self, bytes: Bytes) {
        const WORTH_SHARING: usize = 64 * 1024;
        if bytes.len() < WORTH_SHARING {
            self.write(&bytes);
        } else {
            self.step(Step::Write(bytes));
        }
    }

    pub(crate) fn step(&mut self, step: Step) {
        if !self.pending.is_empty() {
            self.steps.push(Step::Write(self.pending.split().freeze()));
        }
        self.steps.push(step);
    }

    pub(crate) fn pause(&mut self, pause: Pause) {
        self.step(Step::Pause(pause));
    }

    pub(crate) fn finish(mut self, keep_alive: bool) -> Exchange {
        if !self.pending.is_empty() {
            self.steps.push(Step::Write(self.pending.freeze()));
        }
        Exchange { steps: self.steps.into(), keep_alive }
    }
}
