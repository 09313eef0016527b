//! Who is in which tier, and what is sent.

use proptest::prelude::*;
use serde_json::json;

use super::*;

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
    let plans = TierPlans::default();
    let mut made = None;
    let said = warnings(|| {
        for _ in 0..3 {
            made = Some(plans.plan_for(&toolkit, Style::OpenAI, &options));
        }
    });
    let plan = made.unwrap();
    assert_eq!(plan.tiers().keys().collect::<Vec<_>>(), ["other"]);
    // Each is told of once.
    assert_eq!(said.len(), 2, "{said:?}");
    for (line, name) in said.iter().zip([TOOL_SEARCH, CALL_TOOL]) {
        assert!(line.contains(&format!("tool \"{name}\" (custom) is hidden")), "{line}");
    }
    assert_eq!(names(&entries(&plan, Style::OpenAI)), ["other", TOOL_SEARCH, CALL_TOOL]);
    let select = json!({"query": "select:tool_search,call_tool,other"});
    assert_eq!(found(&plan, &toolkit, select).unwrap(), ["other"]);
    assert!(found(&plan, &toolkit, json!({"query": "mine"})).unwrap().is_empty());
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
    // A budget that cannot be met defers everything, sends the rest nevertheless, and says so.
    let said = warnings(|| assert_eq!(core(20), ""));
    assert!(said[0].contains("the budget of 1 tokens cannot be met"), "{said:?}");
    assert_eq!((said.len(), warnings(|| assert_eq!(core(10_000), "b")).len()), (1, 0));
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
