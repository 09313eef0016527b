//! What a message says, whatever the dialect: its texts, reasoning, calls and results, each with the
//! place of its JSON in the message.
//!
//! One walk knows all shapes, because a transcript may hold several: they differ in their keys, so none
//! is taken for another. What is not named here (pictures, files, data URIs, ids, a provider's own
//! blocks) is not looked at and stays.

use std::borrow::Cow;
use std::ops::Range;

use super::CallNames;
use super::raw_json::Piece;
use crate::argument_roles::CALL_TOOL;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
    /// A role that this crate does not know.
    Other,
}

impl Speaker {
    fn of(role: &str) -> Self {
        match role {
            "system" | "developer" => Speaker::System,
            "user" => Speaker::User,
            "assistant" | "model" => Speaker::Assistant,
            "tool" | "function" => Speaker::Tool,
            _ => Speaker::Other,
        }
    }
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Text(Speaker),
    Reasoning,
    /// The arguments of a call to this tool: JSON.
    Arguments {
        tool: String,
    },
    /// A result of a tool, if that is known.
    Result {
        tool: Option<String>,
        call_id: String,
    },
    /// Text that stands beside a result.
    BesideResult,
}

/// A text of a message.
#[derive(Debug)]
pub(super) struct Field<'j> {
    pub(super) content: Content,
    /// Where its JSON stands in the message.
    pub(super) span: Range<usize>,
    /// Whether it is what a JSON string spells; else it is JSON itself.
    pub(super) is_string: bool,
    /// The text as it is by now.
    pub(super) text: Cow<'j, str>,
    pub(super) is_changed: bool,
}

impl Field<'_> {
    /// Takes the new text, if there is one and it differs.
    pub(super) fn set(&mut self, text: Option<String>) {
        if let Some(text) = text.filter(|text| *text != self.text) {
            self.text = Cow::Owned(text);
            self.is_changed = true;
        }
    }

    /// The place among the fields of its message in which sources are numbered.
    fn rank(&self) -> u8 {
        match self.content {
            Content::Text(_) | Content::Result { .. } | Content::BesideResult => 0,
            Content::Reasoning => 1,
            Content::Arguments { .. } => 2,
        }
    }
}

/// A list whose elements a provider may have signed.
#[derive(Debug)]
pub(super) struct List {
    /// The key of the message that holds it.
    pub(super) key: &'static str,
    pub(super) span: Range<usize>,
    pub(super) elements: Vec<Range<usize>>,
    /// Those that are signed, or are reasoning.
    pub(super) blocks: Vec<Block>,
}

/// An element of a list.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) index: usize,
    pub(super) is_signed: bool,
    /// Whether it is reasoning, which is refused when its signature does not fit.
    pub(super) is_reasoning: bool,
    /// Whether it is of the kind that is refused without a signature.
    pub(super) must_be_signed: bool,
}

/// What a message says.
#[derive(Debug)]
pub(super) struct Outline<'j> {
    pub(super) json: &'j str,
    /// In the order in which sources are numbered.
    pub(super) fields: Vec<Field<'j>>,
    pub(super) lists: Vec<List>,
}

impl<'j> Outline<'j> {
    /// Reads a message. The calls in it are added to `names`, which names the tools of results.
    pub(super) fn read(json: &'j str, names: &mut CallNames) -> Self {
        let outline = Outline { json, fields: Vec::new(), lists: Vec::new() };
        let mut reader = Reader { names, outline, calls: Vec::new(), responses: 0 };
        reader.message(Piece::document(json));
        let Reader { calls, mut outline, .. } = reader;
        names.note(calls);
        outline.fields.sort_by_key(Field::rank);
        outline
    }
}

struct Reader<'j, 'n> {
    /// The calls of the messages before.
    names: &'n CallNames,
    outline: Outline<'j>,
    /// The calls of this message: id and tool.
    calls: Vec<(String, String)>,
    /// How many results without an id there were in it.
    responses: usize,
}

/// The members of an object.
struct Members<'j>(Vec<(Cow<'j, str>, Piece<'j>)>);

impl<'j> Members<'j> {
    fn of(piece: Piece<'j>) -> Self {
        Members(piece.members())
    }

    /// The values under a name. Most often one; JSON may repeat a name.
    fn all(&self, name: &str) -> impl Iterator<Item = Piece<'j>> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, piece)| *piece)
    }

    /// The value under the first of the names that is there. Of repeated members the last counts.
    fn get(&self, names: &[&str]) -> Option<Piece<'j>> {
        names.iter().find_map(|name| self.all(name).last())
    }

    fn string(&self, name: &str) -> Option<Cow<'j, str>> {
        self.get(&[name])?.string()
    }

    fn owned(&self, name: &str) -> String {
        self.string(name).map(Cow::into_owned).unwrap_or_default()
    }

    fn has_text(&self, names: &[&str]) -> bool {
        self.get(names).and_then(|piece| piece.string()).is_some_and(|text| !text.is_empty())
    }
}

const SIGNATURE: &[&str] = &["signature"];
const THOUGHT_SIGNATURE: &[&str] = &["thoughtSignature", "thought_signature"];

impl<'j> Reader<'j, '_> {
    fn message(&mut self, message: Piece<'j>) {
        let members = Members::of(message);
        let speaker = Speaker::of(members.string("role").as_deref().unwrap_or_default());
        let text = match speaker {
            Speaker::Tool => {
                let id = members.owned("tool_call_id");
                self.result(members.string("name"), id)
            }
            speaker => Content::Text(speaker),
        };
        for piece in members.all("content") {
            self.string(piece, &text);
            self.list("content", piece, &text);
        }
        for piece in members.all("parts") {
            self.list("parts", piece, &text);
        }
        for piece in members.all("refusal") {
            self.string(piece, &text);
        }
        for piece in members.all("reasoning_content").chain(members.all("reasoning")) {
            self.string(piece, &Content::Reasoning);
        }
        for piece in members.all("reasoning_details") {
            self.list("reasoning_details", piece, &Content::Reasoning);
        }
        for call in members.all("tool_calls").flat_map(|piece| piece.elements()) {
            let call = Members::of(call);
            for function in call.all("function") {
                self.function(call.owned("id"), function, &["arguments"]);
            }
        }
        for function in members.all("function_call") {
            self.function(String::new(), function, &["arguments"]);
        }
    }

    /// A list of blocks or parts. `text` is what their text is.
    fn list(&mut self, key: &'static str, piece: Piece<'j>, text: &Content) {
        let elements = piece.elements();
        let mut blocks = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let block = self.block(*element, text);
            blocks.extend(block.map(|block| Block { index, ..block }));
        }
        if !blocks.is_empty() {
            let elements = elements.iter().map(Piece::span).collect();
            self.outline.lists.push(List { key, span: piece.span(), elements, blocks });
        }
    }

    /// A block or part, which is given back if signatures matter to it.
    fn block(&mut self, piece: Piece<'j>, text: &Content) -> Option<Block> {
        let members = Members::of(piece);
        let kind = members.string("type");
        match kind.as_deref() {
            Some("text" | "input_text" | "output_text") => self.member_strings(&members, "text", text),
            Some("refusal") => self.member_strings(&members, "refusal", text),
            Some("thinking") => return Some(self.thinking(&members)),
            Some("reasoning.text" | "reasoning.summary") => {
                self.member_strings(&members, "text", &Content::Reasoning);
                self.member_strings(&members, "summary", &Content::Reasoning);
                let is_signed = members.has_text(SIGNATURE);
                return Some(Block { index: 0, is_signed, is_reasoning: true, must_be_signed: false });
            }
            Some("tool_use") => self.function(members.owned("id"), piece, &["input"]),
            Some("tool_result") => {
                let result = self.result(members.string("name"), members.owned("tool_use_id"));
                for content in members.all("content") {
                    self.string(content, &result);
                    self.texts_of(content, &result);
                }
                members.all("parts").for_each(|parts| self.texts_of(parts, &result));
            }
            Some(_) => {}
            None => return self.part(&members, text),
        }
        None
    }

    fn thinking(&mut self, members: &Members<'j>) -> Block {
        for thinking in members.all("thinking") {
            self.string(thinking, &Content::Reasoning);
            self.texts_of(thinking, &Content::Reasoning);
        }
        Block {
            index: 0,
            is_signed: members.has_text(SIGNATURE),
            is_reasoning: true,
            must_be_signed: members.get(SIGNATURE).is_none(),
        }
    }

    /// A part of Gemini's, which has no type.
    fn part(&mut self, members: &Members<'j>, text: &Content) -> Option<Block> {
        let is_thought = members.get(&["thought"]).is_some_and(|thought| thought.is_true());
        self.member_strings(members, "text", if is_thought { &Content::Reasoning } else { text });
        for call in members.all("functionCall").chain(members.all("function_call")) {
            self.function(Members::of(call).owned("id"), call, &["args"]);
        }
        for response in members.all("functionResponse").chain(members.all("function_response")) {
            let response = Members::of(response);
            let result = self.result(response.string("name"), response.owned("id"));
            response.all("response").for_each(|response| self.response(response, &result));
            members.all("parts").for_each(|parts| self.texts_of(parts, &result));
        }
        let is_signed = members.has_text(THOUGHT_SIGNATURE);
        // A thought that lost its signature may have been signed as the model wrote it.
        let matters = is_signed || is_thought;
        matters.then_some(Block { index: 0, is_signed, is_reasoning: is_thought, must_be_signed: false })
    }

    /// The response of a function. Its text is its `output` or `error`; without either it is all text.
    fn response(&mut self, response: Piece<'j>, result: &Content) {
        let members = response.members();
        let is_text = |name: &str, piece: &Piece<'_>| {
            matches!(name, "output" | "error") && piece.text().starts_with('"')
        };
        if !members.iter().any(|(name, piece)| is_text(name, piece)) {
            self.add(response, result.clone(), false, Cow::Borrowed(response.text()));
            return;
        }
        for (name, piece) in members {
            if is_text(&name, &piece) {
                self.string(piece, result);
            } else if piece.text().starts_with(['"', '[', '{']) {
                self.add(piece, Content::BesideResult, false, Cow::Borrowed(piece.text()));
            }
        }
    }

    /// The texts in a list of blocks that holds nothing else to read.
    fn texts_of(&mut self, list: Piece<'j>, content: &Content) {
        for block in list.elements() {
            let members = Members::of(block);
            if members.string("type").is_none_or(|kind| kind == "text") {
                self.member_strings(&members, "text", content);
            }
        }
    }

    /// A call: its name, and its arguments, which are JSON or a string of JSON.
    fn function(&mut self, id: String, function: Piece<'j>, keys: &[&str]) {
        let members = Members::of(function);
        let tool = members.owned("name");
        let real = members.get(keys).filter(|_| tool == CALL_TOOL).and_then(called_tool);
        self.calls.push((id, real.unwrap_or_else(|| tool.clone())));
        for arguments in keys.iter().flat_map(|key| members.all(key)) {
            let content = Content::Arguments { tool: tool.clone() };
            match arguments.string() {
                Some(text) => self.add(arguments, content, true, text),
                None if arguments.text().starts_with(['{', '[']) => {
                    self.add(arguments, content, false, Cow::Borrowed(arguments.text()));
                }
                None => {}
            }
        }
    }

    /// A result's tool is named beside it, or by the call. One that was called through `call_tool` is
    /// named by the call alone.
    fn result(&mut self, name: Option<Cow<'_, str>>, call_id: String) -> Content {
        let named = name.filter(|name| !name.is_empty()).map(Cow::into_owned);
        let tool = match named {
            Some(named) if named == CALL_TOOL => self.names.name_of(&call_id, self.responses).or(Some(named)),
            Some(named) => Some(named),
            None if call_id.is_empty() => None,
            None => self.names.name_of(&call_id, 0),
        };
        self.responses += usize::from(call_id.is_empty());
        Content::Result { tool, call_id }
    }

    fn member_strings(&mut self, members: &Members<'j>, name: &str, content: &Content) {
        members.all(name).for_each(|piece| self.string(piece, content));
    }

    fn string(&mut self, piece: Piece<'j>, content: &Content) {
        if let Some(text) = piece.string() {
            self.add(piece, content.clone(), true, text);
        }
    }

    fn add(&mut self, piece: Piece<'j>, content: Content, is_string: bool, text: Cow<'j, str>) {
        // An empty result may have a view that is not empty.
        if !text.is_empty() || matches!(content, Content::Result { .. }) {
            let span = piece.span();
            self.outline.fields.push(Field { content, span, is_string, text, is_changed: false });
        }
    }
}

/// The tool that a call of `call_tool` calls, by its arguments.
fn called_tool(arguments: Piece<'_>) -> Option<String> {
    let name = |arguments: Piece<'_>| Members::of(arguments).string("name").map(Cow::into_owned);
    match arguments.string() {
        Some(text) => name(Piece::document(&text)),
        None => name(arguments),
    }
}
