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
use crate::in_flight::MAX_QUESTIONS;
use crate::request::Limits;
use crate::slot::Slot;
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
    slot: &Slot,
    limits: Limits,
    context: &ToolContext,
    send: impl Fn(Given, Limits) -> Sent,
) -> Result<String, Fault>
where
    Sent: Future<Output = Result<String, Fault>>,
{
    let answer = |wanted: Wanted| async move {
        // The session that has asked.
        let live = slot.live()?;
        tokio::select! {
            biased;
            given = wanted.answered(live.wait_for.as_ref()) => given,
            () = live.calls.ended() => Err(live.fault(ServiceError::TransportClosed).await),
        }
    };
    tokio::select! {
        biased;
        // A request that is under way ends by itself then; a question does not.
        result = rounds(limits, send, answer) => result,
        () = context.cancel.cancelled() => Err(Fault::new(McpFailureKind::Cancelled)),
    }
}

async fn rounds<Sent, Answered>(
    limits: Limits,
    send: impl Fn(Given, Limits) -> Sent,
    answer: impl Fn(Wanted) -> Answered,
) -> Result<String, Fault>
where
    Sent: Future<Output = Result<String, Fault>>,
    Answered: Future<Output = Result<Given, Fault>>,
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
        given = answer(wanted).await?;
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
        if requests.len() > MAX_QUESTIONS {
            return Err(refused(&format!("input required in more than {MAX_QUESTIONS} ways at once")));
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;
    use serde_json::json;
    use tokio::time::advance;
    use toolnexus_core::Answer;

    fn limits() -> Limits {
        Limits { idle: Duration::from_secs(30), total: Some(Duration::from_secs(60)) }
    }

    /// A person who takes an hour.
    fn slow() -> WaitFor {
        Arc::new(|request| {
            Box::pin(async move {
                advance(Duration::from_secs(3600)).await;
                Ok(Answer { id: request.id, ok: true, ..Default::default() })
            })
        })
    }

    // MCP-102, MCP-91: a fresh idle limit each time, one total cap, and people outside of both
    #[tokio::test(start_paused = true)]
    async fn all_sendings_share_the_total_limit() {
        let seen = RefCell::new(Vec::new());
        let send = async |_given: Given, limits: Limits| {
            seen.borrow_mut().push((limits.idle.as_secs(), limits.total.unwrap().as_secs()));
            advance(Duration::from_secs(25)).await;
            Ok(json!({
                "resultType": "input_required",
                "inputRequests": {"a": {"method": "elicitation/create"}},
            })
            .to_string())
        };
        let host = slow();
        let fault = rounds(limits(), send, |wanted| wanted.answered(Some(&host))).await.unwrap_err();
        assert_eq!(fault, Fault::timeout());
        assert_eq!(*seen.borrow(), [(30, 60), (30, 35), (30, 10)]);
    }

    // MCP-102: a server that only wants the request again gets it a little later each time
    #[tokio::test(start_paused = true)]
    async fn a_request_is_sent_again_with_the_state_alone() {
        let seen = RefCell::new(Vec::new());
        let began = Instant::now();
        let send = async |given: Given, _limits: Limits| {
            seen.borrow_mut().push((given, began.elapsed().as_millis()));
            let sent = seen.borrow().len();
            Ok(match sent {
                1..5 => json!({"resultType": "input_required", "requestState": format!("s{sent}")}),
                _ => json!({"resultType": "complete"}),
            }
            .to_string())
        };
        assert_eq!(
            rounds(limits(), send, |wanted| wanted.answered(None)).await.unwrap(),
            r#"{"resultType":"complete"}"#
        );
        let again = |state: &str| Given { responses: None, state: Some(state.into()) };
        let expected = [
            (Given::default(), 0),
            (again("s1"), 50),
            (again("s2"), 150),
            (again("s3"), 350),
            (again("s4"), 600),
        ];
        assert_eq!(*seen.borrow(), expected);
    }

    // MCP-102: only what says so asks for input
    #[test]
    fn other_results_are_results() {
        for raw in [
            r#"{"content":[]}"#,
            r#"{"content":[{"type":"text","text":"input_required"}]}"#,
            r#"{"resultType":"complete","requestState":"input_required"}"#,
            r#"{"resultType":"input_required""#,
            r#""input_required""#,
        ] {
            assert_eq!(Wanted::read(raw), Ok(None), "{raw}");
        }
        let wanted = Wanted::read(r#"{"resultType":"input_required","requestState":"","inputRequests":{}}"#);
        assert_eq!(wanted, Ok(Some(Wanted { requests: Map::new(), state: Some(String::new()) })));
        for raw in [
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
            r#"{"resultType":"input_required","inputRequests":[1]}"#,
            r#"{"resultType":"input_required","requestState":{}}"#,
        ] {
            assert_eq!(Wanted::read(raw), Err(Fault::malformed()), "{raw}");
        }
        // As in the other era, nobody is asked more than so many questions at once.
        for (count, asks) in [(MAX_QUESTIONS, true), (MAX_QUESTIONS + 1, false)] {
            let requests: Map<String, Value> =
                (0..count).map(|n| (n.to_string(), json!({"method": ELICITATION}))).collect();
            let raw = json!({"resultType": "input_required", "inputRequests": requests}).to_string();
            assert_eq!(Wanted::read(&raw).is_ok(), asks, "{count}");
        }
    }
}
