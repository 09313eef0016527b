//! A page of HTML as Markdown or as text.
//!
//! ```text
//! html ─▶ lexer ─▶ tidy      few elements, limited depth      ─▶ html
//!      ─▶ tree               with absolute addresses
//!      ─▶ markdown | plain   ─▶ normalised  line ends and blank lines
//! ```
//!
//! No document, however it was made, takes more time or memory than its length and the limits of
//! `tidy` say. What a page shows as text stays text, also where it looks like HTML: a code block
//! about HTML holds tags, and is none.

mod element;
mod lexer;
mod markdown;
mod plain;
mod tidy;

use htmd::Node;
use markup5ever_rcdom::NodeData;
use url::Url;

/// What a page becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Markdown,
    Text,
}

/// A page that was converted.
#[derive(Debug)]
pub(super) struct Converted {
    pub(super) text: String,
    /// Whether something is missing at the end.
    pub(super) cut: bool,
}

/// Converts a page that came from `address`, to at most `limit` bytes.
pub(super) fn convert(html: &str, target: Target, address: &Url, limit: usize) -> Converted {
    let tidied = tidy::tidy(html);
    let converter = markdown::converter();
    // Reading from memory cannot fail.
    let Ok(tree) = converter.html_to_tree(&tidied.html) else {
        return Converted { text: String::new(), cut: true };
    };
    let text = match target {
        Target::Markdown => {
            let base = tidied.base.and_then(|base| address.join(&base).ok());
            complete_addresses(&tree, base.as_ref().unwrap_or(address));
            converter.tree_to_markdown(&tree)
        }
        Target::Text => plain::text(&tree),
    };
    let mut text = normalised(&text);
    let within = text.floor_char_boundary(limit);
    let cut = tidied.cut || within < text.len();
    text.truncate(within);
    Converted { text, cut }
}

/// Without blanks before a line end, more than one empty line in a row, and anything blank around it.
fn normalised(text: &str) -> String {
    let mut normalised = String::with_capacity(text.len());
    let mut empty_lines = 0;
    for line in text.trim().split('\n').map(str::trim_end) {
        if line.is_empty() {
            empty_lines += 1;
            continue;
        }
        if !normalised.is_empty() {
            normalised.push_str(if empty_lines > 0 { "\n\n" } else { "\n" });
        }
        empty_lines = 0;
        normalised.push_str(line);
    }
    normalised
}

/// Makes the addresses of links and images absolute. Those that lead nowhere without the page, as
/// `javascript:` does, are left out; those into the page itself stay.
fn complete_addresses(node: &Node, base: &Url) {
    if let NodeData::Element { attrs, .. } = &node.data {
        attrs.borrow_mut().retain_mut(|attribute| {
            if !matches!(&*attribute.name.local, "href" | "src") {
                return true;
            }
            let given = attribute.value.trim();
            if given.starts_with('#') {
                return true;
            }
            let Ok(joined) = base.join(given) else { return true };
            let leads = matches!(joined.scheme(), "http" | "https" | "mailto" | "tel" | "ftp");
            // What is absolute already stays as its author wrote it.
            if leads && Url::parse(given).is_err() {
                attribute.value = String::from(joined).into();
            }
            leads
        });
    }
    for child in node.children.borrow().iter() {
        complete_addresses(child, base);
    }
}

#[cfg(test)]
mod tests;
