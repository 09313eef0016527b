//! The report on standard output: a line for each check, the totals at the end.

#![allow(clippy::print_stdout, reason = "this is where the runners speak")]

use std::process::ExitCode;
use std::time::Duration;

/// How a check ended: an error is the reason why it failed.
pub type Outcome = Result<(), String>;

/// How long a check may take; none is meant to come near it.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// Runs checks and counts how they end.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use toolnexus_conformance::{Report, equal};
/// let mut report = Report::default();
/// report.check("arithmetic", async { equal("sum", &(2 + 2), &4) }).await;
/// assert_eq!(report.finish(), std::process::ExitCode::SUCCESS);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// Runs a check and prints its line: `ok   <name>`, or `FAIL <name>: <reason>`. A check that is
    /// not done after a minute is dropped and has failed.
    pub async fn check(&mut self, name: &str, check: impl Future<Output = Outcome>) {
        let outcome = tokio::time::timeout(CHECK_LIMIT, check)
            .await
            .unwrap_or_else(|_| Err(format!("not done after {} s", CHECK_LIMIT.as_secs())));
        self.record(name, outcome);
    }

    /// Prints the line of a check that was done elsewhere.
    pub fn record(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("ok   {name}");
            }
            Err(reason) => {
                self.failed += 1;
                println!("FAIL {name}: {}", reason.replace('\n', "\\n"));
            }
        }
    }

    /// Prints the totals. Success takes at least one check and no failed one.
    pub fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
