//! Signing in to remote servers with OAuth.
//!
//! MCP chapter 02 knows no sign-in: without [`McpAuth`] a server that answers 401 is `failed`. An
//! entry that has one is sent an access token, and what the server refuses is answered as the
//! authorization part of MCP (revisions 2025-03-26 to 2026-07-28) has it:
//!
//! 1. The refusal's `WWW-Authenticate` leads to the metadata of the protected resource, and that to
//!    the authorization server; without them the well-known places are tried, and last the fixed
//!    endpoints of 2025-03-26.
//! 2. The client is the one that was registered beforehand, or the document at its own URL (where
//!    the server takes such), or it registers itself.
//! 3. A person agrees: [`McpSignIn`] gets the address to show and gives back where the browser was
//!    sent. PKCE, `state` and the issuer are checked. Programs use their own credentials instead:
//!    [`McpAuth::client_credentials`], [`McpAuth::private_key`].
//! 4. The tokens go to a [`McpTokenStore`]; they are renewed shortly before they run out, or when
//!    they are refused. Every token request names the server as its resource.
//! 5. A 403 that asks for more scopes starts over with those added, [a few
//!    times](McpAuth::max_step_ups) at most, and never for scopes that were granted already.
//!
//! The rules:
//! * One sign-in at a time per server and [`McpAuth`]; whoever waits takes its outcome. A connection
//!   on which it has failed does not ask the person again.
//! * A sign-in has [a limit of its own](McpAuth::sign_in_limit); the limits of a load and of a call
//!   wait for it. Every request to an authorization server has the server's `timeout`. A load that
//!   is cancelled, a call that is, or a connection that is closed ends it.
//! * An `Authorization` header in the entry wins: nothing here is used then.
//! * Tokens, secrets and codes go to https addresses and, for a server on this machine, to this
//!   machine; a server elsewhere cannot lead a sign-in here. They are in no log, error, or `Debug`. Of what an authorization server says, nothing is shown either.
//!
//! A failed sign-in is the refusal it wanted to answer, with a detail:
//! `http-status (sign-in refused) (HTTP 401)`.
//!
//! Where to look: `settings` and `entry` are the host's side; `authorizer` sits before each request
//! and holds the turn; `flow` is one sign-in, on rmcp's authorization manager; `http` carries its
//! requests; `loopback` receives the browser; `store` and `record` keep what came of it.

mod asking;
mod assertion;
mod authorizer;
mod challenge;
mod entry;
mod flow;
mod http;
mod loopback;
mod problem;
mod record;
mod settings;
mod sign_in;
mod store;

pub(crate) use asking::Asking;
pub(crate) use authorizer::Gate;
pub(crate) use entry::from_entry;
pub use settings::McpAuth;
pub(crate) use settings::completed;
pub use sign_in::{McpSignIn, McpSignInRequest};
pub use store::{FileTokenStore, InMemoryTokenStore, McpTokenStore};
