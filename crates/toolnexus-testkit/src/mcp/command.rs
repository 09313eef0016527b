//! Starting a fixture as a process: the binary, its arguments, its environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::McpFixture;

/// The environment variable that holds the fixture's JSON.
pub const FIXTURE_VARIABLE: &str = "TOOLNEXUS_MCP_FIXTURE";

/// The environment variable that names the fixture's binary, in place of looking for it.
pub const BINARY_VARIABLE: &str = "TOOLNEXUS_MCP_FIXTURE_BIN";

/// The binary's name.
const BINARY: &str = "toolnexus-mcp-fixture";

/// The package that holds it.
const PACKAGE: &str = env!("CARGO_PKG_NAME");

/// Linux refuses a single argument or variable of 128 KiB.
const LONGEST_VARIABLE: usize = 100 * 1024;

/// How to start a fixture as a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FixtureCommand {
    /// The binary.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables to add.
    pub env: BTreeMap<String, String>,
}

/// Why there is no command for a fixture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FixtureCommandError {
    /// The binary is neither there nor could it be built; the text says what was tried.
    NoBinary(String),
    /// The fixture's JSON has that many bytes, too many for an environment variable.
    TooLarge(usize),
}

impl std::fmt::Display for FixtureCommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoBinary(tried) => write!(
                f,
                "no binary {BINARY}: {tried}; build it with `cargo build -p {PACKAGE} --bin {BINARY}` or \
                 `cargo install {PACKAGE}`, and name it in {BINARY_VARIABLE} if it is not beside the program"
            ),
            Self::TooLarge(bytes) => write!(
                f,
                "the fixture's JSON has {bytes} bytes, too many for an environment variable (at most \
                 {LONGEST_VARIABLE}); write it to a file and use `McpFixture::command_from`"
            ),
        }
    }
}

impl std::error::Error for FixtureCommandError {}

impl FixtureCommand {
    /// The command for [`std::process`]; pipes are up to the caller.
    #[must_use]
    pub fn to_std(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(&self.env);
        command
    }

    /// The command as an `mcp.json` server entry: `{"command": […], "environment": {…}}`.
    #[must_use]
    pub fn server_json(&self) -> Value {
        let program = self.program.to_string_lossy().into_owned();
        let argv: Vec<_> = std::iter::once(program).chain(self.args.iter().cloned()).collect();
        json!({"command": argv, "environment": self.env})
    }
}

/// Starting as a process.
impl McpFixture {
    /// How to start this fixture as a process.
    ///
    /// The binary is the one named by [`BINARY_VARIABLE`], else the one beside the running
    /// program's target folder; when that is missing or older than its sources, it is
    /// built once with `cargo build`, which blocks.
    ///
    /// # Errors
    /// When there is no binary, or the fixture is too large for an environment variable.
    pub fn command(&self) -> Result<FixtureCommand, FixtureCommandError> {
        let json = self.to_json();
        if json.len() > LONGEST_VARIABLE {
            return Err(FixtureCommandError::TooLarge(json.len()));
        }
        let env = BTreeMap::from([(FIXTURE_VARIABLE.to_owned(), json)]);
        Ok(FixtureCommand { program: binary()?, args: Vec::new(), env })
    }

    /// How to start, as a process, a fixture whose JSON has been written to that file.
    ///
    /// # Errors
    /// When there is no binary.
    pub fn command_from(file: &Path) -> Result<FixtureCommand, FixtureCommandError> {
        let args = vec!["--fixture".to_owned(), format!("@{}", file.display())];
        Ok(FixtureCommand { program: binary()?, args, env: BTreeMap::new() })
    }

    /// This fixture as an `mcp.json` server entry.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn server_json(&self) -> Result<Value, FixtureCommandError> {
        self.command().map(|command| command.server_json())
    }

    /// A whole `mcp.json` document with this fixture as its only server.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn mcp_json(&self, name: &str) -> Result<Value, FixtureCommandError> {
        Ok(json!({"mcpServers": {name: self.server_json()?}}))
    }
}

/// The binary, looked for once in a process.
fn binary() -> Result<PathBuf, FixtureCommandError> {
    static BINARY_PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY_PATH.get_or_init(find_or_build).clone().map_err(FixtureCommandError::NoBinary)
}

fn find_or_build() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(path.into());
    }
    let target = Target::of_this_program();
    if let Some(target) = &target {
        let path = target.profile_dir.join(format!("{BINARY}{}", std::env::consts::EXE_SUFFIX));
        if is_fresh(&path) {
            return Ok(path);
        }
    }
    build(target.as_ref())
}

/// Where cargo has put the running program.
struct Target {
    /// `target`.
    root: PathBuf,
    /// `target/debug`, or `target/<triple>/debug` in a build for a named triple.
    profile_dir: PathBuf,
    triple: Option<String>,
}

impl Target {
    fn of_this_program() -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        // Tests are in `deps`, examples in `examples`, binaries in the profile folder itself.
        let folder = program.parent()?;
        let name = folder.file_name()?;
        let profile_dir = if name == "deps" || name == "examples" { folder.parent()? } else { folder };
        let above = profile_dir.parent()?;
        let is_root = |path: &Path| path.join("CACHEDIR.TAG").exists();
        let (root, triple) = if is_root(above) {
            (above, None)
        } else {
            let triple = above.file_name()?.to_str()?.to_owned();
            (above.parent().filter(|root| is_root(root))?, Some(triple))
        };
        Some(Self { root: root.to_owned(), profile_dir: profile_dir.to_owned(), triple })
    }

    /// The cargo profile that is built into this folder.
    fn profile(&self) -> &str {
        match self.profile_dir.file_name().and_then(|name| name.to_str()) {
            None | Some("debug") => "dev",
            Some(name) => name,
        }
    }
}

/// Whether the binary is there and newer than its sources, if those are at hand.
fn is_fresh(binary: &Path) -> bool {
    let Some(built) = modified(binary) else { return false };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![sources.join("bin"), sources.join("mcp")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if modified(&path).is_some_and(|changed| changed > built) {
                return false;
            }
        }
    }
    true
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn build(target: Option<&Target>) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "-p", PACKAGE, "--bin", BINARY, "--message-format=json"]);
    // Where this crate's sources are, not where the program under test is: cargo builds binaries of
    // the packages of a workspace, not those of dependencies.
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(target) = target {
        command.arg("--target-dir").arg(&target.root).args(["--profile", target.profile()]);
        if let Some(triple) = &target.triple {
            command.args(["--target", triple]);
        }
    }
    let output = command.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`cargo build` has failed ({}): {}", output.status, text.trim()));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(executable)
        .ok_or_else(|| "`cargo build` has reported no executable".to_owned())
}

/// The path in cargo's message about the built binary.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    (message.pointer("/target/name")? == BINARY).then_some(())?;
    message.get("executable")?.as_str().map(PathBuf::from)
}
