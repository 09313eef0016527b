//! The I/O around a run: what [`Run`] asks for is done here, and what happened is told to it.
//!
//! One driver serves the plain and the streamed run; they differ in how the model's answer is
//! read and in where events go. Everything a run does happens inside this one future: tools run
//! in it side by side, so dropping it ends all of them.

mod attempts;
mod model;
mod shaping;
mod streaming;
mod tools;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::Toolkit;

use crate::client::ClientInner;
use crate::resolver::Resolver;
use crate::result::limits;
use crate::run::{Run, RunError, RunEvent, Step};
use crate::stream::EventQueue;
use crate::{ClientError, EventSink, RunResult, RunStatus, StreamEvent, TextSink};
pub(crate) use attempts::{Answer, ModelExchange};
use model::Called;
use tools::Turn;

/// Where a run's events go.
pub(crate) enum Events {
    /// Nowhere: they are not even built.
    None,
    /// To a function, at once.
    Sink(EventSink),
    /// To a function that wants the text alone.
    Text(TextSink),
    /// To a stream, which takes them at its own pace.
    Queue(EventQueue),
}

impl Events {
    /// Tells an event, building it only for somebody.
    fn tell(&self, event: impl FnOnce() -> StreamEvent) {
        match self {
            Events::None | Events::Text(_) => {}
            Events::Sink(sink) => sink(&event()),
            Events::Queue(queue) => queue.push(event()),
        }
    }

    /// Whether anybody wants more than the text.
    const fn has_listener(&self) -> bool {
        matches!(self, Events::Sink(_) | Events::Queue(_))
    }

    /// Tells a piece of text.
    fn tell_text(&self, text: &str) {
        match self {
            Events::Text(on_text) => on_text(text),
            _ => self.tell(|| StreamEvent::Text { delta: text.to_owned() }),
        }
    }

    /// Tells a function the result. A stream makes its last event itself, when all others were
    /// taken.
    pub(crate) fn tell_done(&self, result: &RunResult) {
        if let Events::Sink(sink) = self {
            sink(&StreamEvent::Done { result: Box::new(result.clone()) });
        }
    }

    /// Waits until what was told has been taken.
    async fn taken(&self) {
        if let Events::Queue(queue) = self {
            queue.taken().await;
        }
    }

    /// The same for a future that runs beside others.
    fn taken_aside(&self) -> impl Future<Output = ()> + Send + 'static {
        let queue = match self {
            Events::Queue(queue) => Some(queue.clone()),
            _ => None,
        };
        async move {
            if let Some(queue) = queue {
                queue.taken_aside().await;
            }
        }
    }
}

/// Everything a run needs beside its own state.
pub(crate) struct Driver {
    pub(crate) client: Arc<ClientInner>,
    pub(crate) toolkit: Toolkit,
    pub(crate) events: Events,
    /// Whether the model's answers are streamed.
    pub(crate) streamed: bool,
    pub(crate) cancel: CancellationToken,
    pub(crate) data: Map<String, Value>,
    pub(crate) resolver: Option<Resolver>,
}

impl Driver {
    /// Drives the run to its end.
    pub(crate) async fn drive(&self, mut run: Run) -> Result<RunResult, ClientError> {
        // One list of tools for the whole run, announced; a call looks its tool up live.
        let tools = self.toolkit.snapshot().request_json(run.style());
        let endpoint = self.client.endpoint()?;
        let ended = loop {
            self.check_cancelled()?;
            match run.next() {
                Step::CallModel { messages, turn } => {
                    match self.call_model(&endpoint, &run, messages, turn, tools.clone()).await? {
                        Called::Answered(answer) => {
                            run.take(RunEvent::ModelAnswered(answer))?;
                            self.tell_answer(&run);
                            self.events.taken().await;
                        }
                        Called::Refused(refused) => run.take(RunEvent::Finished {
                            status: RunStatus::Incomplete,
                            limit: Some(limits::CONTENT_PART.into()),
                            text: Some(refused.message),
                        })?,
                    }
                }
                Step::CallTools(_) | Step::Ask(_) | Step::Wait => {
                    if let Turn::Halted = self.run_tools(&mut run).await? {
                        break run.halted();
                    }
                    self.events.taken().await;
                }
                Step::Done(_) => break run.into_result(),
            }
        };
        // A run that halted or is done has a result: this is a fault of the machine.
        ended.ok_or_else(|| RunError::Unexpected { event: "end", state: "without a result".into() }.into())
    }

    /// A sink or a tool may cancel the run in the midst of a step, where nothing is awaited: the
    /// next step must not begin then.
    pub(crate) fn check_cancelled(&self) -> Result<(), ClientError> {
        if self.cancel.is_cancelled() { Err(ClientError::Cancelled) } else { Ok(()) }
    }

    fn tell_answer(&self, run: &Run) {
        self.events.tell(|| StreamEvent::Usage { usage: run.usage() });
        for call in run.open_calls() {
            self.events.tell(|| StreamEvent::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                args: (*call.args).clone(),
                via: None,
            });
        }
    }
}
