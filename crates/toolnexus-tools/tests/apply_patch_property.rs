//! Random versions of random files: the patch between them makes the new ones of the old ones.
//!
//! The patches are written here, from the grammar alone: hunks with up to three lines of context, widened or
//! anchored until the first match of the rules' search is the right one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{Place, tool};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use toolnexus_core::ToolResult;

/// Lines that repeat, that look like the grammar, and that hold everything but a line break.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "}", ""]).prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            " a", "  }", "\t", "+a", "-a", "@@ a", "*** Add File: x", "*** Begin Patch", "*** End of File", "a ", "ü", "--", "++ b",
        ]).prop_map(str::to_owned),
        1 => "[^\n\r\u{feff}]{0,6}",
    ]
}

/// Text, by lines; how it ends is for all versions the same.
#[derive(Debug, Clone)]
struct Style {
    end: &'static str,
    final_newline: bool,
    byte_order_mark: bool,
}

impl Style {
    fn text(&self, lines: &[String]) -> String {
        let mark = if self.byte_order_mark { "\u{feff}" } else { "" };
        let last = if self.final_newline && !lines.is_empty() { self.end } else { "" };
        format!("{mark}{}{last}", lines.join(self.end))
    }
}

fn style() -> impl Strategy<Value = Style> {
    (prop::bool::ANY, prop::bool::weighted(0.7), prop::bool::weighted(0.2)).prop_map(
        |(windows, final_newline, byte_order_mark)| Style {
            end: if windows { "\r\n" } else { "\n" },
            final_newline,
            byte_order_mark,
        },
    )
}

/// One change: at a place, so many lines go and these come.
type Change = (Index, usize, Vec<String>);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<Index>(), 0..3_usize, prop::collection::vec(line(), 0..3)), 0..4)
}

/// What happens to one file.
#[derive(Debug, Clone)]
enum Fate {
    Stays,
    Changes(Vec<Change>),
    Moves(Vec<Change>),
    Goes,
}

#[derive(Debug, Clone)]
struct Old {
    style: Style,
    lines: Vec<String>,
    fate: Fate,
}

fn old() -> impl Strategy<Value = Old> {
    let fate = prop_oneof![
        1 => Just(Fate::Stays), 4 => changes().prop_map(Fate::Changes), 2 => changes().prop_map(Fate::Moves), 1 => Just(Fate::Goes)
    ];
    (style(), prop::collection::vec(line(), 0..24), fate).prop_map(|(mut style, lines, fate)| {
        // With a single line there is no line end to tell the style by, and an empty text has none.
        if lines.len() < 2 {
            style.end = "\n";
        }
        // An empty last line is one only with an end.
        style.final_newline |= lines.last().is_none_or(String::is_empty);
        Old { style, lines, fate }
    })
}

/// A hunk as pieces: what stays, goes and comes.
#[derive(Debug, Clone)]
enum Piece {
    Stays(String),
    Goes(String),
    Comes(String),
}

/// The changes as one list over the whole file; they are made one after the other, from the top.
fn script(lines: &[String], changes: &[Change]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = lines.iter().cloned().map(Piece::Stays).collect();
    for (at, gone, new) in changes {
        let start = at.index(pieces.len() + 1);
        let mut left = *gone;
        let mut index = start;
        while left > 0 && index < pieces.len() {
            if let Piece::Stays(line) = &pieces[index] {
                pieces[index] = Piece::Goes(line.clone());
            }
            left -= 1;
            index += 1;
        }
        pieces.splice(start..start, new.iter().cloned().map(Piece::Comes));
    }
    pieces
}

fn new_lines(script: &[Piece]) -> Vec<String> {
    script
        .iter()
        .filter_map(|piece| match piece {
            Piece::Stays(line) | Piece::Comes(line) => Some(line.clone()),
            Piece::Goes(_) => None,
        })
        .collect()
}

/// The place of a block as the rules have it: forward from `start`, then from the top.
fn search(lines: &[String], start: usize, block: &[&String]) -> Option<usize> {
    let at = |place: usize| {
        lines.get(place..place + block.len()).is_some_and(|window| window.iter().eq(block.iter().copied()))
    };
    (start..=lines.len()).find(|place| at(*place)).or_else(|| (0..=lines.len()).find(|place| at(*place)))
}

/// The hunks that make the script's new lines of its old ones.
fn hunks(script: &[Piece], raw: bool, anchors: bool) -> String {
    let mut patch = String::new();
    // The file as it is after the hunks so far, and where their last result ends.
    let mut lines: Vec<String> = script
        .iter()
        .filter_map(|piece| match piece {
            Piece::Stays(line) | Piece::Goes(line) => Some(line.clone()),
            Piece::Comes(_) => None,
        })
        .collect();
    let mut cursor = 0;
    // Where the next piece stands in the script.
    let mut done = 0;
    let stays = |piece: &Piece| matches!(piece, Piece::Stays(_));
    while let Some(first) = script.iter().skip(done).position(|piece| !stays(piece)) {
        let first = done + first;
        let mut last = first;
        // Changes with up to three lines between them are one hunk.
        while let Some(next) = script.iter().skip(last + 1).take(4).position(|piece| !stays(piece)) {
            last += next + 1;
        }
        let end = (last + 1 + 3).min(script.len());
        let mut begin = first.saturating_sub(3).max(done);
        loop {
            let hunk = &script[begin..end];
            let block: Vec<&String> = hunk
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Stays(line) | Piece::Goes(line) => Some(line),
                    Piece::Comes(_) => None,
                })
                .collect();
            // What is before the hunk has become new already.
            let place = cursor + (begin - done);
            let appends = block.is_empty() && place == lines.len();
            let mut anchor = None;
            let mut found = search(&lines, cursor, &block) == Some(place) && !block.is_empty();
            if !found && anchors && !block.is_empty() {
                anchor = lines[cursor..place]
                    .iter()
                    .map(|line| line.trim())
                    .filter(|line| !line.is_empty())
                    .find(|line| {
                        let at = lines.iter().skip(cursor).position(|other| other.trim() == *line).unwrap();
                        search(&lines, cursor + at + 1, &block) == Some(place)
                    })
                    .map(str::to_owned);
                found = anchor.is_some();
            }
            if found || appends {
                patch += &format!("@@ {}\n", anchor.unwrap_or_default());
                for (at, piece) in hunk.iter().enumerate() {
                    let signed = match piece {
                        // A line that looks like nothing else stands as it is.
                        Piece::Stays(line)
                            if raw && at + 1 < hunk.len() && !line.starts_with(['+', '-', ' ', '@', '*']) =>
                        {
                            line.clone()
                        }
                        Piece::Stays(line) => format!(" {line}"),
                        Piece::Goes(line) => format!("-{line}"),
                        Piece::Comes(line) => format!("+{line}"),
                    };
                    patch += &signed;
                    patch.push('\n');
                }
                let result = new_lines(hunk);
                cursor = place + result.len();
                lines.splice(place..place + block.len(), result);
                done = end;
                break;
            }
            assert!(begin > done, "a hunk that begins at the cursor is found there: {script:?}");
            begin -= 1;
        }
    }
    patch
}

/// Every file below a directory with its content.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().replace('\\', "/");
                all.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    all
}

/// Sections, and the files before and after them.
struct Plan {
    place: Place,
    sections: Vec<String>,
    after: BTreeMap<String, Vec<u8>>,
}

fn plan(files: &[Old], added: &[Vec<String>], raw: bool, anchors: bool, windows: bool) -> Plan {
    let place = Place::new();
    let mut sections = Vec::new();
    let mut after = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        let name = format!("d{}/f{at}", at % 2);
        place.write(&name, file.style.text(&file.lines));
        match &file.fate {
            Fate::Stays => drop(after.insert(name, file.style.text(&file.lines).into_bytes())),
            Fate::Goes => sections.push(format!("*** Delete File: {name}\n")),
            Fate::Changes(changes) | Fate::Moves(changes) => {
                let script = script(&file.lines, changes);
                let body = hunks(&script, raw, anchors);
                let text = file.style.text(&new_lines(&script)).into_bytes();
                if matches!(file.fate, Fate::Moves(_)) {
                    let new = format!("new/{at}/moved");
                    sections.push(format!("*** Update File: {name}\n*** Move to: {new}\n{body}"));
                    after.insert(new, text);
                } else {
                    sections.push(format!("*** Update File: ./{name}\n{body}"));
                    after.insert(name, text);
                }
            }
        }
    }
    for (at, lines) in added.iter().enumerate() {
        let name = format!("new/added-{at}");
        let body: String = lines.iter().map(|line| format!("+{line}\n")).collect();
        sections.push(format!("*** Add File: {name}\n{body}"));
        let end = if windows { "\r\n" } else { "\n" };
        after.insert(name, lines.iter().map(|line| format!("{line}{end}")).collect::<String>().into_bytes());
    }
    Plan { place, sections, after }
}

fn apply(place: &Place, sections: &[String], windows: bool) -> ToolResult {
    let text = format!("*** Begin Patch\n{}*** End Patch\n", sections.concat());
    let text = if windows { text.replace('\n', "\r\n") } else { text };
    let tool = tool(&place.config(), "apply_patch");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tool.execute(json!({"patchText": text})))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    // BUILTIN-79, BUILTIN-80, BUILTIN-81, BUILTIN-82, BUILTIN-83, BUILTIN-84, BUILTIN-86
    #[test]
    fn a_patch_makes_the_new_files_of_the_old(
        files in prop::collection::vec(old(), 1..5),
        added in prop::collection::vec(prop::collection::vec(line(), 0..4), 0..3),
        raw in any::<bool>(), anchors in any::<bool>(), windows in any::<bool>(), turn in any::<Index>(),
    ) {
        let Plan { place, mut sections, after } = plan(&files, &added, raw, anchors, windows);
        prop_assume!(!sections.is_empty());
        // The order of the sections makes no difference here.
        let by = turn.index(sections.len());
        sections.rotate_left(by);
        let result = apply(&place, &sections, windows);
        prop_assert!(!result.is_error, "{}\n{}", result.output, sections.concat());
        prop_assert_eq!(tree(place.path()), after, "{}", sections.concat());
    }

    // BUILTIN-84: whatever is wrong with one section, nothing is done
    #[test]
    fn an_error_leaves_every_file_as_it_was(
        files in prop::collection::vec(old(), 1..4),
        added in prop::collection::vec(prop::collection::vec(line(), 0..3), 0..3),
        at in any::<Index>(),
        wrong in prop::sample::select(vec![
            "*** Delete File: missing\n", "*** Update File: missing\n+x\n", "*** Add File: d0/f0\n+x\n",
            "*** Update File: d0/f0\n-no such line anywhere\n", "*** Update File: d0/f0\n*** Move to: d0/f0\n",
            "*** Add File: d0\n", "*** Add File:\n", "*** Add File: d0/f0/below\n+x\n", "*** Delete File: new\n",
            "*** Add File: deep/er/file\n*** Add File: deep/er\n+x\n",
        ]),
    ) {
        // The first file is there throughout.
        let files: Vec<Old> = files.into_iter().enumerate().map(|(at, mut file)| {
            if at == 0 && matches!(file.fate, Fate::Moves(_) | Fate::Goes) {
                file.fate = Fate::Stays;
            }
            file
        }).collect();
        let Plan { place, mut sections, .. } = plan(&files, &added, false, true, false);
        sections.insert(at.index(sections.len() + 1), wrong.to_owned());
        let before = tree(place.path());
        let result = apply(&place, &sections, false);
        prop_assert!(result.is_error, "{}", sections.concat());
        prop_assert!(result.output.starts_with("apply_patch: "));
        prop_assert_eq!(tree(place.path()), before, "{}", result.output);
        let mut dirs: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        dirs.retain(|dir| dir != "d0" && dir != "d1");
        prop_assert_eq!(dirs, Vec::<std::ffi::OsString>::new(), "directories that were made are gone");
    }
}
