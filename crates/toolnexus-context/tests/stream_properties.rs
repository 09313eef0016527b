//! Random texts and registries: every way of cutting a text gives what a plain reference makes of the whole.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use regex::Regex;
use serde_json::json;
use toolnexus_context::{
    Evidence, PrivateSpace, Registry, RegistryConfig, ResourcePattern, SourceKind, SourceRef,
};

/// Up to so many digits of a source handle, its right edge counts.
const LONGEST_HELD_NUMBER: usize = 64;

/// What is in a registry, as the reference knows it.
#[derive(Debug, Clone)]
struct World {
    citations: bool,
    max_tag_len: usize,
    /// Of each kind the sources; a source is its title, document and whether it is evidence.
    sources: Vec<Vec<(String, String, bool)>>,
    /// How many issues, servers and tools there are.
    spaces: [usize; 3],
    issue: PrivateSpace,
    resources: usize,
}

/// Name, old letter, whether it is citable, whether it stands in text as a URI.
const KINDS: [(&str, Option<char>, bool, bool); 7] = [
    ("chunk", Some('c'), true, true),
    ("doc", Some('d'), false, true),
    ("kb", Some('b'), false, true),
    ("url", Some('w'), true, false),
    ("page", None, true, true),
    ("do", None, false, true),
    ("rfc", None, false, true),
];

impl World {
    fn registry(&self) -> Registry {
        let mut config = RegistryConfig::default()
            .citations(self.citations)
            .kind(SourceKind::new("page").citable())
            .kind(SourceKind::new("do"))
            .kind(SourceKind::new("rfc"))
            .resource_pattern(ResourcePattern::LegacyStorage);
        config.private_spaces = vec![self.issue.clone()];
        config.max_tag_len = self.max_tag_len;
        let registry = Registry::with_config(config).unwrap();
        for ((name, ..), sources) in KINDS.iter().zip(&self.sources) {
            for (number, (title, document, is_evidence)) in sources.iter().enumerate() {
                let mut source = SourceRef::new(self.id(name, number + 1));
                (source.title, source.document_id) = (title.clone(), document.clone());
                let evidence = if *is_evidence { Evidence::Current } else { Evidence::NavigationOnly };
                let handle = registry.register(name, source, evidence).unwrap();
                assert_eq!(handle, format!("{name}://{}", number + 1));
            }
        }
        for number in 0..self.spaces[0] {
            registry.register_issue(&format!("issue {number} i1")).unwrap();
        }
        let tool = |name: &str, key: &str, ids: Vec<String>| {
            json!({"type": "function", "function": {"name": name, "parameters":
                {"type": "object", "properties": {key: {"type": "string", "enum": ids}}}}})
        };
        let ids = |name: &str, count: usize| (0..count).map(|at| format!("{name} {at} ms1")).collect();
        let shown = registry.encode_tools(&[
            tool("discover_mcp_tools", "server_id", ids("server", self.spaces[1])),
            tool("call_mcp_tool", "tool_ref", ids("tool", self.spaces[2])),
        ]);
        let shown = serde_json::to_string(&shown).unwrap();
        assert_eq!(
            (shown.contains(r#""ms1""#), shown.contains(r#""mt1""#)),
            (self.spaces[1] > 0, self.spaces[2] > 0)
        );
        for number in 1..=self.resources {
            assert_eq!(registry.compact_known_text(&resource(number)), format!("res://{number:04}"));
        }
        registry
    }

    fn id(&self, kind: &str, number: usize) -> String {
        if kind == "url" { format!("https://a.io/{number}?doc://1") } else { format!("{kind}-id-{number}") }
    }

    /// What a known handle of a private or routing space stands for.
    fn known(&self, space: usize, digits: &str) -> Option<String> {
        let (width, start) = if space == 0 { (self.issue.width, self.issue.start) } else { (0, 1) };
        let at = (0..self.spaces[space]).find(|at| format!("{:0width$}", at + start) == digits)?;
        Some(match space {
            0 => format!("issue {at} i1"),
            1 => format!("server {at} ms1"),
            _ => format!("tool {at} ms1"),
        })
    }

    /// The kind's place and number of a known source.
    fn source(&self, kind: &str, digits: &str) -> Option<(usize, usize)> {
        let kind = KINDS.iter().position(|(name, ..)| name.eq_ignore_ascii_case(kind))?;
        let number = (1..=self.sources[kind].len()).find(|number| number.to_string() == digits)?;
        Some((kind, number))
    }

    /// The public citation, where the source may be cited.
    fn citation(&self, (kind, number): (usize, usize)) -> Option<String> {
        let (name, _, is_citable, _) = KINDS[kind];
        let (title, _, is_evidence) = &self.sources[kind][number - 1];
        let id = self.id(name, number);
        let title = title.replace('&', "&amp;").replace('"', "&#34;");
        (self.citations && is_citable && *is_evidence).then(|| match name {
            "url" => format!("<web url=\"{id}\" title=\"{title}\" />"),
            "page" => format!("<page-source id=\"{id}\" title=\"{title}\" />"),
            _ => format!("<kb doc=\"{title}\" chunk_id=\"{id}\" />"),
        })
    }

    fn address(&self, (kind, number): (usize, usize)) -> String {
        let (name, _, is_citable, is_uri) = KINDS[kind];
        let (_, document, _) = &self.sources[kind][number - 1];
        match (is_uri, is_citable && !document.is_empty()) {
            (false, _) => self.id(name, number),
            (true, true) => format!("toolnexus://doc/{document}"),
            (true, false) => format!("toolnexus://{name}/{}", self.id(name, number)),
        }
    }
}

fn resource(number: usize) -> String {
    format!("local://1/i1/{number}/ms1.png")
}

/// The rules, read out one after the other, at each place of the whole text.
struct Reference {
    tag: Regex,
    citation: Regex,
    resource: Regex,
    begun_resource: Regex,
    source: Regex,
    begun_source: Regex,
    spaces: [Regex; 3],
}

impl Reference {
    fn new(world: &World) -> Self {
        let kinds = KINDS.map(|(name, ..)| name).join("|");
        let regex = |text: String| Regex::new(&text).unwrap();
        let space = |prefix: &str| regex(format!("^{}([0-9]+)", regex::escape(prefix)));
        Reference {
            tag: regex(r"^</?(?i:ref|kb|web|page-source)([ \t\n\x0c\r/>]|$)".into()),
            citation: regex(
                r#"^(?i:<ref[ \t\n\x0c\r]+id[ \t\n\x0c\r]*=[ \t\n\x0c\r]*"([^"]*)"[ \t\n\x0c\r]*/?>)$"#
                    .into(),
            ),
            resource: regex("^res://([0-9]+)".into()),
            begun_resource: regex("^res://?$".into()),
            source: regex(format!("^(?i:({kinds}))://([0-9]+)")),
            begun_source: regex(format!("^(?i:{kinds})://?$")),
            spaces: [space(&world.issue.prefix), space("ms"), space("mt")],
        }
    }

    fn decode(&self, world: &World, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut decoded = String::new();
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let (before, rest) = text.split_at(at);
            let is_free = !before.ends_with(is_word);
            let goes_on = |end: usize| rest[end..].starts_with(is_word);
            if self.tag.is_match(rest) {
                match rest.find('>') {
                    Some(close) if close < world.max_tag_len => {
                        decoded += &self.expand(world, &rest[..=close]);
                        at += close + 1;
                        continue;
                    }
                    None if rest.len() < world.max_tag_len => return decoded,
                    _ => {}
                }
            }
            if let Some(found) = self.resource.captures(rest) {
                let known = (1..=world.resources).find(|number| format!("{number:04}") == found[1]);
                decoded += &known.map(resource).unwrap_or_default();
                at += found[0].len();
                continue;
            }
            if self.begun_resource.is_match(rest) || (is_free && self.begun_source.is_match(rest)) {
                return decoded;
            }
            if is_free && let Some(found) = self.source.captures(rest) {
                let end = found[0].len();
                let has_fraction = rest[end..]
                    .strip_prefix('.')
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                if found[2].len() > LONGEST_HELD_NUMBER || !(goes_on(end) || has_fraction) {
                    if let Some(source) = world.source(&found[1], &found[2]) {
                        decoded +=
                            &if before.ends_with("](") || before.ends_with("=\"") || before.ends_with("='") {
                                world.address(source)
                            } else if before.ends_with(['/', '=']) {
                                world.id(KINDS[source.0].0, source.1)
                            } else if KINDS[source.0].3 {
                                world.citation(source).unwrap_or_else(|| world.address(source))
                            } else {
                                world.address(source)
                            };
                    }
                    at += end;
                    continue;
                }
            }
            let known = self.spaces.iter().enumerate().find_map(|(space, regex)| {
                let found = regex.captures(rest).filter(|found| is_free && !goes_on(found[0].len()))?;
                Some((world.known(space, &found[1])?, found[0].len()))
            });
            if let Some((value, length)) = known {
                decoded += &value;
                at += length;
                continue;
            }
            decoded.push(character);
            at += character.len_utf8();
        }
        decoded
    }

    fn expand(&self, world: &World, tag: &str) -> String {
        let Some(found) = self.citation.captures(tag) else { return String::new() };
        let handle = found[1].trim();
        let old = KINDS.iter().find_map(|(name, letter, ..)| {
            let digits = handle.strip_prefix([(*letter)?, letter.unwrap().to_ascii_uppercase()])?;
            world.source(name, digits)
        });
        let source = handle.split_once("://").and_then(|(kind, digits)| world.source(kind, digits)).or(old);
        source.and_then(|source| world.citation(source)).unwrap_or_default()
    }
}

fn world() -> impl Strategy<Value = World> {
    let source = (select(vec!["", "T&\"", "doc://1 i1"]), select(vec!["", "doc-1"]), any::<bool>());
    let source = source
        .prop_map(|(title, document, is_evidence)| (title.to_owned(), document.to_owned(), is_evidence));
    let issue = select(vec![
        ("i", 0, 1),
        ("is-", 3, 0),
        ("d", 0, 1),
        ("R_", 0, 7),
        ("ms-a", 2, 1),
        ("i1-", 0, 1),
        ("r", 0, 1),
    ]);
    let max_tag_len = prop_oneof![Just(2048), 1..40_usize];
    (
        prop::bool::weighted(0.8),
        max_tag_len,
        vec(vec(source, 0..=12), KINDS.len()),
        [0..12_usize, 0..3, 0..3],
        issue,
        0..13_usize,
    )
        .prop_map(|(citations, max_tag_len, sources, spaces, (prefix, width, start), resources)| {
            let mut issue = PrivateSpace::new("issue", prefix);
            (issue.width, issue.start) = (width, start);
            World { citations, max_tag_len, sources, spaces, issue, resources }
        })
}

fn spelled(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(parts).prop_map(str::to_owned)
}

/// Texts of what is a handle or a tag, or nearly.
fn text(longest: usize) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => spelled(&[
            "doc://1", "DOC://1", "doc:/", "/1", "chunk://1", "chunk://12", "cHunk://2", "url://1", "kb://1", "page://1",
            "do://1", "do://", "doc://", "doc", "url:", "chunk:", "doc://007", "://", "http://1", "xdoc://1", "doc://1.5", "url://1.", "rfc://1", "xrfc://1", "xr1",
        ]),
        3 => spelled(&[
            "res://0001", "res://00012", "res://", "res:/", "res:", "res", "re", "r", "RES://0001", "res://0012", "resources",
        ]),
        3 => spelled(&[
            "i1", "i12", "i", "is-001", "is-", "is", "d1", "R_7", "R_", "ms1", "ms2", "mt1", "ms", "m", "ms-a01", "i1-1", "I1",
        ]),
        4 => spelled(&[
            "<", "</", "<r", "<re", "<ref", "</ref>", "<ref>", "<ref/>", "</kb", "<kb ", "<web", "<web url=\"", "<kbd>",
            "<page-source id=\"", "<Page-", "</page", "<page ",
            "<ref id=\"chunk://1\"/>", "<REF ID = \"url://1\" >", "<ref id=\"c1\"/>", "<ref id=\"", "<ref id='chunk://1'/>",
            "<ref id=\"page://1\">", "<ref id=\"chunk://2\" x=\"\"/>", "<kb doc=\"a\" chunk_id=\"b\" />", "<ref id=\" D1\n\"/>", "/>", ">",
            "<ref xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ]),
        4 => spelled(&[
            " ", "](", "](", "=\"", "='", "=", "/", "\"", "'", "(", ")", ".", ".5", "-", "_", "&", "\n", "x", "word ", "0", "1", "9",
            "见", "。", "é", "\u{a0}", "🦀",
        ]),
        1 => "[0-9]{1,30}",
        1 => (60..70_usize).prop_map(|length| "4".repeat(length)),
        1 => "\\PC{0,4}",
    ];
    vec(part, 0..longest).prop_map(|parts| parts.concat())
}

/// Where a text may be cut.
fn cuts(text: &str) -> Vec<usize> {
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect()
}

fn streamed<'p>(registry: &Registry, pieces: impl IntoIterator<Item = &'p str>) -> String {
    let mut decoder = registry.stream_decoder();
    let mut decoded: String = pieces.into_iter().map(|piece| decoder.feed(piece)).collect();
    decoded += &decoder.flush();
    decoded
}

/// The reference knows nothing of what keeps two sides apart; `joined_text` tests that.
fn without_seams(text: &str) -> String {
    text.replace('_', "")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-57, CTX-50, CTX-52, CTX-53, CTX-54, CTX-55, CTX-58, CTX-25, CTX-27: the whole text, character by
    // character, every two-way split and every three-way split are what the reference says
    #[test]
    fn every_split_is_what_the_reference_says(world in world(), text in text(9)) {
        let registry = world.registry();
        let expected = registry.decode_output_text(&text);
        let reference = Reference::new(&world).decode(&world, &text);
        prop_assert_eq!(without_seams(&expected), without_seams(&reference), "whole {:?}", text);
        let cuts = cuts(&text);
        let characters = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]);
        prop_assert_eq!(streamed(&registry, characters), expected.as_str(), "by character {:?}", text);
        for (at, first) in cuts.iter().enumerate() {
            // All of a short text; of a long one, cuts that are no more than a handle apart.
            for second in cuts[at..].iter().take(32) {
                let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                prop_assert_eq!(streamed(&registry, pieces), expected.as_str(), "{:?}", pieces);
            }
        }
    }

    // CTX-57: longer texts, cut at random
    #[test]
    fn long_texts_are_what_the_reference_says(
        world in world(),
        text in text(80),
        lengths in vec(0..12_usize, 1..40),
    ) {
        let registry = world.registry();
        let expected = registry.decode_output_text(&text);
        let reference = Reference::new(&world).decode(&world, &text);
        prop_assert_eq!(without_seams(&expected), without_seams(&reference));
        let (mut rest, mut pieces) = (text.as_str(), Vec::new());
        for length in lengths.iter().cycle() {
            let length = (0..=(*length).min(rest.len())).rev().find(|at| rest.is_char_boundary(*at)).unwrap();
            let (piece, after) = rest.split_at(length);
            pieces.push(piece);
            rest = after;
            if rest.is_empty() || pieces.len() > 10_000 {
                break;
            }
        }
        pieces.push(rest);
        prop_assert_eq!(streamed(&registry, pieces.iter().copied()), expected.as_str(), "{:?}", pieces);
    }

    // CTX-57: a decoder holds no more than a tag or a handle
    #[test]
    fn little_is_held(world in world(), text in text(60)) {
        let mut decoder = world.registry().stream_decoder();
        let longest = world.max_tag_len.max("chunk://".len() + LONGEST_HELD_NUMBER + 1);
        for cut in cuts(&text).windows(2) {
            decoder.feed(&text[cut[0]..cut[1]]);
            let shown = format!("{decoder:?}");
            let held: String = shown.chars().filter(char::is_ascii_digit).collect();
            prop_assert!(held.parse::<usize>().unwrap() <= longest, "{}", shown);
        }
    }
}
