//! How a specification may be shown. There is no other way.

use indexmap::IndexMap;
use serde::Serialize;

use super::{ServerSpec, SpecSource};

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// A specification with everything hidden that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RedactedSpec {
    /// The server's name.
    pub name: String,
    /// The program, if there is one.
    pub command: Option<String>,
    /// `[redacted]` for each argument.
    pub args: Vec<String>,
    /// The names of the variables, each with the value `[redacted]`.
    pub env: IndexMap<String, String>,
    /// The address without userinfo, query and fragment; `[redacted]` for one that is no URL.
    pub url: Option<String>,
    /// The names of the headers, each with the value `[redacted]`.
    pub headers: IndexMap<String, String>,
    /// The limit of each phase, in milliseconds.
    pub timeout_ms: u64,
    /// Where the specification comes from.
    pub source: SpecSource,
}

/// Hides what may be a secret: the values of arguments, variables and headers, and everything of the
/// address but scheme, host, port and path. Redacting what is redacted changes nothing.
///
/// ```
/// use toolnexus_mcp::transport::{ServerSpec, redact};
/// let spec = ServerSpec { url: Some("https://u:p@h:8/a?key=k#f".into()), ..Default::default() };
/// assert_eq!(redact(&spec).url.as_deref(), Some("https://h:8/a"));
/// ```
pub fn redact(spec: &ServerSpec) -> RedactedSpec {
    RedactedSpec {
        name: spec.name.clone(),
        command: spec.command.first().cloned(),
        args: spec.command.iter().skip(1).map(|_| REDACTED.to_owned()).collect(),
        env: hidden(spec.env.keys().map(String::as_str)),
        url: spec.url.as_deref().map(url),
        headers: hidden(spec.headers.iter().map(|(name, _)| name)),
        timeout_ms: spec.timeout_ms,
        source: spec.source.clone(),
    }
}

/// The parts of a specification that somebody else's `Debug` shows, redacted.
pub(crate) fn redacted(spec: impl Into<ServerSpec>) -> RedactedSpec {
    redact(&spec.into())
}

fn hidden<'a>(names: impl Iterator<Item = &'a str>) -> IndexMap<String, String> {
    names.map(|name| (name.to_owned(), REDACTED.to_owned())).collect()
}

pub(super) fn url(url: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else { return REDACTED.to_owned() };
    parsed.set_query(None);
    parsed.set_fragment(None);
    let has_userinfo = !parsed.username().is_empty() || parsed.password().is_some();
    if has_userinfo && (parsed.set_username("").is_err() || parsed.set_password(None).is_err()) {
        return REDACTED.to_owned();
    }
    // `mailto:secret` and the like: what has no host shows nothing that is known to be harmless.
    if parsed.host().is_none() { REDACTED.to_owned() } else { parsed.into() }
}
