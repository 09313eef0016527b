//! A conversation in the caller's hands.

use toolnexus_core::Toolkit;

use crate::{Client, ClientError, Prompt, RunOptions, RunResult, Transcript};

/// A conversation that keeps its own transcript. Two conversations are always independent.
///
/// ```no_run
/// # async fn example(client: toolnexus_llm::Client, toolkit: toolnexus_llm::Toolkit) -> Result<(), toolnexus_llm::ClientError> {
/// let mut conversation = client.conversation(&toolkit);
/// conversation.send("My name is Ada.").await?;
/// let answer = conversation.send("What is my name?").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Conversation {
    client: Client,
    toolkit: Toolkit,
    messages: Transcript,
}

impl Conversation {
    pub(crate) fn new(client: Client, toolkit: Toolkit) -> Self {
        Conversation { client, toolkit, messages: Transcript::new() }
    }

    /// Sends a prompt; on success the transcript grows by the whole run.
    ///
    /// # Errors
    /// As [`Client::run`]; the transcript then stays as it was.
    pub async fn send(&mut self, prompt: impl Into<Prompt>) -> Result<RunResult, ClientError> {
        self.send_with(prompt, RunOptions::default()).await
    }

    /// [`Conversation::send`] with options; their `history` is this conversation's, and their `id`
    /// is not used: a conversation never touches the store.
    ///
    /// # Errors
    /// As [`Conversation::send`].
    pub async fn send_with(
        &mut self,
        prompt: impl Into<Prompt>,
        options: RunOptions,
    ) -> Result<RunResult, ClientError> {
        let options = RunOptions { history: self.messages.clone(), id: String::new(), ..options };
        let result = self.client.run_with(prompt, &self.toolkit, options).await?;
        self.messages.clone_from(&result.messages);
        Ok(result)
    }

    /// The transcript so far.
    pub fn messages(&self) -> &Transcript {
        &self.messages
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.messages = Transcript::new();
    }
}
