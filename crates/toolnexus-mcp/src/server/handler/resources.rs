//! Resources as hooks give them, and as they go out.

use serde::Serialize;

/// Some entries of a list, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPage<T> {
    /// The entries.
    pub items: Vec<T>,
    /// What to ask with for the next page. `None`: this is the last one.
    pub next_cursor: Option<String>,
}

/// The only page.
impl<T> From<Vec<T>> for McpPage<T> {
    fn from(items: Vec<T>) -> Self {
        McpPage { items, next_cursor: None }
    }
}

/// A resource that a client may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// What it is read by.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// For example `text/plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A family of resources whose URIs follow a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceTemplate {
    /// The template, RFC 6570.
    pub uri_template: String,
    /// What it is called.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the resources hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The mime type that all of them have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// What is behind a URI.
///
/// ```
/// use toolnexus_mcp::server::McpResourceContents;
/// let contents = McpResourceContents::text("file:///a.txt", "text/plain", "hello");
/// assert_eq!(serde_json::to_value(contents).unwrap()["text"], "hello");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceContents {
    /// Which resource this is of.
    pub uri: String,
    /// For example `text/plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The contents.
    #[serde(flatten)]
    pub data: McpResourceData,
}

/// The contents themselves, in the form in which they go out.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum McpResourceData {
    /// Text.
    Text(String),
    /// Bytes in standard base64.
    Blob(String),
}

impl McpResourceContents {
    /// Text.
    pub fn text(uri: impl Into<String>, mime_type: impl Into<String>, text: impl Into<String>) -> Self {
        let data = McpResourceData::Text(text.into());
        McpResourceContents { uri: uri.into(), mime_type: Some(mime_type.into()), data }
    }

    /// Bytes, given in standard base64.
    pub fn base64(uri: impl Into<String>, mime_type: impl Into<String>, base64: impl Into<String>) -> Self {
        let data = McpResourceData::Blob(base64.into());
        McpResourceContents { uri: uri.into(), mime_type: Some(mime_type.into()), data }
    }

    /// Bytes.
    pub fn bytes(uri: impl Into<String>, mime_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        use base64::Engine as _;
        Self::base64(uri, mime_type, base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

/// Shows the size of the contents, not the contents.
impl std::fmt::Debug for McpResourceData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            McpResourceData::Text(text) => write!(f, "Text({} bytes)", text.len()),
            McpResourceData::Blob(base64) => write!(f, "Blob({} characters)", base64.len()),
        }
    }
}
