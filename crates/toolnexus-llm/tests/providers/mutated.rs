//! Recorded answers with one thing changed: whatever a server gets wrong, a run ends with an error
//! or with a transcript that can be sent.

use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use toolnexus_llm::{ClientError, RunOptions, RunResult, Style, create_client};

use crate::recorded::{files, is_stream, json_of, read, style_of, toolkit};
use crate::support::double::{Answer, Double};
use crate::support::{transcript, within};

fn answers() -> &'static [String] {
    static ANSWERS: OnceLock<Vec<String>> = OnceLock::new();
    ANSWERS.get_or_init(|| {
        files().into_iter().filter(|file| !file.ends_with(".html") && !file.contains("/error-")).collect()
    })
}

/// The places in a value: pointers to every member and entry.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut visit = |key: String, child: &Value| {
        let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        out.push(pointer.clone());
        places(child, &pointer, out);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, child)| visit(key.clone(), child)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, child)| visit(n.to_string(), child)),
        _ => {}
    }
}

#[derive(Clone, Debug)]
enum Change {
    To(Value),
    Away,
    Twice,
}

fn change() -> impl Strategy<Value = Change> {
    let odd = [
        json!(null),
        json!(""),
        json!("x"),
        json!("{}"),
        json!("{\"a\":"),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
        json!([null]),
        json!(["x"]),
        json!([{}]),
        json!({"text": "x"}),
        json!({"type": "text", "text": ""}),
        json!({"type": "tool_use"}),
        json!({"functionCall": {}}),
        json!([{"function": null}]),
        json!("error"),
    ];
    prop_oneof![
        6 => proptest::sample::select(odd.to_vec()).prop_map(Change::To),
        2 => Just(Change::Away),
        2 => Just(Change::Twice),
    ]
}

fn apply(value: &mut Value, place: &Index, change: &Change) {
    let mut all = Vec::new();
    places(value, "", &mut all);
    let Some(pointer) = (!all.is_empty()).then(|| &all[place.index(all.len())]) else { return };
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (value.pointer_mut(parent).unwrap(), change) {
        (Value::Object(map), Change::To(odd)) => drop(map.insert(key, odd.clone())),
        (Value::Object(map), Change::Away) => drop(map.shift_remove(&key)),
        (Value::Array(list), change) => {
            let at: usize = key.parse().unwrap();
            match change {
                Change::To(odd) => list[at] = odd.clone(),
                Change::Away => drop(list.remove(at)),
                Change::Twice => list.insert(at, list[at].clone()),
            }
        }
        _ => {}
    }
}

/// The recorded answer with its changes, each in an event of its own if it is a stream.
fn mutated(file: &str, changes: &[(Index, Index, Change)]) -> String {
    if !is_stream(file) {
        let mut value = json_of(file);
        changes.iter().for_each(|(_, place, change)| apply(&mut value, place, change));
        return value.to_string();
    }
    let body = read(file);
    let mut lines: Vec<String> = std::str::from_utf8(&body).unwrap().lines().map(str::to_owned).collect();
    for (line, place, change) in changes {
        let payloads: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("data: {")).collect();
        if payloads.is_empty() {
            break;
        }
        let at = payloads[line.index(payloads.len())];
        let mut value: Value = serde_json::from_str(lines[at].strip_prefix("data: ").unwrap()).unwrap();
        match change {
            // The event itself.
            Change::Away if place.index(4) == 0 => drop(lines.remove(at)),
            Change::Twice if place.index(4) == 0 => lines.insert(at, lines[at].clone()),
            change => {
                apply(&mut value, place, change);
                lines[at] = format!("data: {value}");
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

async fn run(style: Style, answer: Answer, streamed: bool) -> Result<(RunResult, Value), ClientError> {
    let ok = || if streamed { Answer::streamed_text(style, "ok") } else { Answer::text(style, "ok") };
    let double = Double::new([answer, ok()]);
    let client = create_client(double.options(style));
    let toolkit = toolkit();
    let result = if streamed {
        within(client.stream("hi", &toolkit).finish()).await?
    } else {
        within(client.run("hi", &toolkit)).await?
    };
    let double = Double::new([Answer::text(style, "ok")]);
    let options = RunOptions { history: result.messages.clone(), ..Default::default() };
    within(create_client(double.options(style)).run_with("and?", &toolkit, options)).await.unwrap();
    let sent = double.body(0);
    Ok((result, sent))
}

/// What a provider would refuse in a request.
fn refused(style: Style, sent: &Value) -> Option<&'static str> {
    let text_is_empty = |block: &Value| match &block["text"] {
        Value::String(text) => block["type"] == "text" && text.is_empty(),
        // A list of texts is read as one, and kept as it came.
        Value::Array(list) => block["type"] == "text" && list.is_empty(),
        _ => block["type"] == "text",
    };
    let messages = sent[if style == Style::Gemini { "contents" } else { "messages" }].as_array().unwrap();
    for message in messages {
        let list = message[if style == Style::Gemini { "parts" } else { "content" }].as_array();
        let refused = match style {
            Style::Gemini if !matches!(message["role"].as_str(), Some("user" | "model")) => Some("role"),
            Style::Gemini if list.is_none_or(Vec::is_empty) => Some("no parts"),
            Style::Anthropic if !matches!(message["role"].as_str(), Some("user" | "assistant")) => {
                Some("role")
            }
            Style::Anthropic if message["role"] == "assistant" && list.is_none_or(Vec::is_empty) => {
                Some("no content")
            }
            Style::Anthropic if list.is_some_and(|list| list.iter().any(text_is_empty)) => {
                Some("an empty text")
            }
            Style::OpenAI if message["role"].as_str().is_none_or(str::is_empty) => Some("role"),
            Style::OpenAI => {
                let says = message["content"].is_string() || list.is_some();
                let calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
                (!says && !calls && !message["refusal"].is_string()).then_some("it says nothing")
            }
            _ => None,
        };
        if refused.is_some() {
            return refused;
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..Default::default() })]

    // CLIENT-29, CLIENT-32, CLIENT-40: an error, or a conversation that can go on
    #[test]
    fn a_faulty_answer_is_an_error_or_leaves_a_usable_transcript(
        file in any::<Index>(),
        changes in proptest::collection::vec((any::<Index>(), any::<Index>(), change()), 1..3),
    ) {
        let file = &answers()[file.index(answers().len())];
        let (style, streamed) = (style_of(file), is_stream(file));
        let body = mutated(file, &changes);
        let answer = if streamed { Answer::pieces([Ok(body.clone())]) } else { Answer::status(200, &[], body.clone()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Ok((result, sent)) = runtime.block_on(run(style, answer, streamed)) {
            let checked = std::panic::catch_unwind(|| transcript::check(style, &result.messages, false));
            prop_assert!(matches!(checked, Ok(Ok(()))), "{file}: {checked:?}\n{body}");
            prop_assert_eq!(refused(style, &sent), None, "{}\n{}\n{}", file, body, sent);
        }
    }
}
