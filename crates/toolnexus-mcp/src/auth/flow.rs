//! One sign-in, step by step.

use std::sync::Arc;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig, CredentialStore as _,
    InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse, StoredCredentials,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tracing::instrument::WithSubscriber as _;
use url::{Url, form_urlencoded};

use super::assertion::SigningKey;
use super::challenge::{Challenge, join};
use super::http::OAuthHttp;
use super::problem::Problem;
use super::record::{Client, Record, Tokens, now};
use super::settings::{Grant, Settings};
use super::sign_in::McpSignInRequest;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Signs in to one server.
pub(super) struct Flow<'a> {
    pub(super) server: &'a str,
    pub(super) resource: &'a Url,
    pub(super) settings: &'a Settings,
    pub(super) http: &'a OAuthHttp,
}

/// An authorization server, as it describes itself.
pub(super) struct Found {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
}

/// Runs a part of rmcp's. It logs codes and whatever a token endpoint answers beside the tokens.
async fn quiet<T>(work: impl Future<Output = T>) -> T {
    Box::pin(work).with_subscriber(tracing::Dispatch::none()).await
}

impl Flow<'_> {
    /// Gets a new record in answer to a refusal.
    pub(super) async fn sign_in(
        &self,
        mut record: Record,
        challenge: &Challenge,
    ) -> Result<(Record, Found), Problem> {
        let mut found = self.discover(challenge.header.as_deref()).await?;
        record.bind(found.metadata.issuer.as_deref());
        let scopes = self.scopes(&found, &record, challenge).await;
        let tokens = match &self.settings.grant {
            Grant::Code => self.by_person(&mut found, &mut record, &scopes).await?,
            Grant::Secret => self.by_secret(&mut found, &scopes).await?,
            Grant::Key(key) => self.by_key(&found, key, &scopes).await?,
        };
        record.tokens = Some(tokens);
        Ok((record, found))
    }

    async fn discover(&self, challenge: Option<&str>) -> Result<Found, Problem> {
        let http = Arc::new(self.http.clone());
        quiet(async {
            let mut manager = AuthorizationManager::new_with_oauth_http_client(self.resource.as_str(), http)
                .await
                .map_err(|_| Problem::Unusable)?;
            let resolution = manager.resolve_metadata_from_challenge(challenge).await;
            let metadata = resolution
                .map_err(|error| match error {
                    AuthError::DiscoveryRequestFailed { .. }
                    | AuthError::AuthorizationServersUnavailable { .. } => Problem::NoServer,
                    _ => Problem::Unusable,
                })?
                .metadata;
            let usable =
                |address: &str| Url::parse(address).is_ok_and(|address| self.http.may_reach(&address));
            if !usable(&metadata.authorization_endpoint) || !usable(&metadata.token_endpoint) {
                return Err(Problem::Unusable);
            }
            manager.set_metadata(metadata.clone());
            Ok(Found { manager, metadata })
        })
        .await
    }

    /// Those that are configured, else those of the server; what was granted before is not lost.
    async fn scopes(&self, found: &Found, record: &Record, challenge: &Challenge) -> Vec<String> {
        let mut scopes = match &self.settings.scopes[..] {
            [] => quiet(found.manager.select_initial_scopes(&[])).await,
            configured => configured.to_vec(),
        };
        join(&mut scopes, challenge.scopes.iter().cloned());
        if let Some(tokens) = &record.tokens {
            join(&mut scopes, tokens.scopes.iter().cloned());
        }
        scopes
    }

    async fn by_person(
        &self,
        found: &mut Found,
        record: &mut Record,
        scopes: &[String],
    ) -> Result<Tokens, Problem> {
        let sign_in = self.settings.sign_in.as_ref().ok_or(Problem::NobodyToAsk)?;
        let visit = sign_in.prepare(self.settings.redirect_port).await?;
        let client = self.client(found, record, visit.redirect_uri(), scopes).await?;
        configure(&mut found.manager, &client)?;
        let asked: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = quiet(found.manager.get_authorization_url(&asked)).await.map_err(|_| Problem::Unusable)?;
        let state = parameter(&url, "state").ok_or(Problem::Unusable)?;

        let request = McpSignInRequest { server: self.server.to_owned(), url };
        let redirected = visit.go(request, &state).await?;
        let value = |name| parameter(&redirected, name);
        if value("state").is_none_or(|given| given != state) {
            return Err(Problem::WrongState);
        }
        let Some(code) = value("code") else {
            return Err(if value("error").is_some() { Problem::Refused } else { Problem::NoCode });
        };
        let issuer = value("iss");
        let exchange = found.manager.exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref());
        let answer = quiet(exchange).await.map_err(|_| Problem::Token)?;
        read(&answer, &client.id, scopes)
    }

    /// The client to sign in as, in the order that MCP recommends.
    async fn client(
        &self,
        found: &mut Found,
        record: &mut Record,
        redirect_uri: String,
        scopes: &[String],
    ) -> Result<Client, Problem> {
        if let Some(id) = &self.settings.client_id {
            let secret = self.settings.client_secret.as_ref();
            let secret = secret.map(|secret| secret.expose_secret().to_owned());
            return Ok(Client { id: id.clone(), secret, redirect_uri });
        }
        let takes_documents = found.metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(url) = &self.settings.client_metadata_url
            && takes_documents.and_then(Value::as_bool) == Some(true)
        {
            return Ok(Client { id: url.clone(), secret: None, redirect_uri });
        }
        if let Some(client) = record.client.as_ref().filter(|client| client.redirect_uri == redirect_uri) {
            return Ok(client.clone());
        }
        if found.metadata.registration_endpoint.is_none() {
            return Err(Problem::NoClient);
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = found.manager.register_client(&self.settings.client_name, &redirect_uri, &scopes);
        let registered = quiet(registered).await.map_err(|_| Problem::Registration)?;
        let client = Client { id: registered.client_id, secret: registered.client_secret, redirect_uri };
        record.client = Some(client.clone());
        Ok(client)
    }

    async fn by_secret(&self, found: &mut Found, scopes: &[String]) -> Result<Tokens, Problem> {
        let settings = self.settings;
        let (Some(client_id), Some(secret)) = (&settings.client_id, &settings.client_secret) else {
            return Err(Problem::NoClient);
        };
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: client_id.clone(),
            client_secret: secret.expose_secret().to_owned(),
            scopes: scopes.to_vec(),
            resource: Some(self.resource.as_str().to_owned()),
        };
        let answer = quiet(async {
            found.manager.configure_client_credentials(&config)?;
            found.manager.exchange_client_credentials(&config).await
        });
        read(&answer.await.map_err(|_| Problem::Token)?, client_id, scopes)
    }

    async fn by_key(&self, found: &Found, key: &SigningKey, scopes: &[String]) -> Result<Tokens, Problem> {
        let client_id = self.settings.client_id.as_deref().ok_or(Problem::NoClient)?;
        let endpoint = &found.metadata.token_endpoint;
        let audience = found.metadata.issuer.as_deref().unwrap_or(endpoint);
        let assertion = key.assertion(client_id, audience, now())?;
        let form = {
            let mut form = form_urlencoded::Serializer::new(String::new());
            form.append_pair("grant_type", "client_credentials")
                .append_pair("client_assertion_type", ASSERTION_TYPE)
                .append_pair("client_assertion", assertion.expose_secret())
                .append_pair("resource", self.resource.as_str());
            if !scopes.is_empty() {
                form.append_pair("scope", &scopes.join(" "));
            }
            form.finish()
        };
        let answer = self.http.post_form(endpoint, &form).await.ok_or(Problem::Token)?;
        let body: Value = serde_json::from_slice(answer.body()).map_err(|_| Problem::Token)?;
        let tokens = answer.status().is_success().then(|| Tokens::read(&body, client_id, scopes, now()));
        tokens.flatten().ok_or(Problem::Token)
    }

    /// Renews the tokens of a record. `None`: they cannot be renewed, and somebody has to sign in.
    pub(super) async fn renew(
        &self,
        found: &mut Option<Found>,
        record: &Record,
    ) -> Result<Option<Tokens>, Problem> {
        let Some(tokens) = &record.tokens else { return Ok(None) };
        let Some(refresh) = &tokens.refresh else { return Ok(None) };
        if found.is_none() {
            *found = Some(self.discover(None).await?);
        }
        let Some(Found { manager, metadata }) = found else { return Ok(None) };
        if metadata.issuer != record.issuer {
            return Ok(None);
        }
        let configured = self.settings.client_id.as_ref().filter(|id| **id == tokens.client_id);
        let secret = match (configured, &record.client) {
            (Some(_), _) => self.settings.client_secret.as_ref().map(|secret| secret.expose_secret().into()),
            (None, Some(client)) if client.id == tokens.client_id => client.secret.clone(),
            _ => None,
        };
        let redirect_uri = self.resource.as_str().to_owned();
        configure(manager, &Client { id: tokens.client_id.clone(), secret, redirect_uri })?;

        let kept = json!({"access_token": "", "token_type": "bearer", "refresh_token": refresh});
        let kept = serde_json::from_value::<OAuthTokenResponse>(kept).map_err(|_| Problem::Token)?;
        let kept = StoredCredentials::new(tokens.client_id.clone(), Some(kept), tokens.scopes.clone(), None);
        let answer = quiet(async {
            let store = InMemoryCredentialStore::new();
            store.save(kept).await?;
            manager.set_credential_store(store);
            manager.refresh_token().await
        });
        match answer.await {
            Ok(answer) => read(&answer, &tokens.client_id, &tokens.scopes).map(Some),
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => Ok(None),
            Err(_) => Err(Problem::Token),
        }
    }
}

fn configure(manager: &mut AuthorizationManager, client: &Client) -> Result<(), Problem> {
    let mut config = OAuthClientConfig::new(&client.id, &client.redirect_uri);
    if let Some(secret) = &client.secret {
        config = config.with_client_secret(secret);
    }
    manager.configure_client(config).map_err(|_| Problem::Unusable)
}

fn read(answer: &OAuthTokenResponse, client_id: &str, scopes: &[String]) -> Result<Tokens, Problem> {
    let answer = serde_json::to_value(answer).map_err(|_| Problem::Token)?;
    Tokens::read(&answer, client_id, scopes, now()).ok_or(Problem::Token)
}

/// The first value of a query parameter.
fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
