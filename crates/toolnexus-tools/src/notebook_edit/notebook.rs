//! A notebook as text, and what can be done to its cells.
//!
//! Read into the texts of its cells' members ([`Object`]); one cell is changed, added or taken away;
//! written again with everything else as it was spelled.

use std::fmt;

use crate::files::MOST_BYTES;

use super::json_text::{Object, Printer, quoted};

/// What a file starts with that says it is UTF-8; it stays where it is.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// How a call names a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CellName {
    Id(String),
    /// Counted from 0.
    Index(i64),
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CellName::Id(id) => f.write_str(id),
            CellName::Index(index) => write!(f, "{index}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellType {
    Code,
    Markdown,
    Raw,
}

impl CellType {
    pub(super) fn of(name: &str) -> Option<Self> {
        [CellType::Code, CellType::Markdown, CellType::Raw].into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            CellType::Code => "code",
            CellType::Markdown => "markdown",
            CellType::Raw => "raw",
        }
    }
}

/// What to do with one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// `None` leaves the type as it is.
    Replace(CellName, String, Option<CellType>),
    /// Behind the cell with that id, at that index, or without a name at the end.
    Insert(Option<CellName>, String, CellType),
    Delete(CellName),
}

/// Why a change cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    NotANotebook,
    CellNotFound(CellName),
    /// So many cells have this id.
    NotUnique(CellName, usize),
    /// Written, it would have more than [`MOST_BYTES`].
    TooLarge,
}

pub(super) struct Notebook<'a> {
    members: Object<'a>,
    cells: Vec<Object<'a>>,
    byte_order_mark: bool,
    newline: &'static str,
}

impl<'a> Notebook<'a> {
    /// # Errors
    /// [`Refused::NotANotebook`] when the text is no JSON object with a list of objects as `cells`.
    pub(super) fn parse(text: &'a str) -> Result<Self, Refused> {
        let json = text.strip_prefix(BYTE_ORDER_MARK);
        let byte_order_mark = json.is_some();
        let members = Object::parse(json.unwrap_or(text)).ok_or(Refused::NotANotebook)?;
        let cells = members.as_read("cells").and_then(|cells| serde_json::from_str(cells).ok());
        let cells = cells.ok_or(Refused::NotANotebook)?;
        let first_line = text.split_inclusive('\n').next().unwrap_or_default();
        let newline = if first_line.ends_with("\r\n") { "\r\n" } else { "\n" };
        Ok(Notebook { members, cells, byte_order_mark, newline })
    }

    /// Makes a change and returns the name of the cell it was made to.
    ///
    /// `random` gives numbers for the ids of new cells, which only newer notebooks have.
    ///
    /// # Errors
    /// The named cell is not there, or is several.
    pub(super) fn apply(&mut self, change: Change, random: impl FnMut() -> u32) -> Result<CellName, Refused> {
        match change {
            Change::Replace(name, source, cell_type) => {
                let at = self.position(&name)?;
                let cell = self.cells.get_mut(at).ok_or_else(|| Refused::CellNotFound(name.clone()))?;
                replace(cell, &source, cell_type);
                Ok(name)
            }
            Change::Insert(name, source, cell_type) => {
                let at = match &name {
                    None => self.cells.len(),
                    Some(id @ CellName::Id(_)) => self.position(id)? + 1,
                    Some(CellName::Index(index)) => usize::try_from(*index)
                        .ok()
                        .filter(|at| *at <= self.cells.len())
                        .ok_or(Refused::CellNotFound(CellName::Index(*index)))?,
                };
                let id = self.cells_have_ids().then(|| self.unused_id(random));
                self.cells.insert(at, new_cell(id.as_deref(), &source, cell_type));
                let index = CellName::Index(i64::try_from(at).unwrap_or(i64::MAX));
                Ok(match (name, id) {
                    (None | Some(CellName::Id(_)), Some(id)) => CellName::Id(id),
                    _ => index,
                })
            }
            Change::Delete(name) => {
                let at = self.position(&name)?;
                self.cells.remove(at);
                Ok(name)
            }
        }
    }

    /// The notebook as Jupyter writes it: one space of indent, a newline at the end.
    ///
    /// # Errors
    /// [`Refused::TooLarge`].
    pub(super) fn text(&self) -> Result<String, Refused> {
        let limit = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
        let mut printer = Printer::new(self.newline, limit);
        self.members.print(&mut printer, Some(("cells", &self.cells)));
        let mut text = printer.finish().ok_or(Refused::TooLarge)?;
        if self.byte_order_mark {
            text.insert(0, BYTE_ORDER_MARK);
        }
        Ok(text + self.newline)
    }

    fn position(&self, name: &CellName) -> Result<usize, Refused> {
        let not_found = || Refused::CellNotFound(name.clone());
        match name {
            CellName::Index(index) => {
                let at = usize::try_from(*index).ok();
                at.filter(|at| *at < self.cells.len()).ok_or_else(not_found)
            }
            CellName::Id(id) => {
                let has_it = |cell: &Object<'_>| cell.string("id").as_ref() == Some(id);
                let mut found = (0..).zip(&self.cells).filter(|(_, cell)| has_it(cell)).map(|(at, _)| at);
                let first = found.next().ok_or_else(not_found)?;
                match found.count() {
                    0 => Ok(first),
                    more => Err(Refused::NotUnique(name.clone(), more + 1)),
                }
            }
        }
    }

    /// Cells have ids since format 4.5, where they must; before, they must not.
    fn cells_have_ids(&self) -> bool {
        let version = (self.members.unsigned("nbformat"), self.members.unsigned("nbformat_minor"));
        version >= (Some(4), Some(5))
    }

    fn unused_id(&self, mut random: impl FnMut() -> u32) -> String {
        let used: Vec<String> = self.cells.iter().filter_map(|cell| cell.string("id")).collect();
        loop {
            let id = format!("{:08x}", random());
            if !used.contains(&id) {
                return id;
            }
        }
    }
}

fn replace(cell: &mut Object<'_>, source: &str, cell_type: Option<CellType>) {
    if let Some(cell_type) = cell_type {
        cell.set("cell_type", quoted(cell_type.name()));
    }
    cell.set("source", lines(source));
    if cell.string("cell_type").as_deref() == Some(CellType::Code.name()) {
        cell.set("outputs", "[]".to_owned());
        cell.set("execution_count", "null".to_owned());
        // Attachments belong to text; a code cell with some is no valid cell.
        cell.remove("attachments");
    } else if cell_type.is_some() {
        cell.remove("outputs");
        cell.remove("execution_count");
    }
}

fn new_cell(id: Option<&str>, source: &str, cell_type: CellType) -> Object<'static> {
    let mut cell = Object::default();
    cell.set("cell_type", quoted(cell_type.name()));
    if let Some(id) = id {
        cell.set("id", quoted(id));
    }
    cell.set("metadata", "{}".to_owned());
    cell.set("source", lines(source));
    if cell_type == CellType::Code {
        cell.set("execution_count", "null".to_owned());
        cell.set("outputs", "[]".to_owned());
    }
    cell
}

/// A text as notebooks keep it: the list of its lines, each with its newline.
fn lines(source: &str) -> String {
    let lines: Vec<String> = source.split_inclusive('\n').map(quoted).collect();
    format!("[{}]", lines.join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A notebook of format 4.5 with the cells `a` (code, with output) and `b` (Markdown).
    const TWO: &str = r#"{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "a",
   "metadata": {
    "tags": []
   },
   "outputs": [
    {
     "data": {
      "text/plain": [
       "1.10"
      ]
     },
     "execution_count": 7,
     "metadata": {},
     "output_type": "execute_result"
    }
   ],
   "source": [
    "x = 1.10\n",
    "x"
   ]
  },
  {
   "attachments": {},
   "cell_type": "markdown",
   "id": "b",
   "metadata": {},
   "source": "Überschrift"
  }
 ],
 "metadata": {
  "threshold": 1e400
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"#;

    fn id(id: &str) -> CellName {
        CellName::Id(id.to_owned())
    }

    fn apply(text: &str, change: Change) -> Result<(String, CellName), Refused> {
        let mut numbers = 0x12..;
        let mut notebook = Notebook::parse(text)?;
        let name = notebook.apply(change, || numbers.next().unwrap())?;
        Ok((notebook.text()?, name))
    }

    fn printed(text: &str) -> String {
        Notebook::parse(text).unwrap().text().unwrap()
    }

    fn changed(text: &str, change: Change) -> String {
        apply(text, change).unwrap().0
    }

    fn cells(text: &str) -> Vec<Value> {
        // `1e400` is no number for the library, so only the cells are read.
        let start = text.find('[').unwrap();
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Vec<Value>>();
        values.next().unwrap().unwrap()
    }

    // BUILTIN-98: what is not touched is kept to the byte
    #[test]
    fn a_notebook_as_jupyter_writes_it_is_written_the_same() {
        assert_eq!(printed(TWO), TWO);
        let spaced = TWO.replace("\n ", "\n     ").replace(": ", "  :");
        assert_eq!(printed(&spaced), TWO, "the space is Jupyter's");
        assert_eq!(printed(TWO.trim_end()), TWO, "a newline at the end");
        let windows = TWO.replace('\n', "\r\n").replace("\\r\\n", "\\n");
        assert_eq!(printed(&windows), windows, "line ends stay");
        let marked = format!("\u{feff}{TWO}");
        assert_eq!(printed(&marked), marked, "the byte order mark stays");
    }

    // BUILTIN-98
    #[test]
    fn a_replaced_code_cell_has_no_results() {
        let text = changed(TWO, Change::Replace(id("a"), "y = 2\ny — é\n".into(), None));
        let expected = TWO
            .replacen("\"execution_count\": 7", "\"execution_count\": null", 1)
            .replace("\"x = 1.10\\n\",\n    \"x\"", "\"y = 2\\n\",\n    \"y — é\\n\"");
        let start = expected.find("\"outputs\": [").unwrap() + "\"outputs\": [".len();
        let end = expected.find("\n   ],\n   \"source\"").unwrap() + "\n   ".len();
        let expected = expected[..start].to_owned() + &expected[end..];
        assert_eq!(text, expected);
    }

    // BUILTIN-98
    #[test]
    fn a_replaced_text_cell_keeps_all_but_its_source() {
        let text = changed(TWO, Change::Replace(CellName::Index(1), "one\ntwo".into(), None));
        let source = "\"source\": [\n    \"one\\n\",\n    \"two\"\n   ]";
        assert_eq!(text, TWO.replace("\"source\": \"Überschrift\"", source));
        let empty = changed(TWO, Change::Replace(id("b"), String::new(), None));
        assert_eq!(empty, TWO.replace("\"source\": \"Überschrift\"", "\"source\": []"));
    }

    // BUILTIN-98: each type of cell has the members that it must have, and no others
    #[test]
    fn a_cell_can_become_another_type() {
        let text = changed(TWO, Change::Replace(id("a"), "t".into(), Some(CellType::Markdown)));
        let expected = json!({"cell_type": "markdown", "id": "a", "metadata": {"tags": []}, "source": ["t"]});
        assert_eq!(cells(&text)[0].to_string(), expected.to_string());
        let text = changed(TWO, Change::Replace(id("b"), "c".into(), Some(CellType::Code)));
        let expected = json!({
            "cell_type": "code", "execution_count": null, "id": "b", "metadata": {}, "outputs": [], "source": ["c"]
        });
        assert_eq!(cells(&text)[1].to_string(), expected.to_string());
        let text = changed(TWO, Change::Replace(id("b"), "r".into(), Some(CellType::Raw)));
        let expected = json!({
            "attachments": {}, "cell_type": "raw", "id": "b", "metadata": {}, "source": ["r"]
        });
        assert_eq!(cells(&text)[1].to_string(), expected.to_string());
    }

    // BUILTIN-98
    #[test]
    fn a_new_cell_goes_where_it_is_wanted() {
        let code = json!({
            "cell_type": "code", "execution_count": null, "id": "00000012", "metadata": {}, "outputs": [],
            "source": ["n"]
        });
        let text = json!({"cell_type": "markdown", "id": "00000012", "metadata": {}, "source": ["n"]});
        let named = id("00000012");
        for (name, cell_type, at, cell, told) in [
            (Some(id("a")), CellType::Code, 1, &code, &named),
            (Some(id("b")), CellType::Markdown, 2, &text, &named),
            (Some(CellName::Index(0)), CellType::Code, 0, &code, &CellName::Index(0)),
            (Some(CellName::Index(1)), CellType::Code, 1, &code, &CellName::Index(1)),
            (Some(CellName::Index(2)), CellType::Markdown, 2, &text, &CellName::Index(2)),
            (None, CellType::Code, 2, &code, &named),
        ] {
            let (written, name) = apply(TWO, Change::Insert(name, "n".into(), cell_type)).unwrap();
            let cells = cells(&written);
            assert_eq!((cells.len(), cells[at].to_string(), &name), (3, cell.to_string(), told), "{written}");
            // Taken away again, the notebook is what it was.
            let index = CellName::Index(i64::try_from(at).unwrap());
            assert_eq!(changed(&written, Change::Delete(index)), TWO);
        }
    }

    // BUILTIN-98: ids are of format 4.5, and each is there once
    #[test]
    fn a_new_cell_has_an_id_where_cells_have_ids() {
        let insert = || Change::Insert(None, String::new(), CellType::Raw);
        for (version, has_id) in [
            (r#""nbformat":4,"nbformat_minor":5"#, true),
            (r#""nbformat":4,"nbformat_minor":6"#, true),
            (r#""nbformat":5,"nbformat_minor":0"#, true),
            (r#""nbformat":4,"nbformat_minor":4"#, false),
            (r#""nbformat":4"#, false),
            (r#""nbformat":3,"nbformat_minor":9"#, false),
            (r#""nbformat":"4","nbformat_minor":5"#, false),
        ] {
            let text = format!("{{\"cells\":[],{version}}}");
            let (written, name) = apply(&text, insert()).unwrap();
            let expected = if has_id { id("00000012") } else { CellName::Index(0) };
            assert_eq!((cells(&written)[0].get("id").is_some(), name), (has_id, expected), "{version}");
        }
        let taken = r#"{"cells":[{"id":"00000012"},{"id":"00000013"}],"nbformat":4,"nbformat_minor":5}"#;
        assert_eq!(apply(taken, insert()).unwrap().1, id("00000014"));
    }

    // BUILTIN-98
    #[test]
    fn the_last_cell_can_go() {
        let text = changed(&changed(TWO, Change::Delete(id("a"))), Change::Delete(CellName::Index(0)));
        assert!(text.starts_with("{\n \"cells\": [],\n \"metadata\""), "{text}");
        assert_eq!(
            apply(&text, Change::Delete(CellName::Index(0))),
            Err(Refused::CellNotFound(CellName::Index(0)))
        );
    }

    // BUILTIN-98
    #[test]
    fn a_cell_that_is_not_there_is_not_found() {
        for name in
            [id("c"), id("A"), id("0"), CellName::Index(2), CellName::Index(-1), CellName::Index(i64::MAX)]
        {
            let refused = Err(Refused::CellNotFound(name.clone()));
            assert_eq!(apply(TWO, Change::Delete(name.clone())), refused);
            assert_eq!(apply(TWO, Change::Replace(name.clone(), String::new(), None)), refused);
            if name != CellName::Index(2) {
                assert_eq!(apply(TWO, Change::Insert(Some(name), String::new(), CellType::Raw)), refused);
            }
        }
        let past = Change::Insert(Some(CellName::Index(3)), String::new(), CellType::Raw);
        assert_eq!(apply(TWO, past), Err(Refused::CellNotFound(CellName::Index(3))));
    }

    // BUILTIN-98: never a guess at which of two was meant
    #[test]
    fn an_id_of_two_cells_names_neither() {
        let text = TWO.replace("\"b\"", "\"a\"");
        assert_eq!(apply(&text, Change::Delete(id("a"))), Err(Refused::NotUnique(id("a"), 2)));
        assert!(apply(&text, Change::Delete(CellName::Index(1))).is_ok());
    }

    // BUILTIN-98
    #[test]
    fn what_is_no_notebook_is_refused() {
        for text in [
            "",
            "[]",
            "null",
            "{}",
            "{\"cells\":{}}",
            "{\"cells\":null}",
            "{\"cells\":[1]}",
            "{\"cells\":[[]]}",
            "{\"cells\":[]",
            "{\"cells\":[]} x",
            "{\"worksheets\":[{\"cells\":[]}],\"nbformat\":3}",
        ] {
            assert_eq!(Notebook::parse(text).map(|_| ()), Err(Refused::NotANotebook), "{text}");
        }
    }

    proptest! {
        // BUILTIN-98: the lines of a source put together are the source
        #[test]
        fn a_source_survives_as_lines(source in "[a\"\\\\é\r\n\u{2028}]{0,20}") {
            let list: Vec<String> = serde_json::from_str(&lines(&source)).unwrap();
            prop_assert_eq!(list.concat(), source);
            prop_assert!(list.iter().all(|line| !line.is_empty() && line.trim_end_matches('\n').find('\n').is_none()));
            prop_assert!(list.iter().rev().skip(1).all(|line| line.ends_with('\n')));
        }

        // BUILTIN-98: what was inserted is found, replaced and deleted by its id, and others stay as they are
        #[test]
        fn a_change_of_one_cell_leaves_the_others(
            sources in proptest::collection::vec("[a\n]{0,4}", 0..5), at in 0_usize..6, source in "[b\n]{0,4}",
        ) {
            let mut text = printed(r#"{"cells":[],"nbformat":4,"nbformat_minor":5}"#);
            let mut numbers = 0..;
            let mut add = |text: &str, name: Option<CellName>, source: &str| {
                let mut notebook = Notebook::parse(text).unwrap();
                let random = || numbers.next().unwrap();
                let change = Change::Insert(name, source.to_owned(), CellType::Code);
                let name = notebook.apply(change, random).unwrap();
                (notebook.text().unwrap(), name)
            };
            for source in &sources {
                text = add(&text, None, source).0;
            }
            let at = at.min(sources.len());
            let index = CellName::Index(i64::try_from(at).unwrap());
            let (longer, _) = add(&text, Some(index), &source);
            let found: Vec<String> = cells(&longer).iter()
                .map(|cell| cell["source"].as_array().unwrap().iter().filter_map(Value::as_str).collect())
                .collect();
            let mut expected = sources.clone();
            expected.insert(at, source);
            prop_assert_eq!(found, expected);
            let new = id(cells(&longer)[at]["id"].as_str().unwrap());
            prop_assert_eq!(changed(&longer, Change::Delete(new)), text);
        }
    }
}
