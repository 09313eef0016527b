//! The directory that durable runs are written to, and how commands name it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toolnexus::client::run::{Run, RunEvent};
use toolnexus::client::run_log::{FileRunLog, RunLog as _, RunLogError};

use super::failure::of_log_error;
use crate::cli::{ProviderArgs, SourceArgs};
use crate::exit::Failure;

/// The variable that stands for `--durable`.
pub(crate) const VARIABLE: &str = "TOOLNEXUS_RUNS";

/// A directory of runs.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Whether a flag names it. Otherwise the environment does, and commands need no flag.
    by_flag: bool,
}

impl Directory {
    /// The directory that the flag names, else the environment. `None`: neither does.
    pub(crate) fn find(flag: Option<&Path>) -> Result<Option<Self>, Failure> {
        Directory::of(flag, std::env::var_os(VARIABLE))
    }

    fn of(flag: Option<&Path>, variable: Option<OsString>) -> Result<Option<Self>, Failure> {
        match flag {
            Some(path) if path.as_os_str().is_empty() => {
                Err(Failure::usage("--durable is empty: name a directory, as in --durable runs"))
            }
            Some(path) => Ok(Some(Directory { path: path.to_owned(), by_flag: true })),
            None => Ok(variable
                .filter(|value| !value.is_empty())
                .map(|value| Directory { path: value.into(), by_flag: false })),
        }
    }

    /// The same for a command that cannot do without.
    pub(crate) fn require(flag: Option<&Path>) -> Result<Self, Failure> {
        Directory::find(flag)?.ok_or_else(|| {
            Failure::usage(format!("no directory of runs: name it with --durable DIR, or set {VARIABLE}"))
        })
    }

    /// Opens it, and makes it where there is none.
    pub(crate) fn create(&self) -> Result<FileRunLog, Failure> {
        FileRunLog::open(&self.path).map_err(|error| self.unusable(&error))
    }

    /// Opens it where there is one.
    pub(crate) fn open(&self) -> Result<FileRunLog, Failure> {
        std::fs::read_dir(&self.path).map_err(|error| self.unusable(&error))?;
        self.create()
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> Failure {
        let name = if self.by_flag { "--durable" } else { VARIABLE };
        Failure::usage(format!(
            "{name} {:?} cannot be used as a directory of runs: {error}; check the path",
            self.path
        ))
    }

    /// The failure of something that was asked of it.
    pub(crate) fn failure(&self, error: &RunLogError) -> Failure {
        of_log_error(error, &self.flag())
    }

    /// What commands about its runs need beside the run's id: ` --durable runs`, or nothing.
    pub(crate) fn flag(&self) -> String {
        if self.by_flag { format!(" --durable {}", shell_word(&self.to_string())) } else { String::new() }
    }
}

impl std::fmt::Display for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// The text as one word of a shell's command line.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// One run of a directory, and the commands that go on with it.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) directory: Directory,
    pub(crate) run_id: String,
    /// The flags of this command that the next one needs too.
    repeated: Vec<&'static str>,
}

impl Recorded {
    pub(crate) fn new(directory: Directory, run_id: String) -> Self {
        Recorded { directory, run_id, repeated: Vec::new() }
    }

    /// The same, for a command with these flags.
    pub(crate) fn with_flags(mut self, provider: &ProviderArgs, sources: &SourceArgs) -> Self {
        // Model and style are in the run.
        let flags = [
            ("--base-url", provider.base_url.is_some()),
            ("--api-key-env", provider.api_key_env.is_some()),
            ("--mcp", sources.mcp.is_some()),
            ("--no-mcp", sources.no_mcp),
            ("--skills", !sources.skills.is_empty()),
            ("--no-skills", sources.no_skills),
            ("--no-builtins", sources.no_builtins),
        ];
        self.repeated = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
        self
    }

    /// How to go on with the run.
    pub(crate) fn how_to_go_on(&self) -> String {
        format!("to go on: toolnexus runs resume {}{}{}", self.run_id, self.directory.flag(), self.same())
    }

    /// How to answer a run that waits for so many answers.
    pub(crate) fn how_to_answer(&self, requests: usize) -> String {
        let which = if requests > 1 { " --request REQUEST" } else { "" };
        format!(
            "to answer: toolnexus runs resume {}{} --answer TEXT{which}{}",
            self.run_id,
            self.directory.flag(),
            self.same()
        )
    }

    fn same(&self) -> String {
        if self.repeated.is_empty() {
            String::new()
        } else {
            format!("\n  with the same {}", self.repeated.join(", "))
        }
    }

    /// Adds to a failure how to go on, if the run was begun and has written that it was left.
    pub(crate) async fn advise(&self, log: &FileRunLog, failure: Failure) -> Failure {
        let events = log.read(&self.run_id, 0).await.unwrap_or_default();
        let left = matches!(events.last(), Some(RunEvent::Failed { .. }));
        let advice = left.then(|| self.how_to_go_on());
        Failure { advice, ..failure }
    }
}

/// A run as it was written down.
pub(crate) struct Stored {
    pub(crate) log: FileRunLog,
    pub(crate) recorded: Recorded,
    pub(crate) events: Vec<RunEvent>,
    pub(crate) run: Run,
}

impl Stored {
    /// Reads a run.
    pub(crate) async fn read(flag: Option<&Path>, run_id: &str) -> Result<Self, Failure> {
        let directory = Directory::require(flag)?;
        let log = directory.open()?;
        let events = log.read(run_id, 0).await.map_err(|error| directory.failure(&error))?;
        let run = Run::replay(&events).map_err(|error| directory.failure(&error.into()))?;
        Ok(Stored { log, recorded: Recorded::new(directory, run_id.to_owned()), events, run })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_variable() {
        let found = |flag: Option<&str>, variable: Option<&str>| {
            Directory::of(flag.map(Path::new), variable.map(Into::into))
        };
        assert_eq!(found(Some("a"), Some("b")).unwrap().unwrap().flag(), " --durable a");
        let by_variable = found(None, Some("b")).unwrap().unwrap();
        assert_eq!((by_variable.to_string().as_str(), by_variable.flag().as_str()), ("b", ""));
        assert!(found(None, Some("")).unwrap().is_none() && found(None, None).unwrap().is_none());
        assert!(found(Some(""), None).unwrap_err().message.contains("--durable is empty"));
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (text, word) in
            [("runs/a.b", "runs/a.b"), ("my runs", "'my runs'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(shell_word(text), word);
        }
    }
}
