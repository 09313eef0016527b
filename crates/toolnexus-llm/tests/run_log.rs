//! What every run log promises, for both that come with the library.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use toolnexus_llm::run_log::{FileRunLog, MemoryRunLog};
use toolnexus_testkit::run_log_suite;

// RUN-9, RUN-11, RUN-12, RUN-28, RUN-32, case 10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_memory_keeps_its_promises() {
    run_log_suite(async || MemoryRunLog::default()).await;
}

// RUN-9, RUN-11, RUN-12, RUN-13, RUN-28, RUN-32, case 10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_files_keeps_its_promises() {
    let temporary = tempfile::tempdir().unwrap();
    let mut logs = 0;
    run_log_suite(async || {
        logs += 1;
        FileRunLog::open(temporary.path().join(logs.to_string())).unwrap()
    })
    .await;
}
