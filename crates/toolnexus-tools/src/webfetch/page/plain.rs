//! A tidy document as plain text.

use htmd::Node;
use markup5ever_rcdom::NodeData;

/// The text that a reader sees, each block on lines of its own, the cells of a row separated by tabs,
/// images as what describes them.
pub(super) fn text(document: &Node) -> String {
    let mut writer = Writer::default();
    writer.node(document, false);
    writer.text
}

#[derive(Default)]
struct Writer {
    text: String,
    /// How many line ends come before the next word.
    line_ends: usize,
    /// What else comes before it, when no line ends.
    gap: &'static str,
    /// How many lists are open.
    lists: usize,
}

impl Writer {
    fn node(&mut self, node: &Node, verbatim: bool) {
        match &node.data {
            NodeData::Text { contents } if verbatim => self.push(&contents.borrow()),
            NodeData::Text { contents } => self.words(&contents.borrow()),
            NodeData::Element { name, attrs, .. } => match &*name.local {
                "br" => self.line_ends += 1,
                "img" => {
                    let attributes = attrs.borrow();
                    let alt = attributes.iter().find(|attribute| &*attribute.name.local == "alt");
                    self.words(alt.map_or("", |alt| &alt.value));
                }
                "pre" => self.block(node, 2, true),
                "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "table" | "caption" | "blockquote" | "hr" => {
                    self.block(node, 2, verbatim);
                }
                "ul" | "ol" => {
                    // A list in a list is a part of it.
                    let line_ends = if self.lists == 0 { 2 } else { 1 };
                    self.lists += 1;
                    self.block(node, line_ends, verbatim);
                    self.lists -= 1;
                }
                "div" | "li" | "tr" => self.block(node, 1, verbatim),
                "td" | "th" => {
                    self.children(node, verbatim);
                    self.gap = "\t";
                }
                _ => self.children(node, verbatim),
            },
            _ => self.children(node, verbatim),
        }
    }

    fn children(&mut self, node: &Node, verbatim: bool) {
        for child in node.children.borrow().iter() {
            self.node(child, verbatim);
        }
    }

    fn block(&mut self, node: &Node, line_ends: usize, verbatim: bool) {
        self.line_ends = self.line_ends.max(line_ends);
        self.children(node, verbatim);
        self.line_ends = self.line_ends.max(line_ends);
    }

    fn words(&mut self, text: &str) {
        let is_space = |c: char| c.is_ascii_whitespace();
        if text.starts_with(is_space) && self.gap.is_empty() {
            self.gap = " ";
        }
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            self.push(word);
            self.gap = " ";
        }
        if !text.ends_with(is_space) && self.gap == " " && !text.is_empty() {
            self.gap = "";
        }
    }

    fn push(&mut self, text: &str) {
        if self.text.is_empty() {
            // Nothing comes before the first word.
        } else if self.line_ends > 0 {
            self.text.push_str(if self.line_ends > 1 { "\n\n" } else { "\n" });
        } else {
            self.text.push_str(self.gap);
        }
        (self.line_ends, self.gap) = (0, "");
        self.text.push_str(text);
    }
}
