//! Which program runs a command, and how it is started.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use toolnexus_process::{Exit, Job};

use crate::config::{BuiltinsConfig, BuiltinsError};
use crate::output_pipe::OutputPipe;

/// The start of the argument list that a command is appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shell {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

impl Shell {
    /// The configured shell, or the first known one that is there.
    pub(crate) fn of(cfg: &BuiltinsConfig) -> Result<Self, BuiltinsError> {
        match cfg.shell.split_first() {
            Some((program, arguments)) => {
                Ok(Shell { program: program.clone(), arguments: arguments.to_vec() })
            }
            None => detect(&candidates(), env::var_os("PATH").as_deref()),
        }
    }

    /// Starts a command in a process group of its own. It reads nothing, and everything it prints
    /// goes into one pipe.
    ///
    /// # Errors
    /// Why it cannot be started, for the model.
    pub(crate) fn start(&self, command: &str, workdir: &Path) -> Result<(Job, Exit, OutputPipe), String> {
        if command.contains('\0') {
            return Err("command has a NUL character, which no program can be given; remove it".to_owned());
        }
        let start = || {
            let (pipe, writer) = OutputPipe::new()?;
            let mut process = Command::new(&self.program);
            process.args(&self.arguments).current_dir(workdir);
            self.append(command, &mut process);
            process.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
            // This process's copies of the writing ends go with `process`, so that the output ends
            // with the job.
            let (job, exit) = Job::start(process)?;
            Ok((job, exit, pipe))
        };
        start().map_err(|error: io::Error| match error.kind() {
            // The system does not say what was not found.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !workdir.is_dir() => {
                directory_not_found(&workdir.to_string_lossy())
            }
            io::ErrorKind::ArgumentListTooLong => {
                format!("{error}: command has {} bytes; put it into a file and run that", command.len())
            }
            _ => error.to_string(),
        })
    }

    /// Makes `command` the last argument.
    #[cfg(not(windows))]
    fn append(&self, command: &str, process: &mut Command) {
        process.arg(command);
    }

    /// Makes `command` the last argument. `cmd /s` takes what stands between the outer quotes as
    /// it is and knows no other quoting.
    #[cfg(windows)]
    fn append(&self, command: &str, process: &mut Command) {
        let stem = Path::new(&self.program).file_stem();
        if stem.is_some_and(|stem| stem.eq_ignore_ascii_case("cmd")) {
            process.raw_arg(format!("\"{command}\""));
        } else {
            process.arg(command);
        }
    }

    /// The argument list as one line, for people.
    pub(crate) fn display(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(&self.program).chain(&self.arguments).map(String::as_str).collect();
        words.join(" ")
    }
}

/// What is said of a working directory that is not there.
pub(crate) fn directory_not_found(workdir: &str) -> String {
    format!("working directory not found: {workdir}")
}

#[cfg(not(windows))]
fn candidates() -> Vec<Shell> {
    vec![shell("sh", &["-c"])]
}

#[cfg(windows)]
fn candidates() -> Vec<Shell> {
    let comspec = env::var("COMSPEC").unwrap_or_else(|_| "cmd.exe".to_owned());
    vec![
        shell(&comspec, &["/d", "/s", "/c"]),
        shell("pwsh", &["-NoProfile", "-Command"]),
        shell("powershell", &["-NoProfile", "-Command"]),
        shell("bash", &["-lc"]),
    ]
}

fn shell(program: &str, arguments: &[&str]) -> Shell {
    Shell { program: program.to_owned(), arguments: arguments.iter().map(|&word| word.to_owned()).collect() }
}

fn detect(candidates: &[Shell], path: Option<&OsStr>) -> Result<Shell, BuiltinsError> {
    let found = candidates.iter().find(|candidate| is_program(&candidate.program, path));
    found.cloned().ok_or_else(|| BuiltinsError::NoShell {
        tried: candidates.iter().map(Shell::display).collect::<Vec<_>>().join(", "),
    })
}

/// Whether starting `program` would find a file.
fn is_program(program: &str, path: Option<&OsStr>) -> bool {
    let program = Path::new(program);
    if program.components().count() > 1 {
        return program.is_file();
    }
    // Without PATH, the system looks here.
    let path = path.unwrap_or(OsStr::new(if cfg!(windows) { "" } else { "/bin:/usr/bin" }));
    env::split_paths(path).any(|dir| {
        let file = dir.join(program);
        file.is_file() || (cfg!(windows) && file.with_extension("exe").is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // BUILTIN-26
    #[test]
    fn a_shell_that_is_not_there_is_named_with_the_remedy() {
        let empty = tempfile::tempdir().unwrap();
        let error =
            detect(&[shell("sh", &["-c"]), shell("x", &[])], Some(empty.path().as_os_str())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no shell interpreter found (tried: sh -c, x); set builtins.shell, or disable the bash builtin \
             with builtins.tools {\"bash\": false}"
        );
    }

    // BUILTIN-26
    #[test]
    fn the_first_shell_that_is_there_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("second"), "").unwrap();
        let found = detect(&[shell("first", &[]), shell("second", &["-c"])], Some(dir.path().as_os_str()));
        assert_eq!(found.unwrap().display(), "second -c");
    }

    // BUILTIN-26
    #[test]
    fn a_configured_shell_is_taken_as_it_is() {
        let cfg = BuiltinsConfig { shell: vec!["no-such-shell".into(), "-x".into()], ..Default::default() };
        assert_eq!(Shell::of(&cfg).unwrap().display(), "no-such-shell -x");
    }
}
