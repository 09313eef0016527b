//! Server-sent events as bytes.

use bytes::Bytes;

/// One unnamed event, as OpenAI and Gemini send it: `data: <data>\n\n`. A line break inside
/// `data` starts a further `data:` line.
///
/// ```
/// assert_eq!(toolnexus_testkit::model::sse_data("[DONE]"), "data: [DONE]\n\n");
/// ```
pub fn sse_data(data: &str) -> Bytes {
    let mut out = String::with_capacity(data.len() + 8);
    push_data(&mut out, data);
    Bytes::from(out)
}

/// One named event, as Anthropic sends it: `event: <name>\ndata: <data>\n\n`.
///
/// ```
/// assert_eq!(
///     toolnexus_testkit::model::sse_event("ping", "{}"),
///     "event: ping\ndata: {}\n\n",
/// );
/// ```
pub fn sse_event(name: &str, data: &str) -> Bytes {
    let mut out = String::with_capacity(name.len() + data.len() + 16);
    out.push_str("event: ");
    out.push_str(name);
    out.push('\n');
    push_data(&mut out, data);
    Bytes::from(out)
}

fn push_data(out: &mut String, data: &str) {
    for line in data.split('\n') {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
}
