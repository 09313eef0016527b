//! What ends children when their owner cannot.
//!
//! A process that is killed (SIGKILL, out of memory) runs no code, and its children live on. Servers
//! that notice the end of their standard input go by themselves; many do not, and those are what
//! people find by the hundred.
//!
//! So a *guardian* runs beside the children: a small shell that reads the numbers of their process
//! groups from a pipe. Only this process holds the other end, so the pipe closes when it ends, however
//! it ends, and the guardian then kills every group that is still there. There is one guardian for all
//! children, started with the first and gone with the last.
//!
//! Linux has a parent-death signal (`PR_SET_PDEATHSIG`), which would do without the shell. It reaches
//! the direct child alone, and the direct child is mostly a launcher (`npx`, `uvx`, a shell) whose own
//! child is the server; it fires when the *thread* that started the child ends, which for a runtime
//! that is torn down is too early; and it takes unsafe code. The group is the right unit, and every
//! Unix has it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

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

/// The guardian of this process, for as long as there are children.
static GUARDIAN: Mutex<Weak<Guardian>> = Mutex::new(Weak::new());

struct Guardian {
    /// `None` while it is being ended.
    shell: Mutex<Option<Child>>,
}

/// A process group that is killed if this process ends before this value.
pub(crate) struct Guarded {
    guardian: Arc<Guardian>,
    group: u32,
}

/// Has a group watched. `None`: there is no shell on this system; the child then lives as long as it
/// likes when this process is killed.
pub(crate) fn guard(group: u32) -> Option<Guarded> {
    let mut current = GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guardian) = current.upgrade()
        && guardian.tell('+', group)
    {
        return Some(Guarded { guardian, group });
    }
    // The first child, or somebody has killed the guardian.
    let guardian = Arc::new(Guardian::start()?);
    *current = Arc::downgrade(&guardian);
    guardian.tell('+', group).then_some(Guarded { guardian, group })
}

impl Guardian {
    fn start() -> Option<Self> {
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
            Ok(shell) => Some(Guardian { shell: Mutex::new(Some(shell)) }),
            Err(error) => {
                tracing::debug!("no guardian for child processes: {error}");
                None
            }
        }
    }

    /// Whether it has been told.
    fn tell(&self, what: char, group: u32) -> bool {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        stdin.is_some_and(|stdin| stdin.write_all(format!("{what} {group}\n").as_bytes()).is_ok())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.guardian.tell('-', self.group);
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut shell) = shell else { return };
        // It ends by itself when its input does, and nobody should wait for that.
        drop(shell.stdin.take());
        let reaping = std::thread::Builder::new().name("toolnexus-reap".into());
        let _ = reaping.spawn(move || shell.wait());
    }
}
