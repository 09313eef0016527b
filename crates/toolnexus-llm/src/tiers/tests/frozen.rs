//! Plans that stay as they are.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;

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
