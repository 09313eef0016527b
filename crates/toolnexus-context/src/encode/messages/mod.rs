//! A transcript on its way to the model.
//!
//! ```text
//! message ── outline ──► fields (texts, reasoning, calls, results) ── passes ──► rewrite ──► message
//! ```
//!
//! Each message is read once into its fields, and written once, by replacing the JSON of the fields that
//! changed. So unknown members, numbers and order survive, and a message without a change is given back
//! as the same shared one. In between the passes go over the fields of all messages. Their order is what
//! makes numbering deterministic, and it is decided here alone:
//!
//! 1. stored resources, everywhere: first, or a reference would be torn apart by the ids in it;
//! 2. private and routing ids in all results, so that a call can use one that comes later;
//! 3. routing text, which registers nothing and so may come after what it looks up;
//! 4. URIs, public citations and declared arguments, in the order of the messages;
//! 5. results, once more where a later one made more known;
//! 6. arguments, when all is known.

mod call_names;
mod outline;
mod raw_json;
mod rewrite;

use std::borrow::Cow;

use serde::de::IgnoredAny;
use toolnexus_core::Style;
use toolnexus_llm::Message;

use crate::json_text::{members, rewrite_strings, string_value};
use crate::{Evidence, Registry};

pub(crate) use call_names::CallNames;
use outline::{Content, Field, Outline, Speaker};

/// The model's views of tool results that this run has seen itself.
pub(crate) trait Views {
    /// Says that the view of a result will be asked for. All are announced before the first is asked for.
    fn announce(&self, call_id: &str, tool: &str, output: &str) {
        let _ = (call_id, tool, output);
    }

    /// The view of the call's result, if its stored text is still this one. `call_id` is empty where the
    /// dialect gave the call none. Asked in the order of the messages.
    fn view(&self, call_id: &str, tool: &str, output: &str) -> Option<String>;
}

/// What is known of an execution beside its messages.
#[derive(Default)]
pub(crate) struct Surroundings<'a> {
    pub(crate) views: Option<&'a dyn Views>,
    /// The provider's dialect. Of one that signs its reasoning, reasoning without a signature is left
    /// out.
    pub(crate) style: Option<Style>,
}

impl Registry {
    /// The messages as the model shall see them; the durable ones stay as they are. All dialects of the
    /// client are understood. Encoding again changes nothing.
    ///
    /// The protocol prompt is not in them: [`protocol_prompt`](Self::protocol_prompt) is the host's to
    /// add, unless a client or [`body_transform`](Self::body_transform) does.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolnexus_context::Registry;
    /// use toolnexus_llm::Message;
    /// let registry = Registry::new(true);
    /// let stored = Message::from(json!({"role": "user", "content": "read toolnexus://doc/36283d3d"}));
    /// let encoded = registry.encode_messages(std::slice::from_ref(&stored));
    /// assert_eq!(encoded[0]["content"], "read doc://1");
    /// assert_eq!(stored["content"], "read toolnexus://doc/36283d3d");
    /// ```
    pub fn encode_messages(&self, messages: &[Message]) -> Vec<Message> {
        self.encode_new_messages(&mut CallNames::default(), messages, &Surroundings::default())
    }

    /// Encodes messages that stand behind those that were encoded before. `names` knows the calls of
    /// those, and learns the ones of these.
    pub(crate) fn encode_new_messages(
        &self,
        names: &mut CallNames,
        messages: &[Message],
        surroundings: &Surroundings<'_>,
    ) -> Vec<Message> {
        let read =
            |message| Outline::read(std::str::from_utf8(Message::json(message)).unwrap_or("null"), names);
        let mut outlines: Vec<Outline<'_>> = messages.iter().map(read).collect();
        if let Some(views) = surroundings.views {
            announce_results(&outlines, views);
        }
        self.encode_all_resources(&mut outlines);
        self.register_all_private(&outlines);
        self.encode_all_routing_text(&mut outlines);
        self.register_sources_in_order(&mut outlines);
        self.encode_all_results(&mut outlines, surroundings.views);
        self.encode_all_arguments(&mut outlines);
        let drops_unsigned = surroundings.style == Some(Style::Anthropic);
        let written = messages.iter().zip(&outlines).map(|(message, outline)| {
            let raw = self.raw_blocks(message);
            outline.rewritten(&raw, drops_unsigned).unwrap_or_else(|| message.clone())
        });
        written.collect()
    }

    fn encode_all_resources(&self, outlines: &mut [Outline<'_>]) {
        for field in fields(outlines) {
            if let Content::Arguments { .. } = field.content {
                // Which of them change is for the tool's policy to say, later.
                self.each_string(field, |registry, text| drop(registry.encode_resources(text)));
            } else {
                self.each_text(field, Registry::encode_resources);
            }
        }
    }

    fn register_all_private(&self, outlines: &[Outline<'_>]) {
        for field in outlines.iter().flat_map(|outline| &outline.fields) {
            if let Content::Result { tool: Some(tool), .. } = &field.content {
                self.register_private_results(tool, &field.text);
            }
        }
    }

    fn encode_all_routing_text(&self, outlines: &mut [Outline<'_>]) {
        for field in fields(outlines) {
            if let Content::Text(Speaker::System | Speaker::User) = field.content {
                self.each_text(field, Registry::encode_routing_text);
            }
        }
    }

    fn register_sources_in_order(&self, outlines: &mut [Outline<'_>]) {
        for field in fields(outlines) {
            if let Content::Arguments { tool } = &field.content {
                self.note_arguments(tool, &field.text);
                continue;
            }
            self.each_text(field, Registry::encode_uris);
            let may_cite = match &field.content {
                Content::Text(speaker) => *speaker == Speaker::Assistant,
                Content::Reasoning => true,
                Content::Result { tool: Some(tool), .. } => {
                    self.settings().policy(tool).is_some_and(|policy| policy.render || policy.citations)
                }
                _ => false,
            };
            if may_cite {
                self.each_text(field, |registry, text| {
                    registry.encode_citations(text, Evidence::NavigationOnly)
                });
            }
        }
    }

    fn encode_all_results(&self, outlines: &mut [Outline<'_>], views: Option<&dyn Views>) {
        let known = || self.tables().size();
        // The results that may hold what a later one names, and how much was known when they were seen.
        let mut replayed = Vec::new();
        for (outline_at, outline) in outlines.iter_mut().enumerate() {
            for (at, field) in outline.fields.iter_mut().enumerate() {
                let Content::Result { tool, call_id } = &field.content else { continue };
                let tool = tool.as_deref();
                let own = views.and_then(|views| {
                    views.view(call_id, tool.unwrap_or_default(), &stored(outline.json, field))
                });
                if let Some(view) = own {
                    field.set_view(view);
                    continue;
                }
                let view = self.replayed_result_view(tool, &field.text);
                field.set_view(view);
                replayed.push((outline_at, at, known()));
            }
        }
        let all = known();
        for (outline_at, at, known) in replayed {
            let field = outlines.get_mut(outline_at).and_then(|outline| outline.fields.get_mut(at));
            if let Some(field) = field.filter(|_| known < all)
                && let Content::Result { tool, .. } = &field.content
            {
                let view = self.replayed_result_view(tool.as_deref(), &field.text);
                field.set_view(view);
            }
        }
    }

    fn encode_all_arguments(&self, outlines: &mut [Outline<'_>]) {
        for field in fields(outlines) {
            if let Content::Arguments { tool } = &field.content {
                let encoded = self.encode_arguments(tool, &field.text);
                if encoded.is_none() && field.is_string && members(&field.text).is_none() {
                    // What is no JSON never ran. It is shown as any text.
                    self.each_text(field, Registry::encode_resources);
                    self.each_text(field, Registry::encode_uris);
                } else {
                    field.set(encoded);
                }
            }
        }
    }

    /// Rewrites a text, or every string of one that is JSON.
    fn each_text(&self, field: &mut Field<'_>, edit: impl for<'t> Fn(&Registry, &'t str) -> Cow<'t, str>) {
        let edited = if field.is_string {
            owned(edit(self, &field.text))
        } else {
            rewrite_strings(&field.text, &mut |place, text| {
                if place.is_name { None } else { owned(edit(self, text)) }
            })
            .ok()
            .flatten()
        };
        field.set(edited);
    }

    /// Shows every string of a text that is JSON, names included.
    fn each_string(&self, field: &Field<'_>, see: impl Fn(&Registry, &str)) {
        let seen = rewrite_strings(&field.text, &mut |_, text| {
            see(self, text);
            None
        });
        // What is malformed is no arguments, and stays.
        drop(seen);
    }
}

impl Field<'_> {
    /// Takes the view of a result. Where the result is JSON its view must be some too.
    fn set_view(&mut self, view: String) {
        if self.is_string || serde_json::from_str::<IgnoredAny>(&view).is_ok() {
            self.set(Some(view));
        }
    }
}

/// Says which results are asked for, while their text is as it is stored.
fn announce_results(outlines: &[Outline<'_>], views: &dyn Views) {
    for field in outlines.iter().flat_map(|outline| &outline.fields) {
        if let Content::Result { tool, call_id } = &field.content {
            views.announce(call_id, tool.as_deref().unwrap_or_default(), &field.text);
        }
    }
}

/// The text of a field as it is stored.
fn stored<'j>(json: &'j str, field: &Field<'j>) -> Cow<'j, str> {
    if !field.is_changed {
        return field.text.clone();
    }
    let text = json.get(field.span.clone()).unwrap_or_default();
    if field.is_string { string_value(text).map(Cow::Owned).unwrap_or_default() } else { Cow::Borrowed(text) }
}

fn fields<'o, 'j>(outlines: &'o mut [Outline<'j>]) -> impl Iterator<Item = &'o mut Field<'j>> {
    outlines.iter_mut().flat_map(|outline| &mut outline.fields)
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

/// A block that a provider signed.
pub(super) struct SignedBlock<'j> {
    /// The key of the list that holds it.
    pub(super) list: &'static str,
    pub(super) index: usize,
    /// How long the list is.
    pub(super) length: usize,
    pub(super) json: &'j str,
}

/// The signed blocks of a message.
pub(super) fn signed_blocks(json: &str) -> Vec<SignedBlock<'_>> {
    let mut found = Vec::new();
    for list in Outline::read(json, &mut CallNames::default()).lists {
        for block in list.blocks.iter().filter(|block| block.is_signed) {
            let span = list.elements.get(block.index).cloned().unwrap_or_default();
            let json = json.get(span).unwrap_or_default();
            found.push(SignedBlock { list: list.key, index: block.index, length: list.elements.len(), json });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;

    /// Views of the results of some calls, and what was asked for.
    #[derive(Default)]
    struct Fixed {
        asked: Mutex<Vec<String>>,
    }

    impl Views for Fixed {
        fn view(&self, call_id: &str, tool: &str, output: &str) -> Option<String> {
            self.asked.lock().unwrap().push(format!("{call_id} {tool} {output}"));
            (output.is_empty() || output.starts_with("fresh"))
                .then(|| format!("<view of=\"{call_id}\"/> toolnexus://doc/as-it-is"))
        }
    }

    fn encoded(registry: &Registry, views: &Fixed, names: &mut CallNames, list: Value) -> Vec<Message> {
        let messages: Vec<Message> = list.as_array().unwrap().iter().cloned().map(Message::from).collect();
        let surroundings = Surroundings { views: Some(views), style: None };
        registry.encode_new_messages(names, &messages, &surroundings)
    }

    // CTX-103: the view of a result of this run is used verbatim, in every dialect; it is asked for with
    // the stored text, whatever the passes before have made of it
    #[test]
    fn views_of_this_run_are_used() {
        let registry = Registry::new(true);
        let views = Fixed::default();
        let output = "fresh toolnexus://doc/document-1";
        let list = json!([
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": output},
            {"role": "tool", "tool_call_id": "a", "content": "changed toolnexus://doc/document-1"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "g", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": output}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "h", "response": {"output": output}}}]}
        ]);
        let encoded = encoded(&registry, &views, &mut CallNames::default(), list);
        let view = |id: &str| Value::from(format!("<view of=\"{id}\"/> toolnexus://doc/as-it-is"));
        assert_eq!(encoded[1]["content"], view("a"));
        assert_eq!(encoded[2]["content"], "changed doc://1");
        assert_eq!(encoded[4]["content"][0]["content"], view("b"));
        assert_eq!(encoded[5]["parts"][0]["functionResponse"]["response"]["output"], view(""));
        assert_eq!(
            *views.asked.lock().unwrap(),
            [
                format!("a f {output}"),
                "a f changed toolnexus://doc/document-1".into(),
                format!("b g {output}"),
                format!(" h {output}")
            ]
        );
    }

    // CTX-74, CTX-103: an empty result has a view too
    #[test]
    fn an_empty_result_has_a_view() {
        let list = json!([
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": ""}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "h", "response": {"output": ""}}}]}
        ]);
        let encoded = encoded(&Registry::new(true), &Fixed::default(), &mut CallNames::default(), list);
        let text = serde_json::to_string(&encoded).unwrap();
        assert_eq!(text.matches("as-it-is").count(), 3, "{text}");
    }

    // CTX-33, CTX-110: messages that come later know the calls of those before
    #[test]
    fn names_of_calls_are_kept() {
        let registry = Registry::new(true);
        let (views, mut names) = (Fixed::default(), CallNames::default());
        let call = json!([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}]);
        encoded(&registry, &views, &mut names, call);
        encoded(
            &registry,
            &views,
            &mut names,
            json!([{"role": "tool", "tool_call_id": "a", "content": "x"}]),
        );
        assert_eq!(*views.asked.lock().unwrap(), ["a f x"]);
    }

    // CTX-40: changed reasoning is left out of long lists too
    #[test]
    fn many_blocks_are_left_out() {
        let registry = Registry::new(true);
        let block = |at: usize| json!({"type": "thinking", "thinking": format!("toolnexus://doc/d-{}", at % 10), "signature": "s"});
        let content: Vec<Value> = (0..20_000).map(block).collect();
        let message = Message::from(json!({"role": "assistant", "content": content}));
        let encoded = registry.encode_messages(&[message]);
        assert_eq!(encoded[0]["content"], json!([{"type": "text", "text": "(reasoning left out)"}]));
    }
}
