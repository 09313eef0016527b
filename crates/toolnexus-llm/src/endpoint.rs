//! Where requests go, and what every one of them carries.

use std::sync::{Arc, OnceLock};

use secrecy::{ExposeSecret as _, SecretString};
use toolnexus_core::http::{HeaderMap, HeaderName, HeaderValue, TransportError, Url};

use crate::client::ClientInner;
use crate::error::invalid_response;
use crate::wire::{Wire, wire};
use crate::{ClientError, ClientOptions, key};

/// The address, the headers and the credential of a run's requests.
pub(crate) struct Endpoint {
    dialect: &'static dyn Wire,
    base: Url,
    /// The query of the base URL, which belongs behind the endpoint's path.
    query: Option<String>,
    /// Where every request goes, for a dialect that does not name the model there.
    fixed: OnceLock<Url>,
    /// Scheme, host and port: what an error may name.
    pub(crate) origin: String,
    pub(crate) headers: HeaderMap,
    pub(crate) secret: SecretString,
    /// Whether a function answers, and no network.
    in_process: bool,
}

impl ClientInner {
    /// The endpoint of a run that begins now.
    ///
    /// A key that was given is used as it is, so the endpoint is worked out once; a key in the
    /// environment is looked up anew.
    pub(crate) fn endpoint(&self) -> Result<Arc<Endpoint>, ClientError> {
        if let Some(known) = self.endpoint.get() {
            return Ok(Arc::clone(known));
        }
        let endpoint = Arc::new(Endpoint::of(&self.options, self.in_process.is_some())?);
        if !self.options.api_key.expose_secret().is_empty() {
            // Another run may have been faster; both came to the same.
            let _ = self.endpoint.set(Arc::clone(&endpoint));
        }
        Ok(endpoint)
    }
}

impl Endpoint {
    /// Checks the options and puts the endpoint together.
    fn of(options: &ClientOptions, in_process: bool) -> Result<Self, ClientError> {
        if options.base_url.trim().is_empty() {
            return Err(ClientError::Config("base_url is empty: set it to the provider's address".into()));
        }
        if options.model.is_empty() {
            return Err(ClientError::Config("model is empty: set it to the model's name".into()));
        }
        let base = options.base_url.trim().trim_end_matches('/');
        let mut parsed = parse(base)?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(ClientError::Config(
                "base_url holds a user name or password: put the credential into api_key or headers".into(),
            ));
        }
        if parsed.fragment().is_some() {
            return Err(ClientError::Config("base_url has a fragment (#…): leave it out".into()));
        }
        let query = parsed.query().map(str::to_owned);
        parsed.set_query(None);
        if query.is_some() {
            let path = parsed.path().trim_end_matches('/').to_owned();
            parsed.set_path(&path);
        }
        let credential = key::resolve(options, &parsed)?;
        let dialect = wire(options.style);
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in dialect.headers(credential.value.expose_secret()) {
            let mut value = value.map_err(|()| {
                ClientError::Config(format!(
                    "the API key from {} holds characters that no HTTP header allows",
                    credential.origin
                ))
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        for (name, value) in &options.headers {
            let invalid = || {
                ClientError::Config(format!(
                    "the header \"{name}\" holds characters that HTTP does not allow"
                ))
            };
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            headers.insert(parsed, HeaderValue::try_from(value.as_str()).map_err(|_| invalid())?);
        }
        Ok(Endpoint {
            dialect,
            origin: parsed.origin().ascii_serialization(),
            base: parsed,
            query,
            fixed: OnceLock::new(),
            headers,
            secret: credential.value,
            in_process,
        })
    }

    /// Where a request for this model goes.
    pub(crate) fn url(&self, model: &str, streamed: bool) -> Url {
        if self.dialect.model_is_in_url() {
            return self.located(model, streamed);
        }
        self.fixed.get_or_init(|| self.located(model, streamed)).clone()
    }

    fn located(&self, model: &str, streamed: bool) -> Url {
        let mut url = self.base.clone();
        self.dialect.locate(&mut url, model, streamed);
        if let Some(given) = &self.query {
            let query = url.query().map_or_else(|| given.clone(), |own| format!("{own}&{given}"));
            url.set_query(Some(&query));
        }
        url
    }

    /// What a failure of the transport is to the caller; `what` says what the model did not do.
    pub(crate) fn failed(&self, what: &str, source: TransportError) -> ClientError {
        if self.in_process {
            return ClientError::Generate(source.into_source().unwrap_or_else(Into::into));
        }
        ClientError::Transport { context: format!("the model at {} {what}", self.origin), source }
    }

    /// An answer of this endpoint that cannot be read.
    pub(crate) fn unreadable(&self, problem: &str, body: &[u8]) -> ClientError {
        invalid_response(problem, body, self.secret.expose_secret())
    }
}

fn parse(url: &str) -> Result<Url, ClientError> {
    let parsed = Url::parse(url).map_err(|error| {
        ClientError::Config(format!("base_url cannot be read ({error}): it must be an http or https URL"))
    })?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(ClientError::Config(format!(
            "base_url has the scheme \"{}\": it must be an http or https URL",
            parsed.scheme()
        )));
    }
    Ok(parsed)
}
