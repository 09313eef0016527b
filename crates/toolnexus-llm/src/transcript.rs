//! A list of messages that grows at its end and is shared everywhere else.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Message;

/// The messages of a conversation.
///
/// It reads like a slice of [`Message`]s. A clone is cheap however long the conversation is: what
/// was there when a run began lies in shared chunks, each of which also keeps its JSON text, so
/// that a request over a thousand messages copies none of them. Only what the run itself adds is
/// written for each request.
///
/// ```
/// use serde_json::json;
/// use toolnexus_llm::Transcript;
/// let mut transcript = Transcript::from(vec![json!({"role": "user", "content": "hi"})]);
/// transcript.push(json!({"role": "assistant", "content": "hello"}).into());
/// assert_eq!(transcript.len(), 2);
/// assert_eq!(transcript[1]["content"], "hello");
/// ```
#[derive(Clone, Default)]
pub struct Transcript {
    chunks: Vec<Arc<Chunk>>,
    open: Vec<Message>,
    /// All messages in one slice, made when somebody asks for it.
    whole: OnceLock<Arc<[Message]>>,
}

/// Messages that will not change any more.
struct Chunk {
    messages: Vec<Message>,
    json: OnceLock<Bytes>,
    may_hold_parts: OnceLock<bool>,
    may_hold_system: OnceLock<bool>,
}

impl Chunk {
    fn new(messages: Vec<Message>) -> Arc<Self> {
        Arc::new(Chunk {
            messages,
            json: OnceLock::new(),
            may_hold_parts: OnceLock::new(),
            may_hold_system: OnceLock::new(),
        })
    }

    /// The messages' JSON, joined by commas.
    fn json(&self) -> &Bytes {
        self.json.get_or_init(|| {
            let mut out = Vec::new();
            for (at, message) in self.messages.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                message.write_json(&mut out);
            }
            out.into()
        })
    }

    fn may_hold_parts(&self) -> bool {
        *self.may_hold_parts.get_or_init(|| self.messages.iter().any(Message::may_hold_parts))
    }

    fn may_hold_system(&self) -> bool {
        *self.may_hold_system.get_or_init(|| self.messages.iter().any(Message::may_be_system))
    }
}

impl Transcript {
    /// A transcript without messages.
    pub fn new() -> Self {
        Transcript::default()
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.messages.len()).sum::<usize>() + self.open.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.open.is_empty()
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: Message) {
        self.whole.take();
        self.open.push(message);
    }

    /// Takes the last message away.
    pub fn pop(&mut self) -> Option<Message> {
        self.whole.take();
        if self.open.is_empty() {
            self.open = self.chunks.pop()?.messages.clone();
        }
        self.open.pop()
    }

    /// The messages in order, without making one slice of them.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.chunks.iter().flat_map(|chunk| chunk.messages.iter()).chain(&self.open)
    }

    /// Makes what is there shareable. Chunks of similar size are joined, so that a conversation of
    /// many runs has few.
    pub(crate) fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let mut last = std::mem::take(&mut self.open);
        while self.chunks.last().is_some_and(|before| before.messages.len() < 2 * last.len()) {
            let Some(before) = self.chunks.pop() else { break };
            let mut joined = before.messages.clone();
            joined.append(&mut last);
            last = joined;
        }
        self.chunks.push(Chunk::new(last));
    }

    /// Hands the JSON of all messages to `shared` and `own`, in order: chunks whole, with commas
    /// inside, then each message of the open end.
    pub(crate) fn each_json(&self, mut shared: impl FnMut(&Bytes), mut own: impl FnMut(&Message)) {
        self.chunks.iter().for_each(|chunk| shared(chunk.json()));
        self.open.iter().for_each(&mut own);
    }

    /// Whether content parts may be in it: false is certain.
    pub(crate) fn may_hold_parts(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.may_hold_parts())
            || self.open.iter().any(Message::may_hold_parts)
    }

    /// Whether any message has the role `system`.
    pub(crate) fn may_hold_system(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.may_hold_system())
            || self.open.iter().any(Message::may_be_system)
    }
}

impl Deref for Transcript {
    type Target = [Message];

    fn deref(&self) -> &[Message] {
        match self.chunks.as_slice() {
            [] => &self.open,
            [only] if self.open.is_empty() => &only.messages,
            _ => self.whole.get_or_init(|| self.messages().cloned().collect()),
        }
    }
}

impl From<Vec<Message>> for Transcript {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}

impl From<Vec<Value>> for Transcript {
    fn from(messages: Vec<Value>) -> Self {
        messages.into_iter().map(Message::from).collect()
    }
}

impl FromIterator<Message> for Transcript {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut transcript = Transcript { open: messages.into_iter().collect(), ..Default::default() };
        transcript.seal();
        transcript
    }
}

impl Extend<Message> for Transcript {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl<'a> IntoIterator for &'a Transcript {
    type Item = &'a Message;
    type IntoIter = std::slice::Iter<'a, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.messages().eq(other.messages())
    }
}

impl PartialEq<Vec<Message>> for Transcript {
    fn eq(&self, other: &Vec<Message>) -> bool {
        self.len() == other.len() && self.messages().eq(other)
    }
}

/// Shows how many messages there are: a transcript in a log is a leak.
impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transcript({} messages)", self.len())
    }
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.messages())
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Message>::deserialize(deserializer).map(Transcript::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn message(n: usize) -> Message {
        Message::from(json!({"role": "user", "content": n}))
    }

    proptest! {
        // RUN-8: however it is built, shared and sealed, the same messages in the same order
        #[test]
        fn it_is_a_list(steps in proptest::collection::vec(0u8..4, 0..60)) {
            let mut transcript = Transcript::new();
            let mut list: Vec<Message> = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    0 => transcript.seal(),
                    1 => prop_assert_eq!(transcript.pop(), list.pop()),
                    _ => {
                        transcript.push(message(n));
                        list.push(message(n));
                    }
                }
                prop_assert_eq!(transcript.len(), list.len());
                prop_assert_eq!(transcript.is_empty(), list.is_empty());
                prop_assert_eq!(&transcript[..], list.as_slice());
                let mut json = Vec::new();
                let text = std::cell::RefCell::new(&mut json);
                transcript.each_json(
                    |shared| text.borrow_mut().push(String::from_utf8(shared.to_vec()).unwrap()),
                    |own| text.borrow_mut().push(own.to_string()),
                );
                prop_assert_eq!(format!("[{}]", json.join(",")), serde_json::to_string(&list).unwrap());
            }
        }
    }

    #[test]
    fn a_conversation_of_many_runs_has_few_chunks() {
        let mut transcript = Transcript::new();
        for n in 0..500 {
            transcript.push(message(n));
            transcript.push(message(n));
            transcript.seal();
        }
        assert!(transcript.chunks.len() < 12, "{}", transcript.chunks.len());
        assert_eq!(transcript.len(), 1000);
    }

    // RUN-8
    #[test]
    fn clones_share_what_is_sealed() {
        let transcript = Transcript::from(vec![message(1), message(2)]);
        let clone = transcript.clone();
        assert_eq!(transcript.chunks[0].json().as_ptr(), clone.chunks[0].json().as_ptr());
    }
}
