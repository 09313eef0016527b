//! Serving a fixture over HTTP.

mod body;
mod fault;
mod options;
mod record;
mod respond;
mod script;
mod state;

use std::io;
use std::sync::{Arc, Mutex};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub use fault::{HttpEffect, HttpFault};
pub use options::{AnswerMode, HttpOptions, MessageRoute};
pub use record::RecordedHttpRequest;

use self::respond::Server;
use self::state::State;
use super::McpFixture;
use super::engine::Engine;
use super::ledger::answers;
use super::outlet::Output;

/// A fixture served over streamable HTTP on a free port of 127.0.0.1.
///
/// It lives in the tokio runtime it was started in and stops on drop: the port is closed, every
/// connection cut and every script dropped. A script step that ends the process or its stdout cuts
/// the connection of its request or ends its stream; what a fixture says of its process
/// ([`on_start`](McpFixture::on_start), [`faults`](McpFixture::faults),
/// [`ledger`](McpFixture::ledger)) does not apply.
///
/// Any path but its own gets 404. The methods that wait do so for ten seconds of real time at most,
/// and then give an error of kind [`io::ErrorKind::TimedOut`] which lists what has come.
///
/// ```
/// use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let fixture = McpFixture::new().tool(FixtureTool::echo("say"));
/// let server = McpHttpFixture::start(fixture, HttpOptions::default()).await?;
/// // … let a client work on server.url() …
/// assert!(server.requests().is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct McpHttpFixture {
    origin: String,
    path: String,
    engine: Arc<Engine>,
    state: Arc<State>,
    /// Owns the listener and, through it, all connections.
    accepting: AbortOnDropHandle<()>,
}

impl McpHttpFixture {
    /// Serves a fixture from now on.
    ///
    /// # Errors
    /// When no port of 127.0.0.1 can be had.
    pub async fn start(fixture: McpFixture, options: HttpOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let engine = Engine::new(fixture, None);
        let path = options.path.clone();
        let state = Arc::<State>::default();
        let server =
            Server { engine: engine.clone(), options, state: state.clone(), background: Mutex::default() };
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, Arc::new(server))));
        Ok(Self { origin, path, engine, state, accepting })
    }

    /// Where to connect: `http://127.0.0.1:<port>/mcp`, or another path where the options have one.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The url without its path.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// This server as an `mcp.json` server entry: `{"url": …}`.
    #[must_use]
    pub fn server_json(&self) -> Value {
        json!({"url": self.url()})
    }

    /// A whole `mcp.json` document with this server as its only one.
    #[must_use]
    pub fn mcp_json(&self, name: &str) -> Value {
        json!({"mcpServers": {name: self.server_json()}})
    }

    /// All requests so far, in the order in which they were complete.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedHttpRequest> {
        self.state.read(|state| state.requests.clone())
    }

    /// All POSTs so far whose message has that JSON-RPC method.
    #[must_use]
    pub fn requests_of(&self, method: &str) -> Vec<RecordedHttpRequest> {
        self.state.read(|state| of_method(&state.requests, method))
    }

    /// Waits until at least `count` requests have come and returns all of them.
    ///
    /// # Errors
    /// After ten seconds.
    pub async fn wait_for(&self, count: usize) -> io::Result<Vec<RecordedHttpRequest>> {
        let ready = |requests: &Vec<_>| requests.len() >= count;
        let what = format!("{count} requests");
        self.state.wait_until(&what, |state| ready(&state.requests).then(|| state.requests.clone())).await
    }

    /// Waits until at least `count` POSTs with that JSON-RPC method have come and returns all of
    /// them.
    ///
    /// # Errors
    /// After ten seconds.
    pub async fn wait_for_method(&self, method: &str, count: usize) -> io::Result<Vec<RecordedHttpRequest>> {
        let what = format!("{count} requests {method:?}");
        let ready = |requests: Vec<_>| (requests.len() >= count).then_some(requests);
        self.state.wait_until(&what, |state| ready(of_method(&state.requests, method))).await
    }

    /// Waits until the client has answered the server's request of that id and returns the answer.
    ///
    /// # Errors
    /// After ten seconds.
    pub async fn wait_for_answer(&self, id: impl Into<Value>) -> io::Result<Value> {
        let id = id.into();
        let what = format!("answer to request {id}");
        let answer = |state: &state::Inner| {
            let mut messages = state.requests.iter().map(|request| &request.json);
            messages.find(|message| answers(message, &id)).cloned()
        };
        self.state.wait_until(&what, answer).await
    }

    /// Waits until at least `count` requests have been abandoned by the client before it had the
    /// whole response, and returns those.
    ///
    /// # Errors
    /// After ten seconds.
    pub async fn wait_for_abandoned(&self, count: usize) -> io::Result<Vec<RecordedHttpRequest>> {
        let what = format!("{count} abandoned requests");
        let ready = |state: &state::Inner| {
            let requests = state.requests.iter().filter(|request| request.abandoned);
            let requests: Vec<_> = requests.cloned().collect();
            (requests.len() >= count).then_some(requests)
        };
        self.state.wait_until(&what, ready).await
    }

    /// Waits until at least `count` standing streams (answers to a GET) are open.
    ///
    /// # Errors
    /// After ten seconds.
    pub async fn wait_for_streams(&self, count: usize) -> io::Result<()> {
        let what = format!("{count} standing streams");
        self.state.wait_until(&what, |state| (state.standing_streams() >= count).then_some(())).await
    }

    /// Waits until no connection is open any more.
    ///
    /// # Errors
    /// After ten seconds.
    pub async fn wait_for_silence(&self) -> io::Result<()> {
        self.state.wait_until("silence", |state| (state.connections == 0).then_some(())).await
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.read(|state| state.connections)
    }

    /// How many standing streams (answers to a GET) are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.state.read(state::Inner::standing_streams)
    }

    /// The ids of the sessions that have neither been ended nor forgotten, in order of issue.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        self.state.sessions()
    }

    /// Forgets all sessions: a request of theirs gets 404.
    pub fn forget_sessions(&self) {
        self.state.forget_sessions();
    }

    /// Lets one [`Step::AwaitGate`](super::Step::AwaitGate) of that name pass.
    pub fn open_gate(&self, name: &str) {
        self.engine.gate(name).add_permits(1);
    }

    /// Sends a message on every standing stream; it waits for the first one if there is none.
    pub fn push(&self, message: &Value) {
        self.state.push(Output::Message(message.to_string()));
    }

    /// Ends every standing stream.
    pub fn end_streams(&self) {
        self.state.end_standing();
    }

    /// How many `tools/call` requests were open at once at most. A call is open until it is answered,
    /// cancelled or abandoned.
    #[must_use]
    pub fn in_flight_peak(&self) -> usize {
        self.engine.in_flight.peak()
    }

    /// Stops, and returns once the port is closed and every connection cut. Dropping the fixture
    /// does the same a little later.
    pub async fn stop(self) {
        self.accepting.abort();
        // It has been aborted: there is no other outcome.
        let _ = self.accepting.await;
    }
}

fn of_method(requests: &[RecordedHttpRequest], method: &str) -> Vec<RecordedHttpRequest> {
    let of_method =
        requests.iter().filter(|request| request.method == "POST" && request.rpc_method() == Some(method));
    of_method.cloned().collect()
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, server.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, server: Arc<Server>) {
    let state = server.state.clone();
    let _connected = state.connect();
    let service = service_fn(move |request| server.clone().respond(request));
    // Errors are the client's leaving or cuts of our own.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
