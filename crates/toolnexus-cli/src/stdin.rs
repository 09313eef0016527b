//! Text that is read from stdin, whole.

use std::io::{self, Read as _};

use tokio::sync::oneshot;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;

/// The longest text that is read: more than any model takes, less than what exhausts memory.
pub(crate) const LIMIT: u64 = 64 * 1024 * 1024;

/// Everything on stdin. `what` it is, as in `the prompt`, begins the failure of a text that is none.
pub(crate) async fn text(what: &str, interrupt: &Interrupt) -> Result<String, Failure> {
    let (send, receive) = oneshot::channel();
    // A thread of its own: the read cannot be interrupted, and must not hold the runtime up.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(LIMIT + 1).read_to_end(&mut bytes);
        // Nobody waits any more after Ctrl-C.
        let _ = send.send(read.map(|_| bytes));
    });
    let bytes = tokio::select! {
        biased;
        () = interrupt.raised() => return Err(interrupt.failure()),
        read = receive => match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(Failure::new(Exit::Failed, format!("stdin cannot be read: {error}"))),
            Err(_) => return Err(Failure::new(Exit::Failed, "stdin cannot be read")),
        },
    };
    decode(bytes, &format!("{what} on stdin"))
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
