//! What the tests of tool calls share: decoding a call, and saying what should become of it.
#![allow(dead_code, reason = "each test file uses its own part")]

use toolnexus_context::{ArgumentResolution, ModelToolCall, Registry};

use crate::support::fixture;

/// The call after decoding.
pub(crate) fn decode(registry: &Registry, tool: &str, arguments: &str) -> ModelToolCall {
    let mut calls = [ModelToolCall::new("call_1", tool, arguments)];
    registry.decode_tool_calls(&mut calls);
    let [call] = calls;
    assert_eq!(call.model_arguments.as_deref(), Some(arguments));
    call
}

/// Asserts what becomes of arguments in the fixture.
#[track_caller]
pub(crate) fn becomes(
    tool: &str,
    arguments: &str,
    expected: &str,
    resolution: ArgumentResolution,
    unresolved: &[&str],
) {
    becomes_in(&fixture(), tool, arguments, expected, resolution, unresolved);
}

/// Asserts what becomes of arguments in a registry.
#[track_caller]
pub(crate) fn becomes_in(
    registry: &Registry,
    tool: &str,
    arguments: &str,
    expected: &str,
    resolution: ArgumentResolution,
    unresolved: &[&str],
) {
    let call = decode(registry, tool, arguments);
    assert_eq!(call.arguments, expected);
    assert_eq!(call.argument_resolution, Some(resolution), "{arguments}");
    assert_eq!(call.unresolved_handles, unresolved, "{arguments}");
}

/// Asserts that all handles are restored.
#[track_caller]
pub(crate) fn resolved(tool: &str, arguments: &str, expected: &str) {
    becomes(tool, arguments, expected, ArgumentResolution::Resolved, &[]);
}

/// Asserts that no handle is in them.
#[track_caller]
pub(crate) fn unchanged(tool: &str, arguments: &str) {
    becomes(tool, arguments, arguments, ArgumentResolution::Unchanged, &[]);
}

/// Asserts that nothing changes and these handles are listed.
#[track_caller]
pub(crate) fn refused(tool: &str, arguments: &str, unresolved: &[&str]) {
    becomes(tool, arguments, arguments, ArgumentResolution::Unresolved, unresolved);
}
