//! What the elements of HTML are for a reader, and which of their attributes count.

use std::fmt::Write as _;

use super::lexer::Attributes;

/// How long an address or a description may be, in bytes; a longer one is left out.
pub(super) const MAX_ATTRIBUTE: usize = 4096;

/// What role an element plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Block,
    Paragraph,
    Heading,
    List,
    Item,
    Quote,
    Preformatted,
    Inline,
    Table,
    Section,
    Row,
    Cell,
    /// `br`, `hr`, `img`: nothing is in it.
    Empty,
    /// Neither it nor what is in it is kept.
    Hidden,
    /// In it nothing is a tag; neither it nor its text is kept.
    HiddenText,
    /// In it nothing is a tag; its text is kept as that of a block.
    Text,
    /// As `Text`, its lines as they are.
    Verbatim,
}

/// The element that one is written as, and its role. What is not known here is left out; its
/// content is not.
pub(super) fn known(name: &str) -> Option<(&'static str, Role)> {
    use Role::*;
    if name.len() > 10 {
        return None;
    }
    Some(match name.to_ascii_lowercase().as_str() {
        "p" => ("p", Paragraph),
        "h1" => ("h1", Heading),
        "h2" => ("h2", Heading),
        "h3" => ("h3", Heading),
        "h4" => ("h4", Heading),
        "h5" => ("h5", Heading),
        "h6" => ("h6", Heading),
        "ul" | "menu" | "dir" => ("ul", List),
        "ol" => ("ol", List),
        "li" => ("li", Item),
        "blockquote" => ("blockquote", Quote),
        "pre" | "listing" => ("pre", Preformatted),
        "a" => ("a", Inline),
        "strong" | "b" => ("strong", Inline),
        "em" | "i" => ("em", Inline),
        "code" | "tt" | "kbd" | "samp" => ("code", Inline),
        "br" => ("br", Empty),
        "hr" => ("hr", Empty),
        "img" => ("img", Empty),
        "table" => ("table", Table),
        "caption" => ("caption", Section),
        "thead" => ("thead", Section),
        "tbody" => ("tbody", Section),
        "tfoot" => ("tfoot", Section),
        "tr" => ("tr", Row),
        "td" => ("td", Cell),
        "th" => ("th", Cell),
        "svg" | "template" | "canvas" | "audio" | "video" | "datalist" | "frameset" => ("", Hidden),
        "script" | "style" | "noscript" | "iframe" | "noembed" | "noframes" => ("", HiddenText),
        "title" | "textarea" => ("div", Text),
        "xmp" | "plaintext" => ("pre", Verbatim),
        "div" | "section" | "article" | "aside" | "header" | "footer" | "main" | "nav" | "address"
        | "figure" | "figcaption" | "details" | "summary" | "dialog" | "dl" | "dt" | "dd" | "fieldset"
        | "legend" | "form" | "center" | "hgroup" | "search" | "option" | "optgroup" => ("div", Block),
        _ => return None,
    })
}

/// Attributes as they stand in a tag. Values come from another tag and keep their references.
pub(super) fn written(attributes: &[(&str, Option<&str>)]) -> String {
    let mut text = String::new();
    for (name, value) in attributes {
        if let Some(value) = value.filter(|value| value.len() <= MAX_ATTRIBUTE) {
            let _ = write!(text, " {name}=\"{}\"", value.replace('"', "&quot;"));
        }
    }
    text
}

/// The language of code, by the convention of its class.
pub(super) fn language(attributes: &Attributes<'_>) -> Option<String> {
    let classes = attributes.class?.split_ascii_whitespace();
    let mut named =
        classes.filter_map(|class| class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-")));
    let language = named.next()?;
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'#' | b'.' | b'_' | b'-');
    (language.len() <= 32 && language.bytes().all(sound)).then(|| language.to_owned())
}
