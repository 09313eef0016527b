//! Text that is read from stdin, whole.

use std::io::{self, Read};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;

/// The longest text that is read: more than any model takes, less than what exhausts memory.
pub(crate) const LIMIT: u64 = 64 * 1024 * 1024;

/// Everything on stdin. `what` it is, as in `the prompt`, begins the failure of a text that is none.
pub(crate) async fn text(what: &str, interrupt: &Interrupt) -> Result<String, Failure> {
    let read = interrupt.or_else(|| read_all(io::stdin().lock())).await?;
    let bytes = read.map_err(|error| Failure::new(Exit::Failed, format!("stdin cannot be read: {error}")))?;
    decode(bytes, &format!("{what} on stdin"))
}

/// All there is to read, and of what is too long enough to see that it is.
pub(crate) fn read_all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LIMIT + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes as text, unless there are too many or they are none. `what` begins the failure.
pub(crate) fn decode(bytes: Vec<u8>, what: &str) -> Result<String, Failure> {
    if bytes.len() as u64 > LIMIT {
        return Err(Failure::usage(format!("{what}: over {} MiB, shorten it", LIMIT / 1024 / 1024)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("{what}: not UTF-8 text (byte {at}), convert it first"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_none_is_named_by_its_place() {
        assert_eq!(decode("é\n".into(), "x").unwrap(), "é\n");
        assert!(decode(b"ab\xff".to_vec(), "x").unwrap_err().message.contains("byte 2"));
        let failure = decode(vec![b'x'; usize::try_from(LIMIT).unwrap() + 1], "x").unwrap_err();
        assert!(failure.message.contains("64 MiB"), "{}", failure.message);
    }
}
