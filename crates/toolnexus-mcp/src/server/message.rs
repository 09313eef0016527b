//! JSON-RPC messages as a server meets them, and the bodies of its answers.
//!
//! [`read`] takes the envelope apart once and leaves nothing to be guessed later: what it gives is
//! a request with an id that can be echoed and parameters that are an object, a notification, or a
//! response. Anything else is an [`Unreadable`] that knows its own answer.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The body is no JSON.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// It is JSON, and no request.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// Nobody here knows the method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The method cannot do anything with these parameters.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// Something broke on this side.
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// The id of a request: equal to another only when both are text, or both numbers, of the same
/// spelling. It is echoed as it came, whatever number it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestId {
    /// The text of a JSON string.
    Text(String),
    /// The JSON of a number, as it was written.
    Number(String),
}

impl RequestId {
    /// An id of this server's own requests.
    pub(crate) fn number(number: u64) -> Self {
        RequestId::Number(number.to_string())
    }

    /// The id of a request of this server that a client answers: some send the number back as text.
    pub(crate) fn of_own(self) -> Self {
        match self {
            RequestId::Text(text) => RequestId::Number(text),
            number => number,
        }
    }

    /// The id that some JSON is: a string or a number.
    pub(crate) fn of_json(raw: &RawValue) -> Option<Self> {
        match raw.get().as_bytes().first()? {
            b'"' => serde_json::from_str(raw.get()).ok().map(RequestId::Text),
            // One that is out of any reader's range could not be read in the answer either.
            b'-' | b'0'..=b'9' => {
                serde_json::from_str::<f64>(raw.get()).ok().map(|_| RequestId::Number(raw.get().to_owned()))
            }
            _ => None,
        }
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RequestId::Text(text) => serializer.serialize_str(text),
            RequestId::Number(text) => match serde_json::from_str::<&RawValue>(text) {
                Ok(raw) => raw.serialize(serializer),
                // Only what was read as a number gets here.
                Err(_) => serializer.serialize_none(),
            },
        }
    }
}

/// What a client sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Answers a request of ours.
    Response(Response),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    /// Empty when there were none.
    pub(crate) params: Map<String, Value>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Notification {
    pub(crate) method: String,
    /// The request that `notifications/cancelled` takes back. Nothing else of parameters is of use here.
    pub(crate) cancels: Option<RequestId>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    /// `None`: it names no request that could be meant.
    pub(crate) id: Option<RequestId>,
    /// The result, or the error object.
    pub(crate) outcome: Result<Value, Value>,
}

/// Nothing that could be carried out.
#[derive(Debug, PartialEq)]
pub(crate) struct Unreadable {
    /// Whom to answer, if that much could be read.
    pub(crate) id: Option<RequestId>,
    pub(crate) code: i64,
    pub(crate) message: &'static str,
}

impl Unreadable {
    fn new(id: Option<RequestId>, code: i64, message: &'static str) -> Self {
        Unreadable { id, code, message }
    }

    fn invalid(id: Option<RequestId>) -> Self {
        Unreadable::new(id, INVALID_REQUEST, "Invalid Request")
    }

    /// The answer to it.
    pub(crate) fn body(&self) -> Bytes {
        error_body(self.id.as_ref(), &RpcError::new(self.code, self.message))
    }
}

/// The error object of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        RpcError { code, message: message.into(), data: None }
    }

    pub(crate) fn method_not_found() -> Self {
        RpcError::new(METHOD_NOT_FOUND, "Method not found")
    }

    pub(crate) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        RpcError::new(INVALID_PARAMS, message)
    }

    pub(crate) fn internal(reason: impl fmt::Display) -> Self {
        RpcError::new(INTERNAL_ERROR, format!("Internal error: {reason}"))
    }
}

/// Reads one message. Never panics, whatever the bytes are.
pub(crate) fn read(body: &[u8]) -> Result<Incoming, Unreadable> {
    let parse_error = || Unreadable::new(None, PARSE_ERROR, "Parse error");
    // Text that serde_json skips is not looked at closely enough otherwise.
    let text = std::str::from_utf8(body).map_err(|_| parse_error())?;
    let shape: Shape<'_> = serde_json::from_str(text).map_err(|_| parse_error())?;
    // A batch, or no message at all.
    let Shape::Object(envelope) = shape else { return Err(Unreadable::invalid(None)) };
    envelope.sort()
}

enum Shape<'a> {
    Object(Envelope<'a>),
    Other,
}

/// The members that a message may have. What else an object holds is ignored.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// One of them is there twice: another reader may have read the other one.
    ambiguous: bool,
}

impl Envelope<'_> {
    fn sort(self) -> Result<Incoming, Unreadable> {
        if self.ambiguous {
            return Err(Unreadable::invalid(None));
        }
        let id = match self.id.map(RequestId::of_json) {
            None => None,
            Some(Some(id)) => Some(id),
            Some(None) if self.method.is_none() && self.error.is_some() => None,
            // `null` among them: MCP knows no such id.
            Some(None) => return Err(Unreadable::invalid(None)),
        };
        if self.jsonrpc.is_some_and(|version| version.get() != "\"2.0\"") {
            return Err(Unreadable::invalid(id));
        }
        let Some(method) = self.method else {
            let outcome = match (self.result, self.error) {
                (Some(result), None) if id.is_some() => Ok(value(result)),
                (None, Some(error)) => Err(value(error)),
                _ => return Err(Unreadable::invalid(id)),
            };
            return match outcome {
                Ok(Some(result)) => Ok(Incoming::Response(Response { id, outcome: Ok(result) })),
                Err(Some(error)) => Ok(Incoming::Response(Response { id, outcome: Err(error) })),
                Ok(None) | Err(None) => Err(Unreadable::invalid(id)),
            };
        };
        let Ok(method) = serde_json::from_str::<String>(method.get()) else {
            return Err(Unreadable::invalid(id));
        };
        let Some(id) = id else {
            let cancels = self.params.filter(|_| method == "notifications/cancelled").and_then(cancelled);
            return Ok(Incoming::Notification(Notification { method, cancels }));
        };
        let params = match self.params.map(value) {
            None | Some(Some(Value::Null)) => Ok(Map::new()),
            Some(Some(Value::Object(params))) => Ok(params),
            Some(Some(_)) => Err("params must be an object"),
            // JSON all the same, so this is not a body that cannot be parsed.
            Some(None) => {
                Err("params are nested too deeply, or hold a number out of range or text that is not Unicode")
            }
        };
        match params {
            Ok(params) => Ok(Incoming::Request(Request { id, method, params })),
            Err(reason) => Err(Unreadable::new(Some(id), INVALID_PARAMS, reason)),
        }
    }
}

/// The request that is taken back, in the spelling in which it came: numbers of JSON are more than those
/// of this machine.
fn cancelled(params: &RawValue) -> Option<RequestId> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    // A list would do for a struct otherwise.
    let object = Some(params.get()).filter(|params| params.starts_with('{'))?;
    let params: Params<'_> = serde_json::from_str(object).ok()?;
    RequestId::of_json(params.request_id)
}

fn value(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}

impl<'de> Deserialize<'de> for Shape<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(member) = map.next_key::<Member>()? {
            let place = match member {
                Member::Jsonrpc => &mut envelope.jsonrpc,
                Member::Id => &mut envelope.id,
                Member::Method => &mut envelope.method,
                Member::Params => &mut envelope.params,
                Member::Result => &mut envelope.result,
                Member::Error => &mut envelope.error,
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if place.replace(map.next_value()?).is_some() {
                envelope.ambiguous = true;
            }
        }
        Ok(Shape::Object(envelope))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shape::Other)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Shape<'de>, E> {
        Ok(Shape::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Shape<'de>, E> {
        Ok(Shape::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Shape<'de>, E> {
        Ok(Shape::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Shape<'de>, E> {
        Ok(Shape::Other)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Shape<'de>, E> {
        Ok(Shape::Other)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Shape<'de>, E> {
        Ok(Shape::Other)
    }
}

enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberVisitor;

        impl Visitor<'_> for MemberVisitor {
            type Value = Member;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<Member, E> {
                Ok(match key {
                    "jsonrpc" => Member::Jsonrpc,
                    "id" => Member::Id,
                    "method" => Member::Method,
                    "params" => Member::Params,
                    "result" => Member::Result,
                    "error" => Member::Error,
                    _ => Member::Other,
                })
            }
        }

        deserializer.deserialize_identifier(MemberVisitor)
    }
}

#[derive(Serialize)]
struct Success<'a, T> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: &'a T,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RequestId>,
    error: &'a RpcError,
}

#[derive(Serialize)]
struct Call<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a T>,
}

const VERSION: &str = "2.0";

/// The answer to a request that worked.
pub(crate) fn result_body(id: &RequestId, result: &impl Serialize) -> Bytes {
    match serde_json::to_vec(&Success { jsonrpc: VERSION, id, result }) {
        Ok(body) => body.into(),
        Err(error) => error_body(Some(id), &RpcError::internal(error)),
    }
}

/// The answer to a request that did not. Without an id, that of a message nobody could read.
pub(crate) fn error_body(id: Option<&RequestId>, error: &RpcError) -> Bytes {
    // Nothing in it can fail to be written.
    serde_json::to_vec(&Failure { jsonrpc: VERSION, id, error }).unwrap_or_default().into()
}

/// The answer to a request.
pub(crate) fn answer_body(id: &RequestId, answer: &Result<impl Serialize, RpcError>) -> Bytes {
    match answer {
        Ok(result) => result_body(id, result),
        Err(error) => error_body(Some(id), error),
    }
}

/// A notification of this server. `None`: it has no parameters.
pub(crate) fn notification_body(method: &str, params: Option<&impl Serialize>) -> Bytes {
    serde_json::to_vec(&Call { jsonrpc: VERSION, id: None, method, params }).unwrap_or_default().into()
}

/// A request of this server to its client.
pub(crate) fn request_body(id: &RequestId, method: &str, params: &impl Serialize) -> Bytes {
    let call = Call { jsonrpc: VERSION, id: Some(id), method, params: Some(params) };
    serde_json::to_vec(&call).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(body: &Bytes) -> &str {
        std::str::from_utf8(body).unwrap()
    }

    fn refused(body: &str) -> String {
        text(&read(body.as_bytes()).unwrap_err().body()).to_owned()
    }

    fn refusal(id: &str, code: i64, message: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    }

    fn request(body: &str) -> Request {
        match read(body.as_bytes()) {
            Ok(Incoming::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    // MCP-154, SERVE-64
    #[test]
    fn what_is_no_json_is_a_parse_error() {
        let parse_error = refusal("null", PARSE_ERROR, "Parse error");
        for body in ["{oops", "", " ", "{\"id\":1,\"method\":\"ping\"} x", "{\"id\":1", "nul", "\u{feff}{}"] {
            assert_eq!(refused(body), parse_error, "{body:?}");
        }
        // Not UTF-8, in a member that nobody reads.
        let body = b"{\"id\":1,\"method\":\"ping\",\"x\":\"\xff\"}";
        assert_eq!(text(&read(body).unwrap_err().body()), parse_error);
    }

    // MCP-154, SERVE-57, SERVE-58
    #[test]
    fn json_that_is_no_message_is_an_invalid_request() {
        let invalid = |id: &str| refusal(id, INVALID_REQUEST, "Invalid Request");
        for body in [
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            "1",
            "-1",
            "1.5",
            "true",
            "null",
            "\"ping\"",
            "{}",
            r#"{"jsonrpc":"2.0","params":{}}"#,
            r#"{"id":null,"method":"ping"}"#,
            r#"{"id":{},"method":"ping"}"#,
            r#"{"id":[1],"method":"ping"}"#,
            r#"{"id":true,"method":"ping"}"#,
            r#"{"id":"\ud800","method":"ping"}"#,
            r#"{"id":8e351,"method":"ping"}"#,
            // Which of the two is meant, another reader may see differently.
            r#"{"id":1,"id":2,"method":"ping"}"#,
            r#"{"id":1,"method":"ping","method":"tools/call"}"#,
            r#"{"result":{}}"#,
        ] {
            assert_eq!(refused(body), invalid("null"), "{body}");
        }
        for (body, id) in [
            (r#"{"id":1}"#, "1"),
            (r#"{"id":"x","method":5}"#, "\"x\""),
            (r#"{"id":1,"method":null}"#, "1"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "1"),
            (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, "1"),
            (r#"{"id":1,"result":{},"error":{}}"#, "1"),
        ] {
            assert_eq!(refused(body), invalid(id), "{body}");
        }
    }

    // MCP-154: ids come back as they were written
    #[test]
    fn ids_are_echoed_as_they_came() {
        for id in
            ["0", "-0", "-7", "1.0", "1e2", "123456789012345678901234567890", "\"\"", "\"a\\\"b\"", "\"é\""]
        {
            let request = request(&format!(r#"{{"method":"ping","id":{id}}}"#));
            let answer = result_body(&request.id, &json!({}));
            assert_eq!(text(&answer), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
        assert_ne!(request(r#"{"id":1,"method":"m"}"#).id, request(r#"{"id":"1","method":"m"}"#).id);
        let escaped = request(r#"{"id":"\u0061","method":"m"}"#).id;
        assert_eq!(escaped, RequestId::Text("a".into()));
    }

    // MCP-154
    #[test]
    fn parameters_are_an_object_or_none() {
        assert_eq!(request(r#"{"id":1,"method":"m"}"#).params, Map::new());
        assert_eq!(request(r#"{"id":1,"method":"m","params":null}"#).params, Map::new());
        let keyed = request(r#"{"id":1,"method":"m","params":{"b":1,"a":[2]},"unknown":[{}]}"#);
        assert_eq!(Value::Object(keyed.params).to_string(), r#"{"b":1,"a":[2]}"#);
        for params in ["[]", "[1]", "1", "\"x\"", "true"] {
            let body = format!(r#"{{"id":1,"method":"m","params":{params}}}"#);
            assert_eq!(refused(&body), refusal("1", INVALID_PARAMS, "params must be an object"), "{body}");
        }
        let deep =
            format!(r#"{{"id":1,"method":"m","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let message =
            "params are nested too deeply, or hold a number out of range or text that is not Unicode";
        assert_eq!(refused(&deep), refusal("1", INVALID_PARAMS, message));
        for params in [r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#, r#"{"\udc00\ud800":1}"#] {
            let body = format!(r#"{{"id":1,"method":"m","params":{params}}}"#);
            assert_eq!(refused(&body), refusal("1", INVALID_PARAMS, message), "{body}");
        }
    }

    // MCP-155
    #[test]
    fn notifications_and_responses_are_told_apart() {
        let notification = |body: &str| match read(body.as_bytes()) {
            Ok(Incoming::Notification(notification)) => notification,
            other => panic!("{other:?}"),
        };
        let plain = notification(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!((plain.method.as_str(), plain.cancels), ("notifications/initialized", None));
        assert_eq!(notification(r#"{"method":"odd","params":[1]}"#).cancels, None);

        let response = |body: &str| match read(body.as_bytes()) {
            Ok(Incoming::Response(response)) => response,
            other => panic!("{other:?}"),
        };
        let granted = response(r#"{"jsonrpc":"2.0","id":3,"result":{"action":"accept"}}"#);
        let outcome = Ok(json!({"action": "accept"}));
        assert_eq!(granted, Response { id: Some(RequestId::number(3)), outcome });
        let failed = response(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#);
        let outcome = Err(json!({"code": -32600, "message": "no"}));
        assert_eq!(failed, Response { id: None, outcome });
    }

    // MCP-181: whatever may be the id of a request can be taken back
    #[test]
    fn a_request_is_taken_back_by_the_id_that_it_has() {
        let cancels = |params: &str| {
            let body = format!(r#"{{"method":"notifications/cancelled","params":{params}}}"#);
            match read(body.as_bytes()) {
                Ok(Incoming::Notification(notification)) => notification.cancels,
                other => panic!("{other:?}"),
            }
        };
        for id in ["0", "-7", "1.0", "1e2", "123456789012345678901234567890", "\"\"", "\"a\\\"b\"", "\"1\""] {
            let begun = request(&format!(r#"{{"method":"m","id":{id}}}"#)).id;
            assert_eq!(cancels(&format!(r#"{{"reason":"x","requestId":{id}}}"#)), Some(begun), "{id}");
        }
        for nobody in [
            "{}",
            "null",
            "[1]",
            r#"{"requestId":null}"#,
            r#"{"requestId":[1]}"#,
            r#"{"requestId":1,"requestId":2}"#,
        ] {
            assert_eq!(cancels(nobody), None, "{nobody}");
        }
        let other = r#"{"method":"notifications/other","params":{"requestId":1}}"#;
        assert!(matches!(
            read(other.as_bytes()),
            Ok(Incoming::Notification(Notification { cancels: None, .. }))
        ));
    }

    #[test]
    fn own_messages_have_no_empty_members() {
        assert_eq!(
            text(&notification_body("notifications/tools/list_changed", None::<&Value>)),
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#
        );
        assert_eq!(
            text(&request_body(&RequestId::number(4), "ping", &json!({"a": 1}))),
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":{"a":1}}"#
        );
        let answer: Result<Value, _> = Err(RpcError::internal("the store is gone"));
        assert_eq!(
            text(&answer_body(&RequestId::number(4), &answer)),
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"Internal error: the store is gone"}}"#
        );
    }

    proptest! {
        // MCP-154: nothing a client sends breaks the reader, and each refusal can be sent
        #[test]
        fn any_bytes_are_read(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(unreadable) = read(&body) {
                let answer: Value = serde_json::from_slice(&unreadable.body()).unwrap();
                prop_assert!(answer["error"]["code"].is_i64());
            }
        }

        // MCP-154: a request is read as it was meant, whatever surrounds it
        #[test]
        fn requests_come_through(id in any::<i64>(), method in ".{1,20}", key in ".{0,10}", word in ".{0,20}") {
            let params = json!({key: word});
            let body = json!({"x": 1, "params": params, "method": method, "id": id, "jsonrpc": "2.0"}).to_string();
            let Ok(Incoming::Request(request)) = read(body.as_bytes()) else { return Err(TestCaseError::fail(body)) };
            prop_assert_eq!(request.method, method);
            prop_assert_eq!(Value::Object(request.params), params);
            prop_assert_eq!(request.id, RequestId::Number(id.to_string()));
        }
    }
}
