//! What a host says about signing in.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use toolnexus_core::BoxError;

use super::assertion::SigningKey;
use super::authorizer::{Authorizer, resource};
use super::sign_in::McpSignIn;
use super::store::{InMemoryTokenStore, McpTokenStore};
use crate::config::McpServerConfig;
use crate::options::LoadMcpOptions;

/// The limit of a sign-in by a person when nothing else is said: 5 minutes.
const SIGN_IN_LIMIT: Duration = Duration::from_secs(300);

/// How often one request may ask for more scopes when nothing else is said.
const MAX_STEP_UPS: u32 = 2;

/// How this client signs in to a remote server. See [`crate::auth`] for what happens then.
///
/// Clones share their sign-ins, so one value serves all connections to a server: the second finds
/// the first one's tokens. `Debug` shows no secret.
///
/// ```
/// use toolnexus_mcp::{McpAuth, McpServerConfig, McpSignIn, ServerKind};
/// let mut server = McpServerConfig {
///     name: "docs".into(),
///     kind: ServerKind::Remote,
///     url: Some("https://example.com/mcp".into()),
///     ..Default::default()
/// };
/// server.auth = Some(McpAuth::new().sign_in(McpSignIn::browser(|request| {
///     println!("open {}", request.url);
///     Ok(())
/// })));
/// ```
#[derive(Clone, Default)]
pub struct McpAuth {
    settings: Arc<Settings>,
    sessions: Arc<Sessions>,
}

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) grant: Grant,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<SecretString>,
    pub(super) client_metadata_url: Option<String>,
    pub(super) client_name: String,
    pub(super) scopes: Vec<String>,
    pub(super) redirect_port: Option<u16>,
    pub(super) sign_in: Option<McpSignIn>,
    pub(super) store: Option<Arc<dyn McpTokenStore>>,
    pub(super) sign_in_limit: Duration,
    pub(super) max_step_ups: u32,
}

/// What a token is given for.
#[derive(Clone)]
pub(super) enum Grant {
    /// A person's consent.
    Code,
    /// The client's own secret.
    Secret,
    /// The client's own key.
    Key(SigningKey),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            grant: Grant::Code,
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            client_name: "toolnexus".to_owned(),
            scopes: Vec::new(),
            redirect_port: None,
            sign_in: None,
            store: None,
            sign_in_limit: SIGN_IN_LIMIT,
            max_step_ups: MAX_STEP_UPS,
        }
    }
}

/// The servers signed in to with one [`McpAuth`], by URL.
#[derive(Default)]
struct Sessions {
    store: Arc<InMemoryTokenStore>,
    by_url: Mutex<HashMap<String, Arc<Authorizer>>>,
}

impl McpAuth {
    /// A person signs in. Without [`sign_in`](Self::sign_in), here or in
    /// [`LoadMcpOptions::sign_in`], only tokens that are kept already can be used.
    pub fn new() -> Self {
        McpAuth::default()
    }

    /// The program signs in as itself, with an id and a secret (grant `client_credentials`). The
    /// secret goes the way that the authorization server takes: in the body, or as basic
    /// authentication where it takes nothing else.
    pub fn client_credentials(id: impl Into<String>, secret: impl Into<SecretString>) -> Self {
        McpAuth::new().with(|settings| {
            settings.grant = Grant::Secret;
            settings.client_id = Some(id.into());
            settings.client_secret = Some(secret.into());
        })
    }

    /// The program signs in as itself, with a key (grant `client_credentials`, client
    /// authentication `private_key_jwt`). `pem` is a PKCS #8 private key for ES256, ES384, EdDSA
    /// (Ed25519) or RS256; one that cannot be used makes every sign-in fail.
    pub fn private_key(id: impl Into<String>, pem: &SecretString) -> Self {
        McpAuth::new().with(|settings| {
            settings.grant = Grant::Key(SigningKey::from_pem(pem));
            settings.client_id = Some(id.into());
        })
    }

    /// The id of a client that was registered beforehand. Goes before the other two ways.
    #[must_use]
    pub fn client_id(self, id: impl Into<String>) -> Self {
        self.with(|settings| settings.client_id = Some(id.into()))
    }

    /// The secret of that client. Default: it has none.
    #[must_use]
    pub fn client_secret(self, secret: impl Into<SecretString>) -> Self {
        self.with(|settings| settings.client_secret = Some(secret.into()))
    }

    /// The https URL of a client metadata document, which is the client's id where the
    /// authorization server takes such. Otherwise, and without it, the client registers itself.
    #[must_use]
    pub fn client_metadata_url(self, url: impl Into<String>) -> Self {
        self.with(|settings| settings.client_metadata_url = Some(url.into()))
    }

    /// The name a client registers itself under. Default: `toolnexus`.
    #[must_use]
    pub fn client_name(self, name: impl Into<String>) -> Self {
        self.with(|settings| settings.client_name = name.into())
    }

    /// The scopes to ask for first. Default: those the server asks for, else those it knows.
    #[must_use]
    pub fn scopes(self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with(|settings| settings.scopes = scopes.into_iter().map(Into::into).collect())
    }

    /// The port that [`McpSignIn::browser`] listens on; the redirect address is
    /// `http://127.0.0.1:PORT/callback`. Default: a free one each time. Clients registered
    /// beforehand often need a fixed one.
    #[must_use]
    pub fn redirect_port(self, port: u16) -> Self {
        self.with(|settings| settings.redirect_port = Some(port))
    }

    /// How a person is asked.
    #[must_use]
    pub fn sign_in(self, sign_in: McpSignIn) -> Self {
        self.with(|settings| settings.sign_in = Some(sign_in))
    }

    /// Where tokens are kept. Default: in memory, for as long as this value or a clone lives.
    #[must_use]
    pub fn store(self, store: impl McpTokenStore + 'static) -> Self {
        self.with(|settings| settings.store = Some(Arc::new(store)))
    }

    /// How long a sign-in may take, from looking for the authorization server to the token, the
    /// person included. Default: 5 minutes.
    #[must_use]
    pub fn sign_in_limit(self, limit: Duration) -> Self {
        self.with(|settings| settings.sign_in_limit = limit)
    }

    /// How often one request may ask for more scopes before its refusal stands. Default: 2; with 0
    /// a server that wants more scopes is not answered.
    #[must_use]
    pub fn max_step_ups(self, times: u32) -> Self {
        self.with(|settings| settings.max_step_ups = times)
    }

    /// Forgets what is kept for the server at `url`, so that the next request there needs a new
    /// sign-in. The authorization server is not told.
    ///
    /// # Errors
    /// The store's own.
    pub async fn sign_out(&self, url: &str) -> Result<(), BoxError> {
        let Some(resource) = resource(url) else { return Ok(()) };
        let known = self.lock().get(resource.as_str()).cloned();
        match (known, &self.settings.store) {
            (Some(authorizer), _) => authorizer.forget().await,
            (None, Some(store)) => store.clear(resource.as_str()).await,
            (None, None) => Ok(()),
        }
    }

    /// Changed settings have sign-ins of their own.
    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self.sessions = Arc::default();
        self
    }

    pub(super) fn authorizer(
        &self,
        url: &str,
        make: impl FnOnce(Arc<Settings>, Arc<dyn McpTokenStore>) -> Authorizer,
    ) -> Arc<Authorizer> {
        let mut by_url = self.lock();
        let entry = by_url.entry(url.to_owned()).or_insert_with(|| {
            let store = self.settings.store.clone();
            let store = store.unwrap_or_else(|| Arc::clone(&self.sessions.store) as Arc<dyn McpTokenStore>);
            Arc::new(make(Arc::clone(&self.settings), store))
        });
        Arc::clone(entry)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Authorizer>>> {
        self.sessions.by_url.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for McpAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings = &self.settings;
        f.debug_struct("McpAuth")
            .field("client_id", &settings.client_id)
            .field("client_secret", &settings.client_secret.is_some())
            .field("client_metadata_url", &settings.client_metadata_url)
            .field("scopes", &settings.scopes)
            .field("redirect_port", &settings.redirect_port)
            .field("sign_in", &settings.sign_in)
            .finish_non_exhaustive()
    }
}

/// The entry with what the load says of signing in filled in.
pub(crate) fn completed<'a>(config: &'a McpServerConfig, opts: &LoadMcpOptions) -> Cow<'a, McpServerConfig> {
    let Some(auth) = &config.auth else { return Cow::Borrowed(config) };
    let sign_in = opts.sign_in.as_ref().filter(|_| auth.settings.sign_in.is_none());
    let store = opts.token_store.as_ref().filter(|_| auth.settings.store.is_none());
    if sign_in.is_none() && store.is_none() {
        return Cow::Borrowed(config);
    }
    let mut settings = Settings::clone(&auth.settings);
    settings.sign_in = settings.sign_in.or_else(|| sign_in.cloned());
    settings.store = settings.store.or_else(|| store.cloned());
    let mut config = config.clone();
    config.auth = Some(McpAuth { settings: Arc::new(settings), sessions: Arc::clone(&auth.sessions) });
    Cow::Owned(config)
}
