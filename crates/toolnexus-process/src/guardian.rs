//! What ends children when their owner cannot.
//!
//! A process that is killed (SIGKILL, out of memory) runs no code, and its children live on. Servers
//! that notice the end of their standard input go by themselves; many do not, and those are what
//! people find by the hundred.
//!
//! So a *guardian* runs beside the children: a small shell that reads the numbers of their process
//! groups from a pipe. Only this process holds the other end, so the pipe closes when it ends, however
//! it ends, and the guardian then kills every group that is still there. There is one guardian for all
//! children. It is started with the first of them and goes half a second after the last: a program that
//! runs one command after the other would else pay for two shells with each, and one that has closed
//! everything wants nothing of it left.
//!
//! Linux has a parent-death signal (`PR_SET_PDEATHSIG`), which would do without the shell. It reaches
//! the direct child alone, and the direct child is mostly a launcher (`npx`, `uvx`, a shell) whose own
//! child is the server; it fires when the *thread* that started the child ends, which for a runtime
//! that is torn down is too early; and it takes unsafe code. The group is the right unit, and every
//! Unix has it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Notes groups (`+ N`) and forgets them (`- N`) until its input ends, then kills those it knows.
/// Built-in commands only, so it needs no PATH. It is deaf to what a terminal sends.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) case $groups in
         *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
       esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// How long a guardian without anybody to guard stays.
const LINGER: Duration = Duration::from_millis(500);

/// The guardian of this process.
static GUARDIAN: Mutex<Guardian> =
    Mutex::new(Guardian { shell: None, groups: BTreeSet::new(), used: None, attended: false });

/// The last group has gone.
static EMPTIED: Condvar = Condvar::new();

struct Guardian {
    /// `None` where there is no shell: children then live as long as they like when this process is
    /// killed.
    shell: Option<Child>,
    /// What a guardian must know that has to begin anew.
    groups: BTreeSet<u32>,
    /// When it was last asked for something.
    used: Option<Instant>,
    /// There is a thread that ends it.
    attended: bool,
}

/// A process group that is killed if this process ends before this value.
pub(crate) struct Guarded(u32);

/// Sees to it that there is a guardian.
pub(crate) fn stand_by() {
    guardian().start();
}

/// Has a group watched.
pub(crate) fn guard(group: u32) -> Guarded {
    let mut guardian = guardian();
    guardian.groups.insert(group);
    guardian.tell('+', group);
    Guarded(group)
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let mut guardian = guardian();
        guardian.groups.remove(&self.0);
        guardian.tell('-', self.0);
        if guardian.groups.is_empty() {
            EMPTIED.notify_one();
        }
    }
}

fn guardian() -> MutexGuard<'static, Guardian> {
    GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guardian {
    /// Starts the shell if there is none.
    fn start(&mut self) {
        self.used = Some(Instant::now());
        if self.shell.is_some() {
            return;
        }
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "toolnexus-guardian"])
            .env_clear()
            // It must not keep a folder busy, nor hold anybody's output open.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of whatever kills the group of this process.
            .process_group(0)
            .spawn();
        match shell {
            Ok(shell) => self.shell = Some(shell),
            Err(error) => {
                tracing::debug!("no guardian for child processes: {error}");
                return;
            }
        }
        if !self.attended {
            let thread = std::thread::Builder::new().name("toolnexus-guardian".into());
            // Without a thread it stays.
            self.attended = thread.spawn(attend).is_ok();
        }
    }

    fn tell(&mut self, what: char, group: u32) {
        self.used = Some(Instant::now());
        if self.write(&format!("{what} {group}\n")) {
            return;
        }
        // Somebody has killed it.
        if let Some(mut dead) = self.shell.take() {
            let _ = dead.kill();
            let _ = dead.wait();
        }
        if self.groups.is_empty() {
            return;
        }
        self.start();
        let all: String = self.groups.iter().map(|group| format!("+ {group}\n")).collect();
        self.write(&all);
    }

    /// Whether somebody is there to read.
    fn write(&mut self, text: &str) -> bool {
        let stdin = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        stdin.is_some_and(|stdin| stdin.write_all(text.as_bytes()).is_ok())
    }
}

/// Ends the shell when it has not been needed for a while.
fn attend() {
    let mut guardian = guardian();
    loop {
        if !guardian.groups.is_empty() {
            guardian = EMPTIED.wait(guardian).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let idle = guardian.used.map_or(LINGER, |used| used.elapsed());
        let Some(rest) = LINGER.checked_sub(idle).filter(|rest| !rest.is_zero()) else { break };
        guardian = EMPTIED.wait_timeout(guardian, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
    let shell = guardian.shell.take();
    guardian.attended = false;
    drop(guardian);
    if let Some(mut shell) = shell {
        // Its input ends, and so does it.
        drop(shell.stdin.take());
        let _ = shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

    // MCP-75, BUILTIN-36: a number that was let go of may be somebody else's by the time this process ends
    #[test]
    fn a_group_that_was_let_go_of_is_not_killed() {
        let group = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
            command.spawn().unwrap()
        };
        let (mut forgotten, mut guarded) = (group("cat", &[]), group("sleep", &["60"]));
        stand_by();
        drop(guard(forgotten.id()));
        let held = guard(guarded.id());
        // As when this process ends.
        let mut shell = guardian().shell.take().unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(guarded.wait().unwrap().code(), None, "it was killed");
        drop(held);
        // What is to die of a signal says nothing any more.
        let mut said = String::new();
        forgotten.stdin.take().unwrap().write_all(b"here\n").unwrap();
        BufReader::new(forgotten.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "here\n");
        assert!(forgotten.wait().unwrap().success());
    }
}
