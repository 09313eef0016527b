//! The processes of this machine, as Linux's `/proc` tells of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often [`eventually`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The numbers of all processes that descend from this one, ended but unreaped ones included.
pub fn descendants() -> BTreeSet<u32> {
    let parents: BTreeMap<u32, u32> =
        numbers().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = BTreeSet::from([std::process::id()]);
    loop {
        let before = family.len();
        family.extend(
            parents
                .iter()
                .filter(|(_, parent)| family.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            family.remove(&std::process::id());
            return family;
        }
    }
}

/// The numbers of all living processes that were started with the environment variable `name` set
/// to `value`, whoever their parent is by now.
pub fn with_variable(name: &str, value: &str) -> BTreeSet<u32> {
    let wanted = format!("{name}={value}").into_bytes();
    numbers()
        .into_iter()
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
        })
        .collect()
}

/// Whether a process is the one that toolnexus runs beside its children, to end them should it be killed;
/// or was it: a shell that ends has no arguments any more to tell it by, and may be gone at the next look.
pub fn is_guardian(pid: u32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if !command.is_empty() {
        return command.split(|byte| *byte == 0).any(|argument| argument == b"toolnexus-guardian");
    }
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains("(sh)"))
}

/// Waits until `condition` holds, at most for `limit`; tells whether it does.
pub async fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = tokio::time::Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if tokio::time::Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn numbers() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The parent of a process. Its name comes before it in parentheses and may hold anything.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_seen_until_it_is_reaped() {
        let value = std::process::id().to_string();
        let mut child = Command::new("cat")
            .env("TOOLNEXUS_TEST", &value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A spawn returns while the kernel may still be laying out the new program: its environment
        // can be read as empty until the program runs, which an answer proves.
        child.stdin.as_mut().unwrap().write_all(b"running\n").unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        assert_eq!(answer, "running\n");

        assert!(descendants().contains(&child.id()));
        assert_eq!(with_variable("TOOLNEXUS_TEST", &value), BTreeSet::from([child.id()]));
        child.kill().unwrap();
        assert!(descendants().contains(&child.id()));
        child.wait().unwrap();
        assert!(!descendants().contains(&child.id()));
        assert!(with_variable("TOOLNEXUS_TEST", &value).is_empty());
    }
}
