//! One writer at a time for each file.

/// The locks of one set of tools, by resolved path.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {}
