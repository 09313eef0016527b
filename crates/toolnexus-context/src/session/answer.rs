//! A model's answer as everybody else sees it: the message of its style, its text and its calls.
//!
//! Only what the model wrote as text, reasoning or arguments changes; all else keeps its spelling. A
//! signed block whose reasoning changes loses its signature, and the registry keeps what the model
//! really wrote, to send exactly that back.

use std::borrow::Cow;

use serde_json::Value;
use toolnexus_core::Style;
use toolnexus_llm::Message;
use toolnexus_llm::run::{ModelAnswer, ModelCall};

use super::call::decode_call;
use super::members::{Members, elements};
use super::said::Said;
use crate::json_text::rewrite_strings;
use crate::{CallAudit, Registry};

/// Where compatible servers put reasoning that is signed or encrypted.
const DETAILS: &str = "reasoning_details";

/// Decodes an answer. `heard` is what was decoded of its text as it streamed; `audit` is told of each call.
pub(super) fn decode(
    registry: &Registry,
    style: Style,
    answer: ModelAnswer,
    heard: Said,
    mut audit: impl FnMut(CallAudit),
) -> ModelAnswer {
    let ModelAnswer { message, text, mut calls, usage, finish_reason } = answer;
    let said = Said::of(registry, text, heard);
    let calls_left = calls.iter_mut();
    let mut decoding =
        Decoding { registry, style, said: &said, calls: calls_left, audit: &mut audit, raw: None };
    let message = message.and_then(|message| decoding.message(message));
    // Calls that do not stand in the message.
    for call in decoding.calls {
        decode_call(registry, call, None, decoding.audit);
    }
    ModelAnswer { message, text: said.decoded, calls, usage, finish_reason }
}

/// A message under way. Its calls are those of the answer, in order.
struct Decoding<'d> {
    registry: &'d Registry,
    style: Style,
    /// The text of the answer, which often is the text of the message.
    said: &'d Said,
    calls: std::slice::IterMut<'d, ModelCall>,
    audit: &'d mut dyn FnMut(CallAudit),
    /// A list of the message as the model wrote it, without the entries of which nothing is left.
    raw: Option<(&'static str, String)>,
}

impl Decoding<'_> {
    /// The decoded message; `None` when nothing is left that a provider would read back.
    fn message(&mut self, message: Message) -> Option<Message> {
        let json = std::str::from_utf8(message.json()).ok()?;
        let Some(mut members) = Members::read(json) else { return Some(message) };
        let is_left = match self.style {
            Style::OpenAI => {
                self.openai(&mut members);
                true
            }
            Style::Anthropic => self.list(&mut members, "content"),
            Style::Gemini => self.list(&mut members, "parts"),
        };
        if !is_left {
            return None;
        }
        // What was read is JSON, and so is what was put into it.
        let durable = match members.is_changed() {
            true => message_of(&members).unwrap_or_else(|| message.clone()),
            false => message.clone(),
        };
        let raw = match self.raw.take() {
            Some((key, list)) => {
                members.set(key, &list);
                message_of(&members)
            }
            None => Some(message.clone()),
        };
        raw.inspect(|raw| self.registry.remember_signed(&durable, raw));
        Some(durable)
    }

    fn openai(&mut self, members: &mut Members<'_>) {
        // An empty list is read back by nobody, an empty text is.
        if !self.list(members, "content") {
            members.set_text("content", "");
        }
        for key in ["content", "refusal", "reasoning_content", "reasoning"] {
            members.edit_text(key, |text| self.text(text));
        }
        self.list(members, DETAILS);
        let Some(entries) = members.get("tool_calls").and_then(elements) else { return };
        let calls: Vec<Cow<'_, str>> = entries.into_iter().map(|call| self.openai_call(call)).collect();
        set_list(members, "tool_calls", any_is_new(&calls).then(|| array(&calls)));
    }

    fn openai_call<'j>(&mut self, entry: &'j str) -> Cow<'j, str> {
        let mut members = Members::read(entry);
        let function = members.as_ref().and_then(|members| members.get("function")).map(str::to_owned);
        let mut function = function.as_deref().and_then(Members::read);
        let arguments = function.as_ref().and_then(|function| function.get("arguments"));
        let new = self.call(arguments);
        match (new, &mut members, &mut function) {
            (Some(new), Some(members), Some(function)) => {
                function.set("arguments", &new);
                members.set("function", &function.to_json());
                Cow::Owned(members.to_json())
            }
            _ => Cow::Borrowed(entry),
        }
    }

    /// The next call of the answer, whose arguments are this JSON.
    fn call(&mut self, arguments: Option<&str>) -> Option<String> {
        let call = self.calls.next()?;
        decode_call(self.registry, call, arguments, self.audit)
    }

    fn text(&self, text: &str) -> String {
        if text == self.said.raw {
            return self.said.decoded.clone();
        }
        self.registry.decode_output_text(text)
    }

    /// Decodes the entries of a list. False: there were some, and none is left.
    fn list(&mut self, members: &mut Members<'_>, key: &'static str) -> bool {
        let Some(entries) = members.get(key).and_then(elements) else { return true };
        let count = entries.len();
        let read: Vec<Option<Members<'_>>> = entries.iter().map(|entry| Members::read(entry)).collect();
        let said = |entry: &Option<Members<'_>>| {
            entry.as_ref().filter(|entry| self.is_said(entry, key)).and_then(|entry| entry.text("text"))
        };
        let texts: Vec<Option<String>> = read.iter().map(said).collect();
        let mut decoded = self.one_text(texts.iter().flatten().map(String::as_str)).into_iter();
        let mut kept: Vec<Cow<'_, str>> = Vec::with_capacity(entries.len());
        let mut raw = Vec::with_capacity(entries.len());
        for ((json, entry), text) in entries.into_iter().zip(read).zip(texts) {
            let text = text.and_then(|before| Some((before, decoded.next()?)));
            let entry = match entry {
                None => Some(Cow::Borrowed(json)),
                Some(entry) => self.entry(json, entry, text, key),
            };
            if let Some(entry) = entry {
                kept.push(entry);
                raw.push(Cow::Borrowed(json));
            }
        }
        if kept.len() < count {
            self.raw = Some((key, array(&raw)));
        }
        let is_changed = kept.len() < count || any_is_new(&kept);
        let is_left = !kept.is_empty() || count == 0;
        set_list(members, key, is_changed.then(|| array(&kept)));
        is_left
    }

    /// Whether the text of an entry is a piece of one text that goes on in the next such entry.
    fn is_said(&self, entry: &Members<'_>, key: &str) -> bool {
        match self.style {
            Style::Anthropic => entry.is_text("type", "text"),
            Style::Gemini => entry.get("thought") != Some("true"),
            Style::OpenAI if key == DETAILS => true,
            Style::OpenAI => !entry.is_text("type", "thinking"),
        }
    }

    /// An entry of a list, with what its text became; `None` when nothing of it is left.
    fn entry<'j>(
        &mut self,
        json: &'j str,
        mut entry: Members<'j>,
        text: Option<(String, String)>,
        key: &str,
    ) -> Option<Cow<'j, str>> {
        let is_signed = entry.has_text("signature") || entry.has_text("thoughtSignature");
        match text {
            // Providers refuse an empty text.
            Some((before, after))
                if after.is_empty() && !before.is_empty() && !is_signed && key != DETAILS =>
            {
                return None;
            }
            Some((before, after)) if after != before => {
                entry.set_text("text", &after);
                if key == DETAILS {
                    entry.remove("signature");
                }
            }
            Some(_) => {}
            // Some servers write a list of texts.
            None if self.is_said(&entry, key) => self.nested(&mut entry, "text"),
            None => {}
        }
        self.reasoning(&mut entry, key);
        self.call_of(&mut entry);
        if !entry.is_changed() {
            return Some(Cow::Borrowed(json));
        }
        Some(Cow::Owned(entry.to_json()))
    }

    /// Decodes the reasoning of an entry. What signs it does so no longer.
    fn reasoning(&self, entry: &mut Members<'_>, key: &str) {
        let (text, signature) = match self.style {
            Style::Anthropic | Style::OpenAI if entry.is_text("type", "thinking") => {
                ("thinking", "signature")
            }
            Style::Gemini if entry.get("thought") == Some("true") => ("text", "thoughtSignature"),
            Style::OpenAI if key == DETAILS => ("summary", "signature"),
            Style::OpenAI => ("refusal", "signature"),
            Style::Anthropic | Style::Gemini => return,
        };
        let was_changed = entry.is_changed();
        entry.edit_text(text, |text| self.text(text));
        self.nested(entry, text);
        if entry.is_changed() && !was_changed {
            entry.remove(signature);
        }
    }

    /// Decodes the texts of a list under a key.
    fn nested(&self, entry: &mut Members<'_>, key: &str) {
        let Some(json) = entry.get(key).filter(|json| json.starts_with(['[', '{'])) else { return };
        let edited = rewrite_strings(json, &mut |place, text| {
            let is_text = !place.is_name && place.key().is_none_or(|key| key == "text");
            is_text.then(|| self.text(text))
        });
        if let Ok(Some(edited)) = edited {
            entry.set(key, &edited);
        }
    }

    /// Decodes the call that an entry is.
    fn call_of(&mut self, entry: &mut Members<'_>) {
        match self.style {
            Style::Anthropic if entry.is_text("type", "tool_use") => {
                if let Some(new) = self.call(entry.get("input")) {
                    entry.set("input", &new);
                }
            }
            Style::Gemini if entry.get("functionCall").is_some_and(|call| call != "null") => {
                let mut call = entry.get("functionCall").and_then(Members::read);
                let new = self.call(call.as_ref().and_then(|call| call.get("args")));
                let Some((new, call)) = new.zip(call.as_mut()) else { return };
                call.set("args", &new);
                let call = call.to_json();
                entry.set("functionCall", &call);
            }
            _ => {}
        }
    }

    /// Decodes texts that together are one text: a handle may begin in one and end in the next.
    fn one_text<'t>(&self, texts: impl Iterator<Item = &'t str> + Clone) -> Vec<String> {
        let alone: Vec<String> = texts.clone().map(|text| self.text(text)).collect();
        if alone.len() < 2 || alone.concat() == self.text(&texts.clone().collect::<String>()) {
            return alone;
        }
        let mut decoder = self.registry.stream_decoder();
        let mut together: Vec<String> = texts.map(|text| decoder.feed(text)).collect();
        if let Some(last) = together.last_mut() {
            last.push_str(&decoder.flush());
        }
        together
    }
}

/// The message of these members. One that was built as a value may be deeper than one that is read.
fn message_of(members: &Members<'_>) -> Option<Message> {
    let json = members.to_json();
    let built = || serde_json::from_str::<Value>(&json).ok().map(Message::from);
    Message::from_json(json.clone()).ok().or_else(built)
}

/// Whether any entry is not the one that was read.
fn any_is_new(entries: &[Cow<'_, str>]) -> bool {
    entries.iter().any(|entry| matches!(entry, Cow::Owned(_)))
}

fn set_list(members: &mut Members<'_>, key: &str, list: Option<String>) {
    if let Some(list) = list {
        members.set(key, &list);
    }
}

/// A list of JSON texts.
fn array(elements: &[Cow<'_, str>]) -> String {
    format!("[{}]", elements.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use toolnexus_llm::FinishReason;

    fn registry() -> Registry {
        let registry = Registry::new(true);
        registry.register_document("doc-real");
        registry.register_url("https://example.com/page", "Page");
        registry
    }

    fn answer(message: Value, text: &str, calls: Vec<ModelCall>) -> ModelAnswer {
        ModelAnswer {
            message: Some(message.into()),
            text: text.to_owned(),
            calls,
            usage: Default::default(),
            finish_reason: FinishReason::Stop,
        }
    }

    fn of_texts(style: Style, texts: &[String]) -> Value {
        let blocks = |texts: &[String]| -> Value {
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect()
        };
        match style {
            Style::OpenAI => json!({"role": "assistant", "content": blocks(texts)}),
            Style::Anthropic => json!({"role": "assistant", "content": blocks(texts)}),
            Style::Gemini => {
                let parts: Value = texts.iter().map(|text| json!({"text": text})).collect();
                json!({"role": "model", "parts": parts})
            }
        }
    }

    fn texts_of(message: &Value) -> String {
        let list = message.get("content").or_else(|| message.get("parts"));
        let blocks = list.and_then(Value::as_array).into_iter().flatten();
        blocks.filter_map(|block| block.get("text")?.as_str()).collect()
    }

    fn said() -> impl Strategy<Value = Vec<String>> {
        let piece = prop_oneof![
            Just("doc://1".to_owned()),
            Just("doc:".to_owned()),
            Just("//1".to_owned()),
            Just("<ref id=\"url".to_owned()),
            Just("://1\"/>".to_owned()),
            Just("res://00".to_owned()),
            Just("01 ".to_owned()),
            "[a-z. é]{0,3}",
        ];
        let text = proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat());
        proptest::collection::vec(text, 1..5)
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            Just(json!(true)),
            any::<i32>().prop_map(Value::from),
            "(doc://1|text|tool_use|thinking|[a-z{\"]{0,3})".prop_map(Value::from),
        ];
        let key = "(role|content|parts|text|type|thinking|signature|thought|functionCall|args|input|name|\
                   tool_calls|function|arguments|reasoning|reasoning_details|summary|x)";
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // CTX-105, CTX-50: the blocks of a message together say what the answer's text says, wherever a
        // handle is cut
        #[test]
        fn message_and_text_agree(
            texts in said(),
            style in proptest::sample::select(&[Style::OpenAI, Style::Anthropic, Style::Gemini][..]),
        ) {
            let registry = registry();
            let decoded = decode(&registry, style, answer(of_texts(style, &texts), &texts.concat(), Vec::new()), Said::default(), |_| {});
            prop_assert_eq!(&decoded.text, &registry.decode_output_text(&texts.concat()));
            match decoded.message {
                Some(message) if message.get("content").is_none_or(|content| !content.is_string()) => {
                    prop_assert_eq!(texts_of(&message), decoded.text);
                }
                _ => prop_assert_eq!(decoded.text, ""),
            }
        }

        // CTX-43: no message makes it fail, and one without a handle is given back as it is
        #[test]
        fn any_message_is_read(
            value in json_value(),
            style in proptest::sample::select(&[Style::OpenAI, Style::Anthropic, Style::Gemini][..]),
        ) {
            let call = ModelCall { id: "1".into(), name: "note".into(), ..Default::default() };
            let given = Message::from(value.clone());
            let mut answer = answer(Value::Null, "", vec![call]);
            answer.message = Some(given.clone());
            let decoded = decode(&registry(), style, answer, Said::default(), |_| {});
            prop_assert_eq!(decoded.calls.len(), 1);
            if !value.to_string().contains("doc://1") {
                prop_assert_eq!(decoded.message.unwrap().json().as_ptr(), given.json().as_ptr());
            }
        }
    }
}
