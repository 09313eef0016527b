//! The `websearch` tool over a search engine of the host's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::sync::{Arc, Mutex};

use common::{facts, tool};
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolnexus_core::{Tool, ToolContext, ToolHints, ToolResult, ToolSource};
use toolnexus_tools::{BuiltinsConfig, WebSearchFn, WebSearchHit, select_builtins};

fn hit(n: usize) -> WebSearchHit {
    WebSearchHit { title: format!("T{n}"), url: format!("https://h/{n}"), snippet: format!("s{n}") }
}

fn searching(search: WebSearchFn) -> Tool {
    tool(&BuiltinsConfig { web_search: Some(search), ..Default::default() }, "websearch")
}

/// Queries and limits.
type Asked = Arc<Mutex<Vec<(String, usize)>>>;

/// A search engine that finds so much, whatever is wanted, and remembers what it was asked.
fn finding(count: usize) -> (Tool, Asked) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let remembered = Arc::clone(&asked);
    let search: WebSearchFn = Arc::new(move |query, limit, _cancel| {
        remembered.lock().unwrap().push((query, limit));
        Box::pin(async move { Ok((1..=count).map(hit).collect()) })
    });
    (searching(search), asked)
}

async fn call(tool: &Tool, arguments: Value) -> ToolResult {
    tool.execute(arguments).await
}

// BUILTIN-97: only with a provider; BUILTIN-17: its hints
#[test]
fn it_is_there_when_the_host_has_a_search_engine() {
    let names = |config: &BuiltinsConfig| -> Vec<String> {
        select_builtins(Some(config)).unwrap().into_iter().map(|tool| tool.name).collect()
    };
    assert!(!names(&BuiltinsConfig::default()).contains(&"websearch".to_owned()));
    let (found, _) = finding(0);
    let search: WebSearchFn = Arc::new(|_, _, _| Box::pin(async { Ok(Vec::new()) }));
    let config = BuiltinsConfig { web_search: Some(search), ..Default::default() };
    assert_eq!(names(&config).last().unwrap(), "websearch");
    let off = BuiltinsConfig { tools: [("websearch".to_owned(), false)].into(), ..config };
    assert!(!names(&off).contains(&"websearch".to_owned()));

    assert_eq!(found.source, ToolSource::Builtin);
    let hints = ToolHints { read_only: true, open_world: true, ..Default::default() };
    assert_eq!(found.hints, Some(hints));
    let types = |name: &str| found.input_schema["properties"][name]["type"].clone();
    assert_eq!((types("query"), types("limit")), (json!("string"), json!("number")));
    assert_eq!(found.input_schema["required"], json!(["query"]));
}

// BUILTIN-97: the output, its metadata, the default limit
#[tokio::test]
async fn hits_are_listed() {
    let (search, asked) = finding(2);
    let result = call(&search, json!({"query": "rust"})).await;
    assert_eq!(result.output, "1. T1\n   https://h/1\n   s1\n2. T2\n   https://h/2\n   s2");
    assert_eq!((result.is_error, facts(&result)), (false, json!({"count": 2})));
    assert_eq!(*asked.lock().unwrap(), [("rust".to_owned(), 10)]);

    let (search, _) = finding(0);
    let result = call(&search, json!({"query": "nothing"})).await;
    assert_eq!((result.output.as_str(), result.is_error), ("(no results)", false));
    assert_eq!(facts(&result), json!({"count": 0}));
}

// BUILTIN-97: surplus hits are cut, a limit below 1 is 1; BUILTIN-14, BUILTIN-15: how numbers are read
#[tokio::test]
async fn no_more_hits_than_asked_for() {
    let (search, asked) = finding(20);
    for (limit, wanted) in [
        (json!(null), 10),
        (json!(3), 3),
        (json!(2.9), 2),
        (json!("4"), 4),
        (json!(0), 1),
        (json!(-5), 1),
        (json!(true), 10),
        (json!([7]), 10),
    ] {
        let result = call(&search, json!({"query": "q", "limit": limit, "unknown": 1})).await;
        assert_eq!(facts(&result), json!({"count": wanted}), "{limit}");
        assert_eq!(result.output.lines().count(), wanted * 3, "{limit}");
        assert_eq!(asked.lock().unwrap().last().unwrap().1, wanted, "{limit}");
    }
    assert_eq!(facts(&call(&search, json!({"query": "q", "limit": 1e300})).await), json!({"count": 20}));
}

// BUILTIN-13, BUILTIN-15
#[tokio::test]
async fn a_query_must_be_there() {
    let (search, asked) = finding(1);
    for arguments in
        [json!(null), json!({}), json!({"query": ""}), json!({"query": null}), json!({"query": ["a"]})]
    {
        let result = call(&search, arguments).await;
        assert_eq!((result.output.as_str(), result.is_error), ("websearch: query is required", true));
    }
    assert!(asked.lock().unwrap().is_empty());
    assert!(!call(&search, json!({"query": 42})).await.is_error);
    assert_eq!(asked.lock().unwrap()[0].0, "42");
}

// BUILTIN-97: a provider's error; BUILTIN-12: and its panics, before and within its future
#[tokio::test]
async fn what_goes_wrong_is_a_failure() {
    let failing: [(WebSearchFn, &str); 3] = [
        (Arc::new(|_, _, _| Box::pin(async { Err("quota is used up".to_owned()) })), "quota is used up"),
        (Arc::new(|_, _, _| Box::pin(async { panic!("within") })), "within"),
        (Arc::new(|_, _, _| panic!("before")), "before"),
    ];
    for (search, said) in failing {
        let result = call(&searching(search), json!({"query": "q"})).await;
        assert_eq!((result.output, result.is_error), (format!("websearch: {said}"), true));
    }
}

// BUILTIN-97, BUILTIN-19: the provider has the token, and cannot hold up the call by ignoring it
#[tokio::test]
async fn a_cancelled_call_ends() {
    let started = Arc::new(Notify::new());
    let told = Arc::new(Mutex::new(None));
    let (starting, telling) = (Arc::clone(&started), Arc::clone(&told));
    let search = searching(Arc::new(move |_, _, cancel| {
        *telling.lock().unwrap() = Some(cancel);
        starting.notify_one();
        Box::pin(std::future::pending())
    }));
    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(search.execute_with(json!({"query": "q"}), context), async {
        started.notified().await;
        assert!(!told.lock().unwrap().as_ref().unwrap().is_cancelled());
        cancel.cancel();
    });
    assert_eq!((result.output.as_str(), result.is_error), ("websearch: cancelled", true));
    assert!(told.lock().unwrap().as_ref().unwrap().is_cancelled());
}
