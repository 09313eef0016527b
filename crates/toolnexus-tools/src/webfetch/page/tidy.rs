//! A document without what could hurt, and without what a reader does not see.
//!
//! The HTML parser and the converter behind it are made for documents that people write: their cost
//! grows with the square of nesting, of attributes, of what stands in the wrong place of a table, and
//! they recurse. So a document is written anew first: with few elements that mean something, each
//! closed in its turn, nested to a limited depth, without any attribute but the few that are of use,
//! and with tables whose contents are cells. What is left costs what its length says.

use std::fmt::Write as _;

use super::element::{MAX_ATTRIBUTE, Role, known, language, written};
use super::lexer::{Attributes, Lexer, Token};

/// How deep elements may be nested; deeper ones are left out, their text is not.
const MAX_DEPTH: usize = 96;

/// How deep quotes and lists may be nested: each level costs space at the start of every line.
const MAX_INDENT: usize = 12;

/// How many elements are kept; where one more comes, the document ends.
const MAX_ELEMENTS: usize = 250_000;

/// A document in its plain form.
pub(super) struct Tidied {
    pub(super) html: String,
    /// What links are relative to, if the document says so.
    pub(super) base: Option<String>,
    /// Whether there were too many elements, so that the rest is missing.
    pub(super) cut: bool,
}

/// Writes a document anew.
pub(super) fn tidy(html: &str) -> Tidied {
    let mut writer = Writer { html: String::with_capacity(html.len() / 2), ..Writer::default() };
    writer.html.push_str("<!doctype html><body>");
    let mut lexer = Lexer::new(html);
    while let Some(token) = lexer.next() {
        if writer.elements >= MAX_ELEMENTS {
            writer.cut = true;
            break;
        }
        match token {
            Token::Text(text) => writer.text(text),
            Token::Start { name, attributes, closed } => writer.start(name, &attributes, closed, &mut lexer),
            Token::End { name } => writer.end(name),
        }
    }
    writer.close_to(0);
    Tidied { html: writer.html, base: writer.base, cut: writer.cut }
}

/// An element that is open.
struct Open {
    tag: &'static str,
    role: Role,
    /// Where in the document its start tag is.
    start: usize,
    /// Where its content starts.
    content: usize,
}

#[derive(Default)]
struct Writer {
    html: String,
    base: Option<String>,
    cut: bool,
    /// The elements that are open, the outermost first.
    open: Vec<Open>,
    elements: usize,
    /// How many elements deeper than the limit are open.
    too_deep: usize,
    /// The language that an open `pre` names.
    language: Option<String>,
    /// How many blocks are open in a link, where they are not written.
    linked_blocks: usize,
    /// The element whose content is left out, and how many of its name are open.
    hidden: Option<(String, usize)>,
}

impl Writer {
    fn text(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if is_blank(text) && matches!(self.top(), Some(Role::Table | Role::Section | Role::Row)) {
            return;
        }
        self.make_room();
        self.html.push_str(&text.replace('<', "&lt;"));
    }

    fn start(&mut self, name: &str, attributes: &Attributes<'_>, closed: bool, lexer: &mut Lexer<'_>) {
        if let Some((hidden, depth)) = &mut self.hidden {
            if !closed && name.eq_ignore_ascii_case(hidden) {
                *depth += 1;
            }
            if matches!(known(name), Some((_, Role::HiddenText))) {
                lexer.raw_text(name);
            }
            return;
        }
        let Some((tag, role)) = known(name) else {
            if name.eq_ignore_ascii_case("base") && self.base.is_none() {
                self.base = attributes.href.map(|href| href.trim().replace("&amp;", "&"));
            }
            return;
        };
        match role {
            Role::HiddenText => {
                lexer.raw_text(name);
            }
            Role::Hidden => self.hidden = (!closed).then(|| (name.to_owned(), 1)),
            Role::Text | Role::Verbatim => {
                let ends_never = name.eq_ignore_ascii_case("plaintext");
                let text = if ends_never { lexer.raw_text("\0") } else { lexer.raw_text(name) };
                let (depth, too_deep) = (self.open.len(), self.too_deep);
                if !self.is_in("pre") && !self.is_in_link() {
                    let role = if role == Role::Verbatim { Role::Preformatted } else { Role::Block };
                    self.start_known(tag, role, attributes);
                }
                // Character references are none in verbatim text.
                match role {
                    Role::Verbatim => self.text(&text.replace('&', "&amp;")),
                    _ => self.text(text),
                }
                self.close_to(depth.min(self.open.len()));
                self.too_deep = too_deep;
            }
            _ if self.is_in("pre") => self.start_in_pre(tag, role, attributes),
            _ => self.start_known(tag, role, attributes),
        }
    }

    /// In preformatted text only line ends count, and its code is one.
    fn start_in_pre(&mut self, tag: &'static str, role: Role, attributes: &Attributes<'_>) {
        match (tag, role) {
            ("code", _) if self.top() == Some(Role::Preformatted) => {
                if let Some(language) = language(attributes) {
                    self.language = Some(language);
                }
            }
            ("br", _) => self.text("\n"),
            (_, Role::Inline | Role::Empty) => {}
            _ => self.end_line(),
        }
    }

    fn end_line(&mut self) {
        let at_start = self.open.last().is_some_and(|open| open.content == self.html.len());
        if !at_start && !self.html.ends_with('\n') {
            self.html.push('\n');
        }
    }

    fn start_known(&mut self, tag: &'static str, role: Role, attributes: &Attributes<'_>) {
        let of_table = matches!(role, Role::Section | Role::Row | Role::Cell) && self.is_in("table");
        if self.open.len() >= MAX_DEPTH && role != Role::Empty && !of_table {
            self.too_deep += 1;
            return;
        }
        match role {
            Role::Inline => {
                if self.is_in("code") {
                    return;
                }
                if self.is_in(tag) {
                    // A link in a link ends the first; the others mean the same twice.
                    if tag != "a" {
                        return;
                    }
                    self.end_known("a", Role::Inline);
                }
                if tag != "a" && self.resume(tag) {
                    return;
                }
                let href = attributes.href.filter(|href| href.len() <= MAX_ATTRIBUTE);
                if tag == "a" && href.is_none() {
                    return;
                }
                self.make_room();
                let mut attributes = String::new();
                if tag == "a" {
                    attributes = written(&[("href", href)]);
                    self.linked_blocks = 0;
                }
                self.push(tag, role, &attributes);
            }
            Role::Empty => {
                if tag == "hr" {
                    self.end_inlines();
                    self.end_paragraph();
                }
                self.make_room();
                self.elements += 1;
                match tag {
                    "img" => self.image(attributes),
                    _ => {
                        let _ = write!(self.html, "<{tag}>");
                    }
                }
            }
            Role::Block | Role::Paragraph | Role::Heading if self.is_in_link() => {
                if role == Role::Heading && self.link_is_empty() {
                    self.start_linked_heading(tag);
                } else {
                    self.linked_blocks += 1;
                    self.html.push(' ');
                }
            }
            Role::Table => {
                self.end_inlines();
                self.end_paragraph();
                self.make_room();
                self.push(tag, role, "");
            }
            _ if of_table => self.table_part(tag, role),
            _ => {
                self.end_inlines();
                self.end_paragraph();
                match role {
                    Role::Heading if self.top() == Some(Role::Heading) => self.close_to(self.open.len() - 1),
                    Role::Item => self.end_item(),
                    Role::Preformatted => self.language = language(attributes),
                    _ => {}
                }
                self.make_room();
                let indent = matches!(role, Role::List | Role::Item | Role::Quote);
                let plain = matches!(role, Role::Section | Role::Row | Role::Cell)
                    || (indent && self.indents() >= MAX_INDENT);
                let (tag, role) = if plain { ("div", Role::Block) } else { (tag, role) };
                let start = if tag == "ol" { attributes.start } else { None };
                self.push(tag, role, &written(&[("start", start)]));
            }
        }
    }

    /// A heading that is a link is written as one in which there is a link.
    fn start_linked_heading(&mut self, tag: &'static str) {
        let Some(link) = self.open.pop() else { return };
        let attributes = self.html.get(link.start + "<a".len()..link.content - ">".len());
        let attributes = attributes.unwrap_or_default().to_owned();
        self.html.truncate(link.start);
        self.linked_blocks = 0;
        self.start_known(tag, Role::Heading, &Attributes::default());
        self.push("a", Role::Inline, &attributes);
    }

    /// Whether a link is open that a block would be in. Blocks are no part of a link's text: where they
    /// start and end there is a space.
    fn is_in_link(&self) -> bool {
        let mut inlines = self.open.iter().rev().take_while(|open| open.role == Role::Inline);
        inlines.any(|open| open.tag == "a")
    }

    /// Whether the innermost open element is a link in which nothing was written.
    fn link_is_empty(&self) -> bool {
        // What is longer is not looked at, since it could be blank for long.
        const LOOKED_AT: usize = 256;
        let link = self.open.last().filter(|open| open.tag == "a");
        let content =
            link.and_then(|open| self.html.get(open.content..)).filter(|text| text.len() <= LOOKED_AT);
        content.is_some_and(is_blank)
    }

    /// Emphasis and links end where a block starts.
    fn end_inlines(&mut self) {
        let inlines = self.open.iter().rev().take_while(|open| open.role == Role::Inline).count();
        self.close_to(self.open.len() - inlines);
    }

    /// A part of a table ends the parts that it cannot be in, and brings those that must be around it.
    fn table_part(&mut self, tag: &'static str, role: Role) {
        let fits = |top: Option<Role>| match role {
            Role::Section => top == Some(Role::Table),
            Role::Row => matches!(top, Some(Role::Table | Role::Section)),
            _ => matches!(top, Some(Role::Table | Role::Section | Role::Row)),
        };
        while !fits(self.top()) && !self.open.is_empty() {
            self.close_to(self.open.len() - 1);
        }
        if self.open.last().is_some_and(|open| open.tag == "caption") {
            self.close_to(self.open.len() - 1);
        }
        if role == Role::Cell && self.top() != Some(Role::Row) {
            self.push("tr", Role::Row, "");
        }
        self.push(tag, role, "");
    }

    /// Opens what must be around text that comes now: a cell in a table, code in preformatted text.
    fn make_room(&mut self) {
        let caption = self.open.last().is_some_and(|open| open.tag == "caption");
        if matches!(self.top(), Some(Role::Table | Role::Section)) && !caption {
            self.push("tr", Role::Row, "");
        }
        if self.top() == Some(Role::Row) {
            self.push("td", Role::Cell, "");
        }
        if self.top() == Some(Role::Preformatted) {
            let class = self.language.take().map(|language| format!("language-{language}"));
            self.push("code", Role::Inline, &written(&[("class", class.as_deref())]));
        }
    }

    fn image(&mut self, attributes: &Attributes<'_>) {
        let alt = attributes.alt.filter(|alt| alt.len() <= MAX_ATTRIBUTE);
        let inline =
            |src: &&str| src.trim_start().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
        let src = attributes.src.filter(|src| !src.is_empty() && src.len() <= MAX_ATTRIBUTE && !inline(src));
        match src {
            Some(_) => {
                let _ = write!(self.html, "<img{}>", written(&[("src", src), ("alt", alt)]));
            }
            // An image that is nowhere to be found is what its description says.
            None => self.html.push_str(&alt.unwrap_or_default().replace('<', "&lt;")),
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((hidden, depth)) = &mut self.hidden {
            if name.eq_ignore_ascii_case(hidden) {
                *depth -= 1;
                if *depth == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        match known(name) {
            Some((_, Role::Text | Role::Verbatim | Role::HiddenText)) => {}
            Some((tag @ "pre", role)) => self.end_known(tag, role),
            Some((_, Role::Inline | Role::Empty)) if self.is_in("pre") => {}
            Some(_) if self.is_in("pre") => self.end_line(),
            // Outside of a table its parts were written as blocks.
            Some((_, Role::Section | Role::Row | Role::Cell)) if !self.is_in("table") => {
                self.end_known("div", Role::Block);
            }
            Some((tag, role)) => self.end_known(tag, role),
            None => {}
        }
    }

    fn end_known(&mut self, tag: &'static str, role: Role) {
        if matches!(role, Role::Empty) {
            return;
        }
        if self.too_deep > 0 && !matches!(role, Role::Section | Role::Row | Role::Cell) {
            self.too_deep -= 1;
            return;
        }
        let in_link = matches!(role, Role::Block | Role::Paragraph | Role::Heading) && self.is_in_link();
        if in_link && self.linked_blocks > 0 {
            self.linked_blocks -= 1;
            self.html.push(' ');
            return;
        }
        let of_table = matches!(role, Role::Table | Role::Section | Role::Row | Role::Cell);
        let same = |open: &Open| open.tag == tag || (role == Role::Heading && open.role == Role::Heading);
        let bounds = |open: &Open| match of_table {
            true => role != Role::Table && open.role == Role::Table,
            false => matches!(open.role, Role::Table | Role::Section | Role::Row | Role::Cell),
        };
        let reach = self.open.iter().rposition(bounds).map_or(0, |at| at + 1);
        let found = self.open.iter().rposition(same).filter(|&at| at >= reach);
        if let Some(at) = found {
            self.close_to(at);
        }
    }

    /// A paragraph ends where another block starts.
    fn end_paragraph(&mut self) {
        self.end_known_in("p", |role| matches!(role, Role::Table | Role::Section | Role::Cell));
    }

    /// An item ends where the next of its list starts.
    fn end_item(&mut self) {
        self.end_known_in("li", |role| matches!(role, Role::List | Role::Table | Role::Section | Role::Cell));
    }

    fn end_known_in(&mut self, tag: &str, bounds: impl Fn(Role) -> bool) {
        for (at, open) in self.open.iter().enumerate().rev() {
            if open.tag == tag {
                self.close_to(at);
                return;
            }
            if bounds(open.role) {
                return;
            }
        }
    }

    /// Goes on with an element that ended just here; the converter would join the two at a cost.
    fn resume(&mut self, tag: &'static str) -> bool {
        let length = self
            .html
            .strip_suffix('>')
            .and_then(|html| html.strip_suffix(tag)?.strip_suffix("</"))
            .map(str::len);
        let Some(length) = length else { return false };
        self.html.truncate(length);
        // It is not empty, so it never ends where its content starts.
        self.open.push(Open { tag, role: Role::Inline, start: 0, content: 0 });
        true
    }

    fn push(&mut self, tag: &'static str, role: Role, attributes: &str) {
        self.elements += 1;
        let start = self.html.len();
        let _ = write!(self.html, "<{tag}{attributes}>");
        self.open.push(Open { tag, role, start, content: self.html.len() });
    }

    /// Closes elements until so many are open. Links and emphasis of nothing are taken out.
    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(Open { tag, role, start, content }) = self.open.pop() else { return };
            let written = self.html.get(content..).unwrap_or_default();
            if role == Role::Inline && is_blank(written) && !self.is_in("pre") {
                let space = if written.is_empty() { "" } else { " " };
                self.html.truncate(start);
                self.html.push_str(space);
            } else {
                let _ = write!(self.html, "</{tag}>");
            }
            if self.open.len() < MAX_DEPTH {
                // What was left out ended with what it was in.
                self.too_deep = 0;
            }
        }
    }

    fn top(&self) -> Option<Role> {
        self.open.last().map(|open| open.role)
    }

    fn is_in(&self, tag: &str) -> bool {
        self.open.iter().any(|open| open.tag == tag)
    }

    fn indents(&self) -> usize {
        self.open.iter().filter(|open| matches!(open.role, Role::Item | Role::Quote)).count()
    }
}

fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tidied(html: &str) -> String {
        super::tidy(html).html.strip_prefix("<!doctype html><body>").unwrap().to_owned()
    }

    #[test]
    fn documents_are_written_anew() {
        for (html, expected) in [
            ("<P class=x>a<p>b", "<p>a</p><p>b</p>"),
            ("<b><i>a</b>b</i>", "<strong><em>a</em></strong>b"),
            ("<ul><li>a<li>b<ul><li>c</ul></ul>", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"),
            ("<p>a<div>b</div>c", "<p>a</p><div>b</div>c"),
            ("<a href=x>a<a href='y\"'>b", "<a href=\"x\">a</a><a href=\"y&quot;\">b</a>"),
            ("<a>a</a><span>b</span><x-y>c</x-y>", "abc"),
            ("a<script>b<p>c</script>d<style>e</style><svg><g>f</g></svg><svg/>g", "adg"),
            ("<noscript>a</noscript><template>b<template>c</template>d</template>e", "e"),
            ("<title>a &amp; <b></title>", "<div>a &amp; &lt;b></div>"),
            ("<div>a<textarea>b</textarea>c</div>", "<div>a<div>b</div>c</div>"),
            ("<a href=x>a<textarea>b</textarea>c</a>d", "<a href=\"x\">abc</a>d"),
            ("a<svg><style></svg></style></svg>b", "ab"),
            ("<xmp>&amp;<b></xmp>", "<pre><code>&amp;amp;&lt;b></code></pre>"),
            ("<b>a</b><b>b</b>", "<strong>ab</strong>"),
            ("<<!-- -->b>", "&lt;b>"),
            ("a<a href=x title=y><svg><path></svg></a><b><i></i></b>b<code></code>", "ab"),
            ("a<a href=x><div></div></a>b<pre> </pre>", "a b<pre><code> </code></pre>"),
            ("<b><p>a</p><p>b</p></b>c", "<p>a</p><p>b</p>c"),
            (
                "<div><a href=x> <h2>a</h2><p>b</p></a>c</div>",
                "<div><h2><a href=\"x\">a</a></h2><p>b</p>c</div>",
            ),
            ("<div><a href=x><div>a</div><p>b</a>c</div>", "<div><a href=\"x\"> a  b</a>c</div>"),
            ("<p><a href=x>a</p>b", "<p><a href=\"x\">a</a></p>b"),
            ("<a href=x>a<ul><li>b</a></ul>", "<a href=\"x\">a</a><ul><li>b</li></ul>"),
            ("<h1>a<h2>b</h3>c", "<h1>a</h1><h2>b</h2>c"),
            ("<img src=x alt='a b'><img src=data:x alt='c'><img alt=d>", "<img src=\"x\" alt=\"a b\">cd"),
        ] {
            assert_eq!(tidied(html), expected, "{html}");
        }
    }

    #[test]
    fn tables_hold_cells() {
        for (html, expected) in [
            (
                "<table><tr><td>a<td>b<tr><td>c</table>d",
                "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d",
            ),
            ("<table> <tbody> a</table>", "<table><tbody><tr><td> a</td></tr></tbody></table>"),
            ("<table><caption>a</caption><td>b", "<table><caption>a</caption><tr><td>b</td></tr></table>"),
            ("<table><caption>a<tr><td>b", "<table><caption>a</caption><tr><td>b</td></tr></table>"),
            (
                "<table><tr><td><b>a</td></tr></table>b",
                "<table><tr><td><strong>a</strong></td></tr></table>b",
            ),
            ("<td>a</td><tr>b</tr>", "<div>a</div><div>b</div>"),
            ("<div><table><tr><td></div>a</table></div>b", "<div><table><tr><td>a</td></tr></table></div>b"),
        ] {
            assert_eq!(tidied(html), expected, "{html}");
        }
    }

    #[test]
    fn preformatted_text_is_one_piece_of_code() {
        for (html, expected) in [
            ("<pre>a\n b</pre>", "<pre><code>a\n b</code></pre>"),
            (
                "<pre><code class='x language-rust'>a</code></pre>",
                "<pre><code class=\"language-rust\">a</code></pre>",
            ),
            ("<pre class=lang-c++><b>a</b></pre>", "<pre><code class=\"language-c++\">a</code></pre>"),
            ("<pre><div>a></div><div>b</div></pre>", "<pre><code>a>\nb\n</code></pre>"),
            ("<pre><code>a</code><code>b</code>c<br>d</pre>", "<pre><code>abc\nd</code></pre>"),
        ] {
            assert_eq!(tidied(html), expected, "{html}");
        }
    }

    /// The depth of what was written, which is well nested.
    fn depth(html: &str) -> usize {
        let (mut open, mut deepest) = (Vec::new(), 0);
        for token in Lexer::new(html) {
            match token {
                Token::Start { name: "br" | "hr" | "img" | "body", .. } | Token::Text(_) => {}
                Token::Start { name, .. } => open.push(name),
                Token::End { name } => assert_eq!(open.pop(), Some(name), "{html}"),
            }
            deepest = deepest.max(open.len());
        }
        assert!(open.is_empty(), "{html}");
        deepest
    }

    #[test]
    fn nesting_is_bounded() {
        for part in
            ["<div>", "<ul><li>", "<table><tr><td>", "<blockquote>", "<b><p>", "<a href=x><b>", "<table>"]
        {
            assert!(depth(&tidied(&part.repeat(1000))) <= MAX_DEPTH + 4, "{part}");
        }
        let text = "<div>".repeat(500) + "a" + &"</div>".repeat(500) + "<p>b";
        assert!(tidied(&text).ends_with("</div><p>b</p>"));
    }

    #[test]
    fn a_document_of_too_many_elements_is_cut() {
        let whole = super::tidy(&"<br>".repeat(MAX_ELEMENTS - 1));
        assert!(!whole.cut);
        let cut = super::tidy(&("<p>a".repeat(MAX_ELEMENTS) + "<p>b"));
        assert!(cut.cut && !cut.html.ends_with("b</p>"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn whatever_comes_is_written_well_nested(parts in proptest::collection::vec(
            (prop::sample::select(vec![
                "p", "div", "b", "i", "a", "code", "pre", "ul", "li", "table", "tr", "td", "tbody", "caption",
                "h1", "br", "img", "blockquote", "svg", "title", "xmp", "font", "script",
            ]), 0_u8..3), 0..80,
        )) {
            let html: String = parts.iter().map(|(name, kind)| match kind {
                0 => format!("<{name} href=x>"),
                1 => format!("</{name}>"),
                _ => "t < &amp; ".to_owned(),
            }).collect();
            let once = tidied(&html);
            depth(&once);
            prop_assert!(!once.contains("<script") && !once.contains("<svg"));
        }
    }
}
