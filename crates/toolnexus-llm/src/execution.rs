//! One run from its beginning to its result: loaded, driven, saved, counted.
//!
//! Every way to start a run makes an [`Execution`]; all of them end here. The run itself happens in one
//! future that is dropped when the caller cancels it or its deadline passes. What must outlive it, its
//! numbers and the recorder of a durable run, is held beside it.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Answer, Toolkit};

use crate::boundary::Boundary;
use crate::driver::{Doubts, Driver, Events, Observed, Recorder, RunMeter, Tally};
use crate::durable::{InDoubt, Resumption, TakenUp, exists};
use crate::resolver::Resolver;
use crate::run::{Run, RunEvent, RunStarted};
use crate::run_log::{RunLog, check_run_id};
use crate::{Client, ClientError, ModelBoundary, Prompt, RunOptions, RunResult, StreamEvent, Transcript};

/// The most model calls of a run that does not say.
const DEFAULT_MAX_TURNS: u32 = 10;

/// One run, and how it is to be driven.
pub(crate) struct Execution {
    pub(crate) toolkit: Toolkit,
    pub(crate) events: Events,
    /// Whether the model's answers are streamed.
    pub(crate) streamed: bool,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) data: Map<String, Value>,
    /// Instead of the client's.
    pub(crate) boundary: Option<Arc<dyn ModelBoundary>>,
    pub(crate) start: Start,
}

impl Execution {
    /// A run without a log.
    pub(crate) fn new(
        prompt: Prompt,
        toolkit: &Toolkit,
        options: RunOptions,
        events: Events,
        streamed: bool,
    ) -> Self {
        let RunOptions { history, id, cancel, data, boundary, .. } = options;
        let start = Start::New { prompt, history, id };
        Execution { toolkit: toolkit.clone(), events, streamed, cancel, data, boundary, start }
    }
}

/// Where a run begins.
pub(crate) enum Start {
    /// With a prompt.
    New {
        prompt: Prompt,
        history: Transcript,
        /// The conversation; empty for none.
        id: String,
    },
    /// With a prompt, and written to a log.
    Durable { prompt: Prompt, history: Transcript, id: String, log: Arc<dyn RunLog>, run_id: String },
    /// Where a log has it.
    Resume { log: Arc<dyn RunLog>, run_id: String, answer: Option<Answer>, in_doubt: InDoubt },
}

impl Client {
    pub(crate) async fn execute(self, execution: Execution) -> Result<RunResult, ClientError> {
        let Execution { cancel, start, .. } = &execution;
        let recording =
            matches!(start, Start::Durable { .. } | Start::Resume { .. }).then(Recording::default);
        let caller = cancel.clone();
        let meter = RunMeter::start(self.inner());
        let work = Work { execution, recording: recording.clone(), tally: meter.tally() };
        let ended = self.bounded(caller, |cancel| Box::pin(self.load_and_drive(work, cancel))).await;
        if let (Some(recording), Err(error)) = (&recording, &ended) {
            Box::pin(recording.save_failure(error)).await;
        }
        match &ended {
            // That run had its event when it was driven.
            Ok(Ended { driven: false, .. }) => meter.forget(),
            Ok(Ended { result, .. }) => meter.stop(Ok(result)),
            Err(error) => meter.stop(Err(error)),
        }
        ended.map(|ended| ended.result)
    }

    async fn load_and_drive(&self, work: Work, cancel: CancellationToken) -> Result<Ended, ClientError> {
        let options = &self.inner().options;
        let Work { execution, recording, tally } = work;
        let Execution { toolkit, events, streamed, data, boundary, start, .. } = execution;
        if let (true, Some(in_process)) = (streamed, self.inner().in_process) {
            in_process.check_streaming()?;
        }
        let begun = match start {
            Start::New { prompt, history, id } => {
                self.begin(prompt, history, id, &toolkit, String::new()).await?
            }
            Start::Durable { prompt, history, id, log, run_id } => {
                check_run_id(&run_id)?;
                let begun = self.begin(prompt, history, id, &toolkit, run_id.clone()).await?;
                let written = Box::pin(log.append(&run_id, 0, &begun.events));
                written.await.map_err(|error| exists(error, &run_id))?;
                Begun { recorder: Some(Recorder::new(log, run_id, 1)), ..begun }
            }
            Start::Resume { log, run_id, answer, in_doubt } => {
                let resolves = Resolver::of(options, &toolkit).is_some();
                let resumed = Resumption { log, run_id, answer, in_doubt, resolves };
                match Box::pin(resumed.take_up(options, &toolkit)).await? {
                    TakenUp::Over(result) => {
                        events.tell_done(&result);
                        return Ok(Ended { result: *result, driven: false });
                    }
                    TakenUp::GoesOn(begun) => *begun,
                }
            }
        };
        let Begun { run, recorder, doubts, events: first, resumed } = begun;
        tally.set(run.turns(), run.finished_calls(), run.usage().total_tokens);
        let recorder = recorder.map(Arc::new);
        if let (Some(recording), Some(recorder)) = (&recording, &recorder) {
            recording.begin(recorder);
        }
        let boundary = boundary.as_ref().or(options.boundary.as_ref());
        let boundary = boundary.map(|boundary| Boundary::new(boundary.open(options.style)));
        let driver = Driver {
            client: Arc::clone(self.inner()),
            resolver: Resolver::of(options, &toolkit),
            tiers: self.inner().tier_plan(&toolkit),
            observed: Observed::begin(|| first),
            toolkit,
            events,
            streamed,
            cancel,
            data,
            boundary,
            recorder,
            tally,
        };
        driver.save().await?;
        if resumed {
            driver.events.tell(|| StreamEvent::Resumed);
        }
        let result = driver.drive(run, doubts).await?;
        driver.check_cancelled()?;
        driver.events.tell_done(&result);
        Ok(Ended { result, driven: true })
    }

    /// A run at its beginning, with what the store knows of its conversation.
    async fn begin(
        &self,
        prompt: Prompt,
        mut history: Transcript,
        id: String,
        toolkit: &Toolkit,
        run_id: String,
    ) -> Result<Begun, ClientError> {
        let options = &self.inner().options;
        if history.is_empty() && !id.is_empty() {
            history = self.inner().store.get(&id).await.map_err(ClientError::Store)?.unwrap_or_default();
        }
        let started = RunStarted {
            style: options.style,
            model: options.model.clone(),
            system: system_text(&options.system_prompt, toolkit.skills_prompt()),
            history,
            prompt,
            max_turns: match options.max_turns {
                0 => DEFAULT_MAX_TURNS,
                given => given,
            },
            conversation_id: (!id.is_empty()).then_some(id),
            run_id,
        };
        let noted = !started.run_id.is_empty() || Observed::is_wanted();
        let events = if noted { vec![RunEvent::Started(started.clone())] } else { Vec::new() };
        Ok(Begun {
            run: Run::start(started),
            recorder: None,
            doubts: Doubts::default(),
            events,
            resumed: false,
        })
    }
}

/// A run that is about to be driven.
pub(crate) struct Begun {
    pub(crate) run: Run,
    pub(crate) recorder: Option<Recorder>,
    /// Calls that were running when its process ended.
    pub(crate) doubts: Doubts,
    /// What happened before, where somebody wants to know.
    pub(crate) events: Vec<RunEvent>,
    /// Whether it goes on after its process ended.
    pub(crate) resumed: bool,
}

/// What an execution came to.
struct Ended {
    result: RunResult,
    /// Not, where a log had the result.
    driven: bool,
}

/// An execution with what outlives its future.
struct Work {
    execution: Execution,
    recording: Option<Recording>,
    tally: Arc<Tally>,
}

/// The recorder of a durable run, for when the run's own future is gone.
#[derive(Clone, Default)]
struct Recording(Arc<OnceLock<Arc<Recorder>>>);

impl Recording {
    fn begin(&self, recorder: &Arc<Recorder>) {
        let _ = self.0.set(Arc::clone(recorder));
    }

    /// Writes why the run failed, unless the log itself did.
    async fn save_failure(&self, error: &ClientError) {
        if let Some(recorder) = self.0.get()
            && !matches!(error, ClientError::RunLog(_))
        {
            recorder.save_failure(told_in_a_log(error)).await;
        }
    }
}

/// The text of an error, without the address that some errors name.
fn told_in_a_log(error: &ClientError) -> String {
    match error {
        ClientError::Transport { source, .. } => format!("no answer of the model could be read: {source}"),
        other => other.to_string(),
    }
}

/// The system prompt, then what the toolkit says about skills; empty parts leave no gap.
fn system_text(system_prompt: &str, skills_prompt: &str) -> String {
    match (system_prompt.is_empty(), skills_prompt.is_empty()) {
        (false, false) => format!("{system_prompt}\n\n{skills_prompt}"),
        (_, true) => system_prompt.to_owned(),
        (true, false) => skills_prompt.to_owned(),
    }
}
