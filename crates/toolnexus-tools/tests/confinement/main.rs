//! Every way out of a base directory that we could think of, tried with every tool that takes a path.
//!
//! A [`Scene`](scene::Scene) has a base directory and, beside it, an outside with a secret in it. A way
//! out is a path; all tools are called with it, each as if it were to read, change, create or delete what
//! is there. Whatever a tool says, afterwards
//!
//! * the outside is what it was: names, contents, links, modes and times of change;
//! * the secret is in no output, no error and no metadata.
//!
//! | file | what it tries |
//! |---|---|
//! | `spellings.rs` | paths that say where they lead, and paths that only look so |
//! | `links.rs` | links of all kinds, also such as a model makes itself |
//! | `patterns.rs` | globs, includes and patches that name what lies outside |
//! | `bases.rs` | base directories that are links, relative, missing, swapped, the root |
//! | `races.rs` | a tree that is changed under the tools' hands |
//! | `allowed.rs` | what must not be refused |
//!
//! Not tried, because it cannot be told apart: a hard link to a file outside *is* a file inside
//! (`links.rs` documents what happens). And no tool holds back a command that `bash` runs: only its
//! working directory is confined.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod allowed;
mod bases;
#[cfg(unix)]
mod links;
mod patterns;
#[cfg(unix)]
mod races;
mod scene;
mod spellings;
