//! One caller.

use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::{RunFilter, RunLog, RunLogError};

use super::events::{failed, said, started, whole_run};
use crate::suite::works;

fn is_not_found<T>(result: &Result<T, RunLogError>, id: &str) -> bool {
    matches!(result, Err(RunLogError::NotFound { run_id }) if run_id == id)
}

fn is_invalid<T>(result: &Result<T, RunLogError>, id: &str) -> bool {
    matches!(result, Err(RunLogError::InvalidId { run_id }) if run_id == id)
}

pub(super) async fn refuses_bad_ids(log: &impl RunLog) {
    let too_long = "x".repeat(129);
    let bad = ["", ".", "..", "../x", "/x", ".x", "a/b", "a\\b", "a b", "a:b", "ä", "a\n", "a\0", &too_long];
    for id in bad {
        let events = [started(id, "hi")];
        let refused = is_invalid(&log.append(id, 0, &events).await, id)
            && is_invalid(&log.append(id, 7, &events).await, id)
            && is_invalid(&log.append(id, 0, &[]).await, id)
            && is_invalid(&log.read(id, 0).await, id)
            && is_invalid(&log.remove(id).await, id);
        assert!(refused, "{id:?} is no run id: append, read and remove must fail with InvalidId");
        let page = RunFilter { after: Some(id.into()), ..Default::default() };
        assert!(is_invalid(&log.list(page).await, id), "a list after {id:?} must fail with InvalidId");
    }
    let listed = works(log.list(RunFilter::default()).await, "a list of no runs");
    assert!(listed.is_empty(), "a refused id must leave nothing behind, found {listed:?}");

    let longest = "x".repeat(128);
    for id in ["1", "-", "_", "a..b", "a.jsonl", "A-Z_a.z-0.9", &longest] {
        let events = [started(id, "hi")];
        works(log.append(id, 0, &events).await, &format!("an append to the run {id:?}"));
        let read = works(log.read(id, 0).await, &format!("reading the run {id:?}"));
        assert!(read == events, "the run {id:?} must hold what was appended to it");
    }
}

pub(super) async fn knows_what_is_missing(log: &impl RunLog) {
    let nothing_there = async |when: &str| {
        assert!(is_not_found(&log.read("a", 0).await, "a"), "{when}, read must fail with NotFound");
        assert!(is_not_found(&log.read("a", 9).await, "a"), "{when}, read must fail with NotFound");
        assert!(is_not_found(&log.remove("a").await, "a"), "{when}, remove must fail with NotFound");
        let listed = works(log.list(RunFilter::default()).await, "a list of no runs");
        assert!(listed.is_empty(), "{when}, a list must be empty, not {listed:?}");
    };
    nothing_there("without a run").await;
    let appended = log.append("a", 3, &[failed("x")]).await;
    let conflict = matches!(&appended, Err(RunLogError::Conflict { len: 0, .. }));
    assert!(conflict, "an append at 3 to no run must be a conflict with 0 events, not {appended:?}");
    nothing_there("after a conflict").await;
    works(log.append("a", 0, &[]).await, "an append of no events at 0");
    nothing_there("after an append of no events").await;
    let page = RunFilter { after: Some("a".into()), ..Default::default() };
    assert!(is_not_found(&log.list(page).await, "a"), "a list after an unknown run must fail with NotFound");
}

pub(super) async fn gives_back_what_was_appended(log: &impl RunLog) {
    let mut all = Vec::new();
    works(log.append("other", 0, &[started("other", "hi")]).await, "an append to a second run");
    for events in whole_run("a") {
        works(log.append("a", all.len() as u64, &events).await, "an append at the end of a run");
        all.extend(events);
        let read = works(log.read("a", 0).await, "reading after an append");
        assert!(read == all, "read from 0 must give all {} events, in order and unchanged", all.len());
    }
    for from in 0..all.len() + 3 {
        let read = works(log.read("a", from as u64).await, &format!("reading from {from}"));
        let expected = all.get(from..).unwrap_or_default();
        assert!(read == expected, "read from {from} of {} must give the {} last", all.len(), expected.len());
    }
    let other = works(log.read("other", 0).await, "reading the second run");
    assert!(other == [started("other", "hi")], "a run must hold nothing of another");
}

pub(super) async fn conflicts_change_nothing(log: &impl RunLog) {
    let events = [started("a", "hi"), failed("x"), RunEvent::Resumed { model: None }];
    works(log.append("a", 0, &events).await, "an append of three events");
    for at in [0, 1, 2, 4, 5, u64::MAX] {
        for events in [&[][..], &[said("no")], &[said("no"), failed("no"), failed("no")]] {
            let appended = log.append("a", at, events).await;
            let conflict = matches!(&appended,
                Err(RunLogError::Conflict { run_id, len: 3 }) if run_id == "a");
            assert!(
                conflict,
                "an append at {at} to 3 events must be a conflict that says 3, not {appended:?}"
            );
        }
    }
    works(log.append("a", 3, &[]).await, "an append of no events at the end");
    let read = works(log.read("a", 0).await, "reading after conflicts");
    assert!(read == events, "an append that failed must add none of its events");
}

pub(super) async fn keeps_large_events(log: &impl RunLog, bytes: usize) {
    let text = format!("\"\\\n☃{}", "0123456789abcdef".repeat(bytes / 16));
    let events = [started("a", "hi"), failed(&text), failed("small")];
    works(log.append("a", 0, &events).await, "an append with a large event");
    works(log.append("a", 3, &[failed("last")]).await, "an append behind a large event");
    let read = works(log.read("a", 0).await, "reading a large event");
    let (first, last) = read.split_at(3.min(read.len()));
    assert!(first == events && last == [failed("last")], "a large event must come back unchanged");
    let last = works(log.read("a", 3).await, "reading behind a large event");
    assert!(last == [failed("last")], "the event behind a large one must be found at its place");
}

pub(super) async fn forgets_removed_runs(log: &impl RunLog) {
    for id in ["a", "b", "c"] {
        works(log.append(id, 0, &[started(id, "hi"), failed("x")]).await, "an append to a new run");
    }
    works(log.remove("b").await, "removing a run");
    assert!(is_not_found(&log.read("b", 0).await, "b"), "a removed run must not be found");
    assert!(is_not_found(&log.remove("b").await, "b"), "a removed run cannot be removed again");
    let appended = log.append("b", 2, &[said("x")]).await;
    let conflict = matches!(&appended, Err(RunLogError::Conflict { len: 0, .. }));
    assert!(conflict, "a removed run has 0 events: an append at 2 is a conflict, not {appended:?}");
    let listed = works(log.list(RunFilter::default()).await, "a list after a removal");
    let mut ids: Vec<&str> = listed.iter().map(|run| run.run_id.as_str()).collect();
    ids.sort_unstable();
    assert!(ids == ["a", "c"], "a list must have the runs that were not removed, not {ids:?}");

    works(log.append("b", 0, &[started("b", "again")]).await, "beginning a removed run again");
    let read = works(log.read("b", 0).await, "reading a run that was begun again");
    assert!(read == [started("b", "again")], "a run begun again must have its new events only");
}
