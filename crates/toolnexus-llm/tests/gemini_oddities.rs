//! What Gemini may send beside the documented, and that a stream says the same as a whole answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::tools::{echo, fixed, recorded};
use support::{KEY, deltas, done, drain, transcript};
use toolnexus_core::{ToolResult, Toolkit};
use toolnexus_llm::{ClientError, ClientOptions, FinishReason, RunOptions, RunResult, Style, create_client};

const STYLE: Style = Style::Gemini;

fn response(content: &Value, reason: &str) -> Value {
    json!({"candidates": [{"content": content, "finishReason": reason}]})
}

fn streamed(events: &[Value]) -> Answer {
    Answer::pieces([Ok(events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect::<String>())])
}

/// The same response, whole and as the one event of a stream; a second turn says `ok`.
async fn both_ways(answer: &Value, toolkit: &Toolkit) -> [Result<RunResult, ClientError>; 2] {
    let double = Double::new([Answer::json(answer), Answer::text(STYLE, "ok")]);
    let whole = create_client(double.options(STYLE)).run("hi", toolkit).await;
    let double = Double::new([streamed(std::slice::from_ref(answer)), Answer::streamed_text(STYLE, "ok")]);
    let events = create_client(double.options(STYLE)).stream("hi", toolkit).finish().await;
    [whole, events]
}

// CLIENT-155, CLIENT-32: a content that cannot be read is an error and no empty answer
#[tokio::test]
async fn contents_of_another_shape_are_refused() {
    for content in [
        json!("text"),
        json!({"parts": "text"}),
        json!({"parts": [7]}),
        json!([1]),
        json!({"parts": {"text": "a"}}),
    ] {
        for result in both_ways(&response(&content, "STOP"), &Toolkit::default()).await {
            assert!(matches!(result, Err(ClientError::InvalidResponse(_))), "{content}: {result:?}");
        }
    }
}

// CLIENT-29, CLIENT-155: no parts, no message
#[tokio::test]
async fn contents_without_parts_leave_no_message() {
    for content in [
        json!(null),
        json!({}),
        json!({"role": "model"}),
        json!({"parts": null}),
        json!({"parts": []}),
        json!({"parts": [{"text": ""}, {"text": "", "thought": true}]}),
    ] {
        for result in both_ways(&response(&content, "STOP"), &Toolkit::default()).await {
            let result = result.unwrap();
            assert_eq!((result.text.as_str(), result.messages.len()), ("", 1), "{content}");
            assert_eq!(result.finish_reason, Some(FinishReason::Stop));
        }
    }
    // A signature is something to give back.
    let signed = json!({"role": "model", "parts": [{"text": "", "thoughtSignature": "S"}]});
    for result in both_ways(&response(&signed, "STOP"), &Toolkit::default()).await {
        assert_eq!(result.unwrap().messages[1]["parts"], signed["parts"]);
    }
}

// CLIENT-35: absent and null arguments are none, text may hold them
#[tokio::test]
async fn arguments_come_in_several_forms() {
    let call = |args: Value| json!({"functionCall": {"name": "echo", "args": args}});
    let parts = json!([call(json!(null)), {"functionCall": {"name": "echo"}}, call(json!("{\"text\":\"t\"}")), call(json!("{bad"))]);
    for result in both_ways(
        &response(&json!({"role": "model", "parts": parts}), "STOP"),
        &Toolkit::from_tools([echo()]),
    )
    .await
    {
        let result = result.unwrap();
        let outputs: Vec<&str> = result.tool_calls.iter().map(|record| record.output.as_str()).collect();
        assert_eq!(outputs[..3], ["nothing", "nothing", "t"]);
        assert!(
            outputs[3].starts_with("invalid arguments for tool \"echo\": not valid JSON: "),
            "{}",
            outputs[3]
        );
        assert_eq!(result.messages[1]["parts"], parts);
        transcript::check(STYLE, &result.messages, false).unwrap();
    }
}

// CLIENT-155, CLIENT-37: made-up ids name turn and position, in the tools' contexts as well
#[tokio::test]
async fn made_up_ids_are_unique_in_a_run() {
    let (tool, record) = recorded("look", |_, context| ToolResult::success(context.call_id.clone()));
    let calls = json!({"role": "model", "parts": [{"functionCall": {"name": "look"}}, {"text": "and"}, {"functionCall": {"id": "", "name": "look"}}]});
    let double = Double::new([
        Answer::json(&response(&calls, "STOP")),
        Answer::json(&response(&calls, "STOP")),
        Answer::text(STYLE, "ok"),
    ]);
    let result = create_client(double.options(STYLE)).run("hi", &Toolkit::from_tools([tool])).await.unwrap();
    let ids: Vec<String> = record.all().into_iter().map(|execution| execution.context.call_id).collect();
    assert_eq!(ids, ["call_0_0", "call_0_1", "call_1_0", "call_1_1"]);
    // On the wire they are not seen.
    for at in [2, 4] {
        for part in result.messages[at]["parts"].as_array().unwrap() {
            assert!(part["functionResponse"].get("id").is_none(), "{part}");
        }
    }
    assert_eq!(double.body(2)["contents"][1], calls);
}

// CLIENT-157: asked for several candidates, a stream sends them in turns; the first is ours
#[tokio::test]
async fn of_several_candidates_the_first_counts() {
    let event = |index: u32, text: &str, reason: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": index});
        candidate["finishReason"] = json!(reason);
        candidate
    };
    let list = |candidates: &[Value]| json!({"candidates": candidates});
    let double = Double::new([streamed(&[
        list(&[event(0, "one", None), event(1, "two", None)]),
        list(&[event(1, " 2", Some("MAX_TOKENS"))]),
        list(&[event(1, "", None), event(0, " 1", Some("STOP"))]),
    ])]);
    let (events, error) = drain(create_client(double.options(STYLE)).stream("hi", &Toolkit::default())).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(deltas(&events), ["one", " 1"]);
    assert_eq!(
        (done(&events).text.as_str(), done(&events).finish_reason),
        ("one 1", Some(FinishReason::Stop))
    );
    assert_eq!(done(&events).messages[1]["parts"], json!([{"text": "one 1"}]));
}

// CLIENT-156: what is missing is 0, and of a stream the last report counts, not the sum
#[tokio::test]
async fn usage_in_all_its_forms() {
    let counts = |usage: &Value| json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}], "usageMetadata": usage});
    for (usage, expected) in [
        (json!(null), (0, 0, 0, 0)),
        (json!({}), (0, 0, 0, 0)),
        (json!({"promptTokenCount": 5}), (5, 0, 5, 0)),
        (json!({"promptTokenCount": 5, "thoughtsTokenCount": 7}), (5, 7, 12, 0)),
        (json!({"promptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 0}), (5, 1, 6, 0)),
        (
            json!({"promptTokenCount": 5.0, "candidatesTokenCount": null, "totalTokenCount": 40, "cachedContentTokenCount": 4, "toolUsePromptTokenCount": 35}),
            (5, 0, 40, 4),
        ),
        (json!({"promptTokenCount": -1, "candidatesTokenCount": "3"}), (0, 0, 0, 0)),
    ] {
        for result in both_ways(&counts(&usage), &Toolkit::default()).await {
            let read = result.unwrap().usage;
            let read =
                (read.prompt_tokens, read.completion_tokens, read.total_tokens, read.cache_read_tokens);
            assert_eq!(read, expected, "{usage}");
        }
    }
    let early =
        json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}});
    let double = Double::new([streamed(&[
        early,
        counts(&json!({"promptTokenCount": 9, "candidatesTokenCount": 10})),
    ])]);
    let result =
        create_client(double.options(STYLE)).stream("hi", &Toolkit::default()).finish().await.unwrap();
    assert_eq!((result.usage.completion_tokens, result.usage.total_tokens), (10, 19));
}

// CLIENT-151: whatever a model is called, the request stays where the base URL leads, without the key
#[tokio::test]
async fn a_models_name_cannot_leave_the_path() {
    for model in [
        "../../evil",
        "models/../../../x",
        "a/../b",
        "//other.test/x",
        "m?key=1",
        "m#x",
        "%2e%2e/m",
        "https://evil.test/m",
        "a:b",
        "é",
    ] {
        for params in [json!({}), json!({"model": model})] {
            let double = Double::new([Answer::text(STYLE, "x")]);
            let options = ClientOptions {
                base_url: "https://h/base/v1beta".into(),
                model: if params.get("model").is_some() { "m".into() } else { model.into() },
                request_params: support::tools::object(params),
                ..double.options(STYLE)
            };
            create_client(options).run("hi", &Toolkit::default()).await.unwrap();
            let url = &double.seen()[0].request.url;
            assert_eq!((url.host_str(), url.query(), url.fragment()), (Some("h"), None, None), "{url}");
            assert!(url.path().starts_with("/base/v1beta/"), "{url}");
            assert!(url.path().ends_with(":generateContent"), "{url}");
            assert!(!url.as_str().contains(KEY), "{url}");
        }
    }
}

// CLIENT-151: Vertex and the like have more segments around
#[tokio::test]
async fn a_version_may_stand_anywhere_in_the_path() {
    for (base, expected) in [
        (
            "https://h/v1beta1/projects/p/locations/l/publishers/google",
            "https://h/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent",
        ),
        ("https://h/v", "https://h/v/v1beta/models/m:generateContent"),
        ("https://h/v1x", "https://h/v1x/v1beta/models/m:generateContent"),
        ("https://h/v1betax", "https://h/v1betax/v1beta/models/m:generateContent"),
        ("https://h/V1", "https://h/V1/v1beta/models/m:generateContent"),
        ("https://v1.test//", "https://v1.test/v1beta/models/m:generateContent"),
        ("https://h/v12alpha", "https://h/v12alpha/models/m:generateContent"),
    ] {
        let double = Double::new([Answer::text(STYLE, "x")]);
        let options = ClientOptions { base_url: base.into(), ..double.options(STYLE) };
        create_client(options).run("hi", &Toolkit::default()).await.unwrap();
        assert_eq!(double.seen()[0].request.url.as_str(), expected);
    }
}

// CLIENT-152: neither an empty system text nor an empty toolkit is sent
#[tokio::test]
async fn empty_keys_are_left_out() {
    let double = Double::new([Answer::text(STYLE, "x"), Answer::streamed_text(STYLE, "x")]);
    let client = create_client(double.options(STYLE));
    client.run("hi", &Toolkit::default()).await.unwrap();
    client.stream("hi", &Toolkit::default()).finish().await.unwrap();
    for at in 0..2 {
        let body = double.body(at);
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["contents"]);
    }
}

// CLIENT-28, CLIENT-152: a transcript of nothing but system messages still asks something
#[tokio::test]
async fn a_lone_system_message_is_asked() {
    let double = Double::new([Answer::text(STYLE, "x")]);
    let history =
        vec![json!({"role": "system", "content": "A"}), json!({"role": "system", "parts": [{"text": "B"}]})];
    let options = RunOptions { history: history.into(), ..Default::default() };
    create_client(double.options(STYLE)).run_with("hi", &Toolkit::default(), options).await.unwrap();
    let body = double.body(0);
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "A\n\nB"}]}));
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": "hi"}]}]));
}

fn part() -> impl Strategy<Value = Value> {
    let text = proptest::sample::select(vec!["", "a", "é🦀", "\n"]);
    let signature = proptest::option::of(proptest::sample::select(vec!["", "S", "T"]));
    let plain = (text, any::<bool>(), signature.clone()).prop_map(|(text, thought, signature)| {
        let mut part = json!({"text": text});
        if thought {
            part["thought"] = json!(true);
        }
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    });
    let call = (proptest::option::of("[a-c]{0,2}"), 0..9u32, signature).prop_map(|(id, n, signature)| {
        let mut part = json!({"functionCall": {"name": "echo", "args": {"text": n.to_string()}}});
        if let Some(id) = id {
            part["functionCall"]["id"] = json!(id);
        }
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    });
    prop_oneof![4 => plain, 2 => call, 1 => Just(json!({"executableCode": {"language": "PYTHON", "code": "1"}}))]
}

/// Neighbouring unsigned texts joined and empty ones dropped: what a stream makes of the parts.
fn joined(parts: &[Value]) -> Vec<Value> {
    let signed =
        |part: &Value| part["thoughtSignature"].as_str().is_some_and(|signature| !signature.is_empty());
    let mut out: Vec<Value> = Vec::new();
    for part in parts {
        let plain = part.get("text").is_some() && !signed(part);
        let mut part = part.clone();
        if plain {
            part.as_object_mut().unwrap().shift_remove("thoughtSignature");
            if part["text"] == "" {
                continue;
            }
            if let Some(last) = out.last_mut()
                && last.get("text").is_some()
                && !signed(last)
                && last["thought"] == part["thought"]
            {
                last["text"] =
                    json!(format!("{}{}", last["text"].as_str().unwrap(), part["text"].as_str().unwrap()));
                continue;
            }
        }
        out.push(part);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..Default::default() })]

    // CLIENT-154, CLIENT-155, CLIENT-157: a stream says what the whole answer does, however it is split
    #[test]
    fn a_stream_says_what_a_whole_answer_says(parts in proptest::collection::vec(part(), 0..8), sizes in proptest::collection::vec(0usize..4, 1..9)) {
        let mut events = Vec::new();
        let mut rest = &parts[..];
        for size in sizes {
            let (some, more) = rest.split_at(size.min(rest.len()));
            events.push(json!({"candidates": [{"content": {"role": "model", "parts": some}}]}));
            rest = more;
        }
        events.push(response(&json!({"role": "model", "parts": rest}), "STOP"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (whole, stream) = runtime.block_on(async {
            let toolkit = Toolkit::from_tools([echo(), fixed("other", "")]);
            let double = Double::new([Answer::json(&response(&json!({"role": "model", "parts": parts}), "STOP")), Answer::text(STYLE, "ok")]);
            let whole = create_client(double.options(STYLE)).run("hi", &toolkit).await.unwrap();
            let double = Double::new([streamed(&events), Answer::streamed_text(STYLE, "ok")]);
            let stream = create_client(double.options(STYLE)).stream("hi", &toolkit).finish().await.unwrap();
            (whole, stream)
        });
        prop_assert_eq!((&whole.text, &whole.tool_calls, whole.turns), (&stream.text, &stream.tool_calls, stream.turns));
        prop_assert_eq!(whole.messages.len(), stream.messages.len());
        let kept = joined(&parts);
        if !kept.is_empty() {
            prop_assert_eq!(&stream.messages[1]["parts"], &json!(kept));
            prop_assert_eq!(&whole.messages[1]["parts"], &json!(parts));
        }
        transcript::check(STYLE, &whole.messages, false).map_err(TestCaseError::fail)?;
        transcript::check(STYLE, &stream.messages, false).map_err(TestCaseError::fail)?;
    }
}
