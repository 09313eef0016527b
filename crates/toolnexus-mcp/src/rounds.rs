//! Results that ask for input first: the questions are answered, and the request is sent again.
//!
//! Where servers send no requests of their own (revision 2026-07-28), a result carries what a server
//! wants to know and a state that only the server reads. The request is repeated with the answers and
//! that state, as often as the server wants, up to a limit. For the tool's caller it is one call.

use std::time::Duration;

use futures::future::join_all;
use rmcp::model::InputResponses;
use rmcp::service::ServiceError;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use toolnexus_core::{ToolContext, WaitFor};

use crate::elicitation;
use crate::failure::{Fault, McpFailureKind};
use crate::live::Live;
use crate::request::Limits;
use crate::wire::ELICITATION;

/// How often a request is sent again.
const MAX_ROUNDS: usize = 10;

/// The first pause before a request that the server wants again without asking anything, and the
/// longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What a request that is sent again says beside itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) responses: Option<InputResponses>,
    pub(crate) state: Option<String>,
}

/// Sends a request until its result asks for nothing more, and gives that result. Each sending has
/// the whole idle limit; the total one holds for all of them, without the time that people take.
pub(crate) async fn complete<Sent>(
    live: &Live,
    limits: Limits,
    context: &ToolContext,
    send: impl Fn(Given, Limits) -> Sent,
) -> Result<String, Fault>
where
    Sent: Future<Output = Result<String, Fault>>,
{
    let rounds = rounds(live.wait_for.as_ref(), limits, send);
    tokio::select! {
        biased;
        // A request that is under way ends by itself then; a question does not.
        result = rounds => result,
        () = context.cancel.cancelled() => Err(Fault::new(McpFailureKind::Cancelled)),
        () = live.calls.ended() => Err(live.fault(ServiceError::TransportClosed).await),
    }
}

async fn rounds<Sent>(
    wait_for: Option<&WaitFor>,
    limits: Limits,
    send: impl Fn(Given, Limits) -> Sent,
) -> Result<String, Fault>
where
    Sent: Future<Output = Result<String, Fault>>,
{
    let mut given = Given::default();
    let mut spent = Duration::ZERO;
    let mut pause = FIRST_PAUSE;
    for round in 0..=MAX_ROUNDS {
        let began = Instant::now();
        let raw = send(std::mem::take(&mut given), limits.after(spent)?).await?;
        let Some(wanted) = Wanted::read(&raw)? else { return Ok(raw) };
        if round == MAX_ROUNDS {
            break;
        }
        if wanted.requests.is_empty() {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        spent += began.elapsed();
        given = wanted.answered(wait_for).await?;
    }
    Err(refused(&format!("input required more than {MAX_ROUNDS} times")))
}

fn refused(detail: &str) -> Fault {
    Fault::with_detail(McpFailureKind::RpcError, detail)
}

/// What a result asks for.
#[derive(Debug, PartialEq)]
struct Wanted {
    requests: Map<String, Value>,
    state: Option<String>,
}

impl Wanted {
    /// Reads a result; `None` for one that asks for nothing.
    fn read(raw: &str) -> Result<Option<Self>, Fault> {
        const MARK: &str = "input_required";
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Result {
            #[serde(default)]
            result_type: Value,
            #[serde(default)]
            input_requests: Value,
            #[serde(default)]
            request_state: Value,
        }
        if !raw.contains(MARK) {
            return Ok(None);
        }
        // What cannot be read is for whoever reads results to complain about.
        let Ok(result) = serde_json::from_str::<Result>(raw) else { return Ok(None) };
        if result.result_type != MARK {
            return Ok(None);
        }
        let requests = match result.input_requests {
            Value::Null => Map::new(),
            Value::Object(requests) => requests,
            _ => return Err(Fault::malformed()),
        };
        let state = match result.request_state {
            Value::Null => None,
            Value::String(state) => Some(state),
            _ => return Err(Fault::malformed()),
        };
        if requests.is_empty() && state.is_none() {
            return Err(Fault::malformed());
        }
        Ok(Some(Wanted { requests, state }))
    }

    /// The answers of the host, and the state as it came.
    async fn answered(self, wait_for: Option<&WaitFor>) -> Result<Given, Fault> {
        let Wanted { requests, state } = self;
        if requests.is_empty() {
            return Ok(Given { responses: None, state });
        }
        let Some(wait_for) = wait_for else { return Err(refused("input required, and no resolver")) };
        // Nobody is asked in vain.
        if requests.values().any(|request| request.get("method").is_none_or(|method| method != ELICITATION)) {
            return Err(refused("input required that is no elicitation"));
        }
        let asking = requests.into_iter().map(|(key, request)| async move {
            let params = request.get("params").unwrap_or(&Value::Null);
            (key, elicitation::ask(wait_for, params).await)
        });
        Ok(Given { responses: Some(join_all(asking).await.into_iter().collect()), state })
    }
}
