//! A log in a directory, one file for each run.

/// Runs in the files of a directory.
#[derive(Debug)]
pub struct FileRunLog {}
