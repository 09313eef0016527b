//! The patterns of stored resources, compiled to be looked for all at once.

use std::ops::Range;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::{Anchored, Input, PatternID};

use crate::{ContextError, ResourcePattern};

/// All patterns of a configuration.
#[derive(Debug, Default)]
pub(crate) struct ResourceSearch {
    /// `None` without patterns.
    regex: Option<Regex>,
    /// Of each pattern, whether it is the default one.
    are_default: Vec<bool>,
}

/// A place where a pattern matches.
#[derive(Debug, Clone)]
pub(crate) struct ResourceMatch {
    pub(crate) range: Range<usize>,
    /// Whether it is a reference of the default pattern, which ends where its characters do.
    pub(crate) is_default: bool,
}

impl ResourceSearch {
    /// Compiles patterns. Each must need at least one character.
    pub(crate) fn new(patterns: &[ResourcePattern]) -> Result<Self, ContextError> {
        if patterns.is_empty() {
            return Ok(ResourceSearch::default());
        }
        let texts: Vec<&str> = patterns.iter().map(text_of).collect();
        for text in &texts {
            // One by one, so that the error names the pattern.
            compiled(&[text], Some(SIZE_LIMIT))?;
            // Not a trial on "": `\b` is empty only between other characters.
            let syntax = regex_syntax::parse(text).map_err(|error| ContextError::Pattern {
                pattern: (*text).to_owned(),
                reason: error.to_string(),
            })?;
            if syntax.properties().minimum_len() == Some(0) {
                return Err(ContextError::EmptyPattern((*text).to_owned()));
            }
        }
        Ok(ResourceSearch {
            regex: Some(compiled(&texts, None)?),
            are_default: patterns.iter().map(|pattern| *pattern == ResourcePattern::Default).collect(),
        })
    }

    /// The matches in a text that do not overlap: leftmost first, of several at one place the longest
    /// that is `accepted`. A place where none is accepted is passed over as far as its longest match goes;
    /// no match is empty.
    pub(crate) fn matches<'t>(
        &'t self,
        text: &'t str,
        accepted: impl Fn(&ResourceMatch) -> bool + 't,
    ) -> impl Iterator<Item = ResourceMatch> + 't {
        let mut from = 0;
        std::iter::from_fn(move || {
            let regex = self.regex.as_ref()?;
            loop {
                let first = regex.find(Input::new(text).range(from..))?;
                let mut ends = self.are_default.iter().enumerate().filter_map(|(pattern, is_default)| {
                    let pattern = PatternID::new(pattern).ok()?;
                    let end = if pattern == first.pattern() {
                        first.end()
                    } else {
                        let anchored = Anchored::Pattern(pattern);
                        regex.find(Input::new(text).range(first.start()..).anchored(anchored))?.end()
                    };
                    Some(ResourceMatch { range: first.start()..end, is_default: *is_default })
                });
                let (mut longest, mut chosen) = (first.end(), None::<ResourceMatch>);
                for found in &mut ends {
                    longest = longest.max(found.range.end);
                    let is_longer = chosen.as_ref().is_none_or(|best| found.range.end > best.range.end);
                    if is_longer && accepted(&found) {
                        chosen = Some(found);
                    }
                }
                // No match is empty, so this goes on.
                from = chosen.as_ref().map_or(longest, |chosen| chosen.range.end);
                if chosen.is_some() {
                    return chosen;
                }
            }
        })
    }
}

/// How large a compiled pattern may be, in bytes.
const SIZE_LIMIT: usize = 10 << 20;

fn compiled(patterns: &[&str], size_limit: Option<usize>) -> Result<Regex, ContextError> {
    let config = Regex::config().nfa_size_limit(size_limit);
    Regex::builder()
        .configure(config)
        .build_many(patterns)
        .map_err(|error| ContextError::Pattern { pattern: patterns.join(" or "), reason: reason(&error) })
}

fn reason(error: &BuildError) -> String {
    match (error.syntax_error(), error.size_limit()) {
        (Some(error), _) => error.to_string(),
        (None, Some(limit)) => format!("compiled it is larger than {limit} bytes"),
        (None, None) => error.to_string(),
    }
}

fn text_of(pattern: &ResourcePattern) -> &str {
    match pattern {
        ResourcePattern::Default => "resource://[0-9A-Za-z_-]{22}",
        ResourcePattern::LegacyStorage => {
            r#"(?:storage://[0-9A-Za-z_-]+/)?(?:local|minio|cos|tos|s3|oss|ks3|obs)://[^\s)\]>"']+"#
        }
        ResourcePattern::SummarySlug => {
            "summary/[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
        }
        ResourcePattern::Regex(text) => text,
    }
}
