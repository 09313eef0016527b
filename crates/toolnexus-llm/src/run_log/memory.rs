//! A log in memory.

/// Runs in memory, for as long as the log lives.
#[derive(Debug, Default)]
pub struct MemoryRunLog {}
