//! Before each request and after each refusal.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use rmcp::model::RequestId;
use tokio::sync::Mutex as AsyncMutex;
use toolnexus_core::BoxError;
use tracing::{debug, warn};
use url::Url;

use super::asking::{Asking, UnderWay};
use super::challenge::Challenge;
use super::flow::{Flow, Found};
use super::http::{OAuthHttp, is_secure};
use super::problem::Problem;
use super::record::{Record, Tokens, now};
use super::settings::Settings;
use super::store::McpTokenStore;
use crate::config::McpServerConfig;
use crate::failure::{Fault, McpFailureKind};
use crate::http::fault_of;
use crate::in_flight::{CallsInFlight, Question};

/// How often one request is sent again in all, whatever it is refused for.
const MAX_ROUNDS: u32 = 8;

/// The longest time for one request to an authorization server.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Signed in to one server, or about to be. Shared by all connections to it.
pub(super) struct Authorizer {
    server: String,
    resource: Url,
    settings: Arc<Settings>,
    store: Arc<dyn McpTokenStore>,
    http: OAuthHttp,
    /// What requests are sent with.
    tokens: Mutex<Option<Tokens>>,
    /// Held by whoever signs in or renews.
    turn: AsyncMutex<Turn>,
}

#[derive(Default)]
struct Turn {
    record: Option<Record>,
    /// The authorization server, once it was looked for.
    found: Option<Found>,
}

/// One connection's way to be signed in.
pub(crate) struct Gate {
    authorizer: Arc<Authorizer>,
    asking: Asking,
    calls: Arc<CallsInFlight>,
    /// The person has been asked, and it came to nothing.
    failed: OnceLock<Problem>,
}

/// What was tried already to get one request through.
#[derive(Default)]
struct Tried {
    rounds: u32,
    renewed: bool,
    signed_in: bool,
    step_ups: u32,
}

impl Gate {
    /// The gate of a connection: none without `auth`, or where the entry's own header wins.
    pub(crate) fn of(
        config: &McpServerConfig,
        asking: Asking,
        calls: Arc<CallsInFlight>,
    ) -> Result<Option<Self>, Fault> {
        let Some(auth) = &config.auth else { return Ok(None) };
        if config.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            debug!("[toolnexus] server \"{}\" has an authorization header: auth is not used", config.name);
            return Ok(None);
        }
        let resource = resource(config.url.as_deref().unwrap_or_default())
            .ok_or_else(|| Fault::with_detail(McpFailureKind::Config, "url is not an http or https url"))?;
        if !is_secure(&resource) {
            return Err(Fault::with_detail(McpFailureKind::Config, Problem::Insecure.to_string()));
        }
        let limit = Duration::from_millis(config.timeout_ms).min(REQUEST_LIMIT);
        let http = OAuthHttp::new(&resource, limit);
        let authorizer = auth.authorizer(resource.as_str(), |settings, store| Authorizer {
            server: config.name.clone(),
            resource: resource.clone(),
            settings,
            store,
            http,
            tokens: Mutex::default(),
            turn: AsyncMutex::default(),
        });
        Ok(Some(Gate { authorizer, asking, calls, failed: OnceLock::new() }))
    }

    /// Sends a request, signed in; signs in when it is refused for that, and sends it again. The clock
    /// of `call` stands still meanwhile.
    pub(crate) async fn send(
        &self,
        request: reqwest::RequestBuilder,
        call: Option<&RequestId>,
    ) -> Result<reqwest::Response, Fault> {
        let mut tried = Tried::default();
        loop {
            let tokens = self.tokens(call).await?;
            let copy = request.try_clone().ok_or_else(|| Fault::transport("write-failed"))?;
            let response = signed(copy, tokens.as_ref()).send().await.map_err(|error| fault_of(&error))?;
            let Some(challenge) = Challenge::of(&response, &self.authorizer.resource) else {
                return Ok(response);
            };
            drop(response);
            tried.rounds += 1;
            let status = challenge.status;
            let result = {
                let _held = self.hold(call);
                Box::pin(self.answer(&challenge, tokens.as_ref(), &mut tried)).await
            };
            result.map_err(|problem| problem.fault(status))?;
        }
    }

    /// Sends a request as things are: nobody signs in for it.
    pub(crate) async fn send_as_is(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, reqwest::Error> {
        signed(request, self.authorizer.current().as_ref()).send().await
    }

    /// Stops the clocks that the time of a sign-in does not count on.
    fn hold(&self, call: Option<&RequestId>) -> (UnderWay, Option<Question>) {
        (self.asking.begin(), call.map(|id| self.calls.hold(id.clone())))
    }

    /// The tokens to send a request with, renewed when their time has come.
    async fn tokens(&self, call: Option<&RequestId>) -> Result<Option<Tokens>, Fault> {
        if let Some(tokens) = self.authorizer.current().filter(|tokens| !tokens.is_stale(now())) {
            return Ok(Some(tokens));
        }
        let _held = self.hold(call);
        let mut turn = self.authorizer.turn.lock().await;
        self.authorizer.load(&mut turn).await;
        let Some(tokens) = self.authorizer.current() else { return Ok(None) };
        if !tokens.is_stale(now()) {
            return Ok(Some(tokens));
        }
        self.authorizer.renew(&mut turn).await.map_err(|problem| problem.fault(StatusCode::UNAUTHORIZED))?;
        // Tokens that could not be renewed are sent: the server knows best whether they still do.
        Ok(self.authorizer.current())
    }

    /// Does something about a refusal, so that the request may be sent again.
    async fn answer(
        &self,
        challenge: &Challenge,
        used: Option<&Tokens>,
        tried: &mut Tried,
    ) -> Result<(), Problem> {
        let mut turn = self.authorizer.turn.lock().await;
        if tried.rounds > MAX_ROUNDS {
            return Err(Problem::StillRefused);
        }
        let current = self.authorizer.current();
        if current.as_ref().map(|tokens| &tokens.access) != used.map(|tokens| &tokens.access) {
            // Somebody else was here first.
            return Ok(());
        }
        if challenge.status == StatusCode::FORBIDDEN {
            let granted = current.as_ref().map(|tokens| &tokens.scopes[..]).unwrap_or_default();
            let new = challenge.scopes.iter().any(|scope| !granted.contains(scope));
            if !new || tried.step_ups >= self.authorizer.settings.max_step_ups {
                return Err(Problem::StillRefused);
            }
            tried.step_ups += 1;
        } else {
            if used.is_some() && !tried.renewed {
                tried.renewed = true;
                if self.authorizer.renew(&mut turn).await? {
                    return Ok(());
                }
            }
            if tried.signed_in {
                return Err(Problem::StillRefused);
            }
            tried.signed_in = true;
        }
        if let Some(problem) = self.failed.get() {
            return Err(*problem);
        }
        let result = self.authorizer.sign_in(&mut turn, challenge).await;
        if let Err(problem) = result {
            let _ = self.failed.set(problem);
        }
        result
    }
}

/// What a server is called where tokens are asked for and kept: its URL without what may be secret.
pub(super) fn resource(url: &str) -> Option<Url> {
    let mut resource = Url::parse(url).ok()?;
    resource.set_username("").ok()?;
    resource.set_password(None).ok()?;
    resource.set_query(None);
    resource.set_fragment(None);
    Some(resource)
}

impl Authorizer {
    /// Forgets tokens and client, here and where they are kept.
    pub(super) async fn forget(&self) -> Result<(), BoxError> {
        let mut turn = self.turn.lock().await;
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = None;
        turn.record = None;
        self.store.clear(self.resource.as_str()).await
    }

    fn current(&self) -> Option<Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn flow(&self) -> Flow<'_> {
        Flow { server: &self.server, resource: &self.resource, settings: &self.settings, http: &self.http }
    }

    /// Reads what is kept, once.
    async fn load(&self, turn: &mut Turn) {
        if turn.record.is_some() {
            return;
        }
        let kept = self.kept().await.unwrap_or_default();
        self.take(turn, kept);
    }

    async fn kept(&self) -> Option<Record> {
        let loaded = async { self.store.load(self.resource.as_str()).await };
        match AssertUnwindSafe(loaded).catch_unwind().await {
            Ok(Ok(kept)) => kept.as_ref().and_then(Record::from_secret),
            Ok(Err(_)) | Err(_) => {
                warn!("[toolnexus] MCP server \"{}\": the kept sign-in could not be read", self.server);
                None
            }
        }
    }

    fn take(&self, turn: &mut Turn, record: Record) {
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = record.tokens.clone();
        turn.record = Some(record);
    }

    async fn keep(&self, turn: &mut Turn, record: Record) {
        let secret = record.to_secret();
        let saved = async { self.store.save(self.resource.as_str(), &secret).await };
        if !matches!(AssertUnwindSafe(saved).catch_unwind().await, Ok(Ok(()))) {
            warn!("[toolnexus] MCP server \"{}\": the sign-in could not be kept", self.server);
        }
        self.take(turn, record);
    }

    /// Gets new tokens for those that have run out, if that needs nobody. Another process may have
    /// done it: its tokens are taken, since a refresh token is often good for one time only.
    async fn renew(&self, turn: &mut Turn) -> Result<bool, Problem> {
        let used = self.current();
        if let Some(kept) = self.kept().await
            && let Some(tokens) = &kept.tokens
            && used.as_ref().is_none_or(|used| used.access != tokens.access)
        {
            let fresh = !tokens.is_stale(now());
            self.take(turn, kept);
            if fresh {
                return Ok(true);
            }
        }
        let Some(mut record) = turn.record.clone() else { return Ok(false) };
        let Some(tokens) = Box::pin(self.flow().renew(&mut turn.found, &record)).await? else {
            return Ok(false);
        };
        debug!("[toolnexus] MCP server \"{}\": tokens renewed", self.server);
        record.tokens = Some(tokens);
        self.keep(turn, record).await;
        Ok(true)
    }

    async fn sign_in(&self, turn: &mut Turn, challenge: &Challenge) -> Result<(), Problem> {
        let record = turn.record.clone().unwrap_or_default();
        let flow = self.flow();
        let signing_in = Box::pin(flow.sign_in(record, challenge));
        let result = tokio::time::timeout(self.settings.sign_in_limit, signing_in).await;
        match result.unwrap_or(Err(Problem::TooLong)) {
            Ok((record, found)) => {
                debug!("[toolnexus] MCP server \"{}\": signed in", self.server);
                turn.found = Some(found);
                self.keep(turn, record).await;
                Ok(())
            }
            Err(problem) => {
                warn!("[toolnexus] MCP server \"{}\": {problem}", self.server);
                Err(problem)
            }
        }
    }
}

fn signed(request: reqwest::RequestBuilder, tokens: Option<&Tokens>) -> reqwest::RequestBuilder {
    let Some(tokens) = tokens else { return request };
    // A token that cannot be a header is as good as none.
    let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", tokens.access)) else { return request };
    value.set_sensitive(true);
    request.header(AUTHORIZATION, value)
}
