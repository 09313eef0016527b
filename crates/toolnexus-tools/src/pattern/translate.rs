//! A pattern as a regular expression.
//!
//! First a tree of what was written, in which it can be seen whether `**` is a component of its own
//! even where it stands at the edge of an alternative; then the expression. It has the pattern's
//! size, and matching with it takes time in proportion to the path, whatever the pattern.

use std::iter::Peekable;
use std::str::Chars;

use regex_syntax::escape;

/// Alternatives within alternatives within …
const DEEPEST: usize = 50;

/// One thing in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Char(char),
    /// `/`
    Separator,
    /// `?`
    One,
    /// So many `*`.
    Stars(usize),
    /// Whether a character is one of these, or is none of them; ranges, both ends included.
    Class {
        inside: bool,
        ranges: Vec<(char, char)>,
    },
    /// `{a,b}`
    Either(Vec<Vec<Node>>),
}

/// The expression for a pattern, to be matched with a whole path in which `.` is any character.
///
/// # Errors
/// What is wrong with the pattern.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut rest = pattern.chars().peekable();
    let nodes = parse(&mut rest, 0)?;
    if rest.peek().is_some() {
        return Err("unopened alternatives: '}' without '{'; write '[}]' for the character".to_owned());
    }
    let mut expression = "^".to_owned();
    write(&nodes, true, true, &mut expression);
    expression.push('$');
    Ok(expression)
}

/// Reads to the end, or to the `,` or `}` that ends an alternative.
fn parse(rest: &mut Peekable<Chars<'_>>, depth: usize) -> Result<Vec<Node>, String> {
    let mut nodes = Vec::new();
    while let Some(next) = rest.next_if(|next| *next != '}' && (depth == 0 || *next != ',')) {
        nodes.push(match next {
            '/' => Node::Separator,
            '?' => Node::One,
            '*' => {
                let mut stars = 1;
                while rest.next_if_eq(&'*').is_some() {
                    stars += 1;
                }
                Node::Stars(stars)
            }
            '[' => parse_class(rest)?,
            '{' => parse_alternatives(rest, depth + 1)?,
            '\\' => match rest.next() {
                Some('/') => Node::Separator,
                Some(escaped) => Node::Char(escaped),
                None => return Err("dangling '\\': write '\\\\' for the character".to_owned()),
            },
            other => Node::Char(other),
        });
    }
    Ok(nodes)
}

fn parse_alternatives(rest: &mut Peekable<Chars<'_>>, depth: usize) -> Result<Node, String> {
    if depth > DEEPEST {
        return Err(format!("alternatives nested more than {DEEPEST} deep"));
    }
    let mut all = Vec::new();
    loop {
        all.push(parse(rest, depth)?);
        match rest.next() {
            Some(',') => {}
            Some(_) => return Ok(Node::Either(all)),
            None => {
                return Err("unclosed alternatives: missing '}'; write '[{]' for the character".to_owned());
            }
        }
    }
}

fn parse_class(rest: &mut Peekable<Chars<'_>>) -> Result<Node, String> {
    let unclosed = || "unclosed character class: missing ']'; write '\\[' for the character".to_owned();
    let inside = rest.next_if(|next| matches!(next, '!' | '^')).is_none();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let first = match rest.next().ok_or_else(unclosed)? {
            ']' if !ranges.is_empty() => return Ok(Node::Class { inside, ranges }),
            '\\' => rest.next().ok_or_else(unclosed)?,
            other => other,
        };
        let mut last = first;
        let mut ahead = rest.clone();
        // A `-` at the end stands for itself.
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|next| *next != ']') {
            rest.next();
            last = match rest.next().ok_or_else(unclosed)? {
                '\\' => rest.next().ok_or_else(unclosed)?,
                other => other,
            };
        }
        if first > last {
            return Err(format!("invalid range: '{first}' is behind '{last}'"));
        }
        ranges.push((first, last));
    }
}

/// Writes what `nodes` match. `starts` and `ends` say whether a component starts in front of them
/// and ends behind them.
fn write(nodes: &[Node], starts: bool, ends: bool, to: &mut String) {
    let mut rest = nodes;
    let mut starts = starts;
    while let Some((node, mut behind)) = rest.split_first() {
        match node {
            Node::Char(char) => to.push_str(&escape(char.encode_utf8(&mut [0; 4]))),
            Node::Separator => to.push('/'),
            Node::One => to.push_str("[^/]"),
            Node::Stars(2) if starts && ends_before(behind, ends) => {
                if let Some((Node::Separator, further)) = behind.split_first() {
                    // Of any number of components, none is one.
                    to.push_str("(?:.*/)?");
                    behind = further;
                    rest = behind;
                    continue;
                }
                to.push_str(".+");
            }
            Node::Stars(_) => to.push_str("[^/]*"),
            Node::Class { inside, ranges } => {
                to.push_str(if *inside { "[[" } else { "[[^" });
                for (first, last) in ranges {
                    to.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(*first), u32::from(*last)));
                }
                to.push_str("]&&[^/]]");
            }
            Node::Either(all) => {
                // What separates the alternatives from the next component belongs to each of them, since
                // one that is `**` may do without.
                let separated = matches!(behind.first(), Some(Node::Separator));
                if separated {
                    behind = behind.get(1..).unwrap_or_default();
                }
                let ends = separated || ends_before(behind, ends);
                for (index, nodes) in all.iter().enumerate() {
                    to.push_str(if index == 0 { "(?:" } else { "|" });
                    if separated {
                        write(&[nodes.as_slice(), &[Node::Separator]].concat(), starts, true, to);
                    } else {
                        write(nodes, starts, ends, to);
                    }
                }
                to.push(')');
                starts = separated || all.iter().all(|nodes| starts_after(nodes, starts));
                rest = behind;
                continue;
            }
        }
        starts = *node == Node::Separator;
        rest = behind;
    }
}

/// Whether a component starts behind these nodes.
fn starts_after(nodes: &[Node], starts: bool) -> bool {
    match nodes.split_last() {
        None => starts,
        Some((Node::Separator, _)) => true,
        Some((Node::Either(all), before)) => {
            let starts = starts_after(before, starts);
            all.iter().all(|nodes| starts_after(nodes, starts))
        }
        Some(_) => false,
    }
}

/// Whether a component ends in front of these nodes.
fn ends_before(nodes: &[Node], ends: bool) -> bool {
    match nodes.split_first() {
        None => ends,
        Some((Node::Separator, _)) => true,
        Some((Node::Either(all), behind)) => {
            let ends = ends_before(behind, ends);
            all.iter().all(|nodes| ends_before(nodes, ends))
        }
        Some(_) => false,
    }
}
