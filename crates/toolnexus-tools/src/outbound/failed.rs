//! Why there is no answer.

use std::error::Error;
use std::fmt;

use http::StatusCode;
use http::uri::InvalidUri;
use url::Url;

use crate::host_policy::{InvalidHostPattern, Unresolved};

/// Why there is no answer. Its text is for a model: it names the host, and no other part of a URL.
#[derive(Debug)]
pub(crate) enum Failed {
    Timeout,
    Cancelled,
    /// The host's name leads nowhere.
    Dns {
        host: String,
    },
    /// Nobody answers at this address, or not with a certificate that holds.
    Connect {
        to: String,
        cause: Option<String>,
    },
    /// The connection ended before the answer began.
    Transport {
        to: String,
    },
    /// HTTP has no way to say this URL: it is too long.
    Unsayable {
        cause: InvalidUri,
    },
    /// The status came, the body did not, for this reason.
    Body {
        status: StatusCode,
        kind: &'static str,
    },
    /// This host may not be reached.
    Denied {
        host: String,
    },
    /// The policy cannot be read, so nothing may be reached.
    Policy(InvalidHostPattern),
}

impl Failed {
    /// A word for programs.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Failed::Timeout => "timeout",
            Failed::Cancelled => "cancelled",
            Failed::Dns { .. } => "dns",
            Failed::Connect { .. } => "connect-failed",
            Failed::Transport { .. } | Failed::Unsayable { .. } => "transport",
            Failed::Body { kind, .. } => kind,
            Failed::Denied { .. } => "denied",
            Failed::Policy(_) => "policy",
        }
    }

    pub(super) fn of(error: &reqwest::Error, url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default().to_owned();
        let causes = || std::iter::successors(error.source(), |&error| error.source());
        match causes().find_map(|error| error.downcast_ref::<Unresolved>()) {
            Some(Unresolved::Denied) => return Failed::Denied { host },
            Some(Unresolved::Unknown(_)) => return Failed::Dns { host },
            None => {}
        }
        let to = url.port_or_known_default().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        if error.is_timeout() {
            Failed::Timeout
        } else if error.is_connect() {
            // The last of the chain is the system's or TLS's word; those before it repeat the URL.
            Failed::Connect { to, cause: causes().last().map(ToString::to_string) }
        } else {
            Failed::Transport { to }
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Timeout => f.write_str("timed out"),
            Failed::Cancelled => f.write_str("cancelled"),
            Failed::Dns { host } => write!(f, "the name {host} could not be resolved"),
            Failed::Connect { to, cause: Some(cause) } => write!(f, "could not connect to {to}: {cause}"),
            Failed::Connect { to, cause: None } => write!(f, "could not connect to {to}"),
            Failed::Transport { to } => write!(f, "the connection to {to} broke before an answer came"),
            Failed::Unsayable { cause } => write!(f, "the URL cannot be sent: {cause}"),
            Failed::Body { status, .. } => {
                write!(f, "the body of the answer (status {}) could not be read to its end", status.as_u16())
            }
            Failed::Denied { host } => write!(f, "address not allowed: {host}"),
            Failed::Policy(pattern) => pattern.fmt(f),
        }
    }
}
