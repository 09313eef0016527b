//! Comparisons that say what differs.

use std::fmt::Debug;

use crate::Outcome;

/// The longest value that a message quotes, in characters.
const QUOTED_CHARS: usize = 600;

/// Compares two values; the reason names `what`, the expected and the actual value, both cut to a
/// readable length.
///
/// ```
/// use toolnexus_conformance::equal;
/// assert_eq!(equal("sum", &4, &4), Ok(()));
/// assert_eq!(equal("sum", &5, &4), Err("sum: expected 4, got 5".to_owned()));
/// ```
///
/// # Errors
/// The values differ.
pub fn equal<A: PartialEq<E> + Debug + ?Sized, E: Debug + ?Sized>(
    what: &str,
    actual: &A,
    expected: &E,
) -> Outcome {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {}, got {}", quoted(expected), quoted(actual)))
}

/// Passes when `condition` holds; otherwise the reason is what `reason` gives.
///
/// # Errors
/// The condition does not hold.
pub fn holds(condition: bool, reason: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(reason()) }
}

fn quoted(value: &(impl Debug + ?Sized)) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((at, _)) => format!("{}… ({} bytes)", text.get(..at).unwrap_or_default(), text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut() {
        let reason = equal("text", "é".repeat(2000).as_str(), "x").unwrap_err();
        assert!(reason.ends_with("… (4002 bytes)"), "{reason}");
        assert!(reason.starts_with("text: expected \"x\", got \"é"), "{reason}");
    }
}
