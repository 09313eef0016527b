//! Every run of these tests is recorded and replayed when its driver leaves it.

use std::sync::atomic::{AtomicUsize, Ordering};

use toolnexus_llm::run::{Run, RunEvent};

static REPLAYED: AtomicUsize = AtomicUsize::new(0);

/// From now on every run of this process is checked; once is enough.
pub(crate) fn every_run() {
    toolnexus_llm::observe_runs(check);
}

/// How many runs were checked so far.
pub(crate) fn count() -> usize {
    REPLAYED.load(Ordering::SeqCst)
}

// RUN-31, RUN-1: equal state and equal result, also by way of the events' JSON
fn check(events: &[RunEvent], run: &Run) {
    let replayed = Run::replay(events).expect("the events of a run fit");
    assert!(replayed == *run, "a replay of {events:?} gives {replayed:?}, the run was {run:?}");
    let json = serde_json::to_string(events).unwrap();
    let read: Vec<RunEvent> = serde_json::from_str(&json).unwrap();
    let reread = Run::replay(&read).expect("the events fit when they were read back");
    assert!(reread == *run, "a replay of {json} gives {reread:?}, the run was {run:?}");
    let result = |run: &Run| run.clone().into_result().or_else(|| run.clone().halted());
    assert_eq!(result(&replayed), result(run));
    REPLAYED.fetch_add(1, Ordering::SeqCst);
}
