//! Files as tools see them.

mod locks;

pub(crate) use locks::FileLocks;
