//! What is written with the SDKs: which there are, and how their programs are started.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::ValueEnum;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// An SDK of some version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// The Python SDK, version 2.
    Python,
    /// The Python SDK of the time of 2025-03-26.
    OldPython,
    /// The TypeScript SDK, version 2.
    Typescript,
    /// The TypeScript SDK, version 1.
    OldTypescript,
}

impl Peer {
    pub(crate) const ALL: [Peer; 4] = [Peer::Python, Peer::OldPython, Peer::Typescript, Peer::OldTypescript];

    /// How a check of it is called.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Peer::Python => "python",
            Peer::OldPython => "old python",
            Peer::Typescript => "typescript",
            Peer::OldTypescript => "old typescript",
        }
    }

    /// The newest revision with a handshake that it speaks.
    pub(crate) const fn revision(self) -> &'static str {
        match self {
            Peer::OldPython => "2025-03-26",
            _ => "2025-11-25",
        }
    }

    /// Whether it speaks the era without a handshake too.
    pub(crate) const fn is_modern(self) -> bool {
        matches!(self, Peer::Python | Peer::Typescript)
    }

    /// Whether it knows questions to the person, and results that are data.
    pub(crate) const fn knows_elicitation(self) -> bool {
        !matches!(self, Peer::OldPython)
    }
}

/// Where everything is.
pub(crate) struct Setting {
    folder: PathBuf,
    command: PathBuf,
}

impl Setting {
    /// Fails when the SDKs are not installed.
    pub(crate) fn new(folder: &Path, command: &Path) -> Result<Self, String> {
        let whole = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
        let setting = Setting { folder: whole(folder)?, command: whole(command)? };
        for peer in Peer::ALL {
            let (program, script) = setting.program(peer, "server");
            if !program.contains('/') || Path::new(&program).is_file() {
                whole(Path::new(&script))?;
            } else {
                return Err(format!("{program} is not there: start this through the script `run`"));
            }
        }
        Ok(setting)
    }

    /// The interpreter and the script of a peer's `server` or `client`.
    fn program(&self, peer: Peer, what: &str) -> (String, String) {
        let (interpreter, script) = match peer {
            Peer::Python => (".python/bin/python", format!("python/{what}.py")),
            Peer::OldPython => (".old-python/bin/python", format!("python/old_{what}.py")),
            Peer::Typescript => ("node", format!("typescript/{what}.mjs")),
            Peer::OldTypescript => ("node", format!("typescript/old_{what}.mjs")),
        };
        let interpreter = match interpreter {
            "node" => interpreter.to_owned(),
            path => self.folder.join(path).display().to_string(),
        };
        (interpreter, self.folder.join(script).display().to_string())
    }

    /// The entry of a peer's server over stdio.
    pub(crate) fn stdio_server(&self, peer: Peer) -> Value {
        let (program, script) = self.program(peer, "server");
        json!({"command": [program, script, "stdio"]})
    }

    /// A peer's server over HTTP.
    pub(crate) async fn http_server(&self, peer: Peer) -> Result<HttpServer, String> {
        let (program, script) = self.program(peer, "server");
        let mut command = Command::new(program);
        command.args([script.as_str(), "http"]).stdin(Stdio::null()).stdout(Stdio::piped());
        // What servers of older SDKs say when a client leaves is no matter.
        command.stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next_line().await.map_err(|error| error.to_string())?.unwrap_or_default();
        let port = line.strip_prefix("listening ").ok_or_else(|| format!("the server says {line:?}"))?;
        Ok(HttpServer { url: format!("http://127.0.0.1:{port}/mcp"), _child: child })
    }

    /// What a peer's client sees of a server.
    ///
    /// `at` is what follows the mode on its command line, with the plan in the place of `None`.
    pub(crate) async fn look(
        &self,
        peer: Peer,
        mode: &str,
        at: &[Option<&str>],
        plan: &Value,
    ) -> Result<Value, String> {
        let (program, script) = self.program(peer, "client");
        let plan = plan.to_string();
        let mut command = Command::new(program);
        command.args([script.as_str(), mode]).args(at.iter().map(|part| part.unwrap_or(&plan)));
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(said.trim()).map_err(|error| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!("{error}: {said:?}, stderr: {}", stderr.trim())
        })
    }

    /// The `toolnexus` command.
    pub(crate) fn command(&self) -> String {
        self.command.display().to_string()
    }
}

/// A running server. Dropping it kills it.
pub(crate) struct HttpServer {
    pub(crate) url: String,
    _child: Child,
}
