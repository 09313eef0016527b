//! Many callers at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::{RunLog, RunLogError};

use super::events::{failed, started};
use crate::suite::works;

/// Runs a task for each number and gives their results.
async fn tasks<T, F>(count: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running: Vec<_> = (0..count).map(|number| tokio::spawn(task(number))).collect();
    let ended = join_all(running).await;
    ended.into_iter().map(|result| works(result, "a task of the suite")).collect()
}

pub(super) async fn one_appender_wins<L: RunLog + 'static>(log: &Arc<L>, appenders: usize) {
    let mut all: Vec<RunEvent> = Vec::new();
    for round in 0..4 {
        let at = all.len() as u64;
        let results = tasks(appenders, |number| {
            let log = Arc::clone(log);
            async move {
                let first = if at == 0 { started("a", "hi") } else { RunEvent::Resumed { model: None } };
                let events =
                    vec![first, failed(&format!("{round}/{number}")), RunEvent::Resumed { model: None }];
                (log.append("a", at, &events).await, events)
            }
        })
        .await;
        let mut winners = Vec::new();
        for (result, events) in results {
            match result {
                Ok(()) => winners.push(events),
                Err(RunLogError::Conflict { len, .. }) => {
                    assert!(len == at + 3, "a loser of the race must hear of {} events, not {len}", at + 3);
                }
                Err(error) => works(Err(error), "an append that lost a race, but for its conflict"),
            }
        }
        assert!(
            winners.len() == 1,
            "of {appenders} appends at {at} at once exactly one must succeed, not {}",
            winners.len()
        );
        all.extend(winners.into_iter().flatten());
        let read = works(log.read("a", 0).await, "reading after a race");
        assert!(read == all, "after a race a run must have the events of the winner and no others");
    }
}

pub(super) async fn nothing_is_lost<L: RunLog + 'static>(log: &Arc<L>, appenders: usize) {
    let places = tasks(appenders, |number| {
        let log = Arc::clone(log);
        async move {
            let mut at = 0;
            loop {
                match log.append("a", at, &[failed(&number.to_string())]).await {
                    Ok(()) => return at,
                    Err(RunLogError::Conflict { len, .. }) if len > at => at = len,
                    Err(error) => works(Err(error), "an append that goes by the conflicts it gets"),
                }
            }
        }
    })
    .await;
    let distinct: BTreeSet<u64> = places.iter().copied().collect();
    let expected: BTreeSet<u64> = (0..appenders as u64).collect();
    assert!(distinct == expected, "each append must have a place of its own, not {places:?}");
    let read = works(log.read("a", 0).await, "reading after many appends");
    let mut written = vec![None; appenders];
    for (number, place) in places.iter().enumerate() {
        if let Some(slot) = usize::try_from(*place).ok().and_then(|place| written.get_mut(place)) {
            *slot = Some(failed(&number.to_string()));
        }
    }
    let as_promised = read.into_iter().map(Some).eq(written);
    assert!(as_promised, "each event must be at the place where its append succeeded");
}

pub(super) async fn readers_see_whole_appends<L: RunLog + 'static>(log: &Arc<L>) {
    const APPENDS: u64 = 24;
    let events = |at: u64| {
        let events = (at * 3..at * 3 + 3).map(|number| failed(&number.to_string()));
        events.collect::<Vec<_>>()
    };
    works(log.append("a", 0, &events(0)).await, "a first append");
    tasks(5, |number| {
        let log = Arc::clone(log);
        async move {
            if number == 0 {
                for at in 1..APPENDS {
                    works(log.append("a", at * 3, &events(at)).await, "an append with readers around");
                }
                return;
            }
            let mut len = 0;
            while len < APPENDS * 3 {
                let read = works(log.read("a", 0).await, "reading while somebody appends");
                let now = read.len() as u64;
                assert!(now.is_multiple_of(3), "a reader must see appends of 3 whole, not {now} events");
                assert!(now >= len, "a run must not get shorter: {len} events, then {now}");
                let expected = (0..now).map(|number| failed(&number.to_string()));
                assert!(read.into_iter().eq(expected), "a reader must see events in order");
                len = now;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
}
