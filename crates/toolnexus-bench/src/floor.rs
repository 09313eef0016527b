//! The least that any client must do: send these bytes, parse that answer.

use bytes::Bytes;
use serde_json::Value;
use toolnexus::BoxError;
use toolnexus_testkit::model::RecordedRequest;

/// The recorded requests of one run, ready to be sent again.
pub(crate) struct Floor {
    client: reqwest::Client,
    requests: Vec<Prepared>,
}

struct Prepared {
    url: reqwest::Url,
    headers: reqwest::header::HeaderMap,
    body: Bytes,
}

impl Floor {
    /// Prepares the requests that one run of the case made.
    pub(crate) fn new(origin: &str, recorded: &[RecordedRequest]) -> Result<Self, BoxError> {
        let requests =
            recorded.iter().map(|request| Prepared::new(origin, request)).collect::<Result<_, _>>()?;
        let client =
            reqwest::Client::builder().tcp_nodelay(true).no_gzip().no_brotli().no_deflate().build()?;
        Ok(Floor { client, requests })
    }

    /// Makes the exchanges of one run.
    pub(crate) async fn run(&self) -> Result<(), BoxError> {
        for prepared in &self.requests {
            let mut request = reqwest::Request::new(reqwest::Method::POST, prepared.url.clone());
            request.headers_mut().clone_from(&prepared.headers);
            *request.body_mut() = Some(prepared.body.clone().into());
            let response = self.client.execute(request).await?.error_for_status()?;
            let streamed = response
                .headers()
                .get("content-type")
                .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            if streamed {
                read_events(response).await?;
            } else {
                let answer: Value = serde_json::from_slice(&response.bytes().await?)?;
                std::hint::black_box(answer);
            }
        }
        Ok(())
    }
}

/// Parses every event as it arrives, as a plain client does.
async fn read_events(mut response: reqwest::Response) -> Result<(), BoxError> {
    let mut partial: Vec<u8> = Vec::new();
    while let Some(piece) = response.chunk().await? {
        partial.extend_from_slice(&piece);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &partial) {
            let line = partial.get(start..end).unwrap_or_default();
            start = end + 1;
            let Some(payload) = line.strip_prefix(b"data: ") else { continue };
            if payload != b"[DONE]" {
                std::hint::black_box(serde_json::from_slice::<Value>(payload)?);
            }
        }
        partial.drain(..start);
    }
    Ok(())
}

impl Prepared {
    fn new(origin: &str, request: &RecordedRequest) -> Result<Self, BoxError> {
        let mut headers = reqwest::header::HeaderMap::new();
        for (name, value) in request.headers() {
            let name = name.to_ascii_lowercase();
            // These two the client writes itself.
            if name != "host" && name != "content-length" {
                headers.insert(reqwest::header::HeaderName::try_from(name)?, value.try_into()?);
            }
        }
        let url = reqwest::Url::parse(&format!("{origin}{}", request.path()))?;
        Ok(Prepared { url, headers, body: request.body().clone() })
    }
}
