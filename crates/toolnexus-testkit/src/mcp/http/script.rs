//! A script run as a stream of what it puts out.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::mcp::outlet::Output;
use crate::mcp::run::Run;

/// Drives a script as it is read, so that the script ends with its reader.
///
/// It ends with the script, unless that has left a request unanswered: then it never does.
pub(super) struct Script {
    run: Option<BoxFuture<'static, Run>>,
    /// Holds the request open.
    ended: Option<Run>,
    outputs: mpsc::UnboundedReceiver<Output>,
    /// Nothing is left to be answered.
    settled: bool,
}

impl Script {
    pub(super) fn new(run: Run, outputs: mpsc::UnboundedReceiver<Output>) -> Self {
        let settled = run.request.is_none();
        Self { run: Some(Box::pin(run.run())), ended: None, outputs, settled }
    }
}

impl Stream for Script {
    type Item = Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Output>> {
        loop {
            if let Poll::Ready(Some(output)) = self.outputs.poll_recv(context) {
                self.settled |= matches!(output, Output::Answer(_));
                return Poll::Ready(Some(output));
            }
            let Some(run) = &mut self.run else {
                return if self.settled { Poll::Ready(None) } else { Poll::Pending };
            };
            match run.as_mut().poll(context) {
                Poll::Ready(run) => {
                    self.run = None;
                    self.ended = Some(run);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
