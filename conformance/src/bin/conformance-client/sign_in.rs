//! How the client signs in, by scenario.

use serde_json::Value;
use toolnexus::BoxError;
use toolnexus::mcp::{McpAuth, McpSignIn, McpSignInRequest};

/// The document that the suite knows its client by.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Where the suite's authorization servers send the browser. Nobody listens there: the address
/// itself is all that is needed.
const REDIRECT_URI: &str = "http://localhost:3000/callback";

pub(crate) fn auth(scenario: &str, context: &Value) -> McpAuth {
    let text = |key: &str| context.get(key).and_then(Value::as_str).unwrap_or_default();
    match scenario {
        "auth/client-credentials-basic" => {
            McpAuth::client_credentials(text("client_id"), text("client_secret"))
        }
        "auth/client-credentials-jwt" => {
            McpAuth::private_key(text("client_id"), &text("private_key_pem").into())
        }
        _ => {
            let mut auth = McpAuth::new()
                .client_metadata_url(CLIENT_DOCUMENT)
                .sign_in(McpSignIn::redirected(REDIRECT_URI, agree));
            if !text("client_id").is_empty() {
                auth = auth.client_id(text("client_id"));
            }
            if !text("client_secret").is_empty() {
                auth = auth.client_secret(text("client_secret"));
            }
            auth
        }
    }
}

/// A browser whose person agrees to everything: the suite's servers redirect at once.
async fn agree(request: McpSignInRequest) -> Result<String, BoxError> {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let response = browser.get(request.url).send().await?;
    let address = response.headers().get(reqwest::header::LOCATION).ok_or("no redirect")?;
    Ok(address.to_str()?.to_owned())
}
