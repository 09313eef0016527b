//! Names that providers accept.

/// Replaces every character outside `[a-zA-Z0-9_-]` by one `_`.
///
/// One Unicode scalar value gives one underscore; nothing is trimmed, collapsed, lower-cased or
/// shortened. Sources that take names from elsewhere (MCP servers, remote agents) use it; a name
/// that you give to a tool yourself is never changed.
///
/// ```
/// assert_eq!(toolnexus_core::sanitize("calc.sum"), "calc_sum");
/// ```
pub fn sanitize(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // CORE-16, cases 1 to 3 of the chapter
    #[test]
    fn foreign_characters_become_underscores() {
        assert_eq!(sanitize("get user"), "get_user");
        assert_eq!(sanitize("calc.sum"), "calc_sum");
        assert_eq!(sanitize("é😀-x_1"), "__-x_1");
        assert_eq!(sanitize(""), "");
    }

    proptest! {
        // CORE-16
        #[test]
        fn one_character_in_one_allowed_character_out(name in ".*") {
            let out = sanitize(&name);
            prop_assert_eq!(out.chars().count(), name.chars().count());
            prop_assert!(out.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert_eq!(sanitize(&out), out.clone());
        }
    }
}
