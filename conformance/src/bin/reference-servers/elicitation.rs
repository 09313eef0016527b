//! A server asks the user while a call is under way, and gets the resolver's answer.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use toolnexus::{Answer, Request, Toolkit, ToolkitOptions, WaitFor};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, Wire, call, load_with};

/// A toolkit whose resolver gives one answer to everything and keeps what it was asked.
struct Asked {
    toolkit: Toolkit,
    wire: Wire,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Asked {
    async fn load(setting: &Setting, wire: Wire, answer: Answer) -> Result<Self, String> {
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let asked = Arc::clone(&requests);
        let wait_for: WaitFor = Arc::new(move |request| {
            let answer = Answer { id: request.id.clone(), ..answer.clone() };
            asked.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            Box::pin(async move { Ok(answer) })
        });
        let servers = json!({ wire.server(): setting.everything(wire, json!({})) });
        let options = ToolkitOptions { wait_for: Some(wait_for), ..Default::default() };
        Ok(Asked { toolkit: load_with(servers, options).await?, wire, requests })
    }

    async fn call(&self, tool: &str, args: Value) -> Result<toolnexus::ToolResult, String> {
        call(&self.toolkit, &format!("{}{tool}", self.wire.prefix()), args).await
    }

    fn only_request(&self) -> Result<Request, String> {
        match self.requests.lock().unwrap_or_else(PoisonError::into_inner).as_slice() {
            [request] => Ok(request.clone()),
            requests => Err(format!("expected one request, got {requests:?}")),
        }
    }
}

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report.check(&name("a form that is filled in"), filled_in(setting, wire)).await;
        report.check(&name("a form that is declined"), declined(setting, wire)).await;
        report.check(&name("a link that is followed"), followed(setting, wire)).await;
        report.check(&name("a link asked for by an error"), asked_by_error(setting, wire)).await;
    }
    Ok(())
}

fn accept(data: Value) -> Answer {
    Answer { ok: true, data: data.as_object().cloned(), ..Default::default() }
}

/// What the server got, as it prints it at the end of its output.
fn raw_result(output: &str) -> Result<Value, String> {
    let (_, raw) = output.split_once("Raw result: ").ok_or_else(|| format!("output: {output:?}"))?;
    serde_json::from_str(raw).map_err(|error| format!("{error}: {raw}"))
}

// MCP-93, MCP-94, MCP-96, MCP-97
async fn filled_in(setting: &Setting, wire: Wire) -> Outcome {
    let data = json!({"name": "Ada", "check": true, "integer": 7, "untitledMultipleSelectEnum": ["Piano"]});
    let asked = Asked::load(setting, wire, accept(data.clone())).await?;
    let result = asked.call("trigger-elicitation-request", json!({})).await?;
    let start = "✅ User provided the requested information!\n\
                 User inputs:\n- Name: Ada\n- Agreed to terms: true\n- Favorite Integer: 7\n\nRaw result: ";
    holds(result.output.starts_with(start), || format!("output: {:?}", result.output))?;
    equal("answer", &raw_result(&result.output)?, &json!({"action": "accept", "content": data}))?;

    let request = asked.only_request()?;
    equal("kind", request.kind.as_str(), "input")?;
    equal("prompt", request.prompt.as_str(), "Please provide inputs for the following fields:")?;
    equal("url", &request.url, &None)?;
    let schema = request.data.unwrap_or_default().remove("schema").unwrap_or_default();
    equal("required", &schema.get("required"), &Some(&json!(["name"])))?;
    // Keywords outside the protocol's own subset come through.
    let names = schema.pointer("/properties/legacyTitledEnum/enumNames");
    equal("enumNames", &names, &Some(&json!(["Cats", "Dogs", "Birds", "Fish", "Reptiles"])))?;
    asked.toolkit.close().await;
    Ok(())
}

// MCP-97
async fn declined(setting: &Setting, wire: Wire) -> Outcome {
    let answer = Answer { ok: false, reason: Some("declined".into()), ..Default::default() };
    let asked = Asked::load(setting, wire, answer).await?;
    let result = asked.call("trigger-elicitation-request", json!({})).await?;
    let start = "❌ User declined to provide the requested information.\n";
    holds(result.output.starts_with(start), || format!("output: {:?}", result.output))?;
    equal("answer", &raw_result(&result.output)?, &json!({"action": "decline"}))?;
    asked.toolkit.close().await;
    Ok(())
}

// MCP-94: a link, and never a form beside it
async fn followed(setting: &Setting, wire: Wire) -> Outcome {
    let asked = Asked::load(setting, wire, accept(Value::Object(Map::new()))).await?;
    let url = "https://login.example/authorize?state=1";
    let args = json!({"url": url, "message": "Log in, please", "elicitationId": "e-1"});
    let result = asked.call("trigger-url-elicitation", args).await?;
    let start = format!("✅ User completed the URL elicitation flow.\nElicitation ID: e-1\nURL: {url}\n");
    holds(result.output.starts_with(&start), || format!("output: {:?}", result.output))?;
    let request = asked.only_request()?;
    equal("kind", request.kind.as_str(), "authorization")?;
    equal("prompt", request.prompt.as_str(), "Log in, please")?;
    equal("url", &request.url.as_deref(), &Some(url))?;
    equal("data", &request.data, &None)?;
    asked.toolkit.close().await;
    Ok(())
}

// MCP-89: the one error of this server that is no result
async fn asked_by_error(setting: &Setting, wire: Wire) -> Outcome {
    let asked = Asked::load(setting, wire, accept(Value::Object(Map::new()))).await?;
    let args = json!({"url": "https://login.example/", "errorPath": true});
    let result = asked.call("trigger-url-elicitation", args).await?;
    asked.toolkit.close().await;
    let output = format!(
        "mcp server {:?} failed at tools/call: rpc-error (code -32042): \
         MCP error -32042: This request requires browser-based authorization.",
        wire.server()
    );
    equal("output", result.output.as_str(), output.as_str())?;
    equal("error", &result.is_error, &true)
}
