//! Receiving the browser that comes back from signing in.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use super::problem::Problem;

const PATH: &str = "/callback";

/// The longest request line that is read, with what follows it.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// How long one connection may take. Browsers open some that they never use.
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);

/// Connections looked at together; further ones wait.
const MAX_CONNECTIONS: usize = 16;

/// A listener on the loopback interface.
pub(super) struct Loopback {
    listener: TcpListener,
    address: SocketAddr,
}

impl Loopback {
    /// Listens on a port; on a free one if none is given.
    pub(super) async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = listener.local_addr()?;
        Ok(Loopback { listener, address })
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the browser that brings `state`; gives the address it was sent to. Anybody on this
    /// machine can connect here: whoever does not know the state gets nowhere and ends nothing.
    pub(super) async fn receive(self, state: &str) -> Result<String, Problem> {
        let mut visitors = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(came) = visitors.next(), if !visitors.is_empty() => {
                    if let Some(address) = came {
                        return Ok(address);
                    }
                }
                accepted = self.listener.accept(), if visitors.len() < MAX_CONNECTIONS => {
                    // A connection that is gone before it was taken is no reason to stop.
                    if let Ok((stream, _)) = accepted {
                        let visit = async {
                            timeout(CONNECTION_LIMIT, self.serve(stream, state)).await.ok().flatten()
                        };
                        visitors.push(visit);
                    }
                }
            }
        }
    }

    async fn serve(&self, mut stream: TcpStream, state: &str) -> Option<String> {
        let target = target(&mut stream).await?;
        let address = Url::parse(&format!("http://{}", self.address)).ok()?.join(&target).ok()?;
        let value = |name| address.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value);
        if address.path() != PATH || value("state").is_none_or(|given| given != state) {
            answer(&mut stream, "404 Not Found", "There is nothing here.").await;
            return None;
        }
        let text = match value("code") {
            Some(_) => "You are signed in. You may close this window.",
            None => "You are not signed in. You may close this window.",
        };
        answer(&mut stream, "200 OK", text).await;
        Some(address.into())
    }
}

/// What a GET asks for. The head is read to its end: a socket closed with bytes unread would take
/// the answer with it.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut line = head.lines().next()?.split(' ');
    let (Some("GET"), Some(target)) = (line.next(), line.next()) else { return None };
    target.starts_with('/').then(|| target.to_owned())
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let page = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // The browser may have gone; what it brought is here.
    let _ = stream.write_all(page.as_bytes()).await;
    let _ = stream.shutdown().await;
}
