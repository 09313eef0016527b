//! The arguments of a call: of the command line, of stdin or of a file.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use serde_json::Value;

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::screen::Screen;
use crate::stdin;

/// The JSON object that `given` is; `-` reads it from stdin, `@FILE` from a file.
pub(crate) async fn read(given: &str, screen: &Screen, interrupt: &Interrupt) -> Result<Value, Failure> {
    let (text, origin) = match given.strip_prefix('@') {
        Some(path) => (of_file(path, interrupt).await?, format!("in {path:?}")),
        None if given == "-" => {
            if io::stdin().is_terminal() {
                screen.note("Type the arguments, a JSON object; end them with Ctrl-D on a line of its own.");
            }
            (stdin::text("the arguments", interrupt).await?, "on stdin".to_owned())
        }
        None => (given.to_owned(), "on the command line".to_owned()),
    };
    parse(&text, &origin)
}

/// The file may be a pipe that somebody still writes to, as in `@<(jq …)`.
async fn of_file(path: &str, interrupt: &Interrupt) -> Result<String, Failure> {
    let file = PathBuf::from(path);
    let read = interrupt.or_else(move || File::open(file).and_then(stdin::read_all)).await?;
    let what = format!("the arguments in {path:?}");
    let bytes = read.map_err(|error| {
        Failure::usage(format!("{what} cannot be read: {error}; check the path behind @"))
    })?;
    stdin::decode(bytes, &what)
}

fn parse(text: &str, origin: &str) -> Result<Value, Failure> {
    const HINT: &str = "write a JSON object, as in '{\"query\": \"retries\"}'";
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(Value::Object(arguments)),
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "an array",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                Value::Bool(_) => "a boolean",
                _ => "null",
            };
            Err(Failure::usage(format!("the arguments {origin} are {kind}: {HINT}")))
        }
        Err(error) => Err(Failure::usage(format!("the arguments {origin} are not JSON ({error}): {HINT}"))),
    }
}
