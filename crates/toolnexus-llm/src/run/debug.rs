//! What of a run may be printed: counts and states. A transcript in a log is a leak, so nothing
//! here shows text, arguments, results or answers.

use std::fmt::{Debug, Formatter, Result};

use super::{ModelAnswer, ModelCall, OpenRequest, PlannedCall, Run, RunEvent, RunStarted, Step};

impl Debug for Run {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Run")
            .field("run_id", &self.run_id)
            .field("style", &self.style)
            .field("messages", &self.messages().len())
            .field("turns", &self.turns)
            .field("open_calls", &self.open.len())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Debug for RunStarted {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Started")
            .field("run_id", &self.run_id)
            .field("style", &self.style)
            .field("model", &self.model)
            .field("system_bytes", &self.system.len())
            .field("history", &self.history.len())
            .field("prompt", &self.prompt)
            .field("max_turns", &self.max_turns)
            .finish_non_exhaustive()
    }
}

impl Debug for ModelAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ModelAnswered")
            .field("message", &self.message)
            .field("text_bytes", &self.text.len())
            .field("calls", &self.calls)
            .field("usage", &self.usage)
            .field("finish_reason", &self.finish_reason)
            .finish()
    }
}

impl Debug for ModelCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ModelCall")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("args", &self.args.len())
            .field("readable", &self.invalid.is_none())
            .field("via", &self.via)
            .finish()
    }
}

impl Debug for RunEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            RunEvent::Started(started) => started.fmt(f),
            RunEvent::ModelAnswered(answer) => answer.fmt(f),
            RunEvent::MessagesReplaced { messages } => {
                f.debug_struct("MessagesReplaced").field("messages", &messages.len()).finish()
            }
            RunEvent::ToolsReplaced { names } => {
                f.debug_struct("ToolsReplaced").field("names", &names.len()).finish()
            }
            RunEvent::ToolStarted { indices, .. } => {
                f.debug_struct("ToolStarted").field("indices", indices).finish_non_exhaustive()
            }
            RunEvent::ToolFinished { index, result } => f
                .debug_struct("ToolFinished")
                .field("index", index)
                .field("is_error", &result.is_error)
                .field("output_bytes", &result.output.len())
                .finish(),
            RunEvent::Suspended { index, request, .. } => f
                .debug_struct("Suspended")
                .field("index", index)
                .field("request_id", &request.id)
                .field("kind", &request.kind)
                .finish(),
            RunEvent::Answered { request_id, answer } => {
                f.debug_struct("Answered").field("request_id", request_id).field("ok", &answer.ok).finish()
            }
            RunEvent::Finished { status, limit, .. } => {
                f.debug_struct("Finished").field("status", status).field("limit", limit).finish()
            }
            RunEvent::Failed { error } => {
                f.debug_struct("Failed").field("error_bytes", &error.len()).finish()
            }
            RunEvent::Resumed { .. } => f.write_str("Resumed"),
        }
    }
}

impl Debug for Step<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Step::CallModel { messages, turn } => {
                f.debug_struct("CallModel").field("messages", &messages.len()).field("turn", turn).finish()
            }
            Step::CallTools(planned) => f.debug_tuple("CallTools").field(planned).finish(),
            Step::Ask(open) => f.debug_tuple("Ask").field(open).finish(),
            Step::Wait => f.write_str("Wait"),
            Step::Done(result) => f.debug_tuple("Done").field(&result.status).finish(),
        }
    }
}

impl Debug for PlannedCall<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("PlannedCall")
            .field("index", &self.index)
            .field("call", self.call)
            .field("answered", &self.answer.is_some())
            .field("started", &self.started)
            .field("to_be_executed", &self.reply.is_none())
            .finish()
    }
}

impl Debug for OpenRequest<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("OpenRequest")
            .field("index", &self.index)
            .field("request_id", &self.request.id)
            .field("kind", &self.request.kind)
            .finish_non_exhaustive()
    }
}
