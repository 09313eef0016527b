//! The HTTP answers of a handler.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::log::Reader;
use crate::server::body::McpBody;
use crate::server::message::{INVALID_REQUEST, RequestId, RpcError, error_body};

/// The header that names a session.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The header that names the protocol revision of a request.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The header that names the last event a client saw.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A nginx in between would hold events back until it has a bufferful.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// There is no such session: what the protocol's reference servers say.
const SESSION_NOT_FOUND: i64 = -32001;

pub(super) type Answer = Response<McpBody>;

pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(McpBody::empty());
    *answer.status_mut() = status;
    answer
}

pub(super) fn json(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(McpBody::whole(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

pub(super) fn events(reader: Reader) -> Answer {
    let mut answer = Response::new(McpBody::stream(reader));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    answer
}

/// A refusal of the request as such: no method has been looked at.
fn refused(status: StatusCode, id: Option<&RequestId>, code: i64, message: &'static str) -> Answer {
    json(status, error_body(id, &RpcError::new(code, message)))
}

pub(super) fn unauthorized(challenge: Option<&str>) -> Answer {
    let mut answer = empty(StatusCode::UNAUTHORIZED);
    if let Some(challenge) = challenge.and_then(|challenge| HeaderValue::from_str(challenge).ok()) {
        answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    answer
}

pub(super) fn foreign(what: &'static str) -> Answer {
    refused(StatusCode::FORBIDDEN, None, INVALID_REQUEST, what)
}

pub(super) fn not_allowed(allowed: &'static str) -> Answer {
    let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

pub(super) fn unsupported_type() -> Answer {
    refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, INVALID_REQUEST, "Unsupported content type")
}

pub(super) fn too_large() -> Answer {
    refused(StatusCode::PAYLOAD_TOO_LARGE, None, INVALID_REQUEST, "Request body too large")
}

pub(super) fn no_session(id: Option<&RequestId>) -> Answer {
    refused(StatusCode::BAD_REQUEST, id, INVALID_REQUEST, "Mcp-Session-Id header is missing")
}

pub(super) fn unknown_session(id: Option<&RequestId>) -> Answer {
    refused(StatusCode::NOT_FOUND, id, SESSION_NOT_FOUND, "Session not found")
}

pub(super) fn unsupported_version(id: Option<&RequestId>) -> Answer {
    refused(StatusCode::BAD_REQUEST, id, INVALID_REQUEST, "Unsupported MCP-Protocol-Version")
}
