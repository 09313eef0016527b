//! A tidy document as Markdown.

use std::rc::Rc;

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::options::{BulletListMarker, HrStyle, Options};
use htmd::{Element, HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;

/// The converter. What is in code is text of the page: it may look like tags, and is none.
pub(super) fn converter() -> HtmlToMarkdown {
    let options = Options {
        hr_style: HrStyle::Dashes,
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    HtmlToMarkdown::builder().options(options).add_handler(vec!["table"], table).build()
}

/// A table in pipes, without padding: one long cell would otherwise be paid for in every row. A table
/// of one column, or inside a cell, is there for its looks; its contents are blocks.
fn table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let rows = rows(element.node);
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    // Every cell is converted once: twice at each level would double the work with every level.
    if columns <= 1 || is_in_cell(element.node) {
        let content = handlers.walk_children(element.node).content;
        return Some(format!("\n\n{}\n\n", content.trim_matches('\n')).into());
    }
    let mut text = String::from("\n\n");
    for caption in children(element.node).iter().filter(|child| is(child, "caption")) {
        let content = handlers.handle(caption).map(|result| result.content).unwrap_or_default();
        text.push_str(&format!("{}\n\n", content.trim()));
    }
    for (at, row) in rows.iter().enumerate() {
        text.push('|');
        row.iter().for_each(|cell| text.push_str(&format!(" {} |", line(handlers, cell))));
        if at == 0 {
            // The first row tells how many columns there are.
            text.push_str(&"  |".repeat(columns - row.len()));
            text.push_str("\n|");
            text.push_str(&" --- |".repeat(columns));
        }
        text.push('\n');
    }
    text.push('\n');
    Some(text.into())
}

/// The cells of each row that has some.
fn rows(table: &Rc<Node>) -> Vec<Vec<Rc<Node>>> {
    let is_row = |node: &Rc<Node>| is(node, "tr");
    let sections = children(table).into_iter().filter(|child| !is(child, "caption"));
    let rows = sections.flat_map(|child| if is_row(&child) { vec![child] } else { children(&child) });
    let cells = |row: Rc<Node>| {
        let mut cells = children(&row);
        cells.retain(|node| is(node, "td") || is(node, "th"));
        cells
    };
    rows.filter(is_row).map(cells).filter(|cells| !cells.is_empty()).collect()
}

/// The content of a cell in one line.
fn line(handlers: &dyn Handlers, cell: &Rc<Node>) -> String {
    let content = handlers.handle(cell).map(|result| result.content).unwrap_or_default();
    content.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn children(node: &Node) -> Vec<Rc<Node>> {
    node.children.borrow().clone()
}

fn is(node: &Node, tag: &str) -> bool {
    matches!(&node.data, NodeData::Element { name, .. } if &*name.local == tag)
}

fn is_in_cell(node: &Rc<Node>) -> bool {
    let parent_of = |node: &Rc<Node>| {
        // The cell can only be looked at by taking what is in it.
        let parent = node.parent.take();
        node.parent.set(parent.clone());
        parent.and_then(|parent| parent.upgrade())
    };
    std::iter::successors(parent_of(node), |node| parent_of(node))
        .any(|node| is(&node, "td") || is(&node, "th"))
}
