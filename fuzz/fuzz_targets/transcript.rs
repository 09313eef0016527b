//! A transcript, however it is grown, shared and stored, is a list of messages.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolnexus_core::Style;
use toolnexus_llm::run::{Run, RunStarted};
use toolnexus_llm::{Message, Transcript};

#[derive(Arbitrary, Debug)]
enum Op {
    Push(u8),
    PushText(String),
    Pop,
    /// Goes on with a clone; the original is kept and must not change.
    Clone,
    /// Goes back to the transcript that was kept last.
    Back,
    /// Makes all of it shareable.
    Collect,
    /// Writes it down and reads it.
    Store,
    /// A run that continues it.
    Run,
    /// Asks for it as a slice.
    Slice,
    Extend(Vec<u8>),
}

fuzz_target!(|ops: Vec<Op>| {
    let mut transcript = Transcript::new();
    let mut list: Vec<Message> = Vec::new();
    let mut kept: Vec<(Transcript, Vec<Message>)> = Vec::new();
    for op in ops {
        match op {
            Op::Push(n) => {
                transcript.push(numbered(n));
                list.push(numbered(n));
            }
            Op::PushText(text) => {
                // Also text that is no message, and JSON in the writer's own spelling.
                let message = match Message::from_json(text.clone()) {
                    Ok(message) => {
                        let value: Value = serde_json::from_str(&text).expect("a message has a value");
                        assert_eq!(message.value(), &value);
                        assert_eq!(message.json(), text.as_bytes());
                        message
                    }
                    Err(_) => json!({"role": "user", "content": text}).into(),
                };
                transcript.push(message.clone());
                list.push(message);
            }
            Op::Pop => assert!(transcript.pop() == list.pop()),
            Op::Clone => kept.push((transcript.clone(), list.clone())),
            Op::Back => (transcript, list) = kept.pop().unwrap_or_default(),
            Op::Collect => transcript = transcript.iter().cloned().collect(),
            Op::Store => {
                let text = serde_json::to_string(&transcript).expect("a transcript can be written");
                transcript = serde_json::from_str(&text).expect("a transcript can be read");
            }
            Op::Run => {
                let run = Run::start(RunStarted {
                    run_id: String::new(),
                    style: Style::OpenAI,
                    model: "m".into(),
                    system: String::new(),
                    history: transcript,
                    prompt: "hi".into(),
                    max_turns: 1,
                    conversation_id: None,
                });
                transcript = run.messages().clone();
                // Calls that nobody answered are answered before the prompt.
                let added = transcript.len() - list.len();
                assert!(added >= 1);
                list = transcript.messages().cloned().collect();
                assert_eq!(list.last().unwrap()["content"], "hi");
            }
            Op::Slice => assert!(transcript[..] == list[..]),
            Op::Extend(numbers) => {
                transcript.extend(numbers.iter().copied().map(numbered));
                list.extend(numbers.into_iter().map(numbered));
            }
        }
        assert_same(&transcript, &list);
    }
    for (transcript, list) in &kept {
        assert_same(transcript, list);
        assert!(transcript[..] == list[..]);
    }
});

fn assert_same(transcript: &Transcript, list: &[Message]) {
    assert_eq!(transcript.len(), list.len());
    assert_eq!(transcript.is_empty(), list.is_empty());
    assert!(transcript.messages().eq(list));
    assert!(transcript.messages().rev().eq(list.iter().rev()));
}

fn numbered(n: u8) -> Message {
    json!({"role": "user", "content": n}).into()
}
