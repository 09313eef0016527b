//! A run as a stream of events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolnexus_core::{BoxFuture, Request};

use crate::{ClientError, RunResult, Usage};

/// One thing that a run tells while it goes on.
///
/// Order within a turn: text as it arrives; the running usage; every tool call, before any tool
/// starts; then for each call in order `Pending`, if it suspended, and its `ToolResult`.
///
/// ```
/// use toolnexus_llm::StreamEvent;
/// let event = StreamEvent::Text { delta: "Hel".into() };
/// assert_eq!(serde_json::to_string(&event).unwrap(), r#"{"type":"text","delta":"Hel"}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamEvent {
    /// A piece of the answer.
    Text {
        /// The piece.
        delta: String,
    },
    /// A model call ended.
    Usage {
        /// The tokens of the run so far.
        usage: Usage,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The model's id for the call.
        id: String,
        /// The tool.
        name: String,
        /// The model's arguments.
        args: Map<String, Value>,
        /// The tool through which the call came, when it was not called by its own name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<String>,
    },
    /// A tool waits for an answer from outside.
    Pending {
        /// What it asks.
        request: Request,
    },
    /// A running tool tells how far it has come. At any time between a call's `ToolCall` and its
    /// `ToolResult`; of reports that come faster than events are taken, only the newest.
    ToolProgress {
        /// The model's id for the call.
        id: String,
        /// The tool.
        name: String,
        /// What has been done, in the tool's own unit.
        progress: f64,
        /// What there is to do, in the same unit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What is being done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A call has its final result.
    ToolResult {
        /// The model's id for the call.
        id: String,
        /// The tool.
        name: String,
        /// The text that the model reads.
        output: String,
        /// Whether the call failed.
        #[serde(rename = "isError")]
        is_error: bool,
        /// What the tool told the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
        /// The tool through which the call came, when it was not called by its own name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<String>,
    },
    /// A durable run goes on: the first event then. Text that was told before its process ended may be
    /// told again; calls and results that the log has are not.
    Resumed,
    /// The run is over; the last event.
    Done {
        /// Its result.
        result: Box<RunResult>,
    },
}

/// Events between the run and whoever polls the stream.
#[derive(Clone, Default)]
pub(crate) struct EventQueue(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    events: VecDeque<StreamEvent>,
    /// Parts of the run that wait until all events are taken and are not polled unless woken.
    wakers: Vec<Waker>,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: StreamEvent) {
        self.lock().events.push_back(event);
    }

    /// The next event. When there is none, those who wait for that are woken.
    fn pop(&self) -> Option<StreamEvent> {
        let woken = {
            let mut waiting = self.lock();
            if let Some(event) = waiting.events.pop_front() {
                return Some(event);
            }
            std::mem::take(&mut waiting.wakers)
        };
        woken.into_iter().for_each(Waker::wake);
        None
    }

    fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    /// Waits until the consumer has taken everything: has polled again after the last event.
    ///
    /// For the run itself: [`RunStream`] polls it whenever the queue is empty, so no waker is
    /// needed, and waking the task that is being polled would cost a poll for every event.
    pub(crate) async fn taken(&self) {
        std::future::poll_fn(|_| if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// The same for a future that runs beside others and is polled only when woken.
    pub(crate) async fn taken_aside(&self) {
        let all_taken = |context: &mut Context<'_>| {
            let mut waiting = self.lock();
            if waiting.events.is_empty() {
                return Poll::Ready(());
            }
            waiting.wakers.push(context.waker().clone());
            Poll::Pending
        };
        std::future::poll_fn(all_taken).await;
    }
}

/// A run as it happens: a stream of events that ends with one [`StreamEvent::Done`] or one error.
///
/// The run makes progress while the stream is polled, and no faster than its events are taken.
/// Dropping the stream cancels the run: its request, its tools, its waits.
///
/// ```no_run
/// use futures::StreamExt as _;
/// use toolnexus_llm::{StreamEvent, Toolkit, create_client, ClientOptions};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = create_client(ClientOptions { base_url: "…".into(), model: "…".into(), ..Default::default() });
/// let mut stream = client.stream("hello", &Toolkit::default());
/// while let Some(event) = stream.next().await {
///     if let StreamEvent::Text { delta } = event? {
///         print!("{delta}");
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "a run makes progress only while its stream is polled"]
pub struct RunStream {
    /// `None` once the run has ended.
    run: Option<BoxFuture<'static, Result<RunResult, ClientError>>>,
    queue: EventQueue,
    last: Option<Result<StreamEvent, ClientError>>,
    run_id: Option<String>,
}

impl RunStream {
    pub(crate) fn new(queue: EventQueue, run: BoxFuture<'static, Result<RunResult, ClientError>>) -> Self {
        RunStream { run: Some(run), queue, last: None, run_id: None }
    }

    pub(crate) fn with_run_id(mut self, run_id: String) -> Self {
        self.run_id = Some(run_id);
        self
    }

    /// The id of a durable run in its log.
    pub fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    /// Takes the remaining events and returns the result.
    ///
    /// # Errors
    /// What ended the run.
    pub async fn finish(mut self) -> Result<RunResult, ClientError> {
        while let Some(event) = self.next().await {
            if let StreamEvent::Done { result } = event? {
                return Ok(*result);
            }
        }
        Err(ClientError::Unsupported("the stream has already ended; its result came with `Done`".into()))
    }
}

impl Stream for RunStream {
    type Item = Result<StreamEvent, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.queue.pop() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(last) = self.last.take() {
                return Poll::Ready(Some(last));
            }
            let Some(run) = self.run.as_mut() else { return Poll::Ready(None) };
            match run.as_mut().poll(context) {
                Poll::Ready(ended) => {
                    // Dropped at once: what the run still holds goes before its last event.
                    self.run = None;
                    self.last = Some(ended.map(|result| StreamEvent::Done { result: Box::new(result) }));
                }
                // The run waits for its events to be taken, or for the world.
                Poll::Pending if self.queue.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("ended", &self.run.is_none()).finish_non_exhaustive()
    }
}
