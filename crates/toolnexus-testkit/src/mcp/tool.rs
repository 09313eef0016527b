//! A tool of the fixture: how it is listed and what a call of it does.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{RawJson, Reply, Step};

/// One tool: its listed entry, and the scripts of its calls.
///
/// ```
/// use toolnexus_testkit::mcp::{FixtureTool, Step};
///
/// // The first call crashes the server, later calls answer after 20 ms.
/// let tool = FixtureTool::exits("flaky", 3)
///     .description("fails once")
///     .then([Step::sleep(20), Step::text("fine")]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FixtureTool {
    /// The name calls are made by.
    pub name: String,
    /// The listed `title`, left out when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The listed `description`, left out when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The listed `inputSchema`, verbatim. Default `{"type":"object"}`; left out when absent.
    pub input_schema: Option<RawJson>,
    /// The listed `outputSchema`, verbatim, left out when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// The listed `annotations`, verbatim, left out when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<RawJson>,
    /// The whole listed entry, verbatim, in place of the fields above: for entries that are odd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<RawJson>,
    /// The script of the first call, of the second and so on; the last one serves all later calls.
    /// Empty (the default): every call is echoed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Vec<Step>>,
}

impl Default for FixtureTool {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: None,
            description: None,
            input_schema: Some(json!({"type": "object"}).into()),
            output_schema: None,
            annotations: None,
            entry: None,
            calls: Vec::new(),
        }
    }
}

/// Building.
impl FixtureTool {
    /// A tool that answers each call with the text of its arguments.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A tool whose every call runs this script.
    #[must_use]
    pub fn scripted(name: impl Into<String>, script: impl IntoIterator<Item = Step>) -> Self {
        Self::new(name).then(script)
    }

    /// Sets the script of the next call that has none yet, and of all calls after it.
    #[must_use]
    pub fn then(mut self, script: impl IntoIterator<Item = Step>) -> Self {
        self.calls.push(script.into_iter().collect());
        self
    }

    /// Sets the listed title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the listed description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the listed input schema; any JSON will do, also one that is no object.
    #[must_use]
    pub fn input_schema(mut self, schema: impl Into<RawJson>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// Lists the tool without an input schema.
    #[must_use]
    pub fn without_input_schema(mut self) -> Self {
        self.input_schema = None;
        self
    }

    /// Sets the listed output schema.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<RawJson>) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// Sets the listed annotations.
    #[must_use]
    pub fn annotations(mut self, annotations: impl Into<RawJson>) -> Self {
        self.annotations = Some(annotations.into());
        self
    }
}

/// Ready-made behaviours.
impl FixtureTool {
    /// Lists exactly this entry, which may lack a name or be no object at all.
    #[must_use]
    pub fn listed_as(entry: impl Into<RawJson>) -> Self {
        Self { entry: Some(entry.into()), ..Self::default() }
    }

    /// Answers with the text of its arguments.
    #[must_use]
    pub fn echo(name: impl Into<String>) -> Self {
        Self::scripted(name, [Step::Answer(Reply::Echo)])
    }

    /// Answers with one text entry.
    #[must_use]
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::scripted(name, [Step::text(text)])
    }

    /// Answers with this result, verbatim.
    #[must_use]
    pub fn result(name: impl Into<String>, result: impl Into<RawJson>) -> Self {
        Self::scripted(name, [Step::result(result)])
    }

    /// Answers with a text of that many bytes.
    #[must_use]
    pub fn huge(name: impl Into<String>, bytes: usize) -> Self {
        Self::scripted(name, [Step::Answer(Reply::TextOfSize { bytes })])
    }

    /// Answers with a JSON-RPC error.
    #[must_use]
    pub fn error(name: impl Into<String>, code: i64, message: impl Into<String>) -> Self {
        Self::scripted(name, [Step::error(code, message)])
    }

    /// Never answers.
    #[must_use]
    pub fn hangs(name: impl Into<String>) -> Self {
        Self::scripted(name, [])
    }

    /// Answers only once the client has cancelled the call: a late reply.
    #[must_use]
    pub fn late(name: impl Into<String>) -> Self {
        Self::scripted(name, [Step::AwaitCancel, Step::text("late")])
    }

    /// Answers after that many milliseconds.
    #[must_use]
    pub fn slow(name: impl Into<String>, ms: u64) -> Self {
        Self::scripted(name, [Step::sleep(ms), Step::text("slow")])
    }

    /// Reports progress `1..=steps` of `steps`, each after `interval_ms`, and answers `done` after
    /// one more interval.
    #[must_use]
    pub fn progress(name: impl Into<String>, steps: u32, interval_ms: u64) -> Self {
        let script = (1..=steps)
            .flat_map(|step| [Step::sleep(interval_ms), Step::progress(step.into(), steps.into())])
            .chain([Step::sleep(interval_ms), Step::text("done")]);
        Self::scripted(name, script)
    }

    /// Reports progress `1..=steps` of `steps`, each when `gate` is opened once more, and answers
    /// `done` at one more opening.
    #[must_use]
    pub fn driven_progress(name: impl Into<String>, steps: u32, gate: impl Into<String>) -> Self {
        let gate = gate.into();
        let wait = || Step::AwaitGate(gate.clone());
        let script: Vec<_> = (1..=steps)
            .flat_map(|step| [wait(), Step::progress(step.into(), steps.into())])
            .chain([wait(), Step::text("done")])
            .collect();
        Self::scripted(name, script)
    }

    /// Opens `gate` once a call, which lets one [`Step::AwaitGate`] pass, and answers `opened`.
    #[must_use]
    pub fn opens_gate(name: impl Into<String>, gate: impl Into<String>) -> Self {
        Self::scripted(name, [Step::OpenGate(gate.into()), Step::text("opened")])
    }

    /// Ends the process with that status during the call.
    #[must_use]
    pub fn exits(name: impl Into<String>, code: i32) -> Self {
        Self::scripted(name, [Step::Exit { code }])
    }

    /// Dies by SIGABRT during the call.
    #[must_use]
    pub fn aborts(name: impl Into<String>) -> Self {
        Self::scripted(name, [Step::Abort])
    }

    /// Closes stdout during the call and stays alive.
    #[must_use]
    pub fn closes_stdout(name: impl Into<String>) -> Self {
        Self::scripted(name, [Step::CloseStdout])
    }

    /// Writes these lines to stdout as they are, then answers `after garbage`.
    #[must_use]
    pub fn garbage<L: Into<String>>(name: impl Into<String>, lines: impl IntoIterator<Item = L>) -> Self {
        let lines = lines.into_iter().map(|line| Step::Line(line.into()));
        Self::scripted(name, lines.chain([Step::text("after garbage")]))
    }

    /// Answers `string id`, the id of the request sent as a JSON string.
    #[must_use]
    pub fn string_id(name: impl Into<String>) -> Self {
        Self::scripted(name, [Step::AnswerWithStringId(Reply::text("string id"))])
    }

    /// Sends the client a request during the call, waits for its answer and returns that as text
    /// ([`Reply::ClientReply`]).
    #[must_use]
    pub fn asks(name: impl Into<String>, method: impl Into<String>, params: impl Into<RawJson>) -> Self {
        let script = [Step::request(method, params), Step::AwaitReply, Step::Answer(Reply::ClientReply)];
        Self::scripted(name, script)
    }

    /// Answers with an environment variable of its process ([`Reply::Environment`]).
    #[must_use]
    pub fn environment(name: impl Into<String>, variable: impl Into<String>) -> Self {
        Self::scripted(name, [Step::Answer(Reply::Environment(variable.into()))])
    }

    /// Answers with what the fixture has seen ([`Reply::Report`]).
    #[must_use]
    pub fn report(name: impl Into<String>) -> Self {
        Self::scripted(name, [Step::Answer(Reply::Report)])
    }
}
