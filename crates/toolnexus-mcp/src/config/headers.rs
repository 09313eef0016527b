//! Configured HTTP headers: placeholders in, secrets out, and only names ever shown.

use indexmap::IndexMap;
use serde::Serialize;
use toolnexus_core::env;

/// HTTP headers by name, in the order of the document. `Debug` shows the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(IndexMap<String, String>);

impl Headers {
    /// No headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a header. A name that is there already, in whatever case, keeps its spelling and gets
    /// the new value.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        let key = self.0.keys().find(|key| key.eq_ignore_ascii_case(&name)).cloned().unwrap_or(name);
        self.0.insert(key, value.into());
    }

    /// The value of a header; names compare without regard to case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.insert(name, value);
        }
        headers
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What may be said about configured headers: their names, and whether a variable brought in text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HeaderShape {
    /// The names as configured, sorted.
    pub keys: Vec<String>,
    /// True when a placeholder brought in any text. `false` on headers with placeholders is the
    /// sign of a missing variable; [`McpServerConfig::missing_env`](crate::McpServerConfig::missing_env)
    /// names it.
    pub expanded: bool,
}

/// Fills in `${NAME}` in header values from the process environment; an unset variable gives the
/// empty string. Names stay as they are. The result holds secrets: never print it.
///
/// ```
/// use toolnexus_mcp::{Headers, expand_env_headers};
/// let raw: Headers = [("X-Price", "$5 ${}")].into_iter().collect();
/// assert_eq!(expand_env_headers(&raw).get("x-price"), Some("$5 ${}"));
/// ```
pub fn expand_env_headers(raw: &Headers) -> Headers {
    raw.iter().map(|(name, value)| (name, env::expand(value))).collect()
}

/// What may be shown of headers: see [`HeaderShape`]. Holds no value and no length.
pub fn header_shape(raw: &Headers, expanded: &Headers) -> HeaderShape {
    let mut keys: Vec<String> = raw.iter().map(|(name, _)| name.to_owned()).collect();
    keys.sort_unstable();
    let filled = raw.iter().any(|(name, value)| {
        !env::variables(value).is_empty()
            && expanded.get(name).is_some_and(|text| text != env::without_variables(value))
    });
    HeaderShape { keys, expanded: filled }
}
