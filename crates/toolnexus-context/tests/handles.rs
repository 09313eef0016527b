//! Handles: how they are numbered, spelled and registered.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

// The default configuration is valid: what it declares is there
#[test]
fn the_default_configuration_is_valid() {
    let registry = support::fixture();
    assert!(registry.has_tool_policy("bash"));
    assert!(!registry.has_tool_policy("somebody_elses"));
}
