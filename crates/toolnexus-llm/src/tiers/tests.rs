use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Map, json};
use toolnexus_core::{Style, Tool, ToolResult, Toolkit};

use super::inner_call::InnerCall;
use super::*;

const STYLES: [Style; 3] = [Style::OpenAI, Style::Anthropic, Style::Gemini];

fn tool(name: &str, description: &str) -> Tool {
    Tool::new(name, |_, _| async { ToolResult::success("") }).description(description)
}

fn toolkit(tools: &[(&str, &str)]) -> Toolkit {
    Toolkit::from_tools(tools.iter().map(|(name, description)| tool(name, description)))
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn plan(toolkit: &Toolkit, options: &ToolTierOptions) -> TierPlan {
    TierPlan::of(&toolkit.snapshot(), Style::OpenAI, options)
}

/// The entries of the array that is sent, whatever the style wraps them into.
fn entries(plan: &TierPlan, style: Style) -> Vec<Value> {
    let array: Vec<Value> = serde_json::from_slice(&plan.tools_json()).unwrap();
    match style {
        Style::OpenAI => array.iter().map(|entry| entry["function"].clone()).collect(),
        Style::Anthropic => array,
        Style::Gemini => {
            assert_eq!(array.len(), 1);
            array[0]["functionDeclarations"].as_array().unwrap().clone()
        }
    }
}

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

fn in_tier(plan: &TierPlan, tier: ToolTier) -> Vec<&str> {
    plan.tiers().iter().filter(|(_, of)| **of == tier).map(|(name, _)| name.as_str()).collect()
}

/// The names that a search finds; a failure is its text.
fn found(plan: &TierPlan, toolkit: &Toolkit, args: Value) -> Result<Vec<String>, String> {
    let result = plan.search(&toolkit.snapshot(), args.as_object().unwrap());
    if result.is_error {
        return Err(result.output);
    }
    let definitions: Vec<Value> = serde_json::from_str(&result.output).unwrap();
    Ok(definitions.iter().map(|found| found["name"].as_str().unwrap().to_owned()).collect())
}

// CLIENT-84, case T1
#[test]
fn each_tool_is_where_the_options_name_it() {
    let toolkit = toolkit(&[("read_notes", "Reads notes"), ("lint", "Lints"), ("deploy", "Deploys")]);
    let options = ToolTierOptions {
        core: named(&["read_notes", "nobody"]),
        deferred: named(&["deploy", "read_notes", "nobody"]),
        ..Default::default()
    };
    for style in STYLES {
        let plan = TierPlan::of(&toolkit.snapshot(), style, &options);
        let expected =
            [("deploy", ToolTier::Deferred), ("lint", ToolTier::Listed), ("read_notes", ToolTier::Core)];
        assert_eq!(plan.tiers(), &expected.map(|(name, tier)| (name.to_owned(), tier)).into());
        assert_eq!(names(&entries(&plan, style)), ["read_notes", TOOL_SEARCH, CALL_TOOL]);
    }
}

// CLIENT-83, CLIENT-84: core tools are sorted, whatever the order of the toolkit and of the options
#[test]
fn core_tools_are_sorted_and_the_two_extra_tools_come_last() {
    let toolkit = toolkit(&[("zeta", ""), ("alpha", ""), ("Beta", "")]);
    let all = ToolTierOptions { core: named(&["zeta", "Beta", "alpha"]), ..Default::default() };
    let all = plan(&toolkit, &all);
    assert_eq!(names(&entries(&all, Style::OpenAI)), ["Beta", "alpha", "zeta", TOOL_SEARCH, CALL_TOOL]);
    // Nothing named: everything is listed. No tools at all: the two are there nevertheless, since the
    // array must not change when tools arrive.
    let none = plan(&toolkit, &ToolTierOptions::default());
    assert_eq!(in_tier(&none, ToolTier::Listed), ["Beta", "alpha", "zeta"]);
    assert_eq!(names(&entries(&none, Style::OpenAI)), [TOOL_SEARCH, CALL_TOOL]);
    let empty = plan(&Toolkit::default(), &ToolTierOptions::default());
    assert!(empty.tiers().is_empty());
    assert_eq!(names(&entries(&empty, Style::OpenAI)), [TOOL_SEARCH, CALL_TOOL]);
}

// CLIENT-84, CLIENT-87, CLIENT-90: what is sent, in each style
#[test]
fn the_array_has_the_shape_of_its_style() {
    let schema = json!({"type": "object", "properties": {"path": {"type": ["string", "null"]}}});
    let toolkit = Toolkit::from_tools([
        tool("read", "Reads a file\nand more").input_schema(schema),
        tool("clock", "Tells the time\nin UTC"),
        tool("deploy", "Deploys"),
    ]);
    let options = ToolTierOptions {
        core: named(&["read", "clock"]),
        deferred: named(&["deploy"]),
        ..Default::default()
    };
    toolkit.register([tool("lint", "Lints the code\nin place")]);
    for style in STYLES {
        let plan = TierPlan::of(&toolkit.snapshot(), style, &options);
        let array: Value = serde_json::from_slice(&plan.tools_json()).unwrap();
        insta::assert_json_snapshot!(format!("tiers_{style}"), array);
    }
}

// CLIENT-84: a tool with the name of one of the two is hidden
#[test]
fn a_tool_cannot_take_the_place_of_the_search() {
    let toolkit = toolkit(&[("tool_search", "mine"), ("call_tool", "mine"), ("other", "mine")]);
    let options = ToolTierOptions { core: named(&["tool_search", "other"]), ..Default::default() };
    let plan = plan(&toolkit, &options);
    assert_eq!(plan.tiers().keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(names(&entries(&plan, Style::OpenAI)), ["other", TOOL_SEARCH, CALL_TOOL]);
    let select = json!({"query": "select:tool_search,call_tool,other"});
    assert_eq!(found(&plan, &toolkit, select).unwrap(), ["other"]);
    assert!(found(&plan, &toolkit, json!({"query": "mine"})).unwrap().is_empty());
}

fn t3_options(usage: fn(&str) -> u64) -> ToolTierOptions {
    ToolTierOptions {
        core: named(&["tool_0", "tool_1", "tool_2", "tool_3", "tool_4"]),
        deferred: named(&["tool_5"]),
        budget_tokens: 450,
        count_tokens: Some(Arc::new(|_| 100)),
        usage_count: Some(Arc::new(usage)),
        ..Default::default()
    }
}

// CLIENT-85, CLIENT-86, case T3
#[test]
fn the_least_used_core_tools_give_way_to_the_budget() {
    static USES_OF_TOOL_4: AtomicUsize = AtomicUsize::new(0);
    let toolkit =
        toolkit(&["tool_0", "tool_1", "tool_2", "tool_3", "tool_4", "tool_5"].map(|name| (name, "")));
    let options = t3_options(|name| match name {
        "tool_0" => 50,
        "tool_1" => 10,
        "tool_4" => USES_OF_TOOL_4.load(Ordering::Relaxed) as u64,
        _ => 0,
    });
    let plans = TierPlans::default();
    let ask = || plans.plan_for(&toolkit, Style::OpenAI, &options);
    let first = ask();
    assert_eq!(in_tier(&first, ToolTier::Core), ["tool_0", "tool_1"]);
    assert_eq!(in_tier(&first, ToolTier::Listed), ["tool_2", "tool_3", "tool_4"]);
    assert_eq!(in_tier(&first, ToolTier::Deferred), ["tool_5"]);
    USES_OF_TOOL_4.store(99, Ordering::Relaxed);
    assert!(Arc::ptr_eq(&first, &ask()));
    plans.reset(&toolkit);
    let second = ask();
    assert_eq!(in_tier(&second, ToolTier::Core), ["tool_0", "tool_4"]);
    assert_eq!(names(&entries(&second, Style::OpenAI)), ["tool_0", "tool_4", TOOL_SEARCH, CALL_TOOL]);
}

// CLIENT-86: of tools used equally often the expensive one goes first, then the first by name; when no
// core tool is left, listed ones are deferred, those that were core among them
#[test]
fn demotion_goes_by_usage_then_cost_then_name() {
    let toolkit = toolkit(&[("a", "10"), ("b", "30"), ("c", "10"), ("d", "10"), ("e", "20")]);
    // A definition costs what its description says; a listing costs a token for each tool that is
    // listed with more than its name.
    let count = |definition: &Value| {
        let function = &definition["function"];
        let description = function["description"].as_str().unwrap();
        match function["name"].as_str().unwrap() {
            TOOL_SEARCH => description.matches(" — ").count(),
            CALL_TOOL => 0,
            _ => description.parse().unwrap(),
        }
    };
    let tiers = |budget| {
        let options = ToolTierOptions {
            core: named(&["a", "b", "c", "d"]),
            budget_tokens: budget,
            usage_count: Some(Arc::new(|name| u64::from(name == "c"))),
            count_tokens: Some(Arc::new(count)),
            ..Default::default()
        };
        let plan = plan(&toolkit, &options);
        [ToolTier::Core, ToolTier::Listed, ToolTier::Deferred].map(|tier| in_tier(&plan, tier).concat())
    };
    // 60 for the core and 1 for the line of e.
    assert_eq!(tiers(61), ["abcd", "e", ""]);
    assert_eq!(tiers(60), ["acd", "be", ""]);
    assert_eq!(tiers(31), ["cd", "abe", ""]);
    assert_eq!(tiers(20), ["c", "abde", ""]);
    assert_eq!(tiers(13), ["", "abcde", ""]);
    assert_eq!(tiers(4), ["", "acde", "b"]);
    assert_eq!(tiers(3), ["", "acd", "be"]);
    assert_eq!(tiers(2), ["", "cd", "abe"]);
    assert_eq!(tiers(1), ["", "c", "abde"]);
}

// CLIENT-86: without a budget of its own, a twentieth of the window; without either, none
#[test]
fn the_budget_is_a_twentieth_of_the_window() {
    let budget = |budget_tokens, context_window| {
        ToolTierOptions { budget_tokens, context_window, ..Default::default() }.budget()
    };
    assert_eq!(budget(0, 0), None);
    assert_eq!(budget(0, 8_199), Some(409));
    assert_eq!(budget(7, 8_199), Some(7));
    assert_eq!(budget(0, 19), Some(0));

    let toolkit = toolkit(&[("a", &"long ".repeat(400)), ("b", "short")]);
    let core = |context_window| {
        let options = ToolTierOptions { core: named(&["a", "b"]), context_window, ..Default::default() };
        in_tier(&plan(&toolkit, &options), ToolTier::Core).concat()
    };
    assert_eq!(core(0), "ab");
    assert_eq!(core(100_000), "ab");
    // `a` alone costs some 500 tokens, everything else less.
    assert_eq!(core(10_000), "b");
    // A budget that cannot be met defers everything and sends the rest nevertheless.
    assert_eq!(core(20), "");
}

// CLIENT-86: by default a token is a quarter of the definition's JSON, rounded up, in the style's spelling
#[test]
fn the_default_cost_is_a_quarter_of_the_bytes() {
    let toolkit = toolkit(&[("only", "The only tool")]);
    for style in STYLES {
        let options = ToolTierOptions { core: named(&["only"]), ..Default::default() };
        let sent = TierPlan::of(&toolkit.snapshot(), style, &options);
        let array: Vec<Value> = serde_json::from_slice(&sent.tools_json()).unwrap();
        let array = match style {
            Style::Gemini => array[0]["functionDeclarations"].as_array().unwrap().clone(),
            _ => array,
        };
        let cost: usize = array.iter().map(|entry| entry.to_string().len().div_ceil(4)).sum();
        let tier = |budget_tokens| {
            let options = ToolTierOptions { budget_tokens, ..options.clone() };
            TierPlan::of(&toolkit.snapshot(), style, &options).tiers()["only"]
        };
        assert_eq!(tier(cost), ToolTier::Core, "{style}");
        assert_ne!(tier(cost - 1), ToolTier::Core, "{style}");
    }
}

fn listing(plan: &TierPlan) -> Vec<String> {
    let entries = entries(plan, Style::OpenAI);
    let search = entries.iter().find(|entry| entry["name"] == TOOL_SEARCH).unwrap();
    search["description"].as_str().unwrap().lines().skip(1).map(str::to_owned).collect()
}

// CLIENT-87
#[test]
fn the_search_names_every_tool_that_is_not_sent() {
    let long = format!("{}é and more", "x".repeat(119));
    let toolkit = toolkit(&[
        ("lint", "Lints the code\nin place"),
        ("core", "never listed"),
        ("deploy", "Deploys"),
        ("bare", ""),
        ("blank", " \n "),
        ("padded", "\n  Below a blank line\nand more"),
        ("long", &long),
        ("exact", &"y".repeat(120)),
    ]);
    let options =
        ToolTierOptions { core: named(&["core"]), deferred: named(&["deploy"]), ..Default::default() };
    let plan = plan(&toolkit, &options);
    let expected = [
        "- bare".to_owned(),
        "- blank".into(),
        "- deploy".into(),
        format!("- exact — {}", "y".repeat(120)),
        "- lint — Lints the code".into(),
        // The é would end at byte 121.
        format!("- long — {}", "x".repeat(119)),
        "- padded — Below a blank line".into(),
    ];
    assert_eq!(listing(&plan), expected);
    let search = entries(&plan, Style::OpenAI)[1].clone();
    assert_eq!(search["parameters"]["required"], json!(["query"]));
    assert_eq!(search["parameters"]["properties"]["limit"]["type"], "integer");
}

fn shop() -> Toolkit {
    toolkit(&[
        ("order_list", "Lists things"),
        ("order_refund", "Refunds an order"),
        ("stock", "Tells what is there for an ORDER"),
        ("weather", "Tells the weather"),
        ("core_order", "An order that is always there"),
        ("deploy", "Deploys"),
        ("ordinary", ""),
    ])
}

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

// CLIENT-85, CLIENT-88, case T4: a late tool is in no plan and is found; after a reset it is listed
#[test]
fn a_late_tool_is_found_and_listed_after_a_reset() {
    let toolkit = shop();
    let options = ToolTierOptions { deferred: named(&["later_too"]), ..Default::default() };
    let plans = TierPlans::default();
    let ask = || plans.plan_for(&toolkit, Style::OpenAI, &options);
    let before = ask().tools_json();
    toolkit.register([tool("late", "Comes late"), tool("later_too", "Comes late")]);
    let frozen = ask();
    assert!(!frozen.tiers().contains_key("late"));
    assert_eq!(frozen.tools_json(), before);
    assert_eq!(found(&frozen, &toolkit, json!({"query": "late"})).unwrap(), ["late", "later_too"]);
    assert_eq!(found(&frozen, &toolkit, json!({"query": "select:late"})).unwrap(), ["late"]);
    plans.reset_all();
    let anew = ask();
    assert_eq!(anew.tiers()["late"], ToolTier::Listed);
    assert_eq!(anew.tiers()["later_too"], ToolTier::Deferred);
    assert!(listing(&anew).contains(&"- late — Comes late".to_owned()));
    assert!(listing(&anew).contains(&"- later_too".to_owned()));
}

// CLIENT-85: clones share a plan, other toolkits have their own, and none is kept alive
#[test]
fn a_plan_belongs_to_one_toolkit() {
    let (one, other) = (shop(), shop());
    let plans = TierPlans::default();
    let options = ToolTierOptions::default();
    let ask = |toolkit: &Toolkit| plans.plan_for(toolkit, Style::OpenAI, &options);
    let (of_one, of_other) = (ask(&one), ask(&other));
    assert!(Arc::ptr_eq(&of_one, &ask(&one.clone())));
    assert!(!Arc::ptr_eq(&of_one, &of_other));
    plans.reset(&one.clone());
    assert!(!Arc::ptr_eq(&of_one, &ask(&one)));
    assert!(Arc::ptr_eq(&of_other, &ask(&other)));

    let handle = one.downgrade();
    drop(one);
    assert!(!handle.is_alive());
    assert_eq!(plans.len(), 2);
    // The next plan clears away those whose toolkits are gone, and takes nothing from them.
    ask(&shop());
    assert_eq!(plans.len(), 2);
    for _ in 0..100 {
        let short_lived = toolkit(&[("its_own", "")]);
        assert_eq!(ask(&short_lived).tiers().keys().collect::<Vec<_>>(), ["its_own"]);
    }
    assert!(plans.len() <= 2);
}

// CLIENT-85: threads that ask at once get one plan, worked out once
#[test]
fn two_threads_get_one_plan() {
    let toolkit = shop();
    let plans = TierPlans::default();
    let counted = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&counted);
    let options = ToolTierOptions {
        budget_tokens: 1,
        usage_count: Some(Arc::new(move |_| counts.fetch_add(1, Ordering::Relaxed) as u64)),
        ..Default::default()
    };
    let start = Barrier::new(4);
    let got: Vec<Arc<TierPlan>> = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            plans.plan_for(&toolkit, Style::OpenAI, &options)
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(got.iter().all(|plan| Arc::ptr_eq(plan, &got[0])));
    // Each tool was asked about once.
    assert_eq!(counted.load(Ordering::Relaxed), toolkit.tool_names().len());
}

// CLIENT-85: a plan that is being made when it is reset is not found afterwards
#[test]
fn a_reset_reaches_a_plan_in_the_making() {
    let toolkit = toolkit(&[("a", ""), ("b", "")]);
    let plans = Arc::new(TierPlans::default());
    let reset = {
        let (plans, toolkit) = (Arc::downgrade(&plans), toolkit.downgrade());
        move || plans.upgrade().unwrap().reset(&toolkit.upgrade().unwrap())
    };
    let once = std::sync::Once::new();
    let options = ToolTierOptions {
        budget_tokens: 1,
        usage_count: Some(Arc::new(move |_| {
            once.call_once(&reset);
            0
        })),
        ..Default::default()
    };
    let first = plans.plan_for(&toolkit, Style::OpenAI, &options);
    let second = plans.plan_for(&toolkit, Style::OpenAI, &options);
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&second, &plans.plan_for(&toolkit, Style::OpenAI, &options)));
}

// CLIENT-90
#[test]
fn the_inner_call_is_unwrapped() {
    let read = |outer: Value| inner_call(outer.as_object().unwrap());
    let args = |value: Value| Ok::<Map<_, _>, String>(value.as_object().unwrap().clone());
    let call = |name: &str, args| InnerCall { name: name.into(), args };
    let env = json!({"env": "prod"});
    assert_eq!(read(json!({"name": "deploy", "arguments": env})), call("deploy", args(env.clone())));
    let text = env.to_string();
    assert_eq!(read(json!({"name": "deploy", "arguments": text})), call("deploy", args(env)));
    for nothing in [
        json!({"name": "a"}),
        json!({"name": "a", "arguments": null}),
        json!({"name": "a", "arguments": " "}),
    ] {
        assert_eq!(read(nothing), call("a", args(json!({}))));
    }
    assert_eq!(read(json!({})).name, "");
    assert_eq!(read(json!({"name": 7})).name, "");
    for wrong in [json!([1]), json!(7), json!("[1]"), json!("7")] {
        let outer = json!({"name": "a", "arguments": wrong});
        assert_eq!(read(outer).args.unwrap_err(), "expected a JSON object");
    }
    let broken = read(json!({"name": "a", "arguments": "{\"env\":"})).args.unwrap_err();
    assert!(broken.starts_with("not valid JSON: "), "{broken}");
}

// CLIENT-83: the options show no names of tools
#[test]
fn options_are_debugged_by_counts() {
    let options = ToolTierOptions {
        core: named(&["secret_tool"]),
        usage_count: Some(Arc::new(|_| 0)),
        ..Default::default()
    };
    assert_eq!(
        format!("{options:?}"),
        "ToolTierOptions { core: 1, deferred: 0, budget_tokens: 0, context_window: 0, usage_count: true, count_tokens: false }"
    );
    assert_eq!(serde_json::to_string(&ToolTier::Deferred).unwrap(), "\"deferred\"");
    assert_eq!(ToolTier::Core.to_string(), "core");
}

/// Tools of any description, some of them named in the options.
fn any_tools() -> impl Strategy<Value = (Vec<(String, String)>, Vec<String>, Vec<String>)> {
    let tools = prop::collection::btree_map("[a-z_]{1,4}|tool_search|call_tool", "(?s).{0,300}", 0..12);
    tools.prop_flat_map(|tools| {
        let names: Vec<String> = tools.keys().cloned().chain(["nobody".to_owned()]).collect();
        let some = prop::collection::vec(prop::sample::select(names), 0..8);
        // The toolkit's order is not that of the names.
        (Just(tools.into_iter().collect::<Vec<_>>()).prop_shuffle(), some.clone(), some)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CLIENT-84, CLIENT-86, CLIENT-87: whatever the tools and the budget
    #[test]
    fn every_plan_is_whole(
        (tools, core, deferred) in any_tools(),
        budget_tokens in 0..2_000_usize,
        style in prop::sample::select(STYLES.to_vec()),
        uses in any::<u64>(),
    ) {
        let toolkit = Toolkit::from_tools(tools.iter().map(|(name, about)| tool(name, about)));
        let options = ToolTierOptions {
            core,
            deferred,
            budget_tokens,
            usage_count: Some(Arc::new(move |name| uses.rotate_left(name.len() as u32) % 3)),
            ..Default::default()
        };
        let plan = TierPlan::of(&toolkit.snapshot(), style, &options);

        // Every tool but the hidden ones is in one tier.
        let mut expected = toolkit.tool_names();
        expected.retain(|name| ![TOOL_SEARCH, CALL_TOOL].contains(&name.as_str()));
        prop_assert_eq!(plan.tiers().keys().cloned().collect::<Vec<_>>(), expected);

        // The core is sorted, and the two follow.
        let sent = entries(&plan, style);
        let mut array = in_tier(&plan, ToolTier::Core);
        array.extend([TOOL_SEARCH, CALL_TOOL]);
        prop_assert_eq!(names(&sent), array);

        // A tool that the options leave out of the core does not get there.
        for name in in_tier(&plan, ToolTier::Core) {
            prop_assert!(options.core.iter().any(|core| core == name));
        }

        // Over budget only when there is nothing left to demote.
        let wrapped = |entry: &Value| match style {
            Style::OpenAI => json!({"type": "function", "function": entry}),
            _ => entry.clone(),
        };
        let cost: usize = sent.iter().map(|entry| wrapped(entry).to_string().len().div_ceil(4)).sum();
        if budget_tokens > 0 && cost > budget_tokens {
            prop_assert!(plan.tiers().values().all(|tier| *tier == ToolTier::Deferred));
        }

        // The same again: nothing depends on chance.
        prop_assert_eq!(plan.tools_json(), TierPlan::of(&toolkit.snapshot(), style, &options).tools_json());
    }

    // CLIENT-87: cut on a boundary, never longer than the limit
    #[test]
    fn a_line_is_cut_between_characters(about in "(?s).{0,300}") {
        let tool = tool("t", &about);
        let line = meta::line(&tool, ToolTier::Listed);
        let shown = line.strip_prefix("- t — ").unwrap_or_default();
        prop_assert!(shown.len() <= meta::LINE_LIMIT);
        prop_assert!(about.contains(shown));
        prop_assert!(!line.contains('\n'));
        let first = about.trim().lines().next().unwrap_or_default().trim_end();
        // Nothing is cut that would have fitted.
        if first.len() <= meta::LINE_LIMIT {
            prop_assert_eq!(shown, first);
        } else {
            prop_assert!(shown.trim_end().len() <= meta::LINE_LIMIT && first.starts_with(shown));
        }
        prop_assert_eq!(meta::line(&tool, ToolTier::Deferred), "- t");
    }
}
