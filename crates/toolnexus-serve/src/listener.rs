//! A port, its connections, and how they end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::handle::{Ending, ServeHandle};
use crate::site::Site;

/// How long the head of a request may take to come, on a connection that is idle too.
pub(crate) const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// How long requests have to end by themselves when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(4);

/// How long their answers may take to be written once they were cancelled.
const LAST_ANSWERS: Duration = Duration::from_millis(750);

/// How long connections may take to be dropped: one whose tool blocks its thread cannot be.
const LAST_CONNECTIONS: Duration = Duration::from_millis(250);

/// How long nothing is accepted after the system had no room for another connection.
const OUT_OF_ROOM: Duration = Duration::from_millis(100);

/// Serves the site in a task of its own, until its handle is stopped or dropped.
pub(crate) fn start(listener: TcpListener, site: Site, url: String, port: u16) -> ServeHandle {
    let ending = Ending::default();
    let supervisor =
        Supervisor { site: Arc::new(site), ending: ending.clone(), cancel: CancellationToken::new() };
    tokio::spawn(supervisor.run(listener));
    ServeHandle::new(url, port, ending)
}

struct Supervisor {
    site: Arc<Site>,
    ending: Ending,
    /// Ends running calls.
    cancel: CancellationToken,
}

impl Supervisor {
    async fn run(self, listener: TcpListener) {
        // Whatever becomes of this task, nobody waits in vain for its end.
        let _done = self.ending.done.clone().drop_guard();
        let mut connections = JoinSet::new();
        self.accept(&listener, &mut connections).await;
        drop(listener);
        self.wind_down(&mut connections).await;
        if tokio::time::timeout(LAST_CONNECTIONS, connections.shutdown()).await.is_err() {
            tracing::warn!(
                "[toolnexus] {} connections are left: their tools block their threads and cannot be ended",
                connections.len()
            );
        }
    }

    async fn accept(&self, listener: &TcpListener, connections: &mut JoinSet<()>) {
        loop {
            tokio::select! {
                biased;
                () = self.ending.stop.cancelled() => return,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        connections.spawn(self.connection(stream, peer));
                    }
                    Err(error) if is_of_the_peer(&error) => {}
                    Err(error) => {
                        tracing::warn!("[toolnexus] cannot accept a connection: {error}");
                        let _ = tokio::time::timeout(OUT_OF_ROOM, self.ending.stop.cancelled()).await;
                    }
                },
            }
        }
    }

    /// Waits for open requests, then for those that are cancelled; not at all when nobody waits for
    /// this.
    async fn wind_down(&self, connections: &mut JoinSet<()>) {
        let drain = async |connections: &mut JoinSet<()>, limit| {
            let all = async { while connections.join_next().await.is_some() {} };
            tokio::select! {
                biased;
                () = self.ending.now.cancelled() => {}
                _ = tokio::time::timeout(limit, all) => {}
            }
        };
        let closed = async {
            tokio::select! {
                biased;
                // First, so that it begins in any case.
                () = self.site.close() => {}
                () = self.ending.now.cancelled() => {}
            }
        };
        let closed = tokio::time::timeout(LAST_REQUESTS, closed);
        let _ = futures::join!(closed, drain(connections, LAST_REQUESTS));
        self.cancel.cancel();
        drain(connections, LAST_ANSWERS).await;
    }

    fn connection(&self, stream: TcpStream, peer: SocketAddr) -> impl Future<Output = ()> + Send + use<> {
        let (site, stop, cancel) = (Arc::clone(&self.site), self.ending.stop.clone(), self.cancel.clone());
        async move {
            // Events are small and must not wait for each other.
            let _ = stream.set_nodelay(true);
            let used = AtomicBool::new(false);
            let service = service_fn(|request| {
                used.store(true, Ordering::Relaxed);
                site.answer(request, peer, &cancel)
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_LIMIT)
                .serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let ended = tokio::select! {
                biased;
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    // Else it would wait for a first request.
                    if !used.load(Ordering::Relaxed) {
                        return;
                    }
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!("[toolnexus] a connection has ended early: {error}");
            }
        }
    }
}

/// Whether the connection, and not this machine, is in trouble.
fn is_of_the_peer(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
