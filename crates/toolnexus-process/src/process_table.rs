//! Which members of a process group still live.
//!
//! A process that has ended counts as a member until somebody has waited for it. For a process
//! that outlived its parent, that is the system's first process, and in containers that one may
//! take seconds to look. The process table tells the dead from the living.

use std::fs;

/// Whether some member of the group has not ended. Reads the whole process table, so call it off
/// the async threads. `None`: there is no table to read.
pub(crate) fn has_living_member(group: i32) -> Option<bool> {
    let processes = fs::read_dir("/proc").ok()?;
    let living = processes.flatten().any(|process| {
        let numbered =
            process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        numbered
            && fs::read_to_string(process.path().join("stat")).is_ok_and(|stat| {
                state_and_group(&stat).is_some_and(|(state, of)| of == group && !is_dead(state))
            })
    });
    Some(living)
}

fn is_dead(state: &str) -> bool {
    matches!(state, "Z" | "X" | "x")
}

/// Reads `pid (name) state parent group …`. The name may hold anything, also `)`.
fn state_and_group(stat: &str) -> Option<(&str, i32)> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    // BUILTIN-36
    #[test]
    fn a_line_of_the_table_is_read_behind_the_name() {
        assert_eq!(state_and_group("12 (a) b) (c) Z 1 34 34 0"), Some(("Z", 34)));
        assert_eq!(state_and_group("12 (sh) S 1 7 7"), Some(("S", 7)));
        assert_eq!(state_and_group("12 (sh"), None);
        assert_eq!(state_and_group(""), None);
    }

    // BUILTIN-36
    #[test]
    fn the_dead_do_not_count() {
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert_eq!(has_living_member(own), Some(true));

        let mut child = std::process::Command::new("true");
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let mut child = child.spawn().unwrap();
        let group = i32::try_from(child.id()).unwrap();
        while has_living_member(group) == Some(true) {
            std::thread::yield_now();
        }
        // Nobody has waited for it, so it is still a member.
        assert!(
            rustix::process::test_kill_process_group(rustix::process::Pid::from_raw(group).unwrap()).is_ok()
        );
        child.wait().unwrap();
    }
}
