//! `toolnexus tools` and `skills list`: what there is, without a model; and how listings are printed.

mod skills;
mod tools;

use std::io;

use serde_json::Value;
use toolnexus::Style;

use crate::screen::Screen;

pub(crate) use skills::{from_here, remedy, skills};
pub(crate) use tools::tools;

/// How a listing is printed.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Text,
    Json,
    /// The array of tools of a provider.
    Schema(Style),
}

/// Prints a document to stdout, for people and programs alike.
pub(crate) fn document(screen: &Screen, value: &Value) -> io::Result<()> {
    screen.answer(&format!("{value:#}\n"))
}

/// Rows of two columns, the first as wide as its longest entry (within reason), the second cut to
/// the rest of the line.
pub(crate) fn rows(
    indent: &str,
    rows: &[(String, String)],
    width: usize,
    paint: impl Fn(&str) -> String,
) -> String {
    const WIDEST: usize = 40;
    let first = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().min(WIDEST);
    let mut out = String::new();
    for (name, text) in rows {
        let name = crate::render::cut_line(name, width.max(WIDEST));
        let gap = " ".repeat(first.saturating_sub(name.chars().count()) + 2);
        let used = indent.len() + name.chars().count() + gap.len();
        let text = crate::render::one_line(text, width.saturating_sub(used).max(20));
        let line = format!("{indent}{}{gap}{text}", paint(&name));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let listing = [("a".into(), "first\nof all".into()), ("longer".into(), String::new())];
        assert_eq!(rows("  ", &listing, 80, str::to_owned), "  a       first of all\n  longer\n");
        let flood = [("x".repeat(100_000), "of all".into())];
        assert!(rows("", &flood, 80, str::to_owned).chars().count() < 200);
    }
}
