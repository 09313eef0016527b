//! A transport without a network.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::Value;
use toolnexus_core::BoxFuture;
use toolnexus_llm::http::{HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError};

/// Answers every request with the same 200, in the same pieces, and checks what was asked.
pub struct Double {
    pieces: Vec<Bytes>,
    /// The bodies of the requests.
    asked: Mutex<Vec<Value>>,
}

impl Double {
    pub fn new(pieces: Vec<Bytes>) -> Arc<Self> {
        Arc::new(Double { pieces, asked: Mutex::default() })
    }

    /// The body of the newest request.
    pub fn asked(&self) -> Value {
        self.asked.lock().unwrap().last().cloned().expect("nothing was asked")
    }
}

impl HttpTransport for Double {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let body = request.body.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_else(|error| {
            panic!("the request is not JSON ({error}): {}", String::from_utf8_lossy(&body))
        });
        self.asked.lock().unwrap().push(body);
        let pieces = self.pieces.clone();
        Box::pin(async move {
            Ok(HttpResponse {
                status: StatusCode::OK,
                headers: Default::default(),
                body: futures::stream::iter(pieces.into_iter().map(Ok)).boxed(),
            })
        })
    }
}
