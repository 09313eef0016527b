//! How a person is asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt as _;
use toolnexus_core::{BoxError, BoxFuture};

use super::loopback::Loopback;
use super::problem::Problem;

type Open = Arc<dyn Fn(McpSignInRequest) -> Result<(), BoxError> + Send + Sync>;
type Ask = Arc<dyn Fn(McpSignInRequest) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync>;

/// What a person is asked to do. `Debug` leaves the address out.
#[derive(Clone)]
#[non_exhaustive]
pub struct McpSignInRequest {
    /// The configured name of the server.
    pub server: String,
    /// The address to open in the person's browser.
    pub url: String,
}

impl std::fmt::Debug for McpSignInRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpSignInRequest").field("server", &self.server).finish_non_exhaustive()
    }
}

/// How a person signs in: an address is shown to them, and the address that the authorization
/// server then sends their browser to comes back.
#[derive(Clone)]
pub struct McpSignIn(Way);

#[derive(Clone)]
enum Way {
    Browser(Open),
    Host { redirect_uri: String, ask: Ask },
}

impl McpSignIn {
    /// A browser on this machine. `open` opens the address, or shows it to somebody who can, and
    /// returns at once; the browser comes back to a listener on the loopback interface, which
    /// lives as long as the sign-in ([`McpAuth::redirect_port`](crate::McpAuth::redirect_port)).
    ///
    /// ```
    /// use toolnexus_mcp::{McpAuth, McpSignIn};
    /// let sign_in = McpSignIn::browser(|request| {
    ///     println!("to use {}, open {}", request.server, request.url);
    ///     Ok(())
    /// });
    /// let auth = McpAuth::new().sign_in(sign_in);
    /// ```
    pub fn browser(open: impl Fn(McpSignInRequest) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        McpSignIn(Way::Browser(Arc::new(open)))
    }

    /// The host's own way. `ask` shows the address and gives back the whole address that the
    /// browser was sent to: `redirect_uri` with the answer in its query. Dropping the future ends
    /// the sign-in.
    pub fn redirected<F>(
        redirect_uri: impl Into<String>,
        ask: impl Fn(McpSignInRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        let ask: Ask = Arc::new(move |request| Box::pin(ask(request)));
        McpSignIn(Way::Host { redirect_uri: redirect_uri.into(), ask })
    }

    /// Gets ready to receive the browser.
    pub(super) async fn prepare(&self, port: Option<u16>) -> Result<Visit<'_>, Problem> {
        match &self.0 {
            Way::Browser(open) => {
                let loopback = Loopback::bind(port).await.map_err(|_| Problem::NoListener)?;
                Ok(Visit::Browser(open, loopback))
            }
            Way::Host { redirect_uri, ask } => Ok(Visit::Host(redirect_uri, ask)),
        }
    }
}

impl std::fmt::Debug for McpSignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Way::Browser(_) => f.write_str("McpSignIn::browser"),
            Way::Host { .. } => f.write_str("McpSignIn::redirected"),
        }
    }
}

/// One sign-in that may begin.
pub(super) enum Visit<'a> {
    Browser(&'a Open, Loopback),
    Host(&'a String, &'a Ask),
}

impl Visit<'_> {
    pub(super) fn redirect_uri(&self) -> String {
        match self {
            Visit::Browser(_, loopback) => loopback.redirect_uri(),
            Visit::Host(redirect_uri, _) => (*redirect_uri).clone(),
        }
    }

    /// Shows the address; gives the one that the browser was sent to. A host that panics has shown
    /// nothing.
    pub(super) async fn go(self, request: McpSignInRequest, state: &str) -> Result<String, Problem> {
        match self {
            Visit::Browser(open, loopback) => {
                let opened = catch_unwind(AssertUnwindSafe(|| open(request)));
                opened.is_ok_and(|opened| opened.is_ok()).then_some(()).ok_or(Problem::NotShown)?;
                loopback.receive(state).await
            }
            Visit::Host(_, ask) => {
                let asked = AssertUnwindSafe(async { ask(request).await }).catch_unwind().await;
                asked.ok().and_then(Result::ok).ok_or(Problem::NotShown)
            }
        }
    }
}
