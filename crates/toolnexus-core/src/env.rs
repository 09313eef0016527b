//! `${NAME}` placeholders in configured header values.

/// Replaces every `${NAME}`, NAME of `[A-Za-z0-9_]+`, by the process environment's value.
///
/// An unset variable gives the empty string. One pass: what was filled in is not looked at
/// again. Any other `$` text stays as it is. The result may be a secret: never print it.
///
/// ```
/// assert_eq!(toolnexus_core::env::expand("a ${} $B ${not ok}"), "a ${} $B ${not ok}");
/// ```
pub fn expand(text: &str) -> String {
    expand_with(text, |name| std::env::var(name).ok())
}

/// [`expand`] with a lookup of the caller's.
pub fn expand_with(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Variable(name) => out.push_str(&lookup(name).unwrap_or_default()),
        }
    }
    out
}

/// The names of the variables that `text` refers to, in order of appearance.
pub fn variables(text: &str) -> Vec<&str> {
    pieces(text)
        .filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name),
            Piece::Text(_) => None,
        })
        .collect()
}

/// `text` with every placeholder removed.
pub fn without_variables(text: &str) -> String {
    expand_with(text, |_| None)
}

enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = placeholder(rest) {
            rest = after;
            return Some(Piece::Variable(name));
        }
        // Plain text runs to the next placeholder that is one.
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(at, c)| *c == '$' && rest.get(*at..).is_some_and(|r| placeholder(r).is_some()))
            .map_or(rest.len(), |(at, _)| at);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(text))
    })
}

/// Reads `${NAME}` at the start of `text`. Looks no further than the name, so that a text of
/// many half placeholders is still read in one pass.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("${")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, after) = rest.split_at(end);
    let after = after.strip_prefix('}')?;
    (!name.is_empty()).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> String {
        expand_with(text, |name| match name {
            "A" => Some("one".into()),
            "LOOP" => Some("${A}".into()),
            _ => None,
        })
    }

    // CORE-96, MCP-15
    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(with("Bearer ${A}!"), "Bearer one!");
        assert_eq!(with("${A}${A}"), "oneone");
        assert_eq!(with("[${UNSET_BY_THE_TEST}]"), "[]");
        assert_eq!(with("${LOOP}"), "${A}");
        assert_eq!(with("$A ${} ${a b} ${A"), "$A ${} ${a b} ${A");
        assert_eq!(with("$${A}"), "$one");
        assert_eq!(with("é${A}é"), "éoneé");
    }

    // CORE-96: linear; looking for each end anew would take minutes here
    #[test]
    fn half_placeholders_are_passed_over_quickly() {
        let text = "${".repeat(1 << 20);
        assert_eq!(with(&text), text);
    }

    // MCP-17
    #[test]
    fn variables_are_listed_and_removable() {
        assert_eq!(variables("x ${A} ${B}${A} ${}"), ["A", "B", "A"]);
        assert_eq!(without_variables("x ${A}-${B}"), "x -");
    }
}
