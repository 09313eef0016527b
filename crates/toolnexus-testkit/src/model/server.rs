//! The server: a listener, its tasks, and what it has seen.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::connection::{OpenGuard, Shared, serve};
use super::journal::Journal;
use super::request::RecordedRequest;
use super::script::Script;

/// A scripted model server on a free port of 127.0.0.1.
///
/// It stops when dropped: the listener and every connection close and no task stays.
///
/// ```
/// use toolnexus_testkit::model::{ModelServer, Reply, Script};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// // On the current runtime, for tests:
/// let server = ModelServer::start(Reply::openai().text("hi")).await?;
/// assert_eq!(server.base_url(), format!("{}/v1", server.origin()));
///
/// // On a thread of its own, for benchmarks:
/// let script = Script::always(Reply::openai().text("hi")).without_recording();
/// let server = ModelServer::start_on_thread(script)?;
/// assert_eq!(server.request_count(), 0);
/// # Ok(())
/// # }
/// ```
pub struct ModelServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    host: Option<Host>,
}

/// Where the server runs.
enum Host {
    Task(JoinHandle<()>),
    Thread(thread::JoinHandle<()>),
}

impl ModelServer {
    /// Starts the server on the current tokio runtime.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(script: impl Into<Script>) -> io::Result<Self> {
        let listener = listen()?;
        let (addr, shared, stop) = (listener.local_addr()?, share(script.into()), CancellationToken::new());
        let task = tokio::spawn(accept(listener, shared.clone(), stop.clone()));
        Ok(Self { addr, shared, stop, host: Some(Host::Task(task)) })
    }

    /// Starts the server on a thread of its own with a current-thread runtime of its own, so that
    /// its work is not counted to the thread under measurement. Needs no runtime itself.
    ///
    /// Delays run on that thread's clock: pausing the test's clock does not touch them.
    ///
    /// # Errors
    /// When no loopback port can be bound or the thread cannot be started.
    pub fn start_on_thread(script: impl Into<Script>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            listen()?
        };
        let (addr, shared, stop) = (listener.local_addr()?, share(script.into()), CancellationToken::new());
        let serving = accept(listener, shared.clone(), stop.clone());
        let thread =
            thread::Builder::new().name("model-server".into()).spawn(move || runtime.block_on(serving))?;
        Ok(Self { addr, shared, stop, host: Some(Host::Thread(thread)) })
    }

    /// The base URL for a client: `http://127.0.0.1:PORT/v1`. The server answers every path, so
    /// a client may also be given [`origin`](Self::origin).
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Scheme, host and port: `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Every request so far in order of arrival; empty with [`Script::without_recording`].
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.journal.requests()
    }

    /// How many requests have arrived, recorded or not.
    pub fn request_count(&self) -> usize {
        self.shared.journal.counts().requests
    }

    /// Returns when `count` requests have arrived, with all requests so far. Notified, so it
    /// takes no polling; it has no limit of its own, put a timeout around it where the client may
    /// fail to send.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<RecordedRequest> {
        self.shared.journal.wait_for(|c| c.requests >= count).await;
        self.requests()
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.journal.counts().open
    }

    /// How many connections have been accepted so far. Fewer than requests means that the client
    /// kept connections alive.
    pub fn accepted_connections(&self) -> usize {
        self.shared.journal.counts().accepted
    }

    /// Returns when no connection is open: the client let go of all of them.
    pub async fn wait_for_no_connections(&self) {
        self.shared.journal.wait_for(|c| c.open == 0).await;
    }

    /// How many replies the client broke off by going away before their end.
    pub fn aborted(&self) -> usize {
        self.shared.journal.counts().aborted
    }

    /// Returns when the client has broken off `count` replies. This is how a test sees that
    /// dropping a stream cancelled the request.
    pub async fn wait_for_aborted(&self, count: usize) {
        self.shared.journal.wait_for(|c| c.aborted >= count).await;
    }

    /// Stops the server and returns when its listener and connections are closed.
    pub async fn stop(mut self) {
        self.stop.cancel();
        match self.host.take() {
            // An error means that the runtime is going down, and the task with it.
            Some(Host::Task(task)) => drop(task.await),
            Some(Host::Thread(thread)) => drop(tokio::task::spawn_blocking(|| thread.join()).await),
            None => {}
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
        match self.host.take() {
            Some(Host::Task(task)) => task.abort(),
            // The thread waits for nothing but the token, so this is short. A server that its
            // own responder owned is dropped on that thread, which cannot wait for itself.
            Some(Host::Thread(thread)) if thread.thread().id() == thread::current().id() => {}
            Some(Host::Thread(thread)) => drop(thread.join()),
            None => {}
        }
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer")
            .field("addr", &self.addr)
            .field("script", &self.shared.script)
            .field("requests", &self.request_count())
            .finish_non_exhaustive()
    }
}

/// Listens on a free loopback port of the current runtime.
fn listen() -> io::Result<TcpListener> {
    // Room for a benchmark that opens a thousand connections at once.
    const BACKLOG: u32 = 4096;
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

fn share(script: Script) -> Arc<Shared> {
    let journal = Journal::new(script.records());
    Arc::new(Shared { script, journal })
}

/// How long the server waits after it could not accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// Accepts connections until stopped; the connections end with this future.
async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((socket, _)) = accepted else {
            // Out of file handles, say: let the open connections go on and finish.
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        let open = OpenGuard::new(shared.clone());
        connections.spawn(serve(shared.clone(), socket, number, open));
        number += 1;
    }
    drop(listener);
    connections.shutdown().await;
}
