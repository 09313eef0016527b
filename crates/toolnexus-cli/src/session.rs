//! One run from its first event to its exit code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt as _;
use toolnexus::client::{ErrorInfo, OnError, Tier};
use toolnexus::{ClientError, RunResult, RunStatus, RunStream, StreamEvent};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::model_failure::of_client_error;
use crate::provider::Choice;
use crate::render::Render;
use crate::runs::Recorded;
use crate::screen::Screen;

/// How often the last failed call of the model was tried. Clones share the number.
#[derive(Clone, Default)]
pub(crate) struct Attempts(Arc<AtomicU32>);

impl Attempts {
    /// For the client: counts, and leaves the verdict as it is.
    pub(crate) fn watch(&self) -> OnError {
        let count = Arc::clone(&self.0);
        Arc::new(move |info: &ErrorInfo| {
            count.store(info.attempt.saturating_add(1), Ordering::Relaxed);
            if info.retryable { Tier::Retry } else { Tier::Fail }
        })
    }
}

/// Takes the events of a run and shows them.
///
/// # Errors
/// What ended the run, already told to the renderer, except that stdout cannot be written.
pub(crate) async fn drive(
    mut stream: RunStream,
    render: &mut dyn Render,
    choice: &Choice,
    attempts: &Attempts,
    interrupt: &Interrupt,
) -> Result<RunResult, Failure> {
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(ClientError::Cancelled) => return Err(interrupt.failure()),
            Err(error) => return Err(of_client_error(&error, choice, attempts.0.load(Ordering::Relaxed))),
        };
        if let Err(error) = render.event(&event) {
            // A run that is dropped says nothing to its log; one that is cancelled does.
            interrupt.token().cancel();
            while stream.next().await.is_some() {}
            return Err(error.into());
        }
        if let StreamEvent::Done { result } = event {
            return Ok(*result);
        }
    }
    Err(Failure::new(Exit::Failed, "the run ended without a result"))
}

/// Tells the renderer of a failure.
pub(crate) fn tell_failure(ended: Result<Exit, Failure>, render: &mut dyn Render) -> Result<Exit, Failure> {
    if let Err(failure) = &ended
        && failure.exit != Exit::StdoutClosed
    {
        // The failure itself is the news, also when nobody reads stdout any more.
        let _ = render.failure(failure);
    }
    ended
}

/// What is left to say of a durable run that came to an end, and its exit code.
pub(crate) fn conclude(result: &RunResult, recorded: &Recorded, screen: &Screen) -> Exit {
    if result.status == RunStatus::Pending {
        screen.note(&screen.paint().dim(&recorded.how_to_answer(result.open_requests.len())));
    }
    exit_of(result)
}

/// The exit code of a run that came to an end.
pub(crate) fn exit_of(result: &RunResult) -> Exit {
    match result.status {
        RunStatus::Done => Exit::Done,
        RunStatus::Incomplete => Exit::Incomplete,
        RunStatus::Pending => Exit::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use toolnexus::client::StreamOptions;
    use toolnexus::suspension::WaitFor;
    use toolnexus::{
        Answer, ClientOptions, Request, Tool, ToolResult, Toolkit, ToolkitParts, answer_output,
        create_client, pending,
    };
    use toolnexus_testkit::model::{ModelServer, Reply, Script};

    use crate::provider::Key;
    use crate::runs::TakenUp;

    /// Keeps the events.
    #[derive(Default)]
    struct Seen(Vec<StreamEvent>);

    impl Render for Seen {
        fn loaded(&mut self, _: &crate::loading::Loaded, _: &Choice) -> std::io::Result<()> {
            Ok(())
        }
        fn event(&mut self, event: &StreamEvent) -> std::io::Result<()> {
            self.0.push(event.clone());
            Ok(())
        }
        fn recorded(&mut self, _: &Recorded, _: Option<&TakenUp<'_>>) -> std::io::Result<()> {
            Ok(())
        }
        fn failure(&mut self, _: &Failure) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Runs over a tool that asks where to go.
    async fn run(wait_for: Option<WaitFor>) -> (RunResult, Seen) {
        let asks = Tool::new("travel", |_args, context| async move {
            match context.answer {
                Some(Answer { data: Some(data), .. }) => ToolResult::success(data.get("output").unwrap()),
                _ => pending(Request {
                    kind: "input".into(),
                    prompt: "Which city?".into(),
                    ..Default::default()
                }),
            }
        });
        let toolkit = Toolkit::from_parts(ToolkitParts { tools: vec![asks], wait_for, ..Default::default() });
        let script = Script::new()
            .reply(Reply::openai().tool_call("c", "travel", serde_json::json!({})))
            .reply(Reply::openai().text("bon voyage"));
        let server = ModelServer::start(script).await.unwrap();
        let choice = Choice {
            base_url: server.base_url(),
            host: "here".into(),
            style: toolnexus::Style::OpenAI,
            model: "m".into(),
            key: Key::Placeholder,
        };
        let client = create_client(ClientOptions {
            base_url: choice.base_url.clone(),
            model: "m".into(),
            api_key: "k".into(),
            ..Default::default()
        });
        let mut seen = Seen::default();
        let stream = client.stream_with("go", &toolkit, StreamOptions::default());
        let result =
            drive(stream, &mut seen, &choice, &Attempts::default(), &Interrupt::default()).await.unwrap();
        (result, seen)
    }

    #[tokio::test]
    async fn a_question_without_anybody_to_answer_is_pending() {
        let (result, seen) = run(None).await;
        assert_eq!(exit_of(&result), Exit::Pending);
        assert_eq!(result.pending.unwrap().prompt, "Which city?");
        assert!(seen.0.iter().any(|event| matches!(event, StreamEvent::Pending { .. })));
    }

    #[tokio::test]
    async fn an_answered_question_lets_the_run_go_on() {
        let resolver: WaitFor =
            Arc::new(|request| Box::pin(async move { Ok(answer_output(request.id, "Zurich")) }));
        let (result, _) = run(Some(resolver)).await;
        assert_eq!((exit_of(&result), result.text.as_str()), (Exit::Done, "bon voyage"));
        assert!(result.tool_calls[0].output.contains("Zurich"));
    }
}
