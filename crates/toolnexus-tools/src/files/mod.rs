//! Files as tools see them: found by a path, held by a handle, changed whole or not at all.
//!
//! A call goes from a path as the model wrote it to a [`Place`] ([`Paths::place`](crate::paths::Paths::place)),
//! takes the lock of that place ([`FileLocks`]), and works on the place alone. What a change
//! altered is told by [`add_diff`].
//!
//! ```text
//! "src/../a.txt"  ->  Paths::place  ->  Place { directory handle, "a.txt" }
//!                                         |  real()            -> FileLocks::lock
//!                                         |  kind, open, read
//!                                         |  replace, remove
//!                                         |  prepare, prepare_with_parents, commit, set_aside: what can be undone
//!                                         v
//!                     add_diff(metadata, changes); nearest() when a text was not found
//! ```
//!
//! Everything but the locks blocks: call it off the async threads. Move the guard into
//! the blocking work too, so that a call whose future is dropped keeps its lock until the work
//! has come to an end. For a single file, [`change_file`] does all that.

mod aside;
mod attributes;
mod change;
mod diff;
mod locks;
mod nearest;
mod place;
mod prepared;
mod roots;

pub(crate) use aside::Aside;
pub(crate) use change::change_file;
pub(crate) use diff::{Change, Version, add_diff};
pub(crate) use locks::FileLocks;
pub(crate) use nearest::{nearest, nearest_lines};
pub(crate) use place::{CreatedDirectories, Kind, MOST_BYTES, Place};
pub(crate) use roots::Roots;
