//! Texts in the lines of an event stream, with all that may stand between them. Each text arrives once and in order,
//! however lines end and wherever the network cuts.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolnexus_core::Style;
use toolnexus_fuzz::{cut_at_random, cut_everywhere, streamed};

fuzz_target!(|lines: Vec<(u8, String)>| {
    // The credential of the fuzzed client would be replaced.
    if lines.iter().any(|(_, text)| text.contains("sk-fuzz")) {
        return;
    }
    let mut body = String::new();
    let mut expected = String::new();
    for (kind, text) in &lines {
        let chunk = json!({"choices": [{"delta": {"content": text}}]});
        let one_line = text.replace(['\n', '\r'], " ");
        match kind % 8 {
            0 => body.push_str(&format!("data: {chunk}")),
            1 => body.push_str(&format!("data:{chunk}\t ")),
            2 => body.push_str(&format!("\u{feff}data:  {chunk}")),
            3 => body.push_str(&format!(": {one_line}")),
            4 => body.push_str(&format!("event: {one_line}")),
            5 => body.push_str(&format!("data: x{one_line}")),
            6 => body.push_str(&format!(" data: {chunk}")),
            _ => body.push_str(&format!("x{one_line}")),
        }
        if kind % 8 < 3 {
            expected.push_str(text);
        }
        body.push_str(if kind & 8 == 0 { "\n" } else { "\r\n" });
        if kind & 16 == 0 {
            body.push('\n');
        }
    }
    body.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    let body = body.as_bytes();
    let (told, result) = streamed(Style::OpenAI, vec![Bytes::copy_from_slice(body)]);
    assert_eq!(result.map(|result| result.text).as_deref(), Some(&*expected), "{told:?}");
    for pieces in [cut_at_random(body), cut_everywhere(body)] {
        assert_eq!(streamed(Style::OpenAI, pieces).0, told, "the cuts made a difference");
    }
});
