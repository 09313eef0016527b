//! Any JSON as OpenAI messages, tools and tool choice: nothing panics, no tool result is lost.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolnexus_core::content::UnsupportedPart;
use toolnexus_llm::translate::{
    InboundOptions, openai_messages_to_anthropic, openai_messages_to_anthropic_with,
    openai_tool_choice_to_anthropic, openai_tools_to_anthropic, tool_calls_of,
};

fuzz_target!(|json: &[u8]| {
    let Ok(value) = serde_json::from_slice::<Value>(json) else { return };
    openai_tool_choice_to_anthropic(&value);
    tool_calls_of(&value);
    let Value::Array(entries) = value else { return };
    assert!(openai_tools_to_anthropic(&entries).len() <= entries.len());
    // What the strict conversion refuses for its kind, text may stand in for.
    let strict = openai_messages_to_anthropic(&entries);
    let options = InboundOptions { on_unsupported_part: Some(UnsupportedPart::Text), ..Default::default() };
    let lenient = openai_messages_to_anthropic_with(&entries, options);
    if let Ok(strict) = strict {
        assert_eq!(Ok(strict), lenient);
    }
});
