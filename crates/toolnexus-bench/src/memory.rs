//! What a run in flight takes of memory.
//!
//! Many runs wait for the second answer of their model, over a transport in memory, so that the memory of
//! sockets and of the server is not among what is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;
use tokio::sync::Semaphore;
use toolnexus::client::http::{
    HeaderMap, HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError,
};
use toolnexus::{BoxError, BoxFuture, ClientOptions, create_client};

use crate::cases::toolkit;
use crate::measure::{as_f64, resident_mb};

/// Answers the first request of each run at once, and the second when it is let go.
struct Waiting {
    second: AtomicUsize,
    go: Arc<Semaphore>,
}

impl HttpTransport for Waiting {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let has_results = memchr::memmem::find(&request.body.to_bytes(), br#""role":"tool""#).is_some();
        if has_results {
            self.second.fetch_add(1, Ordering::Relaxed);
        }
        let go = Arc::clone(&self.go);
        Box::pin(async move {
            let message = if has_results {
                let _ = go.acquire().await;
                json!({"role": "assistant", "content": "33 and 29 degrees."})
            } else {
                let call = |n: usize| {
                    let function = json!({"name": format!("tool_{n}"), "arguments": r#"{"city":"Chennai"}"#});
                    json!({"id": format!("call_{n}"), "type": "function", "function": function})
                };
                json!({"role": "assistant", "content": null, "tool_calls": [call(0), call(1)]})
            };
            let body = json!({"choices": [{"message": message}]}).to_string();
            Ok(HttpResponse::full(StatusCode::OK, HeaderMap::new(), body))
        })
    }
}

/// The growth of resident memory by this many runs in flight, per run.
pub(crate) async fn kib_per_run(runs: usize) -> Result<f64, BoxError> {
    let transport = Arc::new(Waiting { second: AtomicUsize::new(0), go: Arc::new(Semaphore::new(0)) });
    let http_client: Arc<dyn HttpTransport> = Arc::<Waiting>::clone(&transport);
    let client = create_client(ClientOptions {
        base_url: "http://memory.invalid/v1".into(),
        model: "bench".into(),
        api_key: "none-needed".into(),
        http_client: Some(http_client),
        ..Default::default()
    });
    let toolkit = toolkit(2);
    let mut flying = FuturesUnordered::new();
    let before = resident_mb();
    for _ in 0..runs {
        flying.push(client.run("What is the weather in Chennai and Kochi?", &toolkit));
    }
    while transport.second.load(Ordering::Relaxed) < runs {
        // Nobody is done yet: this polls whoever can go on.
        tokio::select! {
            biased;
            Some(ended) = flying.next() => return Err(format!("a run ended early: {ended:?}").into()),
            () = tokio::task::yield_now() => {}
        }
    }
    let grown = resident_mb() - before;
    transport.go.add_permits(runs);
    while let Some(result) = flying.next().await {
        result?;
    }
    Ok(grown * 1024.0 / as_f64(runs))
}
