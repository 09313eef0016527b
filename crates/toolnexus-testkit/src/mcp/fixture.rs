//! The one value that says how the fixture behaves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tool::FixtureTool;
use super::{ProcessFaults, RawJson, Step};

/// The protocol revisions that the fixture agrees to when a client asks for them.
const KNOWN_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A fixture MCP server, as data.
///
/// The default is a well-behaved server without tools. Unknown methods (the era probe
/// `server/discover` among them) get `-32601`. Any method can be given a script of its own with
/// [`on`](Self::on); what the *process* does wrong is in [`faults`](Self::faults).
///
/// ```
/// use toolnexus_testkit::mcp::{FixtureTool, McpFixture, Step};
///
/// let fixture = McpFixture::new()
///     .tool(FixtureTool::echo("say"))
///     .tool(FixtureTool::hangs("stuck"))
///     .on("initialize", [Step::error(-32603, "not today")]);
/// let json = fixture.to_json();
/// assert_eq!(McpFixture::from_json(&json).unwrap(), fixture);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct McpFixture {
    /// `serverInfo.name`. Default `fixture`.
    pub name: String,
    /// `serverInfo.version`. Default `1.0.0`.
    pub version: String,
    /// The protocol revision answered to `initialize`, known or not. Default: the one the client
    /// asked for if it is a published one with a handshake, else `2025-11-25`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The `instructions` answered to `initialize`, left out when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Speak the modern era: `server/discover` is answered, results say that they are complete, and over
    /// HTTP there are no sessions. `initialize` is unknown unless it has a script. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub modern: bool,
    /// The `capabilities` answered to `initialize`, verbatim. Default `{"tools":{}}`.
    pub capabilities: RawJson,
    /// The tools, in listed order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<FixtureTool>,
    /// Tools on one page of `tools/list`. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// How the pages of `tools/list` end.
    #[serde(skip_serializing_if = "is_default")]
    pub paging: Paging,
    /// Scripts by JSON-RPC method, in place of what the fixture does by itself: the script of the
    /// first message, of the second and so on; the last one serves all later ones. For
    /// `tools/call` it goes before the tools' own scripts. A notification may have one too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub methods: BTreeMap<String, Vec<Vec<Step>>>,
    /// Steps run when the process starts, before anything is read from stdin. Nothing over HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_start: Vec<Step>,
    /// What the process does wrong. Nothing over HTTP.
    #[serde(skip_serializing_if = "is_default")]
    pub faults: ProcessFaults,
    /// A file to which each received message is appended; see [`Ledger`](super::Ledger). Nothing
    /// over HTTP, where the handle has the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<PathBuf>,
}

/// How the pages of `tools/list` end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Paging {
    /// The last page has no `nextCursor`.
    #[default]
    Normal,
    /// The last page has `"nextCursor": ""`.
    EmptyCursor,
    /// The last page has `"nextCursor": null`.
    NullCursor,
    /// Every page has the same `nextCursor`: `again`.
    DuplicateCursor,
    /// Every page has a new `nextCursor`, without end; pages after the last tool are empty.
    Endless,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for McpFixture {
    fn default() -> Self {
        Self {
            name: "fixture".to_owned(),
            version: "1.0.0".to_owned(),
            protocol_version: None,
            instructions: None,
            modern: false,
            capabilities: json!({"tools": {}}).into(),
            tools: Vec::new(),
            page_size: None,
            paging: Paging::Normal,
            methods: BTreeMap::new(),
            on_start: Vec::new(),
            faults: ProcessFaults::default(),
            ledger: None,
        }
    }
}

/// Building.
impl McpFixture {
    /// A well-behaved server without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `serverInfo.name`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets `serverInfo.version`.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Answers `initialize` with this protocol revision, whatever was asked.
    #[must_use]
    pub fn protocol_version(mut self, version: impl Into<String>) -> Self {
        self.protocol_version = Some(version.into());
        self
    }

    /// Sets the instructions.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Speaks the modern era, revision 2026-07-28 unless [`protocol_version`](Self::protocol_version)
    /// says another.
    #[must_use]
    pub fn modern(mut self) -> Self {
        self.modern = true;
        self
    }

    /// Answers `server/discover` with its ordinary result, edited.
    #[must_use]
    pub fn discover_with(self, edit: impl FnOnce(&mut Value)) -> Self {
        let mut result = serde_json::from_str(&self.discover_result()).unwrap_or_default();
        edit(&mut result);
        self.on("server/discover", [Step::result(result)])
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: impl Into<RawJson>) -> Self {
        self.capabilities = capabilities.into();
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: FixtureTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = FixtureTool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the number of tools on one page.
    #[must_use]
    pub fn page_size(mut self, tools: usize) -> Self {
        self.page_size = Some(tools);
        self
    }

    /// Sets how the pages end.
    #[must_use]
    pub fn paging(mut self, paging: Paging) -> Self {
        self.paging = paging;
        self
    }

    /// Gives a method a script; called again, the script of the second message, and so on.
    ///
    /// [`Reply::Standard`](super::Reply::Standard) answers as without a script, so
    /// `[Step::sleep(50), Step::Answer(Reply::Standard)]` is a delay.
    #[must_use]
    pub fn on(mut self, method: impl Into<String>, script: impl IntoIterator<Item = Step>) -> Self {
        self.methods.entry(method.into()).or_default().push(script.into_iter().collect());
        self
    }

    /// Leaves every request of that method open for ever.
    #[must_use]
    pub fn never_answers(self, method: impl Into<String>) -> Self {
        self.on(method, [])
    }

    /// Answers that method after so many milliseconds.
    #[must_use]
    pub fn delays(self, method: impl Into<String>, ms: u64) -> Self {
        self.on(method, [Step::sleep(ms), Step::Answer(super::Reply::Standard)])
    }

    /// Answers that method with a JSON-RPC error.
    #[must_use]
    pub fn fails(self, method: impl Into<String>, code: i64, message: impl Into<String>) -> Self {
        self.on(method, [Step::error(code, message)])
    }

    /// Answers `initialize` with its ordinary result (revision `2025-11-25` unless set), edited.
    ///
    /// ```
    /// use toolnexus_testkit::mcp::McpFixture;
    ///
    /// let fixture = McpFixture::new().initialize_with(|result| {
    ///     result.as_object_mut().unwrap().shift_remove("serverInfo");
    /// });
    /// ```
    #[must_use]
    pub fn initialize_with(self, edit: impl FnOnce(&mut Value)) -> Self {
        let mut result = serde_json::from_str(&self.initialize_result(None)).unwrap_or_default();
        edit(&mut result);
        self.on("initialize", [Step::result(result)])
    }

    /// Declares no `tools` capability and answers `tools/list` with `-32601`.
    #[must_use]
    pub fn without_tools_capability(self) -> Self {
        self.capabilities(json!({})).fails("tools/list", -32601, "Method not found")
    }

    /// Adds steps to run when the process starts.
    #[must_use]
    pub fn on_start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on_start.extend(steps);
        self
    }

    /// Writes these lines to stderr and exits, before anything is read.
    #[must_use]
    pub fn exits_at_start<L: Into<String>>(self, code: i32, stderr: impl IntoIterator<Item = L>) -> Self {
        let lines = stderr.into_iter().map(|line| Step::Stderr(line.into()));
        self.on_start(lines.chain([Step::Exit { code }]))
    }

    /// Sets what the process does wrong.
    #[must_use]
    pub fn faults(mut self, faults: ProcessFaults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the file to which received messages are appended.
    #[must_use]
    pub fn ledger(mut self, path: impl Into<PathBuf>) -> Self {
        self.ledger = Some(path.into());
        self
    }
}

/// As JSON.
impl McpFixture {
    /// The fixture as JSON, for [`FIXTURE_VARIABLE`](super::FIXTURE_VARIABLE).
    #[must_use]
    pub fn to_json(&self) -> String {
        // Every key is a string and no value can refuse, a path that is no UTF-8 excepted.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a fixture from JSON. Every key may be absent.
    ///
    /// # Errors
    /// When the text is no JSON, or has a key or a value that no fixture has.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The result of `server/discover`.
    pub(crate) fn discover_result(&self) -> String {
        let version = self.protocol_version.as_deref().unwrap_or("2026-07-28");
        let capabilities: Value = serde_json::from_str(self.capabilities.get()).unwrap_or_default();
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": [version],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {
                "io.modelcontextprotocol/serverInfo": {"name": self.name, "version": self.version},
            },
        });
        if let (Some(instructions), Some(result)) = (&self.instructions, result.as_object_mut()) {
            result.insert("instructions".to_owned(), instructions.as_str().into());
        }
        result.to_string()
    }

    /// The result of `initialize` for a client that asks for that revision.
    pub(crate) fn initialize_result(&self, asked: Option<&str>) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialize<'a> {
            protocol_version: &'a str,
            capabilities: &'a RawJson,
            server_info: Info<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            instructions: Option<&'a str>,
        }
        #[derive(Serialize)]
        struct Info<'a> {
            name: &'a str,
            version: &'a str,
        }
        let agreed = asked.filter(|version| KNOWN_VERSIONS.contains(version)).unwrap_or("2025-11-25");
        let result = Initialize {
            protocol_version: self.protocol_version.as_deref().unwrap_or(agreed),
            capabilities: &self.capabilities,
            server_info: Info { name: &self.name, version: &self.version },
            instructions: self.instructions.as_deref(),
        };
        serde_json::to_string(&result).unwrap_or_default()
    }
}
