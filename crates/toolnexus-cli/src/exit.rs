//! How the command ends: the exit codes, and failures on their way to one.

use std::process::ExitCode;

/// The exit codes. `--help` and the guide list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The answer is complete.
    Done = 0,
    /// The run failed: the provider, the network, an answer that cannot be read.
    Failed = 1,
    /// The command line, a configuration file or the environment cannot be used.
    Usage = 2,
    /// A limit stopped the run before the model had answered.
    Incomplete = 3,
    /// A tool waits for an answer that nobody here can give.
    Pending = 4,
    /// The time of `--timeout` was up.
    TimedOut = 5,
    /// The terminal was closed (SIGHUP).
    HungUp = 129,
    /// Ctrl-C.
    Interrupted = 130,
    /// Ctrl-\ (SIGQUIT).
    Quit = 131,
    /// Whoever read stdout has gone away.
    StdoutClosed = 141,
    /// A polite request to end (SIGTERM).
    Terminated = 143,
}

/// What `--help` says about them.
pub(crate) const HELP: &str = "\
Exit codes:
  0    the answer is complete
  1    the run failed: the provider, the network, an answer that cannot be read
  2    the command line, a configuration file or the environment cannot be used
  3    a limit such as --max-turns stopped the run before the model had answered
  4    a tool waits for an answer that nobody here can give
  5    the time of --timeout was up
  130  interrupted with Ctrl-C (129: its terminal was closed, 131: SIGQUIT, 143: SIGTERM)
  141  whatever read the output went away";

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// Why a command did not do its work. An empty message means that there is nothing to say.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// What to do now, on a line of its own.
    pub(crate) advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), advice: None }
    }

    /// Something the user wrote cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message)
    }
}

/// Writing to stdout is the only I/O whose error reaches this far.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failure::new(Exit::StdoutClosed, "")
        } else {
            Failure::new(Exit::Failed, format!("stdout cannot be written: {error}"))
        }
    }
}

/// The time of `--timeout` was up, and `what` was still to be done.
pub(crate) fn timed_out(what: &str) -> Failure {
    Failure::new(Exit::TimedOut, format!("the time of --timeout is up and {what}: raise it or leave it out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code() {
        for exit in [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Incomplete,
            Exit::Pending,
            Exit::TimedOut,
            Exit::HungUp,
            Exit::Interrupted,
            Exit::Quit,
            Exit::StdoutClosed,
            Exit::Terminated,
        ] {
            assert!(HELP.contains(&exit.code().to_string()), "{exit:?}");
        }
    }

    #[test]
    fn a_closed_stdout_is_quiet() {
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::StdoutClosed, ""));
    }
}
