//! `#[tool]` and `#[tools]`: Rust functions as tools of toolnexus.
