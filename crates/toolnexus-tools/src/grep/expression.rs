//! The regular expression of a search.

use std::borrow::Cow;

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ast;

/// What a compiled expression, and the tables made while matching with it, may take. An expression
/// comes from a model; one of a few characters can ask for gigabytes.
const MAX_BYTES: usize = 10 * 1024 * 1024;

/// Compiles an expression that is matched against single lines.
///
/// # Errors
/// What is wrong with it, on one line.
pub(super) fn compile(expression: &str) -> Result<RegexMatcher, String> {
    // The builder puts the expression between parentheses, which makes `a)|(b` well-formed. So it is
    // parsed as it stands first; this also gives the reason without a drawing of several lines.
    let parsed = ast::parse::Parser::new().parse_with_comments(expression);
    let parsed = parsed.map_err(|error| error.kind().to_string())?;
    // A comment would swallow the builder's closing parenthesis.
    let ends_in_comment = parsed.comments.last().is_some_and(|last| last.span.end.offset == expression.len());
    let closed =
        if ends_in_comment { Cow::Owned(format!("{expression}\n")) } else { Cow::Borrowed(expression) };
    RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .multi_line(true)
        .size_limit(MAX_BYTES)
        .dfa_size_limit(MAX_BYTES)
        .build(&closed)
        .map_err(|error| match error.kind() {
            ErrorKind::NotAllowed(_) => {
                "no line holds a \\n; search for the lines one by one, with context".to_owned()
            }
            _ => one_line(&error.to_string()),
        })
}

/// The last line of a message, without what introduces it.
fn one_line(message: &str) -> String {
    let last = message.lines().next_back().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grep_matcher::Matcher as _;

    fn matches(expression: &str, line: &str) -> bool {
        compile(expression).unwrap().is_match(line.as_bytes()).unwrap()
    }

    // BUILTIN-58
    #[test]
    fn the_syntax_is_that_of_rust() {
        assert!(matches("b", "abc") && !matches("B", "abc") && matches("(?i)B", "abc"));
        assert!(matches(r"^\p{Greek}{2}$", "αβ") && !matches(r"^\p{Greek}$", "αβ"));
        assert!(matches("(?x) a b # and a comment", "ab") && !matches("(?x) a b # c", "a b"));
        assert!(matches("(?x) a b # and a comment\n", "ab"));
        assert!(matches("a[^b]c", "axc") && matches(r"a\sc", "a\tc"));
    }

    // BUILTIN-58
    #[test]
    fn what_is_wrong_with_an_expression_is_said_on_one_line() {
        for (bad, reason) in [
            ("(", "unclosed group"),
            ("a)|(b", "unopened group"),
            ("(?=a)", "look-around, including look-ahead and look-behind, is not supported"),
            (r"(a)\1", "backreferences are not supported"),
            (r"\p{Nope}", "Unicode property not found"),
            ("a\nb", "no line holds a \\n; search for the lines one by one, with context"),
            (r"a\nb", "no line holds a \\n; search for the lines one by one, with context"),
            (r"(\w{1000}){1000}", "compiled regex exceeds size limit of 10485760"),
        ] {
            assert_eq!(compile(bad).unwrap_err(), reason, "{bad}");
        }
        assert!(compile(&"(".repeat(100_000)).is_err());
        assert!(compile(&"[".repeat(100_000)).is_err());
    }
}
