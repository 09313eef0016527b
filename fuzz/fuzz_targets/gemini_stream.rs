//! Bytes as the event stream of a Gemini-style provider. Where the network cuts them must not matter.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use toolnexus_core::Style;
use toolnexus_fuzz::{cut_at_random, cut_everywhere, ends_well, streamed};

fuzz_target!(|body: &[u8]| {
    let (told, result) = streamed(Style::Gemini, vec![Bytes::copy_from_slice(body)]);
    assert_eq!(told.error.is_some(), result.is_none(), "a run ends with a result or an error");
    for pieces in [cut_at_random(body), cut_everywhere(body)] {
        assert_eq!(streamed(Style::Gemini, pieces).0, told, "the cuts made a difference");
    }
    if let Some(result) = result {
        ends_well(Style::Gemini, &result);
    }
});
