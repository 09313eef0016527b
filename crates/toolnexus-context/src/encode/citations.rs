//! Public citations on their way to the model.

use std::borrow::Cow;

use memchr::{memchr, memchr3};

use crate::decode::Named;
use crate::{CitedSource, Evidence, Registry, SourceRef};

impl Registry {
    /// Public citations are registered with this evidence and become `<ref id="…"/>`. A tag that does not
    /// say which source it cites, or whose source gets no handle, stays.
    pub(crate) fn encode_citations<'t>(&self, text: &'t str, evidence: Evidence) -> Cow<'t, str> {
        let mut encoded = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(start) = text.as_bytes().get(at..).and_then(|rest| memchr(b'<', rest)) {
            let start = at + start;
            if !self.is_public_tag(text.as_bytes().get(start..).unwrap_or_default()) {
                at = start + 1;
                continue;
            }
            at = match tag_end(text, start) {
                TagEnd::Close(end) => end,
                TagEnd::Other(next) => {
                    at = next;
                    continue;
                }
                TagEnd::Missing => break,
            };
            if let Some(handle) = self.register_citation(text.get(start..at).unwrap_or_default(), evidence) {
                encoded.push_str(text.get(copied..start).unwrap_or_default());
                encoded.push_str(&format!("<ref id=\"{handle}\"/>"));
                copied = at;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        encoded.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(encoded)
    }

    /// Whether a text that begins with `<` begins with the tag of a format.
    fn is_public_tag(&self, text: &[u8]) -> bool {
        let mut formats = self.settings().kinds().filter_map(|(_, kind)| kind.citation.as_ref());
        formats.any(|format| Named::at(text, &format.tag_name) == Named::Is { is_closing: false })
    }

    /// The handle of what a tag cites. Where kinds share a tag, it is of the one that knows the source,
    /// else of the first.
    fn register_citation(&self, tag: &str, evidence: Evidence) -> Option<String> {
        let settings = self.settings();
        let mut first = None;
        for (kind, definition) in settings.kinds() {
            let Some(format) = &definition.citation else { continue };
            if Named::at(tag.as_bytes(), &format.tag_name) != (Named::Is { is_closing: false }) {
                continue;
            }
            let Some(cited) = (format.parse)(tag) else { continue };
            let is_known = self.tables().source_place(settings, kind, cited.id.trim()).is_some();
            if is_known {
                return self.register_as(kind, &source_ref(cited), evidence);
            }
            first = first.or(Some((kind, cited)));
        }
        let (kind, cited) = first?;
        self.register_as(kind, &source_ref(cited), evidence)
    }
}

fn source_ref(cited: CitedSource) -> SourceRef {
    SourceRef {
        id: cited.id,
        document_id: cited.document_id,
        knowledge_base_id: cited.knowledge_base_id,
        title: cited.title,
        ..Default::default()
    }
}

/// Where the tag that begins at a place ends.
enum TagEnd {
    /// Behind its `>`.
    Close(usize),
    /// It does not: another tag begins here. `<` is written as an entity in attributes, but in quotes it
    /// is let pass.
    Other(usize),
    /// Nowhere.
    Missing,
}

fn tag_end(text: &str, start: usize) -> TagEnd {
    let bytes = text.as_bytes();
    let (mut at, mut is_quoted) = (start + 1, false);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr3(b'<', b'>', b'"', rest)) {
        let place = at + found;
        at = place + 1;
        match bytes.get(place) {
            Some(b'>') => return TagEnd::Close(at),
            Some(b'"') => is_quoted = !is_quoted,
            _ if !is_quoted => return TagEnd::Other(place),
            _ => {}
        }
    }
    TagEnd::Missing
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{CitationFormat, RegistryConfig, SourceKind};

    fn stays(registry: &Registry, text: &str) {
        assert!(
            matches!(registry.encode_citations(text, Evidence::Current), Cow::Borrowed(same) if same == text)
        );
    }

    // CTX-35, CTX-70, CTX-56, case 41
    #[test]
    fn public_tags_become_references() {
        let registry = Registry::new(true);
        let text = concat!(
            r#"Knowledge <kb doc="A &amp; B.pdf" chunk_id="c-real" kb_id="kb-real" />; "#,
            r#"web <web url="https://e.com/a?x=1&amp;y=2" title="E &amp; M" />"#,
        );
        let encoded = registry.encode_citations(text, Evidence::NavigationOnly);
        assert_eq!(encoded, r#"Knowledge <ref id="chunk://1"/>; web <ref id="url://1"/>"#);
        assert_eq!(registry.decode_output_text(&encoded), "Knowledge ; web ", "replayed, not retrieved");
        assert_eq!(
            registry.encode_citations(&encoded, Evidence::Current),
            encoded,
            "once more changes nothing"
        );
        assert_eq!(registry.encode_citations(text, Evidence::Current), encoded);
        assert_eq!(registry.decode_output_text(&encoded), text, "title and knowledge base were kept");
    }

    // CTX-70: attributes in any order, in any case, with any entities
    #[test]
    fn tags_are_read_as_html_is() {
        let registry = Registry::new(true);
        let id = "a\"b<c>'d&e é";
        for tag in [
            r#"<kb chunk_id="a&#34;b&lt;c&gt;&#39;d&amp;e é">"#,
            "<KB KB_ID=\"k\"\n\tChunk_Id = \"a&quot;b&LT;c&gt;&apos;d&#x26;e &eacute;\" doc=\"x\"/>",
            r#"<kb doc='chunk_id="no"' x y=z chunk_id="a&quot;b<c&gt;'d&amp;e é" />"#,
            r#"<kb chunk_id="a&quot;b<c&gt;'d&amp;e é" chunk_id="second"/>"#,
        ] {
            assert_eq!(
                registry.encode_citations(tag, Evidence::Current),
                r#"<ref id="chunk://1"/>"#,
                "{tag}"
            );
        }
        assert_eq!(registry.chunk_handle(id).as_deref(), Some("chunk://1"));
        assert_eq!(registry.chunk_handle("no").or(registry.chunk_handle("second")), None);
    }

    // CTX-35, CTX-17, CTX-70
    #[test]
    fn a_tag_without_a_source_stays() {
        let registry = Registry::new(true);
        registry.register_document("doc-real");
        for text in [
            "<kb />",
            r#"<kb doc="A"/>"#,
            r#"<kb doc="A" chunk_id=""/>"#,
            r#"<kb doc="A" chunk_id="  "/>"#,
            "<kb doc='A' chunk_id='c'/>",
            "<kb chunk_id=c/>",
            r#"<kb data-chunk_id="c"/>"#,
            r#"<kb doc=" chunk_id=">c"/>"#,
            r#"<kb chunk_id="chunk://7"/>"#,
            r#"<kb chunk_id="doc://1"/>"#,
            r#"<kb chunk_id="c7"/>"#,
            r#"<kb chunk_id="res://0001"/>"#,
            r#"<kb chunk_id="toolnexus://doc/doc-real"/>"#,
            r#"<web title="T"/>"#,
            r#"<web url="" title="T"/>"#,
            r#"<kbd chunk_id="c">"#,
            r#"<kb-x chunk_id="c">"#,
            r#"</kb chunk_id="c">"#,
            r#"<kb chunk_id="c""#,
            r#"<kb chunk_id="c" <b>"#,
            "<kb",
            "<",
            "plain",
            "",
        ] {
            stays(&registry, text);
        }
        assert_eq!(registry.chunk_handle("c"), None);
        assert_eq!(
            registry.register_chunk(SourceRef::new("first")).as_deref(),
            Some("chunk://1"),
            "nothing was"
        );
        let text = r#"<kb chunk_id="chunk://1"/> <kb chunk_id="toolnexus://chunk/first"/> <kb x="<kb chunk_id="first"/>"#;
        let encoded = registry.encode_citations(text, Evidence::NavigationOnly);
        assert_eq!(encoded, r#"<ref id="chunk://1"/> <ref id="chunk://1"/> <kb x="<kb chunk_id="first"/>"#);
    }

    // CTX-70, CTX-54: formats of the application's
    #[test]
    fn the_kind_is_that_of_the_format() {
        let wiki = CitationFormat::new(
            "wiki",
            |source| format!("<wiki page=\"{}\">", source.id),
            |tag| {
                let id = tag.split('"').nth(1)?.to_owned();
                Some(CitedSource { id, document_id: "d".into(), ..Default::default() })
            },
        );
        let config = RegistryConfig::default()
            .kind(SourceKind::new("wiki").citable())
            .kind(SourceKind::new("faq").citable())
            .citation_format("wiki", wiki)
            .citation_format("faq", CitationFormat::knowledge());
        let registry = Registry::with_config(config).unwrap();
        registry.register("faq", SourceRef::new("faq-1"), Evidence::NavigationOnly).unwrap();
        let text = r#"<WIKI page="Home"> <kb chunk_id="faq-1"/> <kb chunk_id="other"/>"#;
        let encoded = registry.encode_citations(text, Evidence::Current);
        assert_eq!(encoded, r#"<ref id="wiki://1"/> <ref id="faq://1"/> <ref id="chunk://1"/>"#);
        assert_eq!(
            registry.decode_output_text(&encoded),
            r#"<wiki page="Home"> <kb doc="" chunk_id="faq-1" /> <kb doc="" chunk_id="other" />"#
        );
        assert_eq!(registry.decode_output_text("](wiki://1"), "](toolnexus://doc/d");
    }

    // CTX-35: linear in the text
    #[test]
    fn hostile_text_takes_linear_time() {
        let registry = Registry::new(true);
        for part in ["<kb ", "<kb \"", "<kb x=\"\" \"", "<web url=\"<", "<", "<kb chunk_id=\"c-1\"/>"] {
            for end in ["", ">"] {
                let text = part.repeat(200_000 / part.len()) + end;
                let begin = std::time::Instant::now();
                registry.encode_citations(&text, Evidence::Current);
                assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{part}");
            }
        }
        // Attributes without end.
        for part in ["a", "a=\"b\" ", "'", "=", "a= ", "/ ", "\"", "x='y'", "&", "&#34;", "&amp"] {
            let text = format!("<kb {} chunk_id=\"c-2\"/>", part.repeat(200_000 / part.len()));
            let begin = std::time::Instant::now();
            registry.encode_citations(&text, Evidence::Current);
            assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{part}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // CTX-70: what is written is read back, and is one tag
        #[test]
        fn what_is_written_is_read_back(
            id in "[ -~é见🦀\n]{1,12}",
            title in "[ -~é见🦀\n]{0,12}",
            kb in "[ -~é见🦀\n]{0,12}",
        ) {
            let mut source = CitedSource { id, title, ..Default::default() };
            let web = CitationFormat::web();
            prop_assert_eq!((web.parse)(&(web.render)(&source)), Some(source.clone()));
            if !kb.trim().is_empty() {
                source.knowledge_base_id = kb;
            }
            let format = CitationFormat::knowledge();
            let tag = (format.render)(&source);
            prop_assert_eq!((tag.matches('<').count(), tag.find('>')), (1, Some(tag.len() - 1)));
            prop_assert_eq!((format.parse)(&tag), Some(source.clone()));
            let registry = Registry::new(true);
            let text = format!("a {tag} b {tag}");
            let encoded = registry.encode_citations(&text, Evidence::Current).into_owned();
            match registry.chunk_handle(&source.id) {
                Some(handle) => prop_assert_eq!(encoded, format!("a <ref id=\"{handle}\"/> b <ref id=\"{handle}\"/>")),
                None => prop_assert_eq!(encoded, text),
            }
        }

        // CTX-35: any text; what is no citation keeps its bytes, and once is enough
        #[test]
        fn any_text_is_encoded_once(parts in proptest::collection::vec(proptest::sample::select(vec![
            "<kb ", "<web ", "<", ">", "/>", "\"", "'", "=", "chunk_id", "url=\"", "chunk_id=\"", "a", "é", " ", "</kb>", "<kb chunk_id=\"a\"/>", "&amp;",
        ]), 0..20)) {
            let registry = Registry::new(true);
            let text = parts.concat();
            let encoded = registry.encode_citations(&text, Evidence::Current).into_owned();
            prop_assert_eq!(registry.encode_citations(&encoded, Evidence::Current), encoded.as_str());
            if !encoded.contains("<ref") {
                prop_assert_eq!(encoded, text);
            }
        }
    }
}
