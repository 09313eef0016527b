//! Reading what a server sends, before rmcp decodes it.
//!
//! rmcp decodes every result as one untagged union in a fixed order, whatever was asked, which
//! costs some twenty trial decodes and turns a result with an extra key into another type. So a
//! result is handed over *unread*: as a custom result that holds its raw JSON as a string. Whoever
//! asked decodes it, once, by the method it asked for. Only the answers to `initialize` and
//! `server/discover` are read here, since rmcp's own beginning of a session needs them.
//!
//! A server's result is always a string in that form, so other JSON types are free to carry what
//! this side found out about a response: see [`Spoiled`].

use std::borrow::Cow;
use std::fmt;

use rmcp::model::{
    CancelledNotification, ClientJsonRpcMessage, ClientRequest, CustomRequest, CustomResult, DiscoverResult,
    ErrorCode, ErrorData, Implementation, InitializeResult, PingRequest, ProtocolVersion, RequestId,
    ServerCapabilities, ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use toolnexus_core::json::repair_surrogates;

use crate::failure::{Fault, McpFailureKind};
use crate::in_flight::CallsInFlight;

/// The revisions that a server may answer the handshake with, oldest first.
const ACCEPTED_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The newest revision with a handshake: what this client offers.
pub(crate) const OFFERED_VERSION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The one request of a server that this client may answer.
pub(crate) const ELICITATION: &str = "elicitation/create";

/// Its name within this client, for rmcp to leave it alone.
const UNREAD_ELICITATION: &str = "toolnexus/elicitation";

/// The key of the raw JSON in its parameters.
const UNREAD: &str = "unread";
/// The revision without a handshake that this client speaks.
pub(crate) const MODERN_VERSION: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// Where a server tells of itself in the modern era, in the `_meta` of what it has discovered.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// A request that begins a session: rmcp reads its answer itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opener {
    /// `initialize`.
    Initialize,
    /// `server/discover`.
    Discover,
}

impl Opener {
    pub(crate) fn of(request: &ClientRequest) -> Option<Self> {
        match request {
            ClientRequest::InitializeRequest(_) => Some(Opener::Initialize),
            ClientRequest::DiscoverRequest(_) => Some(Opener::Discover),
            _ => None,
        }
    }
}

/// Why a response that came cannot be used, in the place of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoiled {
    /// It is not what the protocol allows.
    Malformed = 1,
    /// It names a protocol revision without this handshake.
    UnsupportedVersion = 2,
    /// It is longer than this client reads.
    TooLong = 3,
}

impl Spoiled {
    pub(crate) fn into_result(self) -> ServerResult {
        ServerResult::CustomResult(CustomResult(Value::from(self as u8)))
    }

    pub(crate) fn into_message(self, id: RequestId) -> ServerJsonRpcMessage {
        ServerJsonRpcMessage::response(self.into_result(), id)
    }

    fn fault(code: &Value) -> Fault {
        match code.as_u64() {
            Some(2) => Fault::with_detail(McpFailureKind::MalformedBody, "unsupported protocol version"),
            Some(3) => Fault::with_detail(McpFailureKind::MalformedBody, "response too long"),
            _ => Fault::malformed(),
        }
    }
}

/// The raw JSON of a result that [`read`] handed over unread.
pub(crate) fn raw_result(result: ServerResult) -> Result<String, Fault> {
    match result {
        ServerResult::CustomResult(CustomResult(Value::String(raw))) => Ok(raw),
        ServerResult::CustomResult(CustomResult(code)) => Err(Spoiled::fault(&code)),
        _ => Err(Fault::malformed()),
    }
}

/// One JSON-RPC message, its payloads unread.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow, default, deserialize_with = "even_null")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Tells an explicit `null` from an absent key.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What a server wrote, as text that a JSON parser takes: bytes that are no UTF-8, and halves of
/// surrogate pairs that stand alone, are replacement characters. One lost character is better than
/// a lost answer.
pub(crate) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => match repair_surrogates(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(repaired) => Cow::Owned(utf8(repaired)),
        },
        Cow::Owned(text) => Cow::Owned(match repair_surrogates(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            Cow::Owned(repaired) => utf8(repaired),
        }),
    }
}

/// Only ASCII was replaced by ASCII, so this never has to replace anything itself.
fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The id of the answer that begins like this, if its id comes before its result.
pub(crate) fn answered_by(beginning: &[u8]) -> Option<RequestId> {
    struct Keys<'a>(&'a mut Option<RequestId>);

    impl<'de> Visitor<'de> for Keys<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an answer")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                match key.as_str() {
                    "id" => *self.0 = request_id(map.next_value()?),
                    // The id of a request of the server's is not one of ours.
                    "method" | "params" => {
                        *self.0 = None;
                        return Err(A::Error::custom("no answer"));
                    }
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(())
        }
    }

    let mut id = None;
    // It ends in an error, since the text breaks off; what was seen until then is what counts.
    let _ = serde_json::Deserializer::from_slice(beginning).deserialize_map(Keys(&mut id));
    id
}

/// A message from the server, or `None` for text that is no JSON-RPC message and for notifications
/// that nobody here waits for. Progress and log lines are told to `calls` on the way; `stream_of` is
/// the request whose own stream brought the message, if it was not a shared one.
pub(crate) fn read(
    text: &str,
    calls: &CallsInFlight,
    stream_of: Option<&RequestId>,
    opener: impl Fn(&RequestId) -> Option<Opener>,
) -> Option<ServerJsonRpcMessage> {
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    if envelope.jsonrpc != "2.0" {
        return None;
    }
    let id = envelope.id.and_then(request_id);
    match (envelope.method, id) {
        (Some(method), Some(id)) => Some(request(method, envelope.params, id)),
        (Some(method), None) => notification(&method, envelope.params, calls, stream_of),
        (None, id) => response(envelope.result, envelope.error, id, opener),
    }
}

/// Whether a message answers a request of the server's.
pub(crate) fn is_answer(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_))
}

/// The id of the server's request that a message answers.
pub(crate) fn answered(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Response(response) => Some(&response.id),
        ClientJsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// The id of a request.
pub(crate) fn id_of(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    Some(&request.id)
}

/// Whether an answer's id means that request; the same number as text is the same id.
pub(crate) fn same_id(answered: &RequestId, asked: &RequestId) -> bool {
    match (answered, asked) {
        (RequestId::String(text), RequestId::Number(number)) => text.parse() == Ok(*number),
        _ => answered == asked,
    }
}

fn request_id(raw: &RawValue) -> Option<RequestId> {
    let text = raw.get();
    if text.starts_with('"') {
        let text: String = serde_json::from_str(text).ok()?;
        return Some(RequestId::String(text.into()));
    }
    let number: serde_json::Number = serde_json::from_str(text).ok()?;
    if let Some(whole) = number.as_i64() {
        return Some(RequestId::Number(whole));
    }
    // Some peers have only one number type and write 1 as 1.0.
    let float = number.as_f64().filter(|id| id.fract() == 0.0 && id.abs() < 9e15)?;
    Some(RequestId::Number(float as i64))
}

/// A request goes on untyped, but for the ping that rmcp answers itself even in a handshake. Only
/// an elicitation's parameters are kept, unread as results are: rmcp's types would lose most of a
/// schema, and it takes no odd ones at all.
fn request(method: String, params: Option<&RawValue>, id: RequestId) -> ServerJsonRpcMessage {
    let request = match method.as_str() {
        "ping" => ServerRequest::PingRequest(PingRequest::default()),
        ELICITATION => {
            let params = params.map_or("null", RawValue::get);
            let params = serde_json::json!({ UNREAD: params });
            ServerRequest::CustomRequest(CustomRequest::new(UNREAD_ELICITATION, Some(params)))
        }
        _ => ServerRequest::CustomRequest(CustomRequest::new(method, None)),
    };
    ServerJsonRpcMessage::request(request, id)
}

/// The parameters of an elicitation that [`read`] handed over unread; `None` for any other request.
pub(crate) fn elicitation(request: &CustomRequest) -> Option<Value> {
    if request.method != UNREAD_ELICITATION {
        return None;
    }
    let raw = request.params.as_ref()?.get(UNREAD)?.as_str()?;
    // Numbers out of range and bottomless nesting are all that can be wrong with it: asked is asked.
    Some(serde_json::from_str(raw).unwrap_or_default())
}

fn notification(
    method: &str,
    params: Option<&RawValue>,
    calls: &CallsInFlight,
    stream_of: Option<&RequestId>,
) -> Option<ServerJsonRpcMessage> {
    match method {
        "notifications/progress" => {
            calls.progress(params?.get());
            None
        }
        "notifications/message" => {
            calls.log(params?.get(), stream_of);
            None
        }
        "notifications/tools/list_changed" => {
            calls.note_tools_changed();
            None
        }
        "notifications/cancelled" => {
            let params = serde_json::from_str(params?.get()).ok()?;
            let cancelled = ServerNotification::CancelledNotification(CancelledNotification::new(params));
            Some(ServerJsonRpcMessage::notification(cancelled))
        }
        _ => None,
    }
}

fn response(
    result: Option<&RawValue>,
    error: Option<&RawValue>,
    id: Option<RequestId>,
    opener: impl Fn(&RequestId) -> Option<Opener>,
) -> Option<ServerJsonRpcMessage> {
    if let Some(error) = error {
        return Some(match error_data(error) {
            Some(error) => ServerJsonRpcMessage::error(error, id),
            None => Spoiled::Malformed.into_message(id?),
        });
    }
    let (result, id) = (result?, id?);
    let read = match opener(&id) {
        Some(Opener::Initialize) => initialize_result(result.get()).map(ServerResult::InitializeResult),
        Some(Opener::Discover) => discover_result(result.get()).map(ServerResult::DiscoverResult),
        None => Ok(ServerResult::CustomResult(CustomResult(Value::String(result.get().to_owned())))),
    };
    let result = read.unwrap_or_else(Spoiled::into_result);
    Some(ServerJsonRpcMessage::response(result, id))
}

/// An error object; a missing message is an empty one, a missing code makes it none.
pub(crate) fn error_data(raw: &RawValue) -> Option<ErrorData> {
    #[derive(Deserialize)]
    struct Error {
        code: f64,
        #[serde(default)]
        message: Value,
        data: Option<Value>,
    }
    let error: Error = serde_json::from_str(raw.get()).ok()?;
    let message = error.message.as_str().unwrap_or_default().to_owned();
    // The cast saturates: an error with an absurd code is still an error.
    Some(ErrorData::new(ErrorCode(error.code as i32), message, error.data))
}

/// Completes what servers leave out of the answer to `initialize`, so that rmcp reads it.
fn initialize_result(raw: &str) -> Result<InitializeResult, Spoiled> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        protocol_version: Option<Value>,
        #[serde(default)]
        capabilities: Value,
        #[serde(default)]
        server_info: Value,
        #[serde(default)]
        instructions: Value,
    }
    let answer: Answer = serde_json::from_str(raw).map_err(|_| Spoiled::Malformed)?;
    let Some(Value::String(version)) = answer.protocol_version else { return Err(Spoiled::Malformed) };
    if !ACCEPTED_VERSIONS.contains(&version.as_str()) {
        return Err(Spoiled::UnsupportedVersion);
    }
    let version: ProtocolVersion =
        serde_json::from_value(Value::String(version)).map_err(|_| Spoiled::Malformed)?;

    let mut result = InitializeResult::new(capabilities(answer.capabilities))
        .with_server_info(implementation(&answer.server_info))
        .with_protocol_version(version);
    result.instructions = answer.instructions.as_str().map(str::to_owned);
    Ok(result)
}

/// Completes what servers leave out of the answer to `server/discover`, so that rmcp reads it.
fn discover_result(raw: &str) -> Result<DiscoverResult, Spoiled> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        #[serde(default)]
        result_type: Value,
        supported_versions: Vec<Value>,
        #[serde(default)]
        capabilities: Value,
        #[serde(default)]
        server_info: Value,
        #[serde(default)]
        instructions: Value,
        #[serde(default, rename = "_meta")]
        meta: Value,
    }
    let answer: Answer = serde_json::from_str(raw).map_err(|_| Spoiled::Malformed)?;
    if !answer.result_type.is_null() && answer.result_type != "complete" {
        return Err(Spoiled::Malformed);
    }
    let versions = answer.supported_versions.into_iter();
    let versions = versions.filter_map(|version| serde_json::from_value(version).ok()).collect();
    let info = answer.meta.get(SERVER_INFO).unwrap_or(&answer.server_info);
    let mut result = DiscoverResult::new(versions, capabilities(answer.capabilities))
        .with_server_info(implementation(info));
    result.instructions = answer.instructions.as_str().map(str::to_owned);
    Ok(result)
}

/// What a server says of its implementation; what is missing is empty.
fn implementation(info: &Value) -> Implementation {
    let text = |key: &str| info.get(key).and_then(Value::as_str);
    let mut implementation =
        Implementation::new(text("name").unwrap_or_default(), text("version").unwrap_or_default());
    implementation.title = text("title").map(str::to_owned);
    implementation
}

/// The JSON of a raw result.
pub(crate) fn parsed(raw: &str) -> Result<Value, Fault> {
    serde_json::from_str(raw).map_err(|_| Fault::malformed())
}

/// Capabilities as declared; where one of them has an odd shape, those that this client asks for.
fn capabilities(declared: Value) -> ServerCapabilities {
    if let Ok(capabilities) = serde_json::from_value(declared.clone()) {
        return capabilities;
    }
    let mut capabilities = ServerCapabilities::default();
    let has = |key: &str| declared.get(key).is_some_and(|value| !value.is_null() && value != false);
    capabilities.tools = has("tools").then(Default::default);
    capabilities.resources = has("resources").then(Default::default);
    capabilities
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use toolnexus_core::Reporter;

    use crate::clock::Clock;
    use crate::request::Limits;

    // MCP-55, MCP-34: what Rust strings cannot hold is replaced, the rest stays byte for byte
    #[test]
    fn what_no_string_holds_is_replaced() {
        assert_eq!(readable(b"{\"a\xff\xe9\": 1e2}"), "{\"a\u{fffd}\u{fffd}\": 1e2}");
        assert_eq!(
            readable(br#"["a\ud800b", "\ud83d\ude00", "\\ud800"]"#),
            r#"["a\ufffdb", "\ud83d\ude00", "\\ud800"]"#
        );
        assert_eq!(readable(b"\"\xff\\ud800\""), "\"\u{fffd}\\ufffd\"");
        assert!(matches!(readable("\u{e9} \\u00e9".as_bytes()), Cow::Borrowed(_)));
    }

    // MCP-55: whose answer a text is can be seen from its beginning
    #[test]
    fn an_answer_is_known_by_its_beginning() {
        let of = |text: &str| answered_by(text.as_bytes());
        let seven = Some(RequestId::Number(7));
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"te"#), seven);
        assert_eq!(of(r#" { "x": [{"id": 9}], "id" : 7.0 , "error": {"message": "aaa"#), seven);
        assert_eq!(of(r#"{"id":"7","result":"aaa"#), Some(RequestId::String("7".into())));
        for other in [
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x"#,
            r#"{"id":7,"params":{"x"#,
            r#"{"jsonrpc":"2.0","result":{"id":7,"x"#,
            r#"{"id":{"a"#,
            "[7",
            "words",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    fn read_one(text: &str) -> Option<ServerJsonRpcMessage> {
        read(text, &CallsInFlight::default(), None, |id| match id {
            RequestId::Number(0) => Some(Opener::Initialize),
            RequestId::Number(900) => Some(Opener::Discover),
            _ => None,
        })
    }

    fn result_of(text: &str) -> (RequestId, Result<String, Fault>) {
        match read_one(text) {
            Some(ServerJsonRpcMessage::Response(response)) => (response.id, raw_result(response.result)),
            other => panic!("no response: {other:?}"),
        }
    }

    // MCP-55: what is not JSON-RPC is passed over
    #[test]
    fn other_text_is_no_message() {
        for text in [
            "",
            "Listening on 8080",
            "{",
            "5",
            "[]",
            r#"{"level":"info","msg":"up"}"#,
            r#"{"id":1,"result":{}}"#,
        ] {
            assert!(read_one(text).is_none(), "{text}");
        }
    }

    // MCP-34, MCP-79, MCP-80, case 97: a result is handed over byte for byte, whatever keys it has
    #[test]
    fn results_are_handed_over_unread() {
        let raw = r#"{ "content": [], "action":"accept", "tools": [1e2], "messages":null }"#;
        let (id, result) = result_of(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{raw}}}"#));
        assert_eq!(id, RequestId::Number(7));
        assert_eq!(result.unwrap(), raw);
        let (_, result) = result_of(r#"{"jsonrpc":"2.0","id":7,"result":null}"#);
        assert_eq!(result.unwrap(), "null");
        let (_, result) = result_of(r#"{"jsonrpc":"2.0","id":7,"error":"oops"}"#);
        assert_eq!(result.unwrap_err(), Fault::malformed());
    }

    // MCP-126: an id that is the number as text is kept for rmcp to match
    #[test]
    fn ids_are_numbers_or_text() {
        assert_eq!(result_of(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#).0, RequestId::String("7".into()));
        assert_eq!(result_of(r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#).0, RequestId::Number(7));
    }

    fn handshake(answer: &str) -> Result<InitializeResult, Fault> {
        match read_one(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{answer}}}"#)) {
            Some(ServerJsonRpcMessage::Response(response)) => match response.result {
                ServerResult::InitializeResult(result) => Ok(result),
                other => Err(raw_result(other).unwrap_err()),
            },
            other => panic!("no response: {other:?}"),
        }
    }

    // MCP-56, case 93
    #[test]
    fn a_sparse_handshake_is_completed() {
        let result = handshake(r#"{"protocolVersion":"2024-11-05","capabilities":null}"#).unwrap();
        assert_eq!(result.server_info.name, "");
        assert!(result.capabilities.tools.is_none());
        let result = handshake(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":true},"serverInfo":{"name":"s"},"x":1}"#,
        )
        .unwrap();
        assert_eq!((result.server_info.name.as_str(), result.server_info.version.as_str()), ("s", ""));
        assert!(result.capabilities.tools.is_some());
        for answer in ["{}", r#"{"protocolVersion":7}"#, "[]", "null", "\"x\""] {
            assert_eq!(handshake(answer).unwrap_err(), Fault::malformed(), "{answer}");
        }
    }

    // MCP-118, case 93
    #[test]
    fn only_revisions_with_this_handshake_are_accepted() {
        for version in ACCEPTED_VERSIONS {
            assert!(handshake(&format!(r#"{{"protocolVersion":"{version}"}}"#)).is_ok());
        }
        for version in ["1999-01-01", "2026-07-28", ""] {
            let fault = handshake(&format!(r#"{{"protocolVersion":"{version}"}}"#)).unwrap_err();
            assert_eq!(fault.kind, McpFailureKind::MalformedBody);
            assert_eq!(fault.detail.as_deref(), Some("unsupported protocol version"));
        }
    }

    // MCP-88: progress touches the clock of its token and goes no further
    #[tokio::test(start_paused = true)]
    async fn progress_is_noted_and_not_passed_on() {
        let calls = Arc::new(CallsInFlight::default());
        let limits = Limits { idle: std::time::Duration::from_secs(9), total: None };
        let clock = Arc::new(Clock::new(limits));
        let _call = calls.start(Arc::clone(&clock)).follow(4, RequestId::Number(1), Reporter::default());
        let before = clock.last();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        for token in ["4", "\"4\""] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
            );
            assert!(read(&text, &calls, None, |_| None).is_none());
        }
        assert_eq!(clock.last() - before, std::time::Duration::from_secs(1));
        let other = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9}}"#;
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        read(other, &calls, None, |_| None);
        assert_eq!(clock.last() - before, std::time::Duration::from_secs(1));
    }
}
