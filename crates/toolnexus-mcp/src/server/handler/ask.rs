//! Questions to the person behind a client, on the event stream of the call that asks.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolnexus_core::{Answer, BoxFuture, Request, WaitFor};

use super::outlet::Outlet;
use super::session::{Reply, Session};
use crate::server::message::{RequestId, notification_body, request_body};

/// Who can be asked, and how.
#[derive(Clone)]
pub(super) struct Asker {
    session: Arc<Session>,
    outlet: Arc<Outlet>,
    limit: Duration,
}

/// What came of a question.
#[derive(Debug, PartialEq)]
pub(in crate::server) enum Said {
    /// The person filled in the form.
    Accepted(Map<String, Value>),
    /// `declined`, `cancelled` or `expired`.
    Refused(&'static str),
    /// Nobody is there to be asked any more.
    Gone,
}

/// The parameters of `elicitation/create`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::server) struct Form<'a> {
    pub(in crate::server) message: &'a str,
    pub(in crate::server) requested_schema: &'a Value,
}

/// The form that asks for nothing but consent.
pub(super) fn consent() -> Value {
    json!({"type": "object", "properties": {}})
}

impl Asker {
    /// `None`: the client cannot ask, or not while its answer is awaited.
    pub(super) fn new(session: Option<&Arc<Session>>, outlet: &Arc<Outlet>, limit: Duration) -> Option<Self> {
        let session = session.filter(|session| session.terms.elicits && outlet.streams())?;
        Some(Asker { session: Arc::clone(session), outlet: Arc::clone(outlet), limit })
    }

    /// Asks, and waits for the answer as long as a person may take.
    pub(super) async fn ask(&self, message: &str, schema: &Value) -> Said {
        let mut question = self.session.question();
        let form = Form { message, requested_schema: schema };
        if !self.outlet.say(request_body(&question.id, "elicitation/create", &form)) {
            return Said::Gone;
        }
        match tokio::time::timeout(self.limit, question.reply()).await {
            Ok(Some(reply)) => said(reply),
            Ok(None) => Said::Gone,
            Err(_) => {
                self.outlet.say(withdrawal(&question.id, "expired"));
                Said::Refused("expired")
            }
        }
    }

    /// The same for tools.
    pub(super) fn for_tools(self) -> WaitFor {
        let asker = Arc::new(self);
        ask_for_tools(move |message, schema| {
            let asker = Arc::clone(&asker);
            Box::pin(async move { asker.ask(&message, &schema).await })
        })
    }
}

/// What a tool asks becomes a form: `ask` is given its message and schema.
pub(in crate::server) fn ask_for_tools(
    ask: impl Fn(String, Value) -> BoxFuture<'static, Said> + Send + Sync + 'static,
) -> WaitFor {
    let ask = Arc::new(ask);
    Arc::new(move |request: Request| {
        let ask = Arc::clone(&ask);
        Box::pin(async move {
            // A form must not collect what a login page is for.
            if request.kind != "input" {
                return Err(format!("a request of kind {:?} cannot be asked as a form", request.kind).into());
            }
            let schema = request.data.and_then(|mut data| data.remove("schema"));
            match ask(request.prompt, schema.unwrap_or_else(consent)).await {
                Said::Accepted(data) => {
                    Ok(Answer { id: request.id, ok: true, data: Some(data), reason: None })
                }
                Said::Refused(reason) => {
                    Ok(Answer { id: request.id, ok: false, data: None, reason: Some(reason.into()) })
                }
                Said::Gone => Err("the client is gone".into()),
            }
        })
    })
}

/// The notice that a question has no point any more.
pub(in crate::server) fn withdrawal(id: &RequestId, reason: &'static str) -> bytes::Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: &'a RequestId,
        reason: &'static str,
    }
    notification_body("notifications/cancelled", Some(&Params { request_id: id, reason }))
}

/// Reads the result of an elicitation. An error, and anything odd, is no consent.
pub(in crate::server) fn said(reply: Reply) -> Said {
    let Ok(Value::Object(mut result)) = reply else { return Said::Refused("cancelled") };
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => Said::Accepted(match result.remove("content") {
            Some(Value::Object(content)) => content,
            _ => Map::new(),
        }),
        Some("decline") => Said::Refused("declined"),
        _ => Said::Refused("cancelled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MCP-169, MCP-189: nothing but an acceptance is one
    #[test]
    fn only_an_acceptance_is_consent() {
        let accepted = json!({"action": "accept", "content": {"city": "Kochi"}});
        let Said::Accepted(content) = said(Ok(accepted)) else { panic!("accepted") };
        assert_eq!(content["city"], "Kochi");
        assert_eq!(said(Ok(json!({"action": "accept"}))), Said::Accepted(Map::new()));
        assert_eq!(said(Ok(json!({"action": "decline", "content": {}}))), Said::Refused("declined"));
        for odd in
            [json!({"action": "cancel"}), json!({}), json!("accept"), json!({"action": true}), json!(null)]
        {
            assert_eq!(said(Ok(odd)), Said::Refused("cancelled"));
        }
        assert_eq!(said(Err(json!({"code": -32601, "action": "accept"}))), Said::Refused("cancelled"));
    }
}
