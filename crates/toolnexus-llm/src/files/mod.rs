//! What the stores in directories share: files that only their owner may read, directory entries
//! that survive a crash of the machine, and blocking work in its turn.

mod private;
mod queue;

pub(crate) use private::{create_dir, private, sync_dir};
pub(crate) use queue::Queue;
