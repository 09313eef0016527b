//! What a search finds.

use serde_json::json;

use super::*;

fn shop_plan(toolkit: &Toolkit) -> TierPlan {
    let options =
        ToolTierOptions { core: named(&["core_order"]), deferred: named(&["deploy"]), ..Default::default() };
    plan(toolkit, &options)
}

// CLIENT-88: exact names
#[test]
fn select_finds_exactly_what_is_named() {
    let toolkit = shop();
    let plan = shop_plan(&toolkit);
    let select = |query: &str| found(&plan, &toolkit, json!({"query": query, "limit": 1})).unwrap();
    assert_eq!(select("select:weather,deploy"), ["weather", "deploy"]);
    assert_eq!(select("  select: weather , nobody,, core_order,weather "), ["weather", "core_order"]);
    assert!(select("select:").is_empty());
    assert!(select("select:Weather").is_empty());
}

// CLIENT-88: keywords
#[test]
fn keywords_find_the_best_first() {
    let toolkit = shop();
    let plan = shop_plan(&toolkit);
    let search = |args: Value| found(&plan, &toolkit, args).unwrap();
    // 4, then 3 by name, 1 last; what is sent anyway is left out.
    assert_eq!(search(json!({"query": "Order"})), ["order_refund", "order_list", "stock"]);
    // One that fits both keywords comes before one that fits one of them.
    assert_eq!(search(json!({"query": "order\ttells "})), ["order_refund", "order_list", "stock", "weather"]);
    assert_eq!(search(json!({"query": "ORD", "limit": 3})), ["order_refund", "order_list", "ordinary"]);
    assert!(search(json!({"query": "nothing fits"})).is_empty());
    // A deferred tool is found like any other.
    assert_eq!(search(json!({"query": "deploy"})), ["deploy"]);
}

// CLIENT-88: the limit, and what models send in its place
#[test]
fn five_tools_are_found_unless_the_model_says_otherwise() {
    let toolkit = Toolkit::from_tools((0..9).map(|n| tool(&format!("t{n}"), "")));
    let plan = plan(&toolkit, &ToolTierOptions::default());
    for (limit, expected) in [
        (json!(null), 5),
        (json!(0), 5),
        (json!(-3), 5),
        (json!("many"), 5),
        (json!([7]), 5),
        (json!(1), 1),
        (json!(7), 7),
        (json!(7.0), 7),
        (json!("7"), 7),
        (json!(u64::MAX), 9),
        (json!(1e300), 9),
    ] {
        let args = json!({"query": "t", "limit": limit});
        assert_eq!(found(&plan, &toolkit, args).unwrap().len(), expected, "{limit}");
    }
    assert_eq!(found(&plan, &toolkit, json!({"query": "t"})).unwrap(), ["t0", "t1", "t2", "t3", "t4"]);
}

// CLIENT-88: no query
#[test]
fn a_search_needs_a_query() {
    let toolkit = shop();
    let plan = shop_plan(&toolkit);
    for args in [json!({}), json!({"query": " \n"}), json!({"query": null}), json!({"query": 7})] {
        assert_eq!(found(&plan, &toolkit, args).unwrap_err(), "tool_search needs a query");
    }
}

// CLIENT-89
#[test]
fn definitions_come_as_json_text() {
    let schema = json!({"type": "object", "properties": {"env": {"type": "string"}}, "x-verbatim": [1]});
    let toolkit = Toolkit::from_tools([tool("deploy", "Deploys\nnow").input_schema(schema)]);
    let plan = plan(&toolkit, &ToolTierOptions::default());
    let before = plan.tools_json();
    let args = json!({"query": "select:deploy"});
    let result = plan.search(&toolkit.snapshot(), args.as_object().unwrap());
    assert_eq!(
        result,
        ToolResult::success(
            r#"[{"name":"deploy","description":"Deploys\nnow","inputSchema":{"type":"object","properties":{"env":{"type":"string"}},"x-verbatim":[1]}}]"#
        )
    );
    assert_eq!(plan.tools_json(), before);
}
