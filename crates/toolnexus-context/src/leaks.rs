//! The report on durable identifiers that are still in an encoded request.
//!
//! What is looked for is text of the shape of a UUID: nothing else can be told from ordinary words. A
//! message is read, never changed; the fields of all styles are told by their names.

use std::collections::{HashMap, HashSet};
use std::fmt;

use memchr::{memchr_iter, memmem};
use serde_json::Value;
use toolnexus_llm::Message;

use crate::Registry;
use crate::argument_roles::CALL_TOOL;
use crate::syntax::{UUID_LEN, is_uuid};

/// Identifiers left in one field of one message.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentifierLeak {
    /// The place of the message.
    pub message_index: usize,
    /// The role of the message; `tool` for a tool's result, in whichever message it stands.
    pub role: String,
    /// The tool whose result or call it is; empty for plain content.
    pub tool_name: String,
    /// `content`, `reasoning`, `multi_content` or `tool_call_arguments`.
    pub field: &'static str,
    /// Identifiers that have a handle: encoding has a gap.
    pub registered: Vec<String>,
    /// Identifiers without a handle: a tool or a prompt put them into the context.
    pub unregistered: Vec<String>,
}

/// Shows how many there are: identifiers are nobody's to log.
impl fmt::Debug for IdentifierLeak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdentifierLeak").field(&format_args!("{self}")).finish()
    }
}

/// The line of [`summarize_leaks`].
impl fmt::Display for IdentifierLeak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The names may be a model's: they must not begin a line of their own.
        let one_line = |text: &str| text.replace(char::is_control, "\u{fffd}");
        write!(f, "message {} {}", self.message_index, one_line(&self.role))?;
        if !self.tool_name.is_empty() {
            write!(f, "/{}", one_line(&self.tool_name))?;
        }
        let (registered, unregistered) = (self.registered.len(), self.unregistered.len());
        write!(f, " {}: registered={registered} unregistered={unregistered}", self.field)
    }
}

impl Registry {
    /// The UUIDs that are left in encoded messages, an entry for each field that holds any. What users
    /// write is not looked at: they may paste what they like.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolnexus_context::{Registry, summarize_leaks};
    /// let prompt = json!({"role": "system", "content": "Read 36283d3d-a495-40d2-a13f-e925fc322996."});
    /// let leaks = Registry::new(true).leaked_identifiers(&[prompt.into()]);
    /// assert_eq!(summarize_leaks(&leaks), "message 0 system content: registered=0 unregistered=1");
    /// ```
    pub fn leaked_identifiers(&self, encoded: &[Message]) -> Vec<IdentifierLeak> {
        // A result that holds one needs the call that stands somewhere before it, so it is all or nothing.
        if !encoded.iter().any(|message| may_hold_uuid(message.json())) {
            return Vec::new();
        }
        let mut report = Report::default();
        for (index, message) in encoded.iter().enumerate() {
            report.message(index, message.value());
        }
        self.finished(report)
    }

    /// The UUIDs in the encoded system text of a style that sends it apart from the messages: one more
    /// message before the first, whose place is 0.
    pub(crate) fn leaks_in_system(&self, system: &str) -> Option<IdentifierLeak> {
        let mut report = Report::default();
        report.text(Field { index: 0, role: "system", tool: "", name: CONTENT }, system);
        self.finished(report).pop()
    }

    /// Tells identifiers that have a handle from those that have none.
    fn finished(&self, report: Report<'_>) -> Vec<IdentifierLeak> {
        if report.leaks.is_empty() {
            return report.leaks;
        }
        let tables = self.tables();
        let is_found = |value: &&str| report.found.contains(&value.to_ascii_lowercase());
        let registered: HashSet<String> = tables
            .values()
            .filter(|value| value.len() == UUID_LEN)
            .filter(is_found)
            .map(str::to_ascii_lowercase)
            .collect();
        drop(tables);
        let mut leaks = report.leaks;
        for leak in &mut leaks {
            let is_registered = |id: &String| registered.contains(&id.to_ascii_lowercase());
            (leak.registered, leak.unregistered) =
                std::mem::take(&mut leak.unregistered).into_iter().partition(is_registered);
        }
        leaks
    }
}

/// The leaks in words, a line each, without any text of the messages; empty without leaks.
pub fn summarize_leaks(leaks: &[IdentifierLeak]) -> String {
    let lines: Vec<String> = leaks.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

const CONTENT: &str = "content";
const REASONING: &str = "reasoning";
const MULTI_CONTENT: &str = "multi_content";
const ARGUMENTS: &str = "tool_call_arguments";

/// A field of a message.
#[derive(Clone, Copy)]
struct Field<'f> {
    index: usize,
    role: &'f str,
    tool: &'f str,
    name: &'static str,
}

/// What was found so far. All identifiers count as unregistered until the end.
#[derive(Default)]
struct Report<'m> {
    leaks: Vec<IdentifierLeak>,
    /// The leak of each field that has one.
    places: HashMap<(usize, String, String, &'static str), usize>,
    /// The identifiers of each leak, lower-case.
    seen: HashSet<(usize, String)>,
    /// All identifiers, lower-case.
    found: HashSet<String>,
    /// The tool of each call so far, by the call's id.
    tools: HashMap<&'m str, String>,
}

impl<'m> Report<'m> {
    fn message(&mut self, index: usize, message: &'m Value) {
        let role = text(message, "role");
        let at = Field { index, role, tool: "", name: CONTENT };
        match role {
            "tool" | "function" => {
                let tool = self.producer(message, "tool_call_id");
                let at = Field { role: "tool", tool: &tool, ..at };
                self.content(at, message.get("content"));
                self.parts(Field { name: MULTI_CONTENT, ..at }, message.get("parts"));
            }
            _ => {
                for key in ["content", "parts", "refusal"] {
                    self.content(at, message.get(key));
                }
            }
        }
        for key in ["reasoning", "reasoning_content", "reasoning_details"] {
            self.strings(Field { name: REASONING, ..at }, message.get(key).unwrap_or(&Value::Null));
        }
        for call in entries(message.get("tool_calls")) {
            let function = call.get("function").unwrap_or(&Value::Null);
            let arguments = function.get("arguments").unwrap_or(&Value::Null);
            self.call(at, text(call, "id"), text(function, "name"), arguments);
        }
        if let Some(function) = message.get("function_call") {
            let arguments = function.get("arguments").unwrap_or(&Value::Null);
            self.call(at, "", text(function, "name"), arguments);
        }
    }

    /// The content of a message or of a result: text, or parts.
    fn content(&mut self, at: Field<'_>, content: Option<&'m Value>) {
        match content {
            Some(Value::String(text)) if at.role != "user" => self.text(at, text),
            Some(parts @ Value::Array(_)) => self.parts(Field { name: MULTI_CONTENT, ..at }, Some(parts)),
            _ => {}
        }
    }

    fn parts(&mut self, at: Field<'_>, parts: Option<&'m Value>) {
        for part in entries(parts) {
            self.part(at, part);
        }
    }

    fn part(&mut self, at: Field<'_>, part: &'m Value) {
        let kind = text(part, "type");
        let spelled = |camel, snake| part.get(camel).or_else(|| part.get(snake));
        if let Some(response) = spelled("functionResponse", "function_response") {
            let tool = self.producer(response, "id");
            let at = Field { role: "tool", tool: &tool, name: CONTENT, ..at };
            self.strings(at, response.get("response").unwrap_or(&Value::Null));
            self.parts(Field { name: MULTI_CONTENT, ..at }, part.get("parts"));
        } else if kind == "tool_result" {
            let tool = self.producer(part, "tool_use_id");
            let at = Field { role: "tool", tool: &tool, name: CONTENT, ..at };
            self.content(at, part.get("content"));
            self.parts(Field { name: MULTI_CONTENT, ..at }, part.get("parts"));
        } else if let Some(call) = spelled("functionCall", "function_call") {
            self.call(at, text(call, "id"), text(call, "name"), call.get("args").unwrap_or(&Value::Null));
        } else if kind == "tool_use" {
            let input = part.get("input").unwrap_or(&Value::Null);
            self.call(at, text(part, "id"), text(part, "name"), input);
        } else if at.role != "user" {
            let is_thought = kind == "thinking" || part.get("thought") == Some(&Value::Bool(true));
            let at = if is_thought { Field { name: REASONING, ..at } } else { at };
            for key in ["text", "thinking", "refusal"] {
                self.text(at, text(part, key));
            }
        }
    }

    /// A call and its arguments, JSON or JSON text.
    fn call(&mut self, at: Field<'_>, id: &'m str, name: &'m str, arguments: &'m Value) {
        let parsed = arguments.as_str().filter(|_| name == CALL_TOOL);
        let parsed = parsed.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let inner = text(parsed.as_ref().unwrap_or(arguments), "name");
        let tool = if name == CALL_TOOL && !inner.is_empty() { inner } else { name };
        if !id.is_empty() {
            self.tools.insert(id, tool.to_owned());
        }
        self.strings(Field { tool, name: ARGUMENTS, ..at }, arguments);
    }

    /// The tool that gave a result: the one it names, or that of its call.
    fn producer(&self, result: &'m Value, id: &str) -> String {
        let called = || self.tools.get(text(result, id)).cloned();
        match text(result, "name") {
            name @ ("" | CALL_TOOL) => called().unwrap_or_else(|| name.to_owned()),
            name => name.to_owned(),
        }
    }

    /// Every string of a value, names of members included.
    fn strings(&mut self, at: Field<'_>, value: &Value) {
        match value {
            Value::String(text) => self.text(at, text),
            Value::Array(items) => items.iter().for_each(|item| self.strings(at, item)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.text(at, name);
                    self.strings(at, value);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, at: Field<'_>, text: &str) {
        for id in uuids(text) {
            let place = (at.index, at.role.to_owned(), at.tool.to_owned(), at.name);
            let leak = *self.places.entry(place).or_insert_with(|| {
                self.leaks.push(IdentifierLeak {
                    message_index: at.index,
                    role: at.role.to_owned(),
                    tool_name: at.tool.to_owned(),
                    field: at.name,
                    registered: Vec::new(),
                    unregistered: Vec::new(),
                });
                self.leaks.len() - 1
            });
            let lower_case = id.to_ascii_lowercase();
            self.found.insert(lower_case.clone());
            if self.seen.insert((leak, lower_case))
                && let Some(leak) = self.leaks.get_mut(leak)
            {
                leak.unregistered.push(id.to_owned());
            }
        }
    }
}

/// The UUIDs in a text. A longer group of digits is none.
fn uuids(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    // Each dash may be the first of one: the work for it is bounded.
    memchr_iter(b'-', bytes).filter_map(move |dash| {
        let start = dash.checked_sub(8)?;
        let end = start + UUID_LEN;
        let is_longer = start.checked_sub(1).is_some_and(is_hex) || is_hex(end);
        text.get(start..end).filter(|uuid| is_uuid(uuid) && !is_longer)
    })
}

/// Whether there may be a UUID in JSON text: false is certain.
fn may_hold_uuid(json: &[u8]) -> bool {
    let is_one = |dash: usize| {
        let bytes = dash.checked_sub(8).and_then(|start| json.get(start..start + UUID_LEN));
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).is_some_and(is_uuid)
    };
    // An escape may stand for any of its characters.
    memmem::find(json, b"\\u00").is_some() || memchr_iter(b'-', json).any(is_one)
}

/// A member that is text; empty where there is none.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn entries(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
