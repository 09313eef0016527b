//! What the model has seen keeps its bytes: a message is encoded once in a run.
//!
//! An identity that becomes known later rewrites no earlier message, so a provider's prompt cache stays
//! valid. From the first message that a hook changed, moved or removed, all is encoded anew.

use std::cell::OnceCell;
use std::collections::HashSet;

use toolnexus_core::Style;
use toolnexus_llm::{Message, Transcript};

use super::results::Results;
use crate::encode::{CallNames, Surroundings};
use crate::{IdentifierLeak, Registry};

/// What was sent last.
#[derive(Default)]
pub(super) struct Memory {
    /// The durable system text of a style that sends it apart, and what became of it.
    system: Option<(String, String)>,
    /// The durable messages.
    durable: Vec<Message>,
    /// The calls in them.
    names: CallNames,
    /// What became of them; before them perhaps one of the boundary's own.
    encoded: Transcript,
    system_leak: Option<IdentifierLeak>,
    /// Of `encoded`.
    leaks: Vec<IdentifierLeak>,
}

impl Memory {
    /// The system text as it is sent.
    pub(super) fn system(&self) -> &str {
        self.system.as_ref().map(|(_, encoded)| encoded.as_str()).unwrap_or_default()
    }

    /// The messages as they are sent.
    pub(super) const fn messages(&self) -> &Transcript {
        &self.encoded
    }

    /// The identifiers that are left in all of it. System text that is sent apart counts as a message
    /// before the first.
    pub(super) fn leaks(&self) -> Vec<IdentifierLeak> {
        let before = usize::from(!self.system().is_empty());
        let of_messages = self.leaks.iter().cloned().map(|mut leak| {
            leak.message_index += before;
            leak
        });
        self.system_leak.iter().cloned().chain(of_messages).collect()
    }

    /// Encodes what was not sent yet.
    pub(super) fn encode(
        &mut self,
        registry: &Registry,
        style: Style,
        system: &str,
        messages: &Transcript,
        results: &Results,
    ) {
        if style != Style::OpenAI {
            self.encode_system(registry, system);
        }
        let known = self.unchanged(messages);
        if known < self.durable.len() {
            self.forget_from(known);
            self.names = CallNames::of(&self.durable);
        }
        let new: Vec<Message> = messages.messages().skip(known).cloned().collect();
        if new.is_empty() {
            return;
        }
        let views = results.views(registry);
        let surroundings = Surroundings { views: Some(&views), style: Some(style) };
        let mut encoded = registry.encode_new_messages(&mut self.names, &new, &surroundings);
        if known == 0 && style == Style::OpenAI {
            registry.add_protocol_prompt(&mut encoded);
        }
        let at = self.encoded.len();
        let leaks = registry.leaked_identifiers(&encoded).into_iter().map(|mut leak| {
            leak.message_index += at;
            leak
        });
        self.leaks.extend(leaks);
        if at == 0 {
            self.encoded = encoded.into();
        } else {
            self.encoded.extend(encoded);
        }
        self.durable.extend(new);
    }

    /// How many messages at the beginning are those that were sent. One that looks the same is another if
    /// it is known to have stood further behind: a hook has left out what looked like it.
    fn unchanged(&self, messages: &Transcript) -> usize {
        // Clones of a message share their bytes.
        let place = |message: &Message| message.json().as_ptr().addr();
        let sent = OnceCell::new();
        let was_elsewhere = |message: &Message| {
            let sent: &HashSet<usize> = sent.get_or_init(|| self.durable.iter().map(place).collect());
            sent.contains(&place(message))
        };
        let is_same =
            |now: &Message, then: &Message| now == then && (place(now) == place(then) || !was_elsewhere(now));
        messages.messages().zip(&self.durable).take_while(|(now, then)| is_same(now, then)).count()
    }

    fn encode_system(&mut self, registry: &Registry, system: &str) {
        if self.system.as_ref().is_some_and(|(durable, _)| durable == system) {
            return;
        }
        let encoded = registry.encode_system(system);
        self.system_leak = registry.leaks_in_system(&encoded);
        self.system = Some((system.to_owned(), encoded));
    }

    /// Forgets what was sent from the message at `known` on.
    fn forget_from(&mut self, known: usize) {
        let own = self.encoded.len() - self.durable.len();
        let kept = if known == 0 { 0 } else { own + known };
        self.durable.truncate(known);
        self.encoded = self.encoded.messages().take(kept).cloned().collect();
        self.leaks.retain(|leak| leak.message_index < kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "36283d3d-a495-40d2-a13f-e925fc322996";

    fn places(memory: &Memory) -> Vec<usize> {
        memory.leaks().iter().map(|leak| leak.message_index).collect()
    }

    // CTX-99, CTX-110: what was found when a message was encoded is reported with it, at its place, for as
    // long as it is sent
    #[test]
    fn leaks_go_with_their_messages() {
        let registry = Registry::new(true);
        let (mut memory, results) = (Memory::default(), Results::default());
        let said = |text: &str| Message::from(json!({"role": "assistant", "content": text}));
        let mut messages = Transcript::from(vec![said("a"), said(ID)]);
        let style = Style::Anthropic;
        memory.encode(&registry, style, "no id", &messages, &results);
        assert_eq!(places(&memory), [2]);
        messages.push(said(ID));
        memory.encode(&registry, style, ID, &messages, &results);
        assert_eq!(places(&memory), [0, 2, 3]);
        messages.pop();
        memory.encode(&registry, style, "no id", &messages, &results);
        assert_eq!(places(&memory), [2]);
        memory.encode(&registry, style, "no id", &Transcript::from(vec![said("b")]), &results);
        assert_eq!(places(&memory), Vec::<usize>::new());
        assert_eq!(memory.messages().len(), 1);
    }
}
