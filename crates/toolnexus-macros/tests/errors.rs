//! What `#[tool]` and `#[tools]` say to code that they cannot make a tool of.

// CORE-81, CORE-86: the message says what to write instead
#[test]
fn refusals_say_what_to_write_instead() {
    trybuild::TestCases::new().compile_fail("tests/errors/*.rs");
}
