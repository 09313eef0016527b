//! What a call sends.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value};
use toolnexus_core::{ToolContext, env};

use super::encode::{pairs, text_of};
use super::template::{self, BadUrl};
use super::{HttpBody, HttpToolOptions};
use crate::outbound::{Outgoing, taken_credentials};

/// Why a call of an HTTP tool cannot be made. No message holds a header's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCall {
    /// The declared URL is none, or neither http nor https.
    #[error("invalid URL for tool \"{tool}\"")]
    Url {
        /// The tool.
        tool: String,
    },
    /// The declared method is none.
    #[error("invalid method \"{method}\" for tool \"{tool}\"")]
    Method {
        /// The tool.
        tool: String,
        /// What was declared.
        method: String,
    },
    /// A header's name, or its value with the environment filled in, is none.
    #[error("invalid header \"{header}\" for tool \"{tool}\"")]
    Header {
        /// The tool.
        tool: String,
        /// The header's name.
        header: String,
    },
    /// An argument does not fit the place where the URL wants it.
    #[error("invalid value for placeholder \"{name}\"")]
    Placeholder {
        /// The argument.
        name: String,
    },
}

/// Whether a header says how a message is delimited: declared by hand, it could hold up or split one.
pub(super) fn is_framing(name: &str) -> bool {
    [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|framing| name.eq_ignore_ascii_case(framing.as_str()))
}

/// Makes the request of one call.
pub(super) fn prepare(
    options: &HttpToolOptions,
    mut args: Map<String, Value>,
    context: &ToolContext,
) -> Result<Outgoing, InvalidCall> {
    let tool = &options.name;
    let method = method(&options.method)
        .ok_or_else(|| InvalidCall::Method { tool: tool.clone(), method: options.method.clone() })?;
    let without_body = matches!(method, Method::GET | Method::HEAD);
    let mut url =
        template::url(&options.url, &options.query, without_body, &mut args).map_err(|bad| match bad {
            BadUrl::Unreadable => InvalidCall::Url { tool: tool.clone() },
            BadUrl::Value(name) => InvalidCall::Placeholder { name },
        })?;
    let mut headers = HeaderMap::new();
    for (name, value) in options.headers.iter().filter(|(name, _)| !is_framing(name)) {
        add(&mut headers, tool, name, &env::expand(value))?;
    }
    if let (Some(name), Some(key)) = (&options.idempotency_header, &context.idempotency_key) {
        add(&mut headers, tool, name, key)?;
    }
    if let Some(credentials) = taken_credentials(&mut url) {
        headers.entry(AUTHORIZATION).or_insert(credentials);
    }
    let body = if without_body || args.is_empty() { None } else { Some(body(options.body, args)) };
    if body.is_some() {
        let content_type = HeaderValue::from_static(options.body.content_type());
        headers.entry(CONTENT_TYPE).or_insert(content_type);
    }
    Ok(Outgoing { method, url, headers, open_headers: HeaderMap::new(), body })
}

fn method(text: &str) -> Option<Method> {
    if text.is_empty() {
        return Some(Method::GET);
    }
    let method = Method::from_bytes(text.to_uppercase().as_bytes()).ok()?;
    // CONNECT asks for a tunnel, which is nothing a tool could answer with.
    (method != Method::CONNECT).then_some(method)
}

/// Adds a header; the last of a name counts. The value is shown to nobody.
fn add(headers: &mut HeaderMap, tool: &str, name: &str, value: &str) -> Result<(), InvalidCall> {
    let invalid = || InvalidCall::Header { tool: tool.to_owned(), header: name.to_owned() };
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
    let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

fn body(kind: HttpBody, mut args: Map<String, Value>) -> Bytes {
    args.sort_keys();
    match kind {
        HttpBody::Json => {
            let mut object = Value::Object(args);
            object.sort_all_objects();
            object.to_string().into()
        }
        HttpBody::Form => pairs(args.iter().map(|(name, value)| (name.as_str(), value))).into(),
        HttpBody::Raw => {
            let argument = args.get("body").or_else(|| args.values().next());
            argument.map(text_of).unwrap_or_default().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prepared(options: HttpToolOptions, args: Value) -> Result<Outgoing, InvalidCall> {
        let options = HttpToolOptions { name: "t".into(), url: "http://h/".into(), ..options };
        prepare(&options, args.as_object().cloned().unwrap(), &ToolContext::default())
    }

    fn sent(body: HttpBody, args: Value) -> (Option<String>, Option<String>) {
        let options = HttpToolOptions { method: "post".into(), body, ..Default::default() };
        let prepared = prepared(options, args).unwrap();
        let kind = prepared.headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
        (prepared.body.map(|body| String::from_utf8(body.to_vec()).unwrap()), kind)
    }

    fn some(body: &str, kind: &str) -> (Option<String>, Option<String>) {
        (Some(body.into()), Some(kind.into()))
    }

    // CORE-95
    #[test]
    fn what_is_left_is_the_body() {
        let args = json!({"b": {"z": 1, "a": null}, "a": "x y", "n": null});
        assert_eq!(
            sent(HttpBody::Json, args.clone()),
            some(r#"{"a":"x y","b":{"a":null,"z":1},"n":null}"#, "application/json")
        );
        assert_eq!(
            sent(HttpBody::Form, args.clone()),
            some("a=x%20y&b=%7B%22z%22%3A1%2C%22a%22%3Anull%7D", "application/x-www-form-urlencoded")
        );
        assert_eq!(sent(HttpBody::Raw, args), some("x y", "text/plain"));
        assert_eq!(sent(HttpBody::Raw, json!({"a": 1, "body": "mine"})), some("mine", "text/plain"));
        for body in [HttpBody::Json, HttpBody::Form, HttpBody::Raw] {
            assert_eq!(sent(body, json!({})), (None, None));
        }
        let options = HttpToolOptions { body: HttpBody::Raw, ..Default::default() };
        assert!(prepared(options, json!({"body": "x"})).unwrap().body.is_none(), "GET has no body");
    }

    // CORE-95: a declared content type is kept, in any case
    #[test]
    fn a_declared_content_type_is_kept() {
        let headers = [("cONTENT-type".to_owned(), "text/markdown".to_owned())].into();
        let options =
            HttpToolOptions { method: "PUT".into(), body: HttpBody::Raw, headers, ..Default::default() };
        assert_eq!(prepared(options, json!({"body": "x"})).unwrap().headers[CONTENT_TYPE], "text/markdown");
    }

    // CORE-88, CORE-146: the declaration's faults name the tool
    #[test]
    fn a_bad_declaration_says_so() {
        for (method, known) in
            [("", true), ("patch", true), ("MyVerb", true), ("GE T", false), ("connect", false)]
        {
            let options = HttpToolOptions { method: method.into(), ..Default::default() };
            let outcome = prepared(options, json!({})).map(|prepared| prepared.method.to_string());
            match known {
                true => assert_eq!(
                    outcome.unwrap(),
                    if method.is_empty() { "GET".into() } else { method.to_uppercase() }
                ),
                false => {
                    assert_eq!(
                        outcome.unwrap_err().to_string(),
                        format!("invalid method \"{method}\" for tool \"t\"")
                    )
                }
            }
        }
        let headers = |name: &str, value: &str| HttpToolOptions {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..Default::default()
        };
        for (name, value) in [("a b", "secret-1"), ("", "secret-1"), ("X", "secret-1\n"), ("X", "\u{0}")] {
            let error = prepared(headers(name, value), json!({})).err().unwrap();
            assert_eq!(error.to_string(), format!("invalid header \"{name}\" for tool \"t\""));
        }
        let sent = prepared(headers("Content-Length", "999999"), json!({})).unwrap();
        assert!(sent.headers.is_empty());
    }
}
