//! Questions to the person behind a client, and who waits for their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::server::handler::{Form, Said, said, withdrawal};
use crate::server::message::{RequestId, Response, request_body};

/// How long a person may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// The questions of one client that have no answer yet.
#[derive(Default)]
pub(super) struct Questions {
    asked: AtomicU64,
    open: Mutex<HashMap<RequestId, oneshot::Sender<Result<Value, Value>>>>,
}

impl Questions {
    /// Asks over `out`, and waits for the answer as long as a person may take. Dropping the future takes
    /// the question back.
    pub(super) async fn ask(&self, out: &mpsc::Sender<Bytes>, message: &str, schema: &Value) -> Said {
        let id = RequestId::number(self.asked.fetch_add(1, Ordering::Relaxed) + 1);
        let (answer, answered) = oneshot::channel();
        self.open().insert(id.clone(), answer);
        let mut question = Open { questions: self, out, id, reason: Some("the call has ended") };
        let form = Form { message, requested_schema: schema };
        if out.send(request_body(&question.id, "elicitation/create", &form)).await.is_err() {
            question.reason = None;
            return Said::Gone;
        }
        match tokio::time::timeout(ANSWER_LIMIT, answered).await {
            Ok(reply) => {
                question.reason = None;
                reply.map_or(Said::Gone, said)
            }
            Err(_) => {
                question.reason = Some("expired");
                Said::Refused("expired")
            }
        }
    }

    /// Hands an answer to whoever waits for it. One to no open question is dropped.
    pub(super) fn answered(&self, response: Response) {
        let waiting = response.id.and_then(|id| self.open().remove(&id.of_own()));
        if let Some(waiting) = waiting {
            let _ = waiting.send(response.outcome);
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Result<Value, Value>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that somebody waits for. When nobody does any more the client is told.
struct Open<'a> {
    questions: &'a Questions,
    out: &'a mpsc::Sender<Bytes>,
    id: RequestId,
    /// Why the client need not answer any more. `None`: it has, or cannot.
    reason: Option<&'static str>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.questions.open().remove(&self.id);
        if let Some(reason) = self.reason {
            let _ = self.out.try_send(withdrawal(&self.id, reason));
        }
    }
}
