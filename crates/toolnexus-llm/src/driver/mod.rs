//! The I/O around a run: what [`Run`] asks for is done here, and what happened is told to it.
//!
//! One driver serves the plain and the streamed run; they differ in how the model's answer is
//! read and in where events go. Everything a run does happens inside this one future: tools run
//! in it side by side, so dropping it ends all of them.

mod attempts;
mod call;
mod meter;
mod model;
mod observer;
mod offer;
mod ready;
mod recorder;
mod shaping;
mod streaming;
mod tiered;
mod told;
mod tools;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolResult, Toolkit};

use crate::boundary::Boundary;
use crate::client::ClientInner;
use crate::hooks::Hooks;
use crate::resolver::Resolver;
use crate::result::limits;
use crate::run::{ModelCall, Run, RunError, RunEvent, Step};
use crate::stream::EventQueue;
use crate::tiers::TierPlan;
use crate::{ClientError, EventSink, RunResult, RunStatus, StreamEvent, TextSink};
pub(crate) use attempts::{Answer, ModelExchange};
pub(crate) use meter::{RunMeter, Tally};
use model::Called;
pub(crate) use observer::Observed;
pub use observer::observe_runs;
use offer::Offer;
pub(crate) use recorder::Recorder;
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
    /// To a stream's queue, else to a sink.
    pub(crate) fn of(queue: Option<EventQueue>, sink: Option<EventSink>) -> Self {
        match (queue, sink) {
            (Some(queue), _) => Events::Queue(queue),
            (None, Some(sink)) => Events::Sink(sink),
            (None, None) => Events::None,
        }
    }

    /// Tells an event, building it only for somebody.
    pub(crate) fn tell(&self, event: impl FnOnce() -> StreamEvent) {
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
    pub(crate) boundary: Option<Boundary>,
    /// Which tools the model is shown; `None`: all.
    pub(crate) tiers: Option<Arc<TierPlan>>,
    /// Writes the events of a durable run.
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) observed: Option<Observed>,
}

/// What was decided about the calls that were running when a process ended.
#[derive(Default)]
pub(crate) struct Doubts {
    /// Those that are taken up again.
    pub(crate) again: Vec<usize>,
    /// Those that got their result for it. The run has it, and nobody was told.
    pub(crate) reported: Vec<Reported>,
}

/// A call that ended with its process.
pub(crate) struct Reported {
    pub(crate) index: usize,
    pub(crate) call: ModelCall,
    pub(crate) result: Arc<ToolResult>,
}

impl Driver {
    /// Drives the run to its end and saves its conversation. `doubts` are for a run that goes on after
    /// the end of its process.
    pub(crate) async fn drive(&self, mut run: Run, doubts: Doubts) -> Result<RunResult, ClientError> {
        let conversation = run.conversation_id().map(str::to_owned);
        let ended = self.drive_on(&mut run, doubts).await;
        self.show_observed(&run);
        let result = match ended? {
            Ended::Done => {
                if let (Some(id), Step::Done(result)) = (&conversation, run.next()) {
                    // Its last words first, so that a resume saves the same, and its end last, so that
                    // a run with an end has its conversation saved.
                    self.save().await?;
                    Box::pin(self.keep(id, result)).await?;
                }
                self.finish(&mut run).await?;
                run.into_result()
            }
            Ended::Halted => {
                let result = if self.recorder.is_some() { run.paused() } else { run.halted() };
                if let (Some(id), Some(result)) = (&conversation, &result) {
                    Box::pin(self.keep(id, result)).await?;
                }
                result
            }
        };
        // A run that halted or is done has a result: this is a fault of the machine.
        result.ok_or_else(|| RunError::Unexpected { event: "end", state: "without a result".into() }.into())
    }

    /// Saves the conversation, unless its prompt could not be sent.
    async fn keep(&self, id: &str, result: &RunResult) -> Result<(), ClientError> {
        self.check_cancelled()?;
        if result.limit.as_deref() == Some(limits::CONTENT_PART) {
            return Ok(());
        }
        self.client.store.save(id, &result.messages).await.map_err(ClientError::Store)
    }

    async fn drive_on(&self, run: &mut Run, mut doubts: Doubts) -> Result<Ended, ClientError> {
        let endpoint = self.client.endpoint()?;
        // One list of tools for the whole run, announced; a call looks its tool up live.
        let mut offer = Offer::of(run, &self.toolkit, &self.client.options.model, self.tiers.as_deref());
        if run.open_calls().len() == 0 {
            for Reported { call, result, .. } in std::mem::take(&mut doubts.reported) {
                told::tell_result(&self.events, &call, &result);
            }
        }
        loop {
            self.check_cancelled()?;
            match run.next() {
                Step::CallModel { .. } => match self.call_model(&endpoint, run, &mut offer).await? {
                    Called::Answered(answer) => {
                        self.apply(run, RunEvent::ModelAnswered(answer))?;
                        self.tell_answer(run);
                        self.events.taken().await;
                    }
                    Called::Refused(refused) => self.apply(
                        run,
                        RunEvent::Finished {
                            status: RunStatus::Incomplete,
                            limit: Some(limits::CONTENT_PART.into()),
                            text: Some(refused.message),
                        },
                    )?,
                },
                Step::CallTools(_) | Step::Ask(_) | Step::Wait => {
                    // Boxed, so that the future of the whole run stays small.
                    let turn = Box::pin(self.run_tools(run, std::mem::take(&mut doubts)));
                    if let Turn::Halted = turn.await? {
                        return Ok(Ended::Halted);
                    }
                    self.events.taken().await;
                }
                Step::Done(_) => return Ok(Ended::Done),
            }
        }
    }

    /// Writes the end of a durable run, unless a part that cannot be sent was its end already.
    async fn finish(&self, run: &mut Run) -> Result<(), ClientError> {
        if self.recorder.is_some()
            && !run.is_sealed()
            && let Step::Done(result) = run.next()
        {
            let (status, limit) = (result.status, result.limit.clone());
            self.apply(run, RunEvent::Finished { status, limit, text: None })?;
        }
        self.save().await
    }

    /// Takes an event, and notes it for the log of a durable run.
    pub(crate) fn apply(&self, run: &mut Run, event: RunEvent) -> Result<(), ClientError> {
        let noted = self.recorder.as_ref().map(|recorder| (recorder, event.clone()));
        self.note_observed(&event);
        run.take(event)?;
        if let Some((recorder, event)) = noted {
            recorder.note(event);
        }
        self.tally.set(run.turns(), run.finished_calls(), run.usage().total_tokens);
        Ok(())
    }

    /// Writes what happened so far, before something that must not happen unrecorded.
    pub(crate) async fn save(&self) -> Result<(), ClientError> {
        match &self.recorder {
            // Boxed: most runs have no log, and the future of a run is moved around.
            Some(recorder) => Box::pin(recorder.save()).await.map_err(ClientError::RunLog),
            None => Ok(()),
        }
    }

    fn hooks(&self) -> Option<&Hooks> {
        self.client.options.hooks.as_ref()
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
                via: call.via.clone(),
            });
        }
    }
}

/// How driving a run ended.
enum Ended {
    Done,
    /// A call is suspended and nobody is there to answer.
    Halted,
}
