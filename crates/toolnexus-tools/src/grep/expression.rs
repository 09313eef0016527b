//! The regular expression of a search.

use std::borrow::Cow;

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use regex_syntax::hir::{Hir, HirKind};
use regex_syntax::{Parser, ast};

use super::text::{LONGEST_LINE, PIECE};

/// What a compiled expression, and the tables made while matching with it, may take. An expression
/// comes from a model; one of a few characters can ask for gigabytes.
const MAX_BYTES: usize = 10 * 1024 * 1024;

/// How many steps the search of one line may take, a step being one byte that is compared with one place of
/// the expression. A search cannot be interrupted within a line, and it is not for a model to say for how
/// many hours a thread goes on when nobody waits for it any more: these are some seconds, and most
/// expressions take far fewer.
const MOST_STEPS: usize = 1 << 31;

/// A compiled expression.
#[derive(Clone)]
pub(super) struct Expression {
    pub(super) matcher: RegexMatcher,
    /// How much of a line may be searched, in bytes.
    pub(super) longest_line: usize,
}

/// Compiles an expression that is matched against single lines.
///
/// # Errors
/// What is wrong with it, on one line.
pub(super) fn compile(expression: &str) -> Result<Expression, String> {
    // The builder puts the expression between parentheses, which makes `a)|(b` well-formed. So it is
    // parsed as it stands first; this also gives the reason without a drawing of several lines.
    let parsed = ast::parse::Parser::new().parse_with_comments(expression);
    let parsed = parsed.map_err(|error| error.kind().to_string())?;
    // A comment would swallow the builder's closing parenthesis.
    let ends_in_comment = parsed.comments.last().is_some_and(|last| last.span.end.offset == expression.len());
    let closed =
        if ends_in_comment { Cow::Owned(format!("{expression}\n")) } else { Cow::Borrowed(expression) };
    let matcher = RegexMatcherBuilder::new()
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
        })?;
    let steps = Parser::new().parse(expression).map_or(0, |parsed| places(&parsed));
    let longest_line = MOST_STEPS / steps.max(1);
    if longest_line < PIECE {
        return Err("it takes too much time; repeat less, or search for a part of it".to_owned());
    }
    Ok(Expression { matcher, longest_line: longest_line.min(LONGEST_LINE) })
}

/// How many places of an expression a byte of text may have to be compared with: its characters, classes and
/// assertions, each as often as it is repeated.
fn places(expression: &Hir) -> usize {
    match expression.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) | HirKind::Look(_) => 1,
        HirKind::Capture(capture) => places(&capture.sub),
        HirKind::Repetition(repetition) => {
            // Without an upper end it is one more, which goes round in a circle.
            let times = repetition.max.unwrap_or_else(|| repetition.min.saturating_add(1));
            places(&repetition.sub).saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Concat(all) | HirKind::Alternation(all) => {
            all.iter().map(places).fold(0, usize::saturating_add)
        }
    }
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
        compile(expression).unwrap().matcher.is_match(line.as_bytes()).unwrap()
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

    // BUILTIN-19, BUILTIN-99: how much is searched without a look at whether anybody still waits
    #[test]
    fn the_longer_an_expression_the_shorter_the_lines() {
        for (expression, longest_line) in [
            ("abc", LONGEST_LINE),
            (r"(?i)fn\s+\w{1,20}", LONGEST_LINE),
            ("[ab]{1000}", MOST_STEPS / 1000),
            ("[ab]*a[ab]{4998}c", MOST_STEPS / 5001),
            ("(?:a{100}|(b{50}){10,}|^$){10}", MOST_STEPS / 6520),
            ("(a?){0,9000}", MOST_STEPS / 9000),
        ] {
            assert_eq!(compile(expression).unwrap().longest_line, longest_line, "{expression}");
        }
        for expression in ["a{40000}", "((a{40}){40}){40}", "(?:a?){33000}"] {
            let reason = compile(expression).err().unwrap();
            assert_eq!(reason, "it takes too much time; repeat less, or search for a part of it");
        }
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
            assert_eq!(compile(bad).err().unwrap(), reason, "{bad}");
        }
        assert!(compile(&"(".repeat(100_000)).is_err());
        assert!(compile(&"[".repeat(100_000)).is_err());
    }
}
