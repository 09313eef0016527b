//! How much of a result a view shows.

/// How much of a result a view shows. Counted in Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Each evidence text of a web search. Default 500.
    pub search_evidence: usize,
    /// The summary of a fetched page. Default 4000.
    pub fetch_summary: usize,
    /// The content of a fetched page. Default 8000.
    pub fetch_content: usize,
    /// Summaries and contents of all fetched pages together. Default 16000.
    pub fetch_total: usize,
    /// Links listed below an external result. Default 50.
    pub sidecar_links: usize,
    /// The longest link that is listed, in bytes. Default 2048.
    pub sidecar_link_len: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            search_evidence: 500,
            fetch_summary: 4000,
            fetch_content: 8000,
            fetch_total: 16000,
            sidecar_links: 50,
            sidecar_link_len: 2048,
        }
    }
}
