//! Where requests go, and what every one of them carries.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use memchr::memmem::Finder;
use secrecy::{ExposeSecret as _, SecretString};
use toolnexus_core::http::{HeaderMap, HeaderName, HeaderValue, TransportError, Url};
use toolnexus_core::redact::REDACTION_TOKEN;

use crate::client::ClientInner;
use crate::error::{invalid_response, secrets_of};
use crate::run::ModelAnswer;
use crate::wire::{Wire, wire};
use crate::{ClientError, ClientOptions, Message, key};

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
    /// The credentials that requests carry, one in a line: no header can hold a line break.
    pub(crate) secret: SecretString,
    /// The same, to be looked for in answers.
    secrets: Vec<Finder<'static>>,
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
        if options.model.is_empty() && !options.base_url.trim().is_empty() {
            return Err(ClientError::Config("model is empty: set it to the model's name".into()));
        }
        Endpoint::of_provider(options, in_process)
    }

    /// The same for a call that concerns no model.
    pub(crate) fn of_provider(options: &ClientOptions, in_process: bool) -> Result<Self, ClientError> {
        if options.base_url.trim().is_empty() {
            return Err(ClientError::Config("base_url is empty: set it to the provider's address".into()));
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
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| invalid())?;
            // Whatever logs headers shows none that may be a credential.
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        let given = options.headers.iter().filter_map(|(name, value)| credential_in(name, value));
        let sent = std::iter::once(credential.value.expose_secret()).chain(given);
        // Nothing is sent to a model in this process: what stands for the key is an ordinary word of it.
        let secret: Vec<&str> = if in_process { Vec::new() } else { sent.collect() };
        let secret = SecretString::from(secret.join("\n"));
        let spellings = secrets_of(secret.expose_secret());
        let secrets = spellings.iter().map(|secret| Finder::new(secret.as_bytes()).into_owned()).collect();
        Ok(Endpoint {
            dialect,
            origin: parsed.origin().ascii_serialization(),
            base: parsed,
            query,
            fixed: OnceLock::new(),
            headers,
            secret,
            secrets,
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

    /// The host, for traces.
    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The port, for traces.
    pub(crate) fn port(&self) -> u16 {
        self.base.port_or_known_default().unwrap_or_default()
    }

    /// A piece of an answer, without the credentials that its provider may echo.
    pub(crate) fn hide<'b>(&self, answer: Cow<'b, [u8]>) -> Cow<'b, [u8]> {
        self.secrets.iter().fold(answer, |answer, secret| replaced(secret, answer))
    }

    /// A streamed answer, put together, without the credentials: pieces that held none may make one.
    pub(crate) fn hide_assembled(&self, mut answer: ModelAnswer) -> ModelAnswer {
        let Some(message) = &answer.message else { return answer };
        let Cow::Owned(json) = self.hide(Cow::Borrowed(message.json())) else { return answer };
        answer.message = Some(Message::of_model(json.into()));
        self.hide_text(&mut answer.text);
        for call in &mut answer.calls {
            self.hide_text(&mut call.id);
            self.hide_text(&mut call.name);
            call.invalid.iter_mut().for_each(|reason| self.hide_text(reason));
            let args = serde_json::to_vec(&*call.args).unwrap_or_default();
            if let Cow::Owned(args) = self.hide(args.as_slice().into()) {
                call.args = Arc::new(serde_json::from_slice(&args).unwrap_or_default());
            }
        }
        answer
    }

    fn hide_text(&self, text: &mut String) {
        if let Cow::Owned(hidden) = self.hide(text.as_bytes().into()) {
            *text = String::from_utf8_lossy(&hidden).into_owned();
        }
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

/// The credential in a header that a host has given, if it is one that carries any.
fn credential_in<'v>(name: &str, value: &'v str) -> Option<&'v str> {
    let name = name.to_ascii_lowercase();
    if matches!(name.as_str(), "authorization" | "proxy-authorization") {
        // Behind the scheme.
        return value.split_whitespace().next_back();
    }
    let carries = name == "cookie" || ["key", "token", "secret"].iter().any(|end| name.ends_with(end));
    carries.then(|| value.trim())
}

fn replaced<'b>(secret: &Finder<'_>, text: Cow<'b, [u8]>) -> Cow<'b, [u8]> {
    if secret.find(&text).is_none() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    for at in secret.find_iter(&text) {
        out.extend_from_slice(text.get(done..at).unwrap_or_default());
        out.extend_from_slice(REDACTION_TOKEN.as_bytes());
        done = at + secret.needle().len();
    }
    out.extend_from_slice(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
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
