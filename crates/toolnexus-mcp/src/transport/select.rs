//! Program or address.

use super::{SeamError, ServerSpec, Target, redact};

/// A specification that names one transport.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TransportSpec {
    /// A child process, spoken to over its standard input and output.
    Stdio {
        /// The specification; its command is not empty, and it has no address.
        spec: ServerSpec,
    },
    /// Streamable HTTP, or the legacy HTTP+SSE transport.
    Http {
        /// The specification; its address is not empty, and it has no command.
        spec: ServerSpec,
    },
}

impl TransportSpec {
    /// The specification, of whichever kind.
    pub fn spec(&self) -> &ServerSpec {
        match self {
            TransportSpec::Stdio { spec } | TransportSpec::Http { spec } => spec,
        }
    }

    /// What a gate decides on.
    pub fn target(&self) -> Target {
        match self {
            TransportSpec::Stdio { spec } => Target::Command(spec.command.clone()),
            TransportSpec::Http { spec } => Target::Url(spec.url.clone().unwrap_or_default()),
        }
    }
}

/// Which transport a specification asks for: a program (the first word of `command` is not empty) or
/// an address (`url` is not empty), and only one of them.
///
/// # Errors
/// [`SeamError::InvalidSpec`] when it names both or neither.
pub fn select(spec: ServerSpec) -> Result<TransportSpec, SeamError> {
    let program = spec.command.first().is_some_and(|program| !program.is_empty());
    let address = spec.url.as_deref().is_some_and(|url| !url.is_empty());
    match (program, address) {
        (true, false) => Ok(TransportSpec::Stdio { spec }),
        (false, true) => Ok(TransportSpec::Http { spec }),
        _ => Err(SeamError::InvalidSpec(Box::new(redact(&spec)))),
    }
}
