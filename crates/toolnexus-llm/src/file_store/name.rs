//! The file name of a conversation.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Longer names are hashed: file systems take 255 bytes.
const LIMIT: usize = 200;

/// The file name of a conversation id, another for each id. Two names never differ in case only,
/// and none means something special to any system.
pub(super) fn of(id: &str) -> String {
    let mut name = String::from("c-");
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(byte.into()),
            _ => hex(&mut name, "%", byte),
        }
        if name.len() > LIMIT {
            name = String::from("h-");
            Sha256::digest(id.as_bytes()).iter().for_each(|byte| hex(&mut name, "", *byte));
            break;
        }
    }
    name + ".json"
}

fn hex(name: &mut String, prefix: &str, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(name, "{prefix}{byte:02x}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::of;

    #[test]
    fn names_are_readable_where_ids_are() {
        assert_eq!(of("user-7_a"), "c-user-7_a.json");
        assert_eq!(of(""), "c-.json");
        assert_eq!(of("../A b"), "c-%2e%2e%2f%41%20b.json");
        assert_eq!(of(&"x".repeat(10_000)).len(), "h-.json".len() + 64);
    }

    proptest! {
        #[test]
        fn every_id_has_a_name_of_its_own(left in ".{0,120}", right in ".{0,120}") {
            let (l, r) = (of(&left), of(&right));
            prop_assert_eq!(left == right, l == r);
            prop_assert!(l.len() < 255 && l.to_lowercase() == l && l.is_ascii());
            prop_assert!(!l.contains(['/', '\\', ':', '\0']));
        }
    }
}
