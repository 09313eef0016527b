//! A small HTTP server for tests: answers are bytes, so that they can be as odd as a test wants.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    /// Method and target.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap().strip_suffix(" HTTP/1.1").unwrap()
    }

    pub(crate) fn target(&self) -> &str {
        self.line().split_once(' ').unwrap().1
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What to do with a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Send these bytes, and keep the connection if they are a whole answer.
    Bytes(Vec<u8>),
    /// Send these bytes and close.
    Cut(Vec<u8>),
    /// Send these bytes, then nothing until the client goes.
    Hang(Vec<u8>),
    /// Send these bytes, then the second ones again and again until the client goes.
    Endless(Vec<u8>, Vec<u8>),
}

pub(crate) fn answer(status: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for header in headers {
        bytes.extend_from_slice(format!("{header}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Reply::Bytes(bytes)
}

pub(crate) fn ok(body: impl AsRef<[u8]>) -> Reply {
    answer("200 OK", &[], body)
}

pub(crate) struct Server {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    /// One permit for each connection that the client has ended.
    gone: Arc<Semaphore>,
    /// One permit for each request that has come.
    came: Arc<Semaphore>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    pub(crate) async fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (gone, came) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let reply = Arc::new(reply);
        let shared = (Arc::clone(&requests), Arc::clone(&gone), Arc::clone(&came));
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let (requests, gone, came) = shared.clone();
                let reply = Arc::clone(&reply);
                tokio::spawn(async move {
                    serve(connection, &requests, &came, &*reply).await;
                    gone.add_permits(1);
                });
            }
        });
        Server { addr, requests, gone, came, connections, accepting }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub(crate) fn port(&self) -> u16 {
        self.addr.port()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The only request there was.
    pub(crate) fn only(&self) -> Request {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    /// Waits for one more connection that the client has ended.
    pub(crate) async fn gone(&self) {
        self.gone.acquire().await.unwrap().forget();
    }

    /// Waits for one more request.
    pub(crate) async fn came(&self) {
        self.came.acquire().await.unwrap().forget();
    }
}

async fn serve(
    mut connection: TcpStream,
    requests: &Mutex<Vec<Request>>,
    came: &Semaphore,
    reply: &(dyn Fn(&Request) -> Reply + Send + Sync),
) {
    let mut read = Vec::new();
    while let Some(request) = request(&mut connection, &mut read).await {
        let reply = reply(&request);
        requests.lock().unwrap().push(request);
        came.add_permits(1);
        match reply {
            Reply::Bytes(bytes) => {
                if connection.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Cut(bytes) => {
                let _ = connection.write_all(&bytes).await;
                return;
            }
            Reply::Hang(bytes) => {
                let _ = connection.write_all(&bytes).await;
                let _ = connection.read(&mut [0; 1]).await;
                return;
            }
            Reply::Endless(bytes, again) => {
                let mut next = &bytes;
                while connection.write_all(next).await.is_ok() {
                    next = &again;
                }
                return;
            }
        }
    }
}

/// The next request; `None` when the client has gone.
async fn request(connection: &mut TcpStream, read: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(read[..end].to_vec()).unwrap();
            let request = Request { head, body: String::new() };
            let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
            if read.len() >= end + 4 + length {
                let body = String::from_utf8(read[end + 4..end + 4 + length].to_vec()).unwrap();
                read.drain(..end + 4 + length);
                return Some(Request { body, ..request });
            }
        }
        if connection.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}
