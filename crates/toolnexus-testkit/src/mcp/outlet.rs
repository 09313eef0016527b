//! What a script puts out, whatever the transport.

use tokio::sync::mpsc;

/// One thing that a script puts out.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// The response to the request being answered.
    Answer(String),
    /// A notification or a request of the server's own.
    Message(String),
    /// A line that need not be a message.
    Line(String),
    Bytes(Vec<u8>),
    Stderr(String),
    CloseStdout,
    End(Ending),
}

/// How the process ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Exit(i32),
    Abort,
    Kill,
}

/// Takes a script's output to the transport, in order.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    sender: mpsc::UnboundedSender<Output>,
}

impl Outlet {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Output>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, receiver)
    }

    /// Whether anybody takes the output.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// A receiver that is gone takes nothing any more: the client has left.
    pub(crate) fn put(&self, output: Output) {
        let _ = self.sender.send(output);
    }
}
