//! The grammar of a patch.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: <path>
//! +<line>
//! *** Update File: <path>
//! *** Move to: <path>            at most one, anywhere in the section
//! @@ [anchor]                    begins a hunk; the first may go without
//!  <context> | -<removed> | +<added>
//! *** Delete File: <path>
//! *** End Patch
//! ```
//!
//! Marker lines begin at column 0. A line of a hunk with none of the three signs is context as it stands,
//! and a line of a new file without `+` is content as it stands: models forget them.

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// How much of a line an error quotes, in characters.
const QUOTED: usize = 200;

/// What a text asks for. Borrows the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Patch<'a> {
    pub(super) sections: Vec<Section<'a>>,
}

/// What is to happen to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Section<'a> {
    Add { path: &'a str, content: String },
    Delete { path: &'a str },
    Update { path: &'a str, move_to: Option<&'a str>, hunks: Vec<Hunk<'a>> },
}

/// One place of a file that changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk<'a> {
    /// A line to search behind, trimmed; empty is none.
    pub(super) anchor: &'a str,
    pub(super) lines: Vec<HunkLine<'a>>,
    /// How many lines at the end have not even the sign of context.
    blank: usize,
}

/// A line of a hunk, without its sign and without a carriage return at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HunkLine<'a> {
    Context(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

impl<'a> Patch<'a> {
    /// Reads a patch.
    ///
    /// # Errors
    /// A line that belongs nowhere, a missing beginning or end, or nothing to do.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let mut lines = text.split('\n').enumerate();
        if lines.find(|(_, line)| !is_blank(line)).is_none_or(|(_, line)| line.trim() != BEGIN) {
            return Err(format!("missing '{BEGIN}'"));
        }
        let last_end = lines.clone().filter(|(_, line)| line.trim_end() == END).map(|(at, _)| at).last();
        let mut sections: Vec<Section<'a>> = Vec::new();
        loop {
            let Some((at, line)) = lines.next() else { return Err(format!("missing '{END}'")) };
            if line.trim() == END {
                // A file that speaks of patches may have the line: then it is context, and the end comes later.
                let is_context = line.starts_with(' ') && last_end.is_some_and(|end| at < end);
                match sections.last_mut() {
                    Some(section @ Section::Update { .. }) if is_context => section.take(line)?,
                    _ => break,
                }
            } else if let Some(section) = Section::begin(line)? {
                sections.push(section);
            } else if let Some(section) = sections.last_mut() {
                section.take(line)?;
            } else if !is_blank(line) {
                return Err(unexpected(line));
            }
        }
        if sections.is_empty() {
            return Err("patch contains no file operations".to_owned());
        }
        sections.iter_mut().for_each(Section::finish);
        Ok(Patch { sections })
    }

    /// Every path that the patch names, in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.sections
            .iter()
            .flat_map(|section| match section {
                Section::Add { path, .. } | Section::Delete { path } => [Some(*path), None],
                Section::Update { path, move_to, .. } => [Some(*path), *move_to],
            })
            .flatten()
    }
}

impl<'a> Section<'a> {
    /// The section that a line begins, when it is a file marker.
    fn begin(line: &'a str) -> Result<Option<Self>, String> {
        let Some(marker) = line.strip_prefix("*** ") else { return Ok(None) };
        if let Some(path) = marker.strip_prefix("Add File:") {
            Ok(Some(Section::Add { path: path_of(path, line)?, content: String::new() }))
        } else if let Some(path) = marker.strip_prefix("Delete File:") {
            Ok(Some(Section::Delete { path: path_of(path, line)? }))
        } else if let Some(path) = marker.strip_prefix("Update File:") {
            Ok(Some(Section::Update { path: path_of(path, line)?, move_to: None, hunks: Vec::new() }))
        } else {
            Ok(None)
        }
    }

    /// Takes a line of the section's body.
    fn take(&mut self, line: &'a str) -> Result<(), String> {
        if line.trim_end() == END_OF_FILE {
            return Ok(());
        }
        match self {
            Section::Delete { .. } => {}
            Section::Add { content, .. } => {
                content.push_str(line.strip_prefix('+').unwrap_or(line));
                content.push('\n');
            }
            Section::Update { move_to, hunks, .. } => {
                if let Some(path) = line.strip_prefix(MOVE) {
                    if move_to.replace(path_of(path, line)?).is_some() {
                        return Err(unexpected(line));
                    }
                } else if let Some(anchor) = line.strip_prefix("@@") {
                    hunks.push(Hunk { anchor: anchor.trim(), ..Hunk::default() });
                } else {
                    if hunks.is_empty() {
                        hunks.push(Hunk::default());
                    }
                    if let Some(hunk) = hunks.last_mut() {
                        hunk.take(line);
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        if let Section::Update { hunks, .. } = self {
            hunks.iter_mut().for_each(Hunk::drop_separators);
            hunks.retain(|hunk| !hunk.lines.is_empty());
        }
    }
}

impl<'a> Hunk<'a> {
    fn take(&mut self, line: &'a str) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        self.blank = if line.is_empty() { self.blank + 1 } else { 0 };
        self.lines.push(HunkLine::of(line));
    }

    /// Drops the empty lines that only set a hunk apart from what follows it: where there is nothing else,
    /// and behind lines that are to be appended, which otherwise would be looked for.
    fn drop_separators(&mut self) {
        let kept = self.lines.len() - self.blank;
        let only_adds = |line: &HunkLine<'_>| matches!(line, HunkLine::Added(_));
        let appends = self.anchor.is_empty() && self.lines.iter().take(kept).all(only_adds);
        if appends {
            self.lines.truncate(kept);
        }
        if self.lines.iter().all(|line| *line == HunkLine::Context("")) {
            self.lines.clear();
        }
    }
}

impl<'a> HunkLine<'a> {
    fn of(line: &'a str) -> Self {
        if let Some(removed) = line.strip_prefix('-') {
            HunkLine::Removed(removed)
        } else if let Some(added) = line.strip_prefix('+') {
            HunkLine::Added(added)
        } else {
            HunkLine::Context(line.strip_prefix(' ').unwrap_or(line))
        }
    }
}

/// The path behind a marker.
fn path_of<'a>(path: &'a str, line: &str) -> Result<&'a str, String> {
    let path = path.trim();
    if path.is_empty() { Err(unexpected(line)) } else { Ok(path) }
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn unexpected(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line.char_indices().nth(QUOTED) {
        Some((cut, _)) => format!("unexpected line: {}…", line.get(..cut).unwrap_or_default()),
        None => format!("unexpected line: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::HunkLine::{Added, Context, Removed};
    use super::*;
    use proptest::prelude::*;

    fn sections(body: &str) -> Vec<Section<'_>> {
        Patch::parse(body).unwrap().sections
    }

    fn error(text: &str) -> String {
        Patch::parse(text).unwrap_err()
    }

    // BUILTIN-77
    #[test]
    fn a_patch_begins_and_ends_with_its_lines() {
        for begin in
            ["*** Begin Patch", "\n \n\t\n*** Begin Patch", "  *** Begin Patch \r", "\r\n*** Begin Patch\r"]
        {
            let text = format!("{begin}\n*** Delete File: a\n  *** End Patch\r\nanything\n*** Add File: b");
            assert_eq!(sections(&text), [Section::Delete { path: "a" }]);
        }
        for none in
            ["", " \n", "hello", "x\n*** Begin Patch\n*** End Patch", "*** Begin Patches\n*** End Patch"]
        {
            assert_eq!(error(none), "missing '*** Begin Patch'");
        }
        for open in
            ["*** Begin Patch", "*** Begin Patch\n*** Delete File: a\n", "*** Begin Patch\n+*** End Patch"]
        {
            let expected = if open.contains('+') {
                "unexpected line: +*** End Patch"
            } else {
                "missing '*** End Patch'"
            };
            assert_eq!(error(open), expected);
        }
    }

    // BUILTIN-77, BUILTIN-81: a line of the file that reads like the end does not cut the patch short
    #[test]
    fn context_is_not_taken_for_the_end() {
        let patch = "*** Begin Patch\n*** Update File: a\n *** End Patch\n-b\n";
        let cut = [Section::Update { path: "a", move_to: None, hunks: vec![] }];
        assert_eq!(sections(patch), cut);
        let patch = format!("{patch}*** End Patch\r\n");
        let Section::Update { hunks, .. } = sections(&patch).swap_remove(0) else { panic!("no update") };
        assert_eq!(hunks[0].lines, [Context("*** End Patch"), Removed("b")]);
        // Elsewhere there is no context.
        let patch = "*** Begin Patch\n*** Delete File: a\n *** End Patch\n*** Add File: b\n*** End Patch";
        assert_eq!(sections(patch), [Section::Delete { path: "a" }]);
    }

    // BUILTIN-86
    #[test]
    fn a_patch_must_ask_for_something() {
        assert_eq!(error("*** Begin Patch\n\n*** End Patch"), "patch contains no file operations");
    }

    // BUILTIN-78
    #[test]
    fn file_markers_begin_at_column_0_and_name_a_path() {
        let text = "*** Begin Patch\n \n*** Add File:   a b.txt \r\n*** Delete File: ü\n\n*** Update File:x\n*** End Patch";
        let expected = [
            Section::Add { path: "a b.txt", content: String::new() },
            Section::Delete { path: "ü" },
            Section::Update { path: "x", move_to: None, hunks: vec![] },
        ];
        assert_eq!(sections(text), expected);
        for line in
            ["junk", " *** Add File: a", "*** add File: a", "*** Add File:  ", "*** Rename File: a", "@@"]
        {
            let text = format!("*** Begin Patch\n{line}\n*** End Patch");
            assert_eq!(error(&text), format!("unexpected line: {line}"));
            let text = format!("*** Begin Patch\r\n{line}\r\n*** End Patch\r\n");
            assert_eq!(error(&text), format!("unexpected line: {line}"));
        }
        let text = format!("*** Begin Patch\n{}\n*** End Patch", "ü".repeat(1000));
        assert_eq!(error(&text), format!("unexpected line: {}…", "ü".repeat(200)));
    }

    // BUILTIN-78: a marker without a path is never content
    #[test]
    fn a_marker_without_a_path_is_refused_in_a_body() {
        for body in ["*** Add File: a\n+x", "*** Delete File: a", "*** Update File: a\n+x"] {
            for marker in ["*** Add File:", "*** Update File: ", "*** Delete File:\t"] {
                let text = format!("*** Begin Patch\n{body}\n{marker}\n*** End Patch");
                assert_eq!(error(&text), format!("unexpected line: {marker}"));
            }
        }
    }

    // BUILTIN-79, BUILTIN-78
    #[test]
    fn the_body_of_an_added_file_is_its_content() {
        let added = |body: &str| {
            let text = format!("*** Begin Patch\n*** Add File: a\n{body}*** Delete File: b\n*** End Patch");
            match sections(&text).swap_remove(0) {
                Section::Add { content, .. } => content,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(added(""), "");
        assert_eq!(added("+hello\n"), "hello\n");
        assert_eq!(added("+\n"), "\n");
        assert_eq!(
            added("++a\n+ b\nc\n\n d\n-e\n@@ f\n+*** Delete File: g\n"),
            "+a\n b\nc\n\n d\n-e\n@@ f\n*** Delete File: g\n"
        );
        assert_eq!(added("+a\r\n+b\r\n"), "a\r\nb\r\n");
        assert_eq!(added("+a\n*** End of File\n"), "a\n");
    }

    // BUILTIN-80
    #[test]
    fn the_body_of_a_deletion_is_ignored() {
        let text = "*** Begin Patch\n*** Delete File: a\n-x\njunk\n*** Move to: b\n*** End Patch";
        assert_eq!(sections(text), [Section::Delete { path: "a" }]);
    }

    fn updated(body: &str) -> (Option<String>, Vec<(String, String)>) {
        let text = format!("*** Begin Patch\n*** Update File: a\n{body}*** End Patch");
        match sections(&text).swap_remove(0) {
            Section::Update { move_to, hunks, .. } => {
                let show = |hunk: Hunk<'_>| {
                    let line = |line: &HunkLine<'_>| match line {
                        Context(text) => format!("={text}|"),
                        Removed(text) => format!("-{text}|"),
                        Added(text) => format!("+{text}|"),
                    };
                    (hunk.anchor.to_owned(), hunk.lines.iter().map(line).collect())
                };
                (move_to.map(str::to_owned), hunks.into_iter().map(show).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn hunks(body: &str) -> Vec<(String, String)> {
        updated(body).1
    }

    fn hunk(anchor: &str, lines: &str) -> (String, String) {
        (anchor.to_owned(), lines.to_owned())
    }

    // BUILTIN-81
    #[test]
    fn an_update_is_cut_into_hunks() {
        assert_eq!(hunks("-a\n+b\n c\n"), [hunk("", "-a|+b|=c|")]);
        assert_eq!(
            hunks("@@\n-a\n@@ x \n+b\n@@@@\n=c\n"),
            [hunk("", "-a|"), hunk("x", "+b|"), hunk("@@", "==c|")]
        );
        assert_eq!(hunks("@@\n@@ x\n\n@@\n-a\n@@\n"), [hunk("", "-a|")]);
        assert_eq!(hunks(""), []);
        assert_eq!(
            hunks("  two\n\n bare\n\ttab\n--\n++\n \nbare\n"),
            [hunk("", "= two|=|=bare|=\ttab|--|++|=|=bare|")]
        );
        assert_eq!(hunks("-a\r\n+b\r\n\r\n c\r\n"), [hunk("", "-a|+b|=|=c|")]);
    }

    // BUILTIN-78, BUILTIN-83: between a hunk that appends and the next section, blank lines are no context
    #[test]
    fn empty_lines_behind_appended_ones_set_apart() {
        assert_eq!(hunks("+a\n+b\n\n\r\n"), [hunk("", "+a|+b|")]);
        assert_eq!(hunks("+a\n \n"), [hunk("", "+a|=|")]);
        assert_eq!(hunks("\n \n@@\n-a\n"), [hunk("", "-a|")]);
        assert_eq!(hunks("@@ x\n+a\n\n"), [hunk("x", "+a|=|")]);
        assert_eq!(hunks("-a\n+b\n\n"), [hunk("", "-a|+b|=|")]);
        assert_eq!(hunks("+a\n\n+b\n"), [hunk("", "+a|=|+b|")]);
    }

    // BUILTIN-86
    #[test]
    fn an_update_may_move_its_file() {
        let expected = (Some("b c".to_owned()), vec![hunk("", "-a|")]);
        assert_eq!(updated("*** Move to: b c \r\n-a\n"), expected);
        assert_eq!(updated("-a\n*** Move to:b c\n"), expected);
        assert_eq!(updated("*** Move to: b\n"), (Some("b".to_owned()), vec![]));
        for (body, line) in
            [("*** Move to: \n", "*** Move to: "), ("*** Move to: b\n*** Move to: c\n", "*** Move to: c")]
        {
            let text = format!("*** Begin Patch\n*** Update File: a\n{body}*** End Patch");
            assert_eq!(error(&text), format!("unexpected line: {line}"));
        }
    }

    // BUILTIN-86
    #[test]
    fn the_end_of_file_marker_is_ignored() {
        assert_eq!(hunks("-a\n*** End of File\r\n+b\n*** End of File\n"), [hunk("", "-a|+b|")]);
    }

    #[test]
    fn all_paths_are_known() {
        let text = "*** Begin Patch\n*** Add File: a\n*** Update File: b\n*** Move to: c\n*** Delete File: a\n*** End Patch";
        assert_eq!(Patch::parse(text).unwrap().paths().collect::<Vec<_>>(), ["a", "b", "c", "a"]);
    }

    proptest! {
        // BUILTIN-79: any text that ends with a line break can be added
        #[test]
        fn an_added_file_comes_out_as_it_went_in(lines in prop::collection::vec("[^\n]{0,8}", 0..8)) {
            let body: String = lines.iter().map(|line| format!("+{line}\n")).collect();
            let text = format!("*** Begin Patch\n*** Add File: a\n{body}*** End Patch\n");
            let content = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(sections(&text), [Section::Add { path: "a", content }]);
        }

        // BUILTIN-12: whatever a model writes is a patch or an error
        #[test]
        fn nothing_panics(lines in prop::collection::vec(prop_oneof![
            Just("*** Begin Patch".to_owned()), Just("*** End Patch".to_owned()),
            Just("*** Add File: a".to_owned()), Just("*** Update File: b".to_owned()),
            Just("*** Delete File: c".to_owned()), Just("*** Move to: d".to_owned()),
            Just("@@ x".to_owned()), Just(String::new()), "[-+ @*].{0,5}", ".{0,5}",
        ], 0..12)) {
            let text = lines.join("\n");
            if let Ok(patch) = Patch::parse(&text) {
                prop_assert!(patch.paths().all(|path| !path.is_empty() && path.trim() == path));
                prop_assert!(!patch.sections.is_empty());
            }
        }
    }
}
