//! Lists of runs.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _};
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::{RunFilter, RunLog, RunLogError, RunSummary, RunSummaryStatus};

use super::events::{
    called, failed, finished, incomplete, said, started, suspended, tool_finished, tools_started, whole_run,
};
use crate::suite::works;

/// How many runs are written or removed at once.
const AT_ONCE: usize = 64;

async fn list(log: &impl RunLog, filter: RunFilter) -> Vec<RunSummary> {
    let what = format!("a list by {filter:?}");
    let listed = works(log.list(filter).await, &what);
    let newest_first = listed.is_sorted_by(|left, right| left.started_at >= right.started_at);
    assert!(newest_first, "{what} must have the newest run first");
    listed
}

fn ids(runs: &[RunSummary]) -> Vec<&str> {
    runs.iter().map(|run| run.run_id.as_str()).collect()
}

pub(super) async fn summarises_every_state(log: &impl RunLog) {
    use RunSummaryStatus::{Done, Failed, Incomplete, Pending, Running};
    let asks = || vec![called(&["ask", "add"]), tools_started(&[0, 1]), suspended(0, "sus-1")];
    let pending = [asks(), vec![tool_finished(1, "3")]].concat();
    // What happened after `started`, and what is to be said of it: state, model calls, finished tools.
    let runs: Vec<(&str, Vec<RunEvent>, RunSummaryStatus, u32, usize)> = vec![
        ("new", vec![], Running, 0, 0),
        ("working", asks(), Running, 1, 0),
        ("pending", pending, Pending, 1, 1),
        ("failed", vec![failed("the provider is away")], Failed, 0, 0),
        ("taken-up", vec![failed("the provider is away"), RunEvent::Resumed { model: None }], Running, 0, 0),
        ("answered", vec![said("hello")], Done, 1, 0),
        ("done", vec![said("hello"), finished()], Done, 1, 0),
        ("incomplete", vec![incomplete()], Incomplete, 0, 0),
        ("long", whole_run("long").concat().split_off(1), Done, 2, 2),
    ];
    for (id, rest, ..) in &runs {
        works(log.append(id, 0, &[started(id, "hi")]).await, "an append to a new run");
        works(log.append(id, 1, rest).await, "an append to a run");
    }
    let listed = list(log, RunFilter::default()).await;
    assert!(listed.len() == runs.len(), "a list must have all {} runs, not {:?}", runs.len(), ids(&listed));
    for (id, _, status, turns, tool_calls) in &runs {
        let Some(run) = listed.iter().find(|run| run.run_id == *id) else {
            works::<(), _>(Err("it is not in the list"), &format!("finding the run {id:?}"));
            continue;
        };
        let found = (run.status, run.turns, run.tool_calls, run.total_tokens);
        let expected = (*status, *turns, *tool_calls, u64::from(*turns) * 5);
        assert!(found == expected, "the run {id:?} must be listed as {expected:?}, not {found:?}");
        let requests: Vec<&str> = run.pending.iter().map(|request| request.id.as_str()).collect();
        // What is asked while a sibling still runs is asked all the same.
        let expected: &[&str] = if matches!(*id, "working" | "pending") { &["sus-1"] } else { &[] };
        assert!(requests == expected, "the run {id:?} must wait for {expected:?}, not {requests:?}");
    }
    for status in [Running, Pending, Done, Incomplete, Failed] {
        let filtered = list(log, RunFilter { status: Some(status), ..Default::default() }).await;
        let mut expected = listed.clone();
        expected.retain(|run| run.status == status);
        assert!(
            filtered == expected,
            "a list of {status:?} must have {:?}, not {:?}",
            ids(&expected),
            ids(&filtered)
        );
        // Page by page: a page has as many fitting runs as asked for, however many others lie between.
        let mut paged: Vec<RunSummary> = Vec::new();
        loop {
            let after = paged.last().map(|run| run.run_id.clone());
            let page = list(log, RunFilter { status: Some(status), after, limit: 1 }).await;
            assert!(page.len() <= 1, "a page of 1 must not have {}", page.len());
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert!(paged == expected, "pages of {status:?} must have what the whole list has");
    }
}

pub(super) async fn leaves_out_what_is_no_run(log: &impl RunLog) {
    works(log.append("good", 0, &[started("good", "hi")]).await, "an append to a new run");
    works(log.append("odd", 0, &[failed("not a beginning")]).await, "an append of any event");
    let listed = list(log, RunFilter::default()).await;
    assert!(ids(&listed) == ["good"], "events that make no run must not spoil the list, nor be in it");
}

pub(super) async fn keeps_and_pages_many_runs(log: &impl RunLog, count: usize) {
    let id = |number: usize| format!("run-{number:06}");
    let append = |number: usize| async move {
        let id = id(number);
        works(log.append(&id, 0, &[started(&id, "hi"), said("hello")]).await, "an append to a new run");
    };
    stream::iter(0..count).for_each_concurrent(AT_ONCE, append).await;

    let first = list(log, RunFilter::default()).await;
    assert!(first.len() == count.min(100), "a page without a limit has 100 runs, not {}", first.len());
    let mut paged: Vec<RunSummary> = Vec::new();
    let limit = count / 4 + 1;
    loop {
        let after = paged.last().map(|run| run.run_id.clone());
        let page = list(log, RunFilter { after, limit, ..Default::default() }).await;
        assert!(page.len() <= limit, "a page of {limit} must not have {}", page.len());
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    let newest_first = paged.is_sorted_by(|left, right| left.started_at >= right.started_at);
    assert!(newest_first, "pages, one behind the other, must have the newest run first");
    let distinct: BTreeSet<&str> = paged.iter().map(|run| run.run_id.as_str()).collect();
    assert!(
        paged.len() == count && distinct.len() == count,
        "pages must have each of {count} runs once, not {} of which {} differ",
        paged.len(),
        distinct.len()
    );
    let same_beginning = first.iter().zip(&paged).all(|(left, right)| left == right);
    assert!(same_beginning, "the first page must not depend on its length");

    let removed = |number: usize| !number.is_multiple_of(3);
    let remove = |number: usize| async move {
        works(log.remove(&id(number)).await, "removing one of many runs");
    };
    let numbers = (0..count).filter(|number| removed(*number));
    stream::iter(numbers).for_each_concurrent(AT_ONCE, remove).await;
    let left = list(log, RunFilter { limit: count + 1, ..Default::default() }).await;
    let mut found = ids(&left);
    found.sort_unstable();
    let expected: Vec<String> = (0..count).filter(|number| !removed(*number)).map(id).collect();
    assert!(found == expected, "{} runs must be left after removals, not {}", expected.len(), found.len());
    let gone = (0..count).find(|number| removed(*number)).map(id);
    if let Some(gone) = gone {
        let page = log.list(RunFilter { after: Some(gone), ..Default::default() }).await;
        let not_found = matches!(&page, Err(RunLogError::NotFound { .. }));
        assert!(not_found, "a list after a removed run must fail with NotFound, not give {page:?}");
    }
}
