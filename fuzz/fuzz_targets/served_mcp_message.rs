//! Bytes as a message to a served toolkit, by both ways it is served. Whatever comes, the answer is one of
//! the protocol's, and never an internal error.
#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxError, Toolkit, define_tool};
use toolnexus_mcp::server::{McpHandler, McpHandlerOptions, McpProfile, mcp_handler};
use tower_service::Service as _;

static TOOLKIT: LazyLock<Toolkit> = LazyLock::new(|| {
    let echo = define_tool("echo", "Echoes", None, |args: Value, _context| async move {
        Ok::<_, BoxError>(args.to_string())
    });
    Toolkit::from_tools([echo])
});

static PROFILE: LazyLock<McpProfile> = LazyLock::new(|| McpProfile::new(&TOOLKIT, Default::default()));

static HANDLER: LazyLock<McpHandler> = LazyLock::new(|| {
    let options = McpHandlerOptions {
        stateless: true,
        protocol_versions: vec!["2025-11-25".into(), "2025-06-18".into()],
        ..Default::default()
    };
    mcp_handler(&TOOLKIT, options).unwrap()
});

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());

fn request(body: &[u8]) -> http::Request<Full<Bytes>> {
    http::Request::post("/")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::from(body.to_vec()))
        .unwrap()
}

fn check(status: u16, body: &[u8], allowed: &[u16]) {
    assert!(allowed.contains(&status), "status {status}");
    if body.is_empty() || body.starts_with(b"event:") || body.starts_with(b"data:") || body.starts_with(b"id:")
    {
        return;
    }
    let answer: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_ne!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer.get("id").is_some());
}

fuzz_target!(|body: &[u8]| {
    RUNTIME.block_on(async {
        let (head, _) = request(b"").into_parts();
        let head = Arc::new(head);
        let answer =
            PROFILE.respond(head, None, Bytes::copy_from_slice(body), CancellationToken::new()).await;
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        check(status, &text, &[200, 202]);

        let answer = HANDLER.clone().call(request(body)).await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        check(status, &text, &[200, 202, 400]);
    });
});
