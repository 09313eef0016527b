//! JSON-RPC messages: telling the incoming ones apart, spelling the outgoing ones.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::RawJson;

/// A message from the client.
#[derive(Clone, Debug)]
pub(crate) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        id: Value,
        body: Value,
    },
    /// JSON, but no JSON-RPC message.
    Unknown,
    /// No JSON.
    Garbage,
}

impl Incoming {
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str::<Value>(text).map_or(Self::Garbage, Self::from)
    }
}

impl From<Value> for Incoming {
    fn from(message: Value) -> Self {
        let Value::Object(mut message) = message else { return Self::Unknown };
        let id = message.shift_remove("id");
        let params = message.shift_remove("params").unwrap_or_default();
        match (message.shift_remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Self::Request { id, method, params },
            (Some(Value::String(method)), None) => Self::Notification { method, params },
            (None, Some(id)) if message.contains_key("result") || message.contains_key("error") => {
                message.shift_remove("jsonrpc");
                Self::Response { id, body: Value::Object(message) }
            }
            _ => Self::Unknown,
        }
    }
}

/// A JSON-RPC error.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<RawJson>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// A response: the id, and the result as JSON text or an error.
pub(crate) fn response(id: &Value, outcome: Result<String, RpcError>) -> String {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<RpcError>,
    }
    let (result, error) = match outcome {
        Ok(result) => (RawValue::from_string(result).ok(), None),
        Err(error) => (None, Some(error)),
    };
    encode(&Response { jsonrpc: "2.0", id, result, error })
}

/// A request of the server's own.
pub(crate) fn request(id: &RawJson, method: &str, params: Option<&RawJson>) -> String {
    #[derive(Serialize)]
    struct Request<'a> {
        jsonrpc: &'static str,
        id: &'a RawJson,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a RawJson>,
    }
    encode(&Request { jsonrpc: "2.0", id, method, params })
}

/// A notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    encode(&Notification { jsonrpc: "2.0", method, params })
}

/// Messages have string keys only, so encoding cannot fail.
pub(crate) fn encode(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
