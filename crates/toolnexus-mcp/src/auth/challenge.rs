//! What a refusal asks for.

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

/// A refusal that signing in may answer.
pub(super) struct Challenge {
    pub(super) status: StatusCode,
    /// The header that says how, as it came.
    pub(super) header: Option<String>,
    /// For a 403: the scopes that the request needs.
    pub(super) scopes: Vec<String>,
}

impl Challenge {
    /// The challenge in a response: any 401, and a 403 that wants more scopes.
    pub(super) fn of(response: &reqwest::Response, resource: &Url) -> Option<Self> {
        let status = response.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return None;
        }
        let headers = || {
            let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
            values.filter_map(|value| value.to_str().ok()).filter(|value| is_bearer(value))
        };
        let read = |header: &str| WWWAuthenticateParams::parse(header, resource);
        if status == StatusCode::UNAUTHORIZED {
            let leads = |header: &&str| read(header).resource_metadata_url.is_some();
            let header = headers().find(leads).or_else(|| headers().next());
            return Some(Challenge { status, header: header.map(str::to_owned), scopes: Vec::new() });
        }
        headers().find_map(|header| {
            let params = read(header);
            let scopes = params.is_insufficient_scope().then(|| split(&params.scope.unwrap_or_default()))?;
            Some(Challenge { status, header: Some(header.to_owned()), scopes })
        })
    }
}

fn is_bearer(header: &str) -> bool {
    header.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
}

/// A list of scopes, as OAuth writes them.
pub(super) fn split(scopes: &str) -> Vec<String> {
    scopes.split_whitespace().map(str::to_owned).collect()
}

/// Adds the scopes that are missing.
pub(super) fn join(scopes: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for scope in more {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
}
