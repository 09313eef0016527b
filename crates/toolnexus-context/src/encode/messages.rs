//! A transcript on its way to the model.

use toolnexus_llm::Message;

use crate::Registry;

/// The model's views of tool results that this run has seen itself.
pub(crate) trait Views {
    /// The view of the call's result, if its stored text is still this one.
    fn view(&self, call_id: &str, tool: &str, output: &str) -> Option<String>;
}

impl Registry {
    /// The messages as the model shall see them; the durable ones stay as they are. All dialects of the
    /// client are understood.
    pub fn encode_messages(&self, messages: &[Message]) -> Vec<Message> {
        self.encode_new_messages(&[], messages, None)
    }

    /// The system text of a style that sends it apart, with the protocol prompt.
    pub fn encode_system(&self, system: &str) -> String {
        system.to_owned()
    }

    /// Messages that stand behind those that were encoded before.
    pub(crate) fn encode_new_messages(
        &self,
        earlier: &[Message],
        messages: &[Message],
        views: Option<&dyn Views>,
    ) -> Vec<Message> {
        let _ = (earlier, views);
        messages.to_vec()
    }
}
