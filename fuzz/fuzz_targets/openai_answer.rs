//! Bytes as the whole answer of a OpenAI-style provider.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolnexus_core::Style;
use toolnexus_fuzz::{buffered, ends_well};

fuzz_target!(|body: &[u8]| {
    if let Ok(result) = buffered(Style::OpenAI, body) {
        ends_well(Style::OpenAI, &result);
    }
});
