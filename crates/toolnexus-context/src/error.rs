//! What can be wrong with a configuration.

/// Why a [`RegistryConfig`](crate::RegistryConfig) cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// Two kinds, spaces, legacy letters or private prefixes are the same.
    #[error("the {what} \"{value}\" is given twice; each must be its own")]
    Duplicate {
        /// What is repeated: `kind`, `space`, `legacy letter` or `private prefix`.
        what: &'static str,
        /// The repeated value.
        value: String,
    },
    /// A kind's name is malformed.
    #[error("the kind name \"{0}\" is not of the form [a-z][a-z0-9]*")]
    KindName(String),
    /// A kind's name would collide with something else that is written like a handle.
    #[error("the kind name \"{name}\" is reserved ({reason}); choose another")]
    ReservedKind {
        /// The name.
        name: String,
        /// What it would collide with.
        reason: &'static str,
    },
    /// A kind's legacy letter is no ASCII letter.
    #[error("the legacy letter {0:?} is no ASCII letter; choose one of a to z")]
    LegacyLetter(char),
    /// The prefix of a private or routing space is malformed.
    #[error("the prefix \"{0}\" is not of the form [A-Za-z][A-Za-z0-9_-]* without a digit at its end")]
    Prefix(String),
    /// The scheme of durable URIs is malformed.
    #[error("the URI scheme \"{0}\" is not of the form [a-z][a-z0-9+.-]*")]
    Scheme(String),
    /// A resource pattern is no regular expression.
    #[error("the resource pattern \"{pattern}\" cannot be compiled: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A resource pattern matches the empty string, so it would match everywhere.
    #[error("the resource pattern \"{0}\" matches the empty string; it must need at least one character")]
    EmptyPattern(String),
    /// Something names a kind or space that the configuration does not have.
    #[error("{place} names \"{name}\", which is no {what} of this configuration; {}", remedy(known))]
    UnknownSpace {
        /// Where the name stands.
        place: String,
        /// The name.
        name: String,
        /// What it should have been: `kind`, `citable kind`, `private space` or `routing space`.
        what: &'static str,
        /// The names that the configuration has.
        known: Vec<String>,
    },
    /// A key is said to hold ids of no kind at all.
    #[error("{0} names no kind; name at least one, or remove the key")]
    NoKind(String),
    /// A tool decodes a key that no space is known for.
    #[error(
        "the policy of \"{tool}\" has the id key \"{key}\", which is in neither key_spaces nor kinds_override; add it to one"
    )]
    UnknownKey {
        /// The tool.
        tool: String,
        /// The key.
        key: String,
    },
    /// A tool's evidence key is not decoded.
    #[error(
        "the policy of \"{tool}\" has the evidence key \"{key}\", which is not among its id_keys; add it there"
    )]
    EvidenceKey {
        /// The tool.
        tool: String,
        /// The key.
        key: String,
    },
    /// A structured-text key is an id key of the configuration.
    #[error(
        "the policy of \"{tool}\" has the text key \"{key}\", which key_spaces says is an id; use an id key, or remove it there"
    )]
    TextKeyIsId {
        /// The tool.
        tool: String,
        /// The key.
        key: String,
    },
    /// One key of a tool has two roles.
    #[error(
        "the policy of \"{tool}\" uses the key \"{key}\" both as {first} and as {second}; give it one role"
    )]
    TwoRoles {
        /// The tool.
        tool: String,
        /// The key.
        key: String,
        /// The one role.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A routing key leads to one space in one policy and to another in this one.
    #[error(
        "the policy of \"{tool}\" routes by \"{key}\" in another space than an earlier policy does; use one space for one key"
    )]
    TwoRoutes {
        /// The tool.
        tool: String,
        /// The key.
        key: String,
    },
    /// The tag of a citation format is malformed, or the one by which models cite.
    #[error(
        "the citation format of \"{kind}\" has the tag name \"{tag}\"; it must be of the form [A-Za-z][A-Za-z0-9_-]* and not ref"
    )]
    TagName {
        /// The kind.
        kind: String,
        /// The tag name.
        tag: String,
    },
    /// A number that must not be zero is.
    #[error("{0} is 0; it must be at least 1")]
    Zero(&'static str),
}

fn remedy(known: &[String]) -> String {
    if known.is_empty() { "add it".into() } else { format!("add it, or use one of: {}", known.join(", ")) }
}
