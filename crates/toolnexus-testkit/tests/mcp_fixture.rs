//! The fixture as a value.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;
use toolnexus_testkit::mcp::{
    FixtureTool, Grandchild, McpFixture, Paging, ProcessFaults, RawJson, Reply, StderrSpam, Step,
};

fn raw() -> impl Strategy<Value = RawJson> {
    prop_oneof![
        Just(json!({"b": [1, null], "a": {}}).into()),
        any::<String>().prop_map(|text| json!({ "text": text }).into()),
        Just(RawJson::parse(r#"{"k": 1e2, "k":18446744073709551615}"#).unwrap()),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Standard),
        Just(Reply::Echo),
        any::<String>().prop_map(Reply::Text),
        any::<usize>().prop_map(|bytes| Reply::TextOfSize { bytes }),
        raw().prop_map(Reply::Result),
        (any::<i64>(), any::<String>(), prop::option::of(raw()))
            .prop_map(|(code, message, data)| Reply::Error { code, message, data }),
        Just(Reply::ClientReply),
        any::<String>().prop_map(Reply::Environment),
        Just(Reply::EnvironmentNames),
        Just(Reply::WorkingDirectory),
        Just(Reply::Arguments),
        Just(Reply::Report),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u64>().prop_map(Step::sleep),
        any::<String>().prop_map(Step::AwaitGate),
        any::<String>().prop_map(Step::OpenGate),
        Just(Step::AwaitCancel),
        (any::<i32>(), prop::option::of(any::<String>())).prop_map(|(progress, message)| Step::Progress {
            progress: f64::from(progress) / 4.0,
            total: None,
            message
        }),
        raw().prop_map(Step::Notify),
        (any::<String>(), prop::option::of(raw()), prop::option::of(raw()))
            .prop_map(|(method, params, id)| Step::Request { method, params, id }),
        Just(Step::AwaitReply),
        Just(Step::CancelRequest),
        any::<String>().prop_map(Step::Line),
        any::<Vec<u8>>().prop_map(Step::Bytes),
        any::<String>().prop_map(Step::Stderr),
        reply().prop_map(Step::Answer),
        reply().prop_map(Step::AnswerWithStringId),
        Just(Step::CloseStdout),
        any::<i32>().prop_map(|code| Step::Exit { code }),
        Just(Step::Abort),
        Just(Step::Kill),
    ]
}

fn script() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..5)
}

fn tool() -> impl Strategy<Value = FixtureTool> {
    (any::<String>(), prop::option::of(raw()), raw(), prop::collection::vec(script(), 0..3)).prop_map(
        |(name, schema, annotations, calls)| {
            let tool = FixtureTool::new(name).title("t").description("d").annotations(annotations);
            let tool = match schema {
                Some(schema) => tool.input_schema(schema),
                None => tool.without_input_schema(),
            };
            calls.into_iter().fold(tool, FixtureTool::then)
        },
    )
}

fn fixture() -> impl Strategy<Value = McpFixture> {
    let faults = (any::<bool>(), prop::option::of(any::<usize>()), prop::option::of(any::<u64>()));
    let faults = faults.prop_map(|(stubborn, stop_reading_after, lines)| ProcessFaults {
        stderr_spam: Some(StderrSpam { lines, bytes: 3 }),
        ignore_stdin_close: stubborn,
        ignore_signals: stubborn,
        stop_reading_after,
        grandchild: stubborn.then_some(Grandchild::HoldsPipes),
    });
    let paging = prop::sample::select(vec![Paging::Normal, Paging::Endless, Paging::NullCursor]);
    let tools = prop::collection::vec(tool(), 0..3);
    (any::<String>(), raw(), tools, paging, script(), script(), faults).prop_map(
        |(name, capabilities, tools, paging, on_start, on_ping, faults)| {
            McpFixture::new()
                .name(name)
                .protocol_version("x")
                .instructions("i")
                .capabilities(capabilities)
                .tools(tools)
                .page_size(2)
                .paging(paging)
                .on_start(on_start)
                .on("ping", on_ping)
                .faults(faults)
                .ledger("some/file")
        },
    )
}

proptest! {
    #[test]
    fn a_fixture_survives_its_json(fixture in fixture()) {
        let json = fixture.to_json();
        prop_assert!(!json.contains('\n'));
        prop_assert_eq!(McpFixture::from_json(&json).unwrap(), fixture);
    }
}

#[test]
fn the_default_says_little_and_odd_keys_are_refused() {
    let default = McpFixture::default();
    assert_eq!(default.to_json(), r#"{"name":"fixture","version":"1.0.0","capabilities":{"tools":{}}}"#);
    assert_eq!(McpFixture::from_json("{}").unwrap(), default);
    for (json, text) in [
        (r#"{"tool":[]}"#, "unknown field `tool`"),
        (r#"{"tools":[{"nam":"x"}]}"#, "unknown field `nam`"),
        (r#"{"on_start":["jump"]}"#, "unknown variant `jump`"),
        ("{", "EOF"),
    ] {
        let error = McpFixture::from_json(json).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}
