//! Reading a response body within bounds.

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;

use super::{MAX_MESSAGE_BYTES, fault_of};
use crate::failure::{Fault, McpFailureKind};

/// The whole body, if it is not longer than [`MAX_MESSAGE_BYTES`].
pub(super) async fn whole(response: reqwest::Response) -> Result<Bytes, Fault> {
    let too_long = || Fault::with_detail(McpFailureKind::MalformedBody, "response too long");
    if response.content_length().is_some_and(|length| length > MAX_MESSAGE_BYTES as u64) {
        return Err(too_long());
    }
    let mut stream = response.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| fault_of(&error))?;
        if body.len() + chunk.len() > MAX_MESSAGE_BYTES {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The media type of a response, in lower case and without parameters.
pub(super) fn media_type(response: &reqwest::Response) -> String {
    let value = response.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
