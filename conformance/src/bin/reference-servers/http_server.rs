//! server-everything as a process that listens on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use toolnexus_conformance::processes::eventually;

/// How long the server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Somebody else may take the free port first; then another one is tried.
const ATTEMPTS: usize = 3;

/// A running server. Dropping it kills it.
pub(crate) struct HttpServer {
    address: SocketAddr,
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl HttpServer {
    /// Starts `node <entry> <mode>` on a free port and waits until it listens.
    pub(crate) async fn start(folder: &Path, entry: &Path, mode: &str) -> Result<Self, String> {
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            match Self::try_start(folder, entry, mode).await {
                Ok(server) => return Ok(server),
                Err(failed) => reason = failed,
            }
        }
        Err(format!("server-everything {mode} does not start: {reason}"))
    }

    async fn try_start(folder: &Path, entry: &Path, mode: &str) -> Result<Self, String> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| error.to_string())?;
        let mut child = Command::new("node")
            .arg("--require")
            .arg(folder.join("loopback.cjs"))
            .arg(entry)
            .arg(mode)
            .env("PORT", address.port().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("node: {error}"))?;
        let said = Arc::default();
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            listen_to(stdout, Arc::clone(&said));
            listen_to(stderr, Arc::clone(&said));
        }
        let mut server = HttpServer { address, child, said };
        let end = tokio::time::Instant::now() + START_LIMIT;
        while TcpStream::connect(address).await.is_err() {
            if server.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(format!("it ended, saying {:?}", server.said()));
            }
            if tokio::time::Instant::now() >= end {
                return Err(format!("it does not listen, saying {:?}", server.said()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    /// Where the server answers.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many lines with `text` in them the server has written.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.said().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until the server has written `text` in at least `times` lines.
    pub(crate) async fn says(&self, text: &str, times: usize) -> bool {
        eventually(Duration::from_secs(5), || self.count(text) >= times).await
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn listen_to(output: impl AsyncRead + Unpin + Send + 'static, said: Arc<Mutex<Vec<String>>>) {
    let mut lines = BufReader::new(output).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    });
}
