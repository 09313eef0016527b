//! Patterns that choose files by their path below the place where a search starts.

mod translate;

use std::path::Path;

use regex::{Regex, RegexBuilder};

use crate::search::Root;

/// What a compiled pattern may take.
const MOST_MEMORY: usize = 10 * 1024 * 1024;

/// How long a pattern may be: no path is longer either.
const MAX_BYTES: usize = 4096;

/// A compiled pattern. Its characters are those of the path as text, so `?` is one `é`.
///
/// Without a `/` it is matched against the base name, with one against the whole relative path.
/// `*`, `?` and classes stay within a component, `**` as a whole component crosses any number of
/// them. A path that is written like the pattern matches it too, so that `app/[id]/page.tsx`
/// finds itself.
pub(crate) struct Pattern {
    literal: String,
    /// `None` for a pattern that is only a name.
    matcher: Option<Regex>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with the pattern.
    fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_BYTES {
            return Err(format!("{} bytes are more than {MAX_BYTES}; make it shorter", pattern.len()));
        }
        let expression = translate::translate(pattern)?;
        let matcher = RegexBuilder::new(&expression)
            .dot_matches_new_line(true)
            .size_limit(MOST_MEMORY)
            .dfa_size_limit(MOST_MEMORY)
            .build()
            .map_err(|_| "it takes too much memory; make it simpler".to_owned())?;
        Ok(Pattern { literal: pattern.to_owned(), matcher: Some(matcher) })
    }

    /// A pattern as a model writes it: relative to the root of a search, or absolute and below it.
    ///
    /// # Errors
    /// It leads elsewhere, or is no pattern and not the path of a file either.
    pub(crate) fn below(root: &Root, pattern: &str) -> Result<Self, Refused> {
        let pattern = relative_to(root.names(), pattern).ok_or(Refused::Elsewhere)?;
        if pattern.split('/').any(|component| component == "..") {
            return Err(Refused::Upwards);
        }
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
    /// It goes up, where nothing is searched: no path that is matched has a `..` in it.
    Upwards,
    /// It is not a pattern, for this reason.
    Invalid(String),
}

impl Refused {
    /// The reason for a model: which argument it is about, and how it calls the root.
    pub(crate) fn describe(self, argument: &str, root: &str) -> String {
        match self {
            Refused::Elsewhere => format!("{argument} must be relative to {root}"),
            Refused::Upwards => format!("{argument} must not contain .., it is matched below {root}"),
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

    // BUILTIN-61: `**` is special as a whole component only
    #[test]
    fn two_stars_cross_components_when_they_are_one() {
        assert!(matches("src/**/*.rs", "src/a/b/c.rs") && matches("src/**/*.rs", "src/c.rs"));
        assert!(!matches("src/**.rs", "src/a/b.rs") && matches("src/**.rs", "src/b.rs"));
        assert!(!matches("a**/b", "a/c/b") && matches("a**/b", "axy/b"));
        assert!(matches("**/a/**/b/**", "x/a/b/c") && !matches("**/a/**/b/**", "x/a/b"));
        assert!(matches("a/{**,b}/c", "a/c") && matches("a/{**,b}/c", "a/x/y/c"));
        assert!(
            !matches("a/{**,b}c", "a/x/yc")
                && matches("a/{**,b}c", "a/yc")
                && matches("a/{,x/}**/c", "a/x/c")
        );
        assert!(matches("{**/a.rs,b.rs}", "x/y/a.rs") && matches("{a/**,b/*}", "a/x/y"));
        assert!(!matches("{a/**,b/*}", "b/x/y"));
    }

    // BUILTIN-61, BUILTIN-62: characters, not bytes, and never a separator
    #[test]
    fn one_character_is_one_character() {
        assert!(matches("?", "é") && matches("[é]", "é") && matches("[à-ü]x", "éx") && matches("[!a]", "😀"));
        assert!(!matches("??", "é") && !matches("a[/]b", "a/b") && !matches("a[+-9]b", "a/b"));
        assert!(matches("[]a]", "]") && matches("[a-]", "-") && matches("[-a]", "-") && matches("[!]]", "a"));
        assert!(matches(r"[\]-]x", "]x") && matches(r"\*.md", "*.md") && !matches(r"\*.md", "a.md"));
        assert!(matches("a\nb*", "a\nb\n") && matches("a.b", "a.b") && !matches("a.b", "axb"));
        assert!(matches("[&&~~|]", "&") && matches("[a^]", "^") && matches("[^^]", "a"));
    }

    // BUILTIN-62
    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        for (bad, reason) in [
            ("[", "unclosed character class: missing ']'; write '\\[' for the character"),
            ("a[]", "unclosed character class: missing ']'; write '\\[' for the character"),
            ("[!\\", "unclosed character class: missing ']'; write '\\[' for the character"),
            ("{a", "unclosed alternatives: missing '}'; write '[{]' for the character"),
            ("a}", "unopened alternatives: '}' without '{'; write '[}]' for the character"),
            ("[z-a]", "invalid range: 'z' is behind 'a'"),
            ("a\\", "dangling '\\': write '\\\\' for the character"),
        ] {
            assert_eq!(Pattern::new(bad).err().unwrap(), reason, "{bad}");
        }
        assert_eq!(
            Pattern::new(&"a".repeat(4097)).err().unwrap(),
            "4097 bytes are more than 4096; make it shorter"
        );
        let deep = Pattern::new(&("{".repeat(51) + &"}".repeat(51)));
        assert_eq!(deep.err().unwrap(), "alternatives nested more than 50 deep");
        assert!(matches(&("{".repeat(50) + "a" + &"}".repeat(50)), "a"));
        // Nothing of that length takes more memory or stack than there is, or any time to match.
        for odd in ["{", "{a,", "[", "*", "**/", "?", "{**/a,", "*a", "[!a]", "\\"] {
            let mut long = odd.repeat(4096 / odd.len());
            let _ = Pattern::new(&long);
            long.extend(std::iter::repeat_n('}', 4096usize.saturating_sub(long.len())));
            if let Ok(pattern) = Pattern::new(&long) {
                assert!(!pattern.matches(&"ab/".repeat(100)) || odd.contains('*') || odd == "?");
            }
        }
        let classes = Pattern::new(&"[!a]".repeat(1000));
        assert!(classes.is_ok_and(|classes| classes.matches(&"b".repeat(1000))));
    }

    /// A pattern as it is meant.
    #[derive(Debug, Clone)]
    enum Component {
        Any,
        Parts(Vec<Part>),
    }

    #[derive(Debug, Clone)]
    enum Part {
        Text(&'static str),
        One,
        Many,
        Class(bool, &'static str),
        Either(Vec<Vec<Part>>),
    }

    fn write_parts(parts: &[Part]) -> String {
        let write = |part: &Part| match part {
            Part::Text(text) => (*text).to_owned(),
            Part::One => "?".to_owned(),
            Part::Many => "*".to_owned(),
            Part::Class(true, class) => format!("[{class}]"),
            Part::Class(false, class) => format!("[!{class}]"),
            Part::Either(parts) => {
                format!("{{{}}}", parts.iter().map(|parts| write_parts(parts)).collect::<Vec<_>>().join(","))
            }
        };
        parts.iter().map(write).collect()
    }

    fn write(components: &[Component]) -> String {
        let write = |component: &Component| match component {
            Component::Any => "**".to_owned(),
            Component::Parts(parts) => write_parts(parts),
        };
        components.iter().map(write).collect::<Vec<_>>().join("/")
    }

    /// The ends of what the parts match at the start of `name`.
    fn ends<'a>(parts: &[Part], name: &'a str) -> Vec<&'a str> {
        let Some((part, rest)) = parts.split_first() else { return vec![name] };
        let one = |keep: &dyn Fn(char) -> bool| {
            let mut chars = name.chars();
            let kept = chars.next().is_some_and(keep);
            if kept { vec![chars.as_str()] } else { vec![] }
        };
        let after: Vec<&str> = match part {
            Part::Text(text) => name.strip_prefix(text).into_iter().collect(),
            Part::One => one(&|_| true),
            Part::Many => (0..=name.len()).filter_map(|start| name.get(start..)).collect(),
            Part::Class(inside, class) => one(&|c| class.contains(c) == *inside),
            Part::Either(all) => all.iter().flat_map(|parts| ends(parts, name)).collect(),
        };
        after.into_iter().flat_map(|name| ends(rest, name)).collect()
    }

    fn defined(components: &[Component], path: &[&str]) -> bool {
        match components.split_first() {
            None => path.is_empty(),
            // At the end it stands for what is below, of which there is something.
            Some((Component::Any, [])) => !path.is_empty(),
            Some((Component::Any, rest)) => (0..=path.len()).any(|start| defined(rest, &path[start..])),
            Some((Component::Parts(parts), rest)) => {
                let named = path.first().is_some_and(|name| ends(parts, name).contains(&""));
                named && defined(rest, &path[1..])
            }
        }
    }

    fn part() -> impl Strategy<Value = Part> {
        let simple = prop_oneof![
            4 => prop_oneof![Just("a"), Just("b"), Just("é"), Just("."), Just("-")].prop_map(Part::Text),
            1 => Just(Part::One),
            2 => Just(Part::Many),
            1 => (any::<bool>(), prop_oneof![Just("a"), Just("bé"), Just("a.")])
                .prop_map(|(inside, class)| Part::Class(inside, class)),
        ];
        simple.prop_recursive(2, 8, 3, |part| {
            let parts = proptest::collection::vec(part, 0..3);
            proptest::collection::vec(parts, 2..4).prop_map(Part::Either)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // BUILTIN-61, BUILTIN-62
        #[test]
        fn a_pattern_matches_what_it_is_defined_to_match(
            components in proptest::collection::vec(
                prop_oneof![
                    1 => Just(Component::Any),
                    3 => proptest::collection::vec(part(), 1..4).prop_map(Component::Parts),
                ],
                1..4,
            ),
            paths in proptest::collection::vec("[abé.-]{1,3}(/[abé.-]{1,3}){0,3}", 1..12),
        ) {
            let text = write(&components);
            // Two stars that are not a component of their own are one, but alternatives are not looked into.
            prop_assume!(!text.contains("***") && !text.split('/').any(|part| part != "**" && part.contains("**")));
            let pattern = Pattern::new(&text).unwrap();
            for path in &paths {
                let names: Vec<&str> = path.split('/').collect();
                let subject = if text.contains('/') { &names[..] } else { &names[names.len() - 1..] };
                let expected = defined(&components, subject) || subject.join("/") == text;
                prop_assert_eq!(pattern.matches(path), expected, "{} on {}", text, path);
            }
        }

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
