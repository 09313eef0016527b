//! Patterns that choose files by their path below the place where a search starts.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};

use crate::search::Root;

/// A longer pattern could not be told from an attack.
const MAX_BYTES: usize = 4096;

/// A compiled pattern.
///
/// Without a `/` it is matched against the base name, with one against the whole relative path.
/// `*`, `?` and classes stay within a component, `**` as a whole component crosses any number of
/// them. A path that is written like the pattern matches it too, so that `app/[id]/page.tsx`
/// finds itself.
pub(crate) struct Pattern {
    literal: String,
    /// `None` for a pattern that is only a name.
    matcher: Option<GlobSet>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the pattern.
    fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_BYTES {
            return Err(format!("{} bytes are more than {MAX_BYTES}", pattern.len()));
        }
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        // A set of one: unlike a single matcher, it refuses what would take too much memory.
        let matcher = GlobSet::new([glob]).map_err(|error| error.kind().to_string())?;
        Ok(Pattern { literal: pattern.to_owned(), matcher: Some(matcher) })
    }

    /// A pattern as a model writes it: relative to the root of a search, or absolute and below it.
    ///
    /// # Errors
    /// It leads elsewhere, or is no pattern and not the path of a file either.
    pub(crate) fn below(root: &Root, pattern: &str) -> Result<Self, Refused> {
        let pattern = relative_to(root.names(), pattern).ok_or(Refused::Elsewhere)?;
        Pattern::new(pattern).or_else(|reason| {
            // A file may be called what no pattern can be.
            if root.has_file(pattern) { Ok(Pattern::literal(pattern)) } else { Err(Refused::Invalid(reason)) }
        })
    }

    /// A pattern that stands for one path and nothing else.
    fn literal(path: &str) -> Self {
        Pattern { literal: path.to_owned(), matcher: None }
    }

    /// Whether a `/`-separated relative path matches.
    pub(crate) fn matches(&self, relative: &str) -> bool {
        let subject = match relative.rsplit_once('/') {
            Some((_, base_name)) if !self.literal.contains('/') => base_name,
            _ => relative,
        };
        subject == self.literal || self.matcher.as_ref().is_some_and(|matcher| matcher.is_match(subject))
    }
}

/// Why a pattern cannot be used.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is absolute and does not lead below the root.
    Elsewhere,
    /// It is not a pattern, for this reason.
    Invalid(String),
}

impl Refused {
    /// The reason for a model: which argument it is about, and how it calls the root.
    pub(crate) fn describe(self, argument: &str, root: &str) -> String {
        match self {
            Refused::Elsewhere => format!("{argument} must be relative to {root}"),
            Refused::Invalid(reason) => format!("invalid {argument}: {reason}"),
        }
    }
}

/// A pattern as a model writes it, without its `./`.
fn without_dot(pattern: &str) -> &str {
    let mut rest = pattern;
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter.trim_start_matches('/');
    }
    rest
}

/// The pattern below a directory that goes by several names. `None`: it leads elsewhere.
fn relative_to<'a>(mut names: impl Iterator<Item = &'a Path>, pattern: &str) -> Option<&str> {
    if !Path::new(pattern).is_absolute() {
        return Some(without_dot(pattern));
    }
    let below = names.find_map(|name| {
        let rest = pattern.strip_prefix(name.to_str()?.trim_end_matches(['/', '\\']))?;
        rest.strip_prefix(['/', '\\'])
    });
    below.map(|below| below.trim_start_matches('/')).filter(|below| !below.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(path)
    }

    // BUILTIN-61
    #[test]
    fn a_pattern_without_a_slash_is_about_base_names() {
        assert!(matches("*.md", "a.md") && matches("*.md", "sub/deep/a.md"));
        assert!(matches("a?.md", "x/ab.md") && !matches("a?.md", "x/a.md"));
        assert!(!matches("*.md", "a.md.txt") && !matches("b*", "ab"));
        assert!(!matches("*.MD", "a.md"));
        assert!(matches("**", "any/where.txt"));
    }

    // BUILTIN-61
    #[test]
    fn a_pattern_with_a_slash_is_about_whole_paths() {
        assert!(
            matches("sub/*", "sub/c.md")
                && !matches("sub/*", "sub/deep/c.md")
                && !matches("sub/*", "x/sub/c.md")
        );
        assert!(matches("**/*.md", "a.md") && matches("**/*.md", "x/y/a.md"));
        assert!(matches("a/**/z", "a/z") && matches("a/**/z", "a/b/c/z") && !matches("a/**/z", "a/bz"));
        assert!(matches("a/**", "a/b/c") && !matches("a/**", "ab/c"));
        assert!(!matches("a/b?c", "a/b/c") && !matches("x/a[^z]b", "x/a/b"));
    }

    // BUILTIN-62
    #[test]
    fn alternatives_classes_and_literal_paths() {
        assert!(matches("*.{ts,tsx}", "a/b.tsx") && !matches("*.{ts,tsx}", "b.t"));
        assert!(matches("a{,b}.c", "a.c") && matches("a{,b}.c", "ab.c"));
        assert!(matches("[a-c]?.rs", "bx.rs") && !matches("[!a-c]?.rs", "bx.rs"));
        assert!(matches("app/[id]/page.tsx", "app/[id]/page.tsx"));
        assert!(matches("app/[id]/page.tsx", "app/i/page.tsx"));
        assert!(matches("[id].tsx", "app/[id].tsx"));
        assert!(Pattern::new("a[").is_err() && Pattern::new("{a").is_err());
        assert_eq!((without_dot("./a"), without_dot("././/a"), without_dot(".a")), ("a", "a", ".a"));
    }

    proptest! {
        // BUILTIN-62
        #[test]
        fn a_path_that_is_a_valid_pattern_finds_itself(path in "[a-z\\[\\]{},*?!/.-]{1,16}") {
            if let Ok(pattern) = Pattern::new(&path) {
                prop_assert!(pattern.matches(&path));
            }
        }

        // BUILTIN-61, BUILTIN-62: no text makes it panic
        #[test]
        fn any_pattern_is_taken_or_refused(pattern in any::<String>(), path in any::<String>()) {
            if let Ok(pattern) = Pattern::new(&pattern) {
                pattern.matches(&path);
            }
        }
    }
}
