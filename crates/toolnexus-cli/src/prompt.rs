//! Where the prompt comes from: the command line or stdin.

use std::io::{self, IsTerminal as _};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::screen::Screen;
use crate::stdin;

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
            stdin::text("the prompt", interrupt).await?
        }
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty: write what the model should do"));
    }
    Ok(prompt)
}
