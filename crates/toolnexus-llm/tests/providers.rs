//! Answers in the shapes of real providers, each through the client over a socket: what becomes of
//! it, what the transcript keeps, and what the next request sends back.
//!
//! The answers are files in `tests/fixtures/providers`; its README says where each shape is
//! documented.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "providers/anthropic.rs"]
mod anthropic;
#[path = "providers/chunking.rs"]
mod chunking;
#[path = "providers/compatible.rs"]
mod compatible;
#[path = "providers/errors.rs"]
mod errors;
#[path = "providers/gateways.rs"]
mod gateways;
#[path = "providers/gemini.rs"]
mod gemini;
#[path = "providers/mutated.rs"]
mod mutated;
#[path = "providers/openai.rs"]
mod openai;
#[path = "providers/recorded.rs"]
mod recorded;
mod support;
