//! A served profile, asked as an HTTP client asks it.
#![allow(dead_code, reason = "each test file uses its own part")]

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Tool, ToolContext, ToolResult, Toolkit};
use toolnexus_mcp::server::{McpBody, McpProfile, McpServeConfig};

/// A tool that gives back the text it is given.
pub(crate) fn echo() -> Tool {
    Tool::new("echo", |args: Value, _context| async move {
        ToolResult::success(args["text"].as_str().unwrap_or_default())
    })
    .description("Echoes")
    .input_schema(json!({"type": "object", "properties": {"text": {"type": "string"}}}))
}

/// A tool of that name and that work.
pub(crate) fn tool<F: Future<Output = ToolResult> + Send + 'static>(
    name: &str,
    work: impl Fn(ToolContext) -> F + Send + Sync + 'static,
) -> Tool {
    Tool::new(name, move |_args, context| work(context))
}

/// These tools under the default profile.
pub(crate) fn served(tools: impl IntoIterator<Item = Tool>) -> McpProfile {
    McpProfile::new(&Toolkit::from_tools(tools), McpServeConfig::default())
}

/// The answer to a body, with these headers.
pub(crate) async fn post(
    profile: &McpProfile,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Response<McpBody> {
    post_until(profile, headers, body, CancellationToken::new()).await
}

/// The same, until the token fires.
pub(crate) async fn post_until(
    profile: &McpProfile,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
    cancel: CancellationToken,
) -> Response<McpBody> {
    let mut head = Request::post("/mcp");
    for (name, value) in headers {
        head = head.header(*name, *value);
    }
    let head = head.body(()).unwrap().into_parts().0;
    profile.respond(head.into(), None, body.into(), cancel).await
}

/// All of a body, as text.
pub(crate) async fn text(response: Response<McpBody>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// The answer to a request, which is JSON.
pub(crate) async fn ask(profile: &McpProfile, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let response = post(profile, &[], message.to_string()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let answer: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(1)));
    assert_ne!(answer.get("result").is_some(), answer.get("error").is_some(), "{answer}");
    answer
}

/// The result of a request.
pub(crate) async fn result(profile: &McpProfile, method: &str, params: Value) -> Value {
    let mut answer = ask(profile, method, params).await;
    assert!(answer.get("result").is_some(), "{answer}");
    answer["result"].take()
}

/// Code and message of a refusal.
pub(crate) async fn error(profile: &McpProfile, method: &str, params: Value) -> (i64, String) {
    let answer = ask(profile, method, params).await;
    let error = &answer["error"];
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
}
