//! Bytes as the JSON of a list of run events: what parses survives a round trip, and replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolnexus_llm::run::{Run, RunEvent};

fuzz_target!(|json: &[u8]| {
    let Ok(events) = serde_json::from_slice::<Vec<RunEvent>>(json) else { return };
    let text = serde_json::to_string(&events).expect("an event can be written");
    let read: Vec<RunEvent> = serde_json::from_str(&text).expect("what was written can be read");
    assert!(read == events, "{text} is read as something else");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);

    let run = Run::replay(&events);
    assert!(run == Run::replay(&read), "the same events lead to the same run");
    match run {
        Ok(run) => {
            let _ = format!("{run:?}");
            drop(run.next());
            drop(run.clone().halted());
            drop(run.into_result());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
