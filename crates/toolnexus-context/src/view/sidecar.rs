//! The links of a result from outside, listed below it, so that an answer can cite them.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memchr2;
use toolnexus_core::ToolSource;

use crate::citation::escape_attribute;
use crate::settings::Policy;
use crate::tables::same_page;
use crate::{Evidence, Limits, Registry, SourceRef};

/// Whether the links of this tool's results are listed: they come from outside, and they are no
/// directory of where to go next.
pub(super) fn lists_links(tool: &str, source: Option<ToolSource>, policy: Option<&Policy>) -> bool {
    let is_external = source == Some(ToolSource::Mcp) || policy.is_some_and(|policy| policy.external);
    let is_directory = tool == "list_mcp_resources" || policy.is_some_and(|policy| policy.directory);
    is_external && !is_directory
}

impl Registry {
    /// The list of the links in `output`, to stand below its view; empty without links. They are evidence.
    pub(super) fn list_of_links(&self, output: &str) -> String {
        let settings = self.settings();
        let Some(kind) = settings.roles.url else { return String::new() };
        let mut rows = String::new();
        for url in links(output, settings.limits) {
            if let Some(handle) = self.register_as(kind, &SourceRef::new(&url), Evidence::Current) {
                let url = self.encode_resources(&url);
                rows.push_str(&format!("<source id=\"{handle}\" url=\"{}\"/>\n", escape_attribute(&url)));
            }
        }
        if rows.is_empty() {
            return rows;
        }
        let name = |kind| settings.kind(kind).map(|kind| kind.name.as_str()).unwrap_or_default();
        let mut instruction = format!(
            "Cite the matching {}://N only if this result supports the claim. A listed link does not mean \
             that its page was read.",
            name(kind)
        );
        if let Some(chunk) = settings.roles.chunk {
            instruction.push_str(&format!(" Do not use {} handles for this content.", name(chunk)));
        }
        format!("\n\n<external_source_candidates>\n{instruction}\n{rows}</external_source_candidates>")
    }
}

/// The distinct pages that a text links to, in order.
fn links(output: &str, limits: Limits) -> Vec<String> {
    let text = unescaped_literals(output);
    let mut links = Vec::new();
    let mut seen = HashSet::new();
    let mut rest = &*text;
    while links.len() < limits.sidecar_links
        && let Some(start) = memchr::memmem::find(rest.as_bytes(), b"http")
    {
        rest = rest.get(start..).unwrap_or_default();
        let scheme = ["https://", "http://"].into_iter().find(|scheme| rest.starts_with(scheme));
        let length = match scheme {
            Some(_) => rest.find(ends_link).unwrap_or(rest.len()),
            None => "http".len(),
        };
        let (found, after) = rest.split_at(length);
        rest = after;
        let Some(scheme) = scheme else { continue };
        let link = html_escape::decode_html_entities(found);
        let link = link.get(..link.find(ends_link).unwrap_or(link.len())).unwrap_or_default();
        let link = without_punctuation(link);
        if link.len() <= limits.sidecar_link_len
            && link.strip_prefix(scheme).is_some_and(has_bare_host)
            && seen.insert(same_page(link).to_owned())
        {
            links.push(link.to_owned());
        }
    }
    links
}

fn ends_link(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>\"'`\\，。；！？、（）【】".contains(c)
}

/// Whether what follows the scheme begins with a host, and names no user.
fn has_bare_host(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    !authority.contains('@') && !authority.split(':').next().unwrap_or_default().is_empty()
}

/// The link without the punctuation of the sentence around it: closing brackets only where they close
/// nothing of its own.
fn without_punctuation(link: &str) -> &str {
    const PAIRS: [(u8, u8); 3] = [(b'(', b')'), (b'[', b']'), (b'{', b'}')];
    let count = |wanted: u8| link.bytes().filter(|byte| *byte == wanted).count();
    let mut surplus = PAIRS.map(|(open, close)| (close, count(close).saturating_sub(count(open))));
    let mut end = link.len();
    while let Some(last) = end.checked_sub(1).and_then(|last| link.as_bytes().get(last)) {
        match surplus.iter_mut().find(|(close, _)| close == last) {
            Some((_, 0)) => break,
            Some((_, left)) => *left -= 1,
            None if b".,;!?".contains(last) => {}
            None => break,
        }
        end -= 1;
    }
    link.get(..end).unwrap_or_default()
}

/// A copy in which JSON string literals are spelled out. A quote may open a literal and close another:
/// prose has single ones.
fn unescaped_literals(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // Where the part begins that is not copied yet: the start of the text, or a quote.
    let (mut start, mut at) = (0, 0);
    while let Some(found) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes.get(at) == Some(&b'\\') {
            at += 2;
            continue;
        }
        let part = text.get(start..at).unwrap_or_default();
        let literal = text.get(start..=at).unwrap_or_default();
        match serde_json::from_str::<String>(literal) {
            Ok(unescaped) => {
                out.push('"');
                out.push_str(&unescaped);
            }
            Err(_) => out.push_str(part),
        }
        start = at;
        at += 1;
    }
    out.push_str(text.get(start..).unwrap_or_default());
    Cow::Owned(out)
}
