//! Where the header of a `SKILL.md` ends and its body begins.

/// The two parts of a `SKILL.md`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// The text between the fences.
    pub(crate) header: &'a str,
    /// What follows the closing fence.
    pub(crate) body: &'a str,
}

/// Why there is no header, and all of the text is body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// The text begins with something else than a fence.
    NotOpened,
    /// There is no second fence.
    NotClosed,
}

impl NoHeader {
    /// What a person reads about it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            NoHeader::NotOpened => "there is no header: the first line is not ---",
            NoHeader::NotClosed => "the header does not end: there is no second --- line",
        }
    }
}

/// Splits a text at its `---` lines.
///
/// The first line must be a fence; the header ends at the next one. Lines end in LF or CRLF; a
/// byte-order mark, and blanks behind a fence, are forgiven.
///
/// # Errors
/// Which of the two is missing.
pub(crate) fn split(text: &str) -> Result<Parts<'_>, NoHeader> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if !is_fence(first) {
        return Err(NoHeader::NotOpened);
    }
    let mut header_len = 0;
    for line in rest.split_inclusive('\n') {
        if is_fence(line.strip_suffix('\n').unwrap_or(line)) {
            let (header, tail) = rest.split_at(header_len);
            return Ok(Parts { header, body: tail.get(line.len()..).unwrap_or_default() });
        }
        header_len += line.len();
    }
    Err(NoHeader::NotClosed)
}

fn is_fence(line: &str) -> bool {
    let line = line.strip_suffix('\r').unwrap_or(line);
    line.trim_end_matches([' ', '\t']) == "---"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some<'a>(header: &'a str, body: &'a str) -> Result<Parts<'a>, NoHeader> {
        Ok(Parts { header, body })
    }

    // SKILL-11, SKILL-19
    #[test]
    fn a_header_stands_between_two_fences() {
        assert_eq!(split("---\nname: a\n---\n\nbody\n"), some("name: a\n", "\nbody\n"));
        assert_eq!(split("---\r\nname: a\r\n---\r\nbody\r\n"), some("name: a\r\n", "body\r\n"));
        assert_eq!(split("\u{feff}--- \t\nname: a\n---\t\nbody"), some("name: a\n", "body"));
        assert_eq!(split("---\n---"), some("", ""));
        assert_eq!(split("---\n---\n"), some("", ""));
        assert_eq!(split("---\na: 1\n---\nx\n---\ny"), some("a: 1\n", "x\n---\ny"));
    }

    // SKILL-11
    #[test]
    fn without_both_fences_there_is_no_header() {
        for text in [
            "",
            "body",
            "\n---\nname: a\n---\n",
            " ---\na\n---\n",
            "----\na\n---\n",
            "\u{feff}\u{feff}---\n---\n",
        ] {
            assert_eq!(split(text), Err(NoHeader::NotOpened), "{text:?}");
        }
        for text in [
            "---",
            "---\n",
            "\u{feff}---\r\n",
            "---\nname: a\n",
            "---\na: 1\n--- x\nrest",
            "---\na: 1\n ---\nrest",
            "---\na: 1\n----\nrest",
            "---\na: 1\n...\nrest",
            // A lone carriage return ends no line.
            "---\na: 1\r---\rrest",
        ] {
            assert_eq!(split(text), Err(NoHeader::NotClosed), "{text:?}");
        }
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![Just("---".to_owned()), Just("--- ".to_owned()), Just(String::new()), "[^\r\n]{0,12}"]
    }

    proptest! {
        // SKILL-11: any text at all
        #[test]
        fn nothing_is_lost_or_invented(text in any::<String>()) {
            if let Ok(parts) = split(&text) {
                prop_assert!(text.ends_with(parts.body) && text.contains(parts.header));
            }
            if let Ok(parts) = split(&format!("---\n{text}")) {
                prop_assert!(text.starts_with(parts.header) && text.ends_with(parts.body));
            }
        }

        // SKILL-11: the parts put together again give the text, with either line ending
        #[test]
        fn lf_and_crlf_split_at_the_same_lines(lines in proptest::collection::vec(line(), 0..8)) {
            let (lf, crlf) = (lines.join("\n"), lines.join("\r\n"));
            let (a, b) = (split(&lf), split(&crlf));
            let owned = |parts: Parts<'_>| [parts.header, parts.body].map(|part| part.replace("\r\n", "\n"));
            prop_assert_eq!(a.map(owned), b.map(owned));
        }

        // SKILL-11, SKILL-19
        #[test]
        fn what_was_joined_comes_apart(
            header in proptest::collection::vec("[^\r\n-][^\r\n]{0,12}", 0..5),
            body in any::<String>(),
        ) {
            let header: String = header.iter().map(|line| format!("{line}\n")).collect();
            let text = format!("---\n{header}---\n{body}");
            prop_assert_eq!(split(&text), some(&header, &body));
        }
    }
}
