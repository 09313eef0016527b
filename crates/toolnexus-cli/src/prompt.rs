//! Where the prompt comes from: the command line or stdin.

use std::io::{self, IsTerminal as _, Read as _};

use tokio::sync::oneshot;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::screen::Screen;

/// The longest prompt that is read: more than any model takes, less than what exhausts memory.
const LIMIT: u64 = 64 * 1024 * 1024;

/// The prompt of the command line; `-`, or nothing where stdin is no terminal, is read from stdin.
pub(crate) async fn read(
    given: Option<String>,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<String, Failure> {
    let terminal = io::stdin().is_terminal();
    let prompt = match given {
        Some(text) if text != "-" => text,
        None if terminal => {
            return Err(Failure::usage(
                "no prompt: write one, as in `toolnexus run \"What is in this directory?\"`",
            ));
        }
        _ => {
            if terminal {
                screen.note("Type the prompt; end it with Ctrl-D on a line of its own.");
            }
            from_stdin(interrupt).await?
        }
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty: write what the model should do"));
    }
    Ok(prompt)
}

async fn from_stdin(interrupt: &Interrupt) -> Result<String, Failure> {
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
    decode(bytes)
}

fn decode(bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() as u64 > LIMIT {
        return Err(Failure::usage(format!(
            "the prompt on stdin is over {} MiB: shorten it",
            LIMIT / 1024 / 1024
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("the prompt on stdin is not UTF-8 text (byte {at}): convert it first"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_none_is_named_by_its_place() {
        assert_eq!(decode("é\n".into()).unwrap(), "é\n");
        assert!(decode(b"ab\xff".to_vec()).unwrap_err().message.contains("byte 2"));
        let failure = decode(vec![b'x'; usize::try_from(LIMIT).unwrap() + 1]).unwrap_err();
        assert!(failure.message.contains("64 MiB"), "{}", failure.message);
    }
}
