//! Bytes as the whole answer of a Gemini-style provider.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolnexus_core::Style;
use toolnexus_fuzz::{buffered, ends_well};

fuzz_target!(|body: &[u8]| {
    if let Ok(result) = buffered(Style::Gemini, body) {
        ends_well(Style::Gemini, &result);
    }
});
