//! Running one script.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::engine::Engine;
use super::in_flight::OpenCall;
use super::message::{notification, request, response};
use super::outlet::{Ending, Outlet, Output};
use super::{RawJson, Reply, Step, reply};

/// One script being run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) engine: Arc<Engine>,
    script: Vec<Step>,
    outlet: Outlet,
    /// What is being answered; `None` for a notification or a start.
    pub(crate) request: Option<Request>,
    /// How many cancel notices had come before, so that an id used again is not cancelled at once.
    cancels_before: usize,
    asked: Option<(RawJson, oneshot::Receiver<Value>)>,
    /// The client's last answer to a request of ours.
    pub(crate) client_reply: Value,
}

/// The request that a script answers.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    call: Option<OpenCall>,
}

impl Run {
    pub(crate) fn new(engine: Arc<Engine>, script: Vec<Step>, outlet: Outlet) -> Self {
        let cancels_before = engine.cancelled().borrow().len();
        let client_reply = Value::Null;
        Self { engine, script, outlet, request: None, cancels_before, asked: None, client_reply }
    }

    pub(crate) fn for_request(
        mut self,
        id: Value,
        method: String,
        params: Value,
        call: Option<OpenCall>,
    ) -> Self {
        self.request = Some(Request { id, method, params, call });
        self
    }

    /// Whether a `tools/call` has not been answered.
    pub(crate) fn is_open(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.call.is_some())
    }

    /// Runs the script to its end. A request that it leaves open stays open as long as the
    /// returned value lives.
    pub(crate) async fn run(mut self) -> Self {
        for step in std::mem::take(&mut self.script) {
            self.step(step).await;
        }
        self
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Sleep { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::AwaitGate(name) => {
                if let Ok(permit) = self.engine.gate(&name).acquire().await {
                    permit.forget();
                }
            }
            Step::OpenGate(name) => self.engine.gate(&name).add_permits(1),
            Step::AwaitCancel => self.await_cancel().await,
            Step::Progress { progress, total, message } => self.progress(progress, total, message),
            Step::Notify(message) => self.outlet.put(Output::Message(message.get().to_owned())),
            Step::Request { method, params, id } => {
                let id = id.unwrap_or_else(|| Value::from(self.engine.next_id()).into());
                // As the value reads, not as it is spelled: the answer may spell it differently.
                let key = serde_json::from_str::<Value>(id.get()).unwrap_or_default().to_string();
                let reply = self.engine.ask(&key);
                self.outlet.put(Output::Message(request(&id, &method, params.as_ref())));
                self.asked = Some((id, reply));
            }
            Step::AwaitReply => {
                if let Some((_, reply)) = &mut self.asked {
                    // The sender goes when the same id is asked with again; then nothing comes.
                    self.client_reply = reply.await.unwrap_or_default();
                }
            }
            Step::CancelRequest => {
                #[derive(Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Cancelled<'a> {
                    request_id: &'a RawJson,
                }
                if let Some((request_id, _)) = &self.asked {
                    let notice = notification("notifications/cancelled", &Cancelled { request_id });
                    self.outlet.put(Output::Message(notice));
                }
            }
            Step::Line(line) => self.outlet.put(Output::Line(line)),
            Step::Bytes(bytes) => self.outlet.put(Output::Bytes(bytes)),
            Step::Stderr(line) => self.outlet.put(Output::Stderr(line)),
            Step::Answer(reply) => self.answer(&reply, |id| id),
            Step::AnswerWithStringId(reply) => self.answer(&reply, |id| match id {
                Value::String(_) => id,
                other => Value::String(other.to_string()),
            }),
            Step::CloseStdout => self.outlet.put(Output::CloseStdout),
            Step::Exit { code } => self.end(Ending::Exit(code)).await,
            Step::Abort => self.end(Ending::Abort).await,
            Step::Kill => self.end(Ending::Kill).await,
        }
    }

    /// Nothing comes after an end.
    async fn end(&self, ending: Ending) {
        self.outlet.put(Output::End(ending));
        std::future::pending().await
    }

    fn answer(&mut self, reply: &Reply, spell: impl FnOnce(Value) -> Value) {
        let Some(request) = &mut self.request else { return };
        drop(request.call.take());
        let id = spell(request.id.clone());
        let outcome = reply::outcome(reply, self);
        self.outlet.put(Output::Answer(response(&id, outcome)));
    }

    async fn await_cancel(&self) {
        let Some(request) = &self.request else { return };
        let mut cancelled = self.engine.cancelled();
        let mine = |ids: &Vec<Value>| ids.iter().skip(self.cancels_before).any(|id| *id == request.id);
        // The sender lives in the engine, which lives as long as this run.
        let _ = cancelled.wait_for(mine).await;
    }

    fn progress(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress<'a> {
            progress_token: &'a Value,
            progress: Value,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<String>,
        }
        let token =
            self.request.as_ref().and_then(|request| request.params.get("_meta")?.get("progressToken"));
        let Some(progress_token) = token else { return };
        let params =
            Progress { progress_token, progress: number(progress), total: total.map(number), message };
        self.outlet.put(Output::Message(notification("notifications/progress", &params)));
    }
}

/// A whole number is sent without a fraction, as servers do.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within i32 are cast")]
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < f64::from(i32::MAX) {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}
