//! The report on stdout.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where the program speaks")]

use crate::cases::{Clock, Target};
use crate::measure::Row;

/// Prints rows as they come.
pub(crate) struct Report {
    json: bool,
}

impl Report {
    /// A report as JSON lines or as a table.
    pub(crate) fn new(json: bool) -> Self {
        if !json {
            println!(
                "{:<16} {:>7} {:>10} {:>12} {:>7} {:>7} {:>10} {:>7}",
                "case", "runs", "cpu_us", "floor_cpu_us", "ratio", "target", "p50_us", "rss_mb"
            );
        }
        Report { json }
    }

    /// Prints one row.
    pub(crate) fn row(&mut self, row: &Row, target: &Target) {
        if self.json {
            println!("{}", serde_json::to_string(row).unwrap_or_default());
            return;
        }
        let verdict = if target.is_missed_by(row) { "  over target" } else { "" };
        let wall = match row.clock {
            Clock::Cpu => String::new(),
            Clock::Wall => format!("  of wall time, floor {:.1}", row.floor_p50_us),
        };
        let memory = row.kib_per_run.map(|kib| format!("  {kib} KiB per run")).unwrap_or_default();
        println!(
            "{:<16} {:>7} {:>10.1} {:>12.1} {:>7.3} {:>7} {:>10.1} {:>7.1}{verdict}{wall}{memory}",
            row.case, row.runs, row.cpu_us, row.floor_cpu_us, row.ratio, target, row.p50_us, row.rss_mb
        );
    }
}

/// Says what went wrong.
pub(crate) fn complain(text: &str) {
    eprintln!("toolnexus-bench: {text}");
}
