//! One HTTP request to a profile, and its answer.

use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Identity, ToolContext, ToolReport};

use super::{Begun, McpProfile, Outcome, Reach};
use crate::server::body::McpBody;
use crate::server::call::CallEvent;
use crate::server::handler::McpCallContext;
use crate::server::head::accepts_events;
use crate::server::message::{self, notification_body};
use crate::server::sse::{Event, KEEP_ALIVE, keep_alive};

impl McpProfile {
    /// Answers one POST, for hosts that have a listener of their own.
    ///
    /// Nothing of the head is looked at but `Accept`: what must not get through (foreign origins,
    /// other content types, strangers, large bodies) is the listener's to refuse, as
    /// `toolnexus_serve` does. `identity` is who was found to be calling. `cancel`, and dropping
    /// the future or the answer's body, end the tool that runs.
    ///
    /// A call whose client sent a progress token and accepts `text/event-stream` is answered as an
    /// event stream, everything else as JSON.
    pub async fn respond(
        &self,
        head: Arc<Parts>,
        identity: Option<Identity>,
        body: Bytes,
        cancel: CancellationToken,
    ) -> Response<McpBody> {
        let message = message::read(&body);
        drop(body);
        let call = match self.receive(message, Reach::Request) {
            Outcome::Silence => return status(StatusCode::ACCEPTED),
            Outcome::Answer(body) => return json(body),
            Outcome::Call(call) => call,
        };
        let streams = call.token.is_some() && accepts_events(&head.headers);
        let about =
            McpCallContext { identity, request: Some(head), session_id: None, meta: call.meta.clone() };
        let mut context = ToolContext { cancel, ..Default::default() };
        context.extensions.insert(about);
        let mut call = call.begin(context, streams);
        if streams {
            return events(call);
        }
        let result = loop {
            match call.next().await {
                CallEvent::Report(_) => {}
                CallEvent::Ended(result) => break Some(result),
                CallEvent::Cancelled => break None,
            }
        };
        json(call.end(result))
    }
}

fn status(status: StatusCode) -> Response<McpBody> {
    let mut response = Response::new(McpBody::empty());
    *response.status_mut() = status;
    response
}

fn json(body: Bytes) -> Response<McpBody> {
    let mut response = Response::new(McpBody::whole(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn events(call: Begun) -> Response<McpBody> {
    let mut response = Response::new(McpBody::stream(told(call)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}

/// What is told of a call: its progress, then its answer.
fn told(call: Begun) -> impl Stream<Item = Bytes> + Send {
    unfold(Some(call), |call| async {
        let mut call = call?;
        loop {
            // A comment now and then keeps what lies in between from giving the connection up, and
            // shows when nobody is there any more.
            let Ok(event) = timeout(KEEP_ALIVE, call.next()).await else {
                return Some((keep_alive(), Some(call)));
            };
            let result = match event {
                CallEvent::Report(report) => match notice(&mut call, &report) {
                    Some(notice) => return Some((notice, Some(call))),
                    None => continue,
                },
                CallEvent::Ended(result) => Some(result),
                CallEvent::Cancelled => None,
            };
            return Some((Event::data(call.end(result)).encode(), None));
        }
    })
}

/// The event of a report, if it is one of progress and brings news.
fn notice(call: &mut Begun, report: &ToolReport) -> Option<Bytes> {
    let ToolReport::Progress { progress, total, message } = report else { return None };
    let params = call.progress.as_mut()?.notice(*progress, *total, message.as_deref())?;
    Some(Event::data(notification_body("notifications/progress", Some(&params))).encode())
}
