//! Signing in to remote servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

#[path = "support/authorization.rs"]
mod authorization;
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use authorization::{Authorization, KNOWN, Rules};
use secrecy::SecretString;
use serde_json::{Value, json};
use support::{output, server, tool};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxError, BoxFuture};
use toolnexus_mcp::{
    FileTokenStore, InMemoryTokenStore, LoadMcpOptions, McpAuth, McpConfig, McpContext, McpContextError,
    McpServerConfig, McpSignIn, McpSignInRequest, McpSource, McpTokenStore, ServerKind, load_mcp,
    load_mcp_with, load_mcp_with_context,
};
use toolnexus_testkit::tracing_listener::listen_on_this_thread;
use tracing_subscriber::layer::SubscriberExt as _;

const REDIRECT: &str = "http://127.0.0.1:1/callback";

fn entry(servers: &Authorization, auth: McpAuth) -> McpServerConfig {
    McpServerConfig {
        name: "docs".into(),
        kind: ServerKind::Remote,
        url: Some(servers.url()),
        auth: Some(auth),
        ..Default::default()
    }
}

fn document(entry: McpServerConfig) -> McpConfig {
    McpConfig { servers: vec![entry], ..Default::default() }
}

async fn load(servers: &Authorization, auth: McpAuth) -> McpSource {
    load_mcp(&document(entry(servers, auth))).await
}

async fn connected(servers: &Authorization, auth: McpAuth) -> McpSource {
    let source = load(servers, auth).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

/// What follows the head of the message of a load that fails.
async fn failure(servers: &Authorization, auth: McpAuth) -> String {
    failure_of(&load(servers, auth).await)
}

fn failure_of(source: &McpSource) -> String {
    let text = &source.errors["docs"];
    let text = text.strip_prefix("mcp server \"docs\" failed at ").unwrap();
    text.strip_prefix("initialize: ").unwrap_or(text).to_owned()
}

/// A browser whose person does what the authorization server says.
async fn visit(request: McpSignInRequest) -> Result<String, BoxError> {
    let browser =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
    let response = browser.get(request.url).send().await?;
    let location = response.headers().get("location").ok_or("no redirect")?;
    Ok(location.to_str()?.to_owned())
}

fn person() -> McpAuth {
    McpAuth::new().sign_in(McpSignIn::redirected(REDIRECT, visit))
}

fn scope_of(servers: &Authorization, at: usize) -> String {
    servers.seen("/as/authorize")[at].query.get("scope").cloned().unwrap_or_default()
}

// The flow from the first refusal to a signed-in call; the server checks PKCE, redirect and resource
#[tokio::test]
async fn a_person_signs_in() {
    let servers = Authorization::start(Rules::default()).await;
    let source = connected(&servers, person().client_name("my agent")).await;
    assert_eq!(output(&source, "docs_say").await, "done");

    let registered = servers.seen("/as/register");
    assert_eq!(registered.len(), 1);
    assert_eq!(registered[0].json["client_name"], "my agent");
    assert_eq!(registered[0].json["redirect_uris"], json!([REDIRECT]));
    assert_eq!(servers.seen("/as/authorize").len(), 1);
    assert_eq!(scope_of(&servers, 0), "read");
    assert_eq!(servers.seen("/as/token").len(), 1);
    let sent: Vec<_> = servers.seen("/mcp").into_iter().filter(|seen| !seen.json.is_null()).collect();
    assert_eq!(sent[0].authorization, None);
    assert!(sent[1..].iter().all(|seen| seen.authorization.as_deref() == Some("Bearer access-1")));
    source.close().await;
}

// MCP-41: without `auth` a 401 is a failure as any other, and nobody is contacted for it
#[tokio::test]
async fn without_auth_a_refusal_stands() {
    let servers = Authorization::start(Rules::default()).await;
    let mut plain = entry(&servers, McpAuth::new());
    plain.auth = None;
    let source = load_mcp(&document(plain)).await;
    assert_eq!(failure_of(&source), "http-status (HTTP 401)");
    assert_eq!(servers.seen("").len(), 1);

    let nobody = "http-status (sign-in needed, and nobody to ask) (HTTP 401)";
    assert_eq!(failure(&servers, McpAuth::new()).await, nobody);
    assert_eq!(servers.seen("/as/token").len(), 0);
}

// MCP-184: a configured Authorization header is sent, and `auth` is not used then
#[tokio::test]
async fn a_configured_header_wins() {
    let servers = Authorization::start(Rules::default()).await;
    let headers = json!({"url": servers.url(), "headers": {"authorization": "Bearer mine"}});
    let configured = McpServerConfig { name: "docs".into(), auth: Some(person()), ..server(headers) };
    assert_eq!(failure_of(&load_mcp(&document(configured)).await), "http-status (HTTP 401)");
    let seen = servers.seen("");
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].authorization.as_deref(), Some("Bearer mine"));
}

// What is kept serves the next connection and the next process, registration included
#[tokio::test]
async fn a_sign_in_is_kept() {
    let servers = Authorization::start(Rules::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let auth = || person().store(FileTokenStore::new(folder.path().join("tokens")));
    let first = auth();
    connected(&servers, first.clone()).await.close().await;
    connected(&servers, first).await.close().await;
    connected(&servers, auth()).await.close().await;
    assert_eq!(servers.seen("/as/authorize").len(), 1);

    servers.forget();
    connected(&servers, auth()).await.close().await;
    assert_eq!(servers.seen("/as/authorize").len(), 2);
    assert_eq!(servers.seen("/as/register").len(), 1);
}

// Signing out forgets tokens and client, for connections that stand as well
#[tokio::test]
async fn signing_out_forgets() {
    let servers = Authorization::start(Rules::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let auth = person().store(FileTokenStore::new(folder.path()));
    let source = connected(&servers, auth.clone()).await;
    auth.sign_out(&format!("{}?key=k", servers.url())).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(output(&source, "docs_say").await, "done");
    assert_eq!((servers.seen("/as/authorize").len(), servers.seen("/as/register").len()), (2, 2));
    source.close().await;
    auth.clone().scopes(["x"]).sign_out(&servers.url()).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    McpAuth::new().sign_out("no url").await.unwrap();
}

// Kept tokens are renewed without a person, also those that an earlier process has kept
#[tokio::test]
async fn refused_tokens_are_renewed() {
    let servers = Authorization::start(Rules::default()).await;
    let store = Arc::new(InMemoryTokenStore::default());
    let options = || LoadMcpOptions { token_store: Some(store.clone()), ..Default::default() };
    let source = load_mcp_with(&document(entry(&servers, person())), options()).await;
    servers.revoke();
    assert_eq!(output(&source, "docs_say").await, "done");
    source.close().await;

    servers.revoke();
    let source = load_mcp_with(&document(entry(&servers, McpAuth::new())), options()).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    assert_eq!(servers.seen("/as/authorize").len(), 1);
    let grants: Vec<_> =
        servers.seen("/as/token").iter().map(|seen| seen.form["grant_type"].clone()).collect();
    assert_eq!(grants, ["authorization_code", "refresh_token", "refresh_token"]);
    source.close().await;
}

// A token is renewed when its time has come, before it is sent
#[tokio::test]
async fn a_token_that_runs_out_is_renewed_first() {
    let servers = Authorization::start(Rules { expires_in: Some(0), ..Default::default() }).await;
    let source = connected(&servers, person()).await;
    servers.change(|rules| rules.expires_in = Some(3600));
    let renewed = servers.seen("/as/token").len();
    assert_eq!(output(&source, "docs_say").await, "done");
    assert_eq!(output(&source, "docs_say").await, "done");
    assert_eq!(servers.seen("/as/token").len(), renewed + 1);
    assert_eq!(servers.seen("/as/authorize").len(), 1);
    source.close().await;
}

// A refresh token that is refused brings the person back
#[tokio::test]
async fn what_cannot_be_renewed_is_asked_for_again() {
    let servers = Authorization::start(Rules::default()).await;
    let source = connected(&servers, person()).await;
    servers.forget();
    assert_eq!(output(&source, "docs_say").await, "done");
    assert_eq!(servers.seen("/as/authorize").len(), 2);
    source.close().await;
}

// A call that needs more scopes gets them on top of the others
#[tokio::test]
async fn more_scopes_are_asked_for() {
    let servers = Authorization::start(Rules::default()).await;
    let source = connected(&servers, person()).await;
    assert_eq!(output(&source, "docs_rule").await, "done");
    let asked = scope_of(&servers, 1);
    let mut asked: Vec<_> = asked.split(' ').collect();
    asked.sort_unstable();
    assert_eq!(asked, ["admin", "read"]);
    source.close().await;
}

// Scopes that are not granted are asked for a few times; those that are granted, never again
#[tokio::test]
async fn asking_for_scopes_ends() {
    for (limit, asked) in [(None, 2), (Some(0), 0), (Some(1), 1)] {
        let servers = Authorization::start(Rules { withheld: vec!["admin"], ..Default::default() }).await;
        let auth = limit.map_or_else(person, |limit| person().max_step_ups(limit));
        let source = connected(&servers, auth).await;
        let refused = "mcp server \"docs\" failed at tools/call: \
                       http-status (signed in, and still refused) (HTTP 403)";
        assert_eq!(output(&source, "docs_rule").await, refused);
        assert_eq!(servers.seen("/as/authorize").len(), 1 + asked, "{limit:?}");
        assert_eq!(output(&source, "docs_say").await, "done");
        source.close().await;
    }
}

/// What becomes of the address that a browser was sent to.
type Edit = fn(String) -> Result<String, BoxError>;

// Every way in which a person's answer is none
#[tokio::test]
async fn bad_answers_are_refused() {
    let servers = Authorization::start(Rules::default()).await;
    let answering = |edit: Edit| {
        McpAuth::new().sign_in(McpSignIn::redirected(REDIRECT, move |request| async move {
            edit(visit(request).await?)
        }))
    };
    let cases: [(Edit, &str); 4] = [
        (|url| Ok(url.replace("state=", "state=x")), "sign-in answered with a state that is not ours"),
        (|url| Ok(url.replace("code=", "kode=")), "sign-in gave no code"),
        (|url| Ok(url.replace("code=", "code=x")), "token request failed"),
        (|_| Err("a secret of the host".into()), "sign-in could not be shown"),
    ];
    for (edit, detail) in cases {
        let expected = format!("http-status ({detail}) (HTTP 401)");
        assert_eq!(failure(&servers, answering(edit)).await, expected);
    }
    servers.change(|rules| rules.denies = true);
    assert_eq!(failure(&servers, person()).await, "http-status (sign-in refused) (HTTP 401)");
    servers.change(|rules| (rules.denies, rules.issuer_in_redirect) = (false, Some("https://evil.test")));
    assert_eq!(failure(&servers, person()).await, "http-status (token request failed) (HTTP 401)");
    assert!(servers.seen("/as/token").iter().all(|seen| seen.form["code"].contains("xcode")));
}

// A resource that poses as another one is not signed in to
#[tokio::test]
async fn a_foreign_resource_is_refused() {
    let servers = Authorization::start(Rules { foreign_resource: true, ..Default::default() }).await;
    let expected = "http-status (the authorization server is not one to sign in at) (HTTP 401)";
    assert_eq!(failure(&servers, person()).await, expected);
    assert!(servers.seen("/as/authorize").is_empty());
}

// The three ways to be a client, in their order
#[tokio::test]
async fn clients_are_known_in_three_ways() {
    let servers = Authorization::start(Rules { documents: true, ..Default::default() }).await;
    let document = "https://client.test/about.json";
    connected(&servers, person().client_metadata_url(document)).await.close().await;
    assert_eq!(servers.seen("/as/authorize")[0].query["client_id"], document);

    let known = person().client_metadata_url(document).client_id(KNOWN.0).client_secret(KNOWN.1);
    connected(&servers, known.clone()).await.close().await;
    assert_eq!(servers.seen("/as/authorize")[1].query["client_id"], KNOWN.0);
    assert!(servers.seen("/as/token")[1].authorization.as_deref().unwrap().starts_with("Basic "));
    servers.change(|rules| rules.auth_methods = Some(vec!["client_secret_post"]));
    connected(&servers, known.redirect_port(1)).await.close().await;
    assert_eq!(servers.seen("/as/token")[2].form["client_secret"], KNOWN.1);
    assert!(servers.seen("/as/register").is_empty());

    servers.change(|rules| (rules.documents, rules.registration) = (false, false));
    let expected = "http-status (no client id, and no way to register) (HTTP 401)";
    assert_eq!(failure(&servers, person().client_metadata_url(document)).await, expected);
}

// Programs sign in as themselves
#[tokio::test]
async fn a_program_signs_in_as_itself() {
    let servers = Authorization::start(Rules { refresh: false, ..Default::default() }).await;
    let by_secret = McpAuth::client_credentials(KNOWN.0, KNOWN.1).scopes(["read", "write"]);
    let source = connected(&servers, by_secret.clone()).await;
    servers.revoke();
    assert_eq!(output(&source, "docs_say").await, "done");
    source.close().await;
    let tokens = servers.seen("/as/token");
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[0].form["client_secret"], KNOWN.1);
    assert_eq!(tokens[0].form["scope"], "read write");

    servers.change(|rules| rules.auth_methods = Some(vec!["client_secret_basic"]));
    let basic = by_secret.scopes(["read"]);
    connected(&servers, basic).await.close().await;
    assert!(servers.seen("/as/token")[2].authorization.as_deref().unwrap().starts_with("Basic "));

    servers.change(|rules| rules.auth_methods = None);
    let broken = McpAuth::private_key("by-key", &"no key at all".into());
    let expected = "http-status (the signing key cannot be used) (HTTP 401)";
    assert_eq!(failure(&servers, broken).await, expected);
    let random = aws_lc_rs::rand::SystemRandom::new();
    let der = aws_lc_rs::signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der.as_ref());
    let pem = SecretString::from(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"));
    connected(&servers, McpAuth::private_key("by-key", &pem)).await.close().await;
    let by_key = &servers.seen("/as/token")[3].form;
    assert!(by_key["client_assertion"].split('.').count() == 3 && !by_key.contains_key("client_id"));
}

// Whoever is refused at the same time waits for one sign-in, also on two connections
#[tokio::test]
async fn one_sign_in_serves_all_who_wait() {
    let servers = Authorization::start(Rules::default()).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let sign_in = {
        let (servers, asked) = (servers.clone(), Arc::clone(&asked));
        McpSignIn::redirected(REDIRECT, move |request| {
            let (servers, first) = (servers.clone(), asked.fetch_add(1, Ordering::Relaxed) == 0);
            async move {
                if !first {
                    // The one of the first connection, and then four calls at once.
                    servers.refused(5).await;
                }
                visit(request).await
            }
        })
    };
    let auth = McpAuth::new().sign_in(sign_in);
    let one = connected(&servers, auth.clone()).await;
    let two = connected(&servers, auth).await;
    servers.forget();
    let calls = [&one, &two, &one, &two].map(|source| output(source, "docs_say"));
    for called in futures::future::join_all(calls).await {
        assert_eq!(called, "done");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    one.close().await;
    two.close().await;
}

/// A person who never answers, and what tells that nobody waits for them any more.
fn silent() -> (McpSignIn, Arc<Notify>, Arc<Notify>) {
    struct Gone(Arc<Notify>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let sign_in = {
        let (asked, gone) = (Arc::clone(&asked), Arc::clone(&gone));
        McpSignIn::redirected(REDIRECT, move |_| {
            asked.notify_one();
            let gone = Gone(Arc::clone(&gone));
            async move {
                std::future::pending::<()>().await;
                drop(gone);
                Err("never".into())
            }
        })
    };
    (sign_in, asked, gone)
}

// MCP-57, MCP-58: a cancelled load ends the sign-in with it
#[tokio::test]
async fn a_cancelled_load_ends_the_sign_in() {
    let servers = Authorization::start(Rules::default()).await;
    let (sign_in, asked, gone) = silent();
    let options = LoadMcpOptions { sign_in: Some(sign_in), ..Default::default() };
    let context = McpContext { cancel: CancellationToken::new(), deadline: None };
    let config = document(entry(&servers, McpAuth::new()));
    let (ended, ()) = tokio::join!(load_mcp_with_context(&config, &context, options), async {
        asked.notified().await;
        context.cancel.cancel();
    });
    assert_eq!(ended.err(), Some(McpContextError::Cancelled));
    tokio::time::timeout(Duration::from_secs(2), gone.notified()).await.unwrap();
}

// MCP-77: so does closing the connection, and the call that asked fails as closed
#[tokio::test]
async fn closing_ends_the_sign_in() {
    let servers = Authorization::start(Rules::default()).await;
    let store = Arc::new(InMemoryTokenStore::default());
    let options = |sign_in| LoadMcpOptions {
        sign_in: Some(sign_in),
        token_store: Some(store.clone()),
        ..Default::default()
    };
    let config = document(entry(&servers, McpAuth::new()));
    let answering = McpSignIn::redirected(REDIRECT, visit);
    load_mcp_with(&config, options(answering)).await.close().await;
    let (silent, asked, gone) = silent();
    let config = document(entry(&servers, McpAuth::new()));
    let source = load_mcp_with(&config, options(silent)).await;
    servers.forget();
    let (called, ()) = tokio::join!(output(&source, "docs_say"), async {
        asked.notified().await;
        source.close().await;
    });
    assert_eq!(called, "mcp server \"docs\" failed at tools/call: closed");
    tokio::time::timeout(Duration::from_secs(2), gone.notified()).await.unwrap();
}

// Limits: the person's own, and that of each request; the server's timeout waits for the person
#[tokio::test]
async fn a_sign_in_has_limits_of_its_own() {
    let servers = Authorization::start(Rules::default()).await;
    let began = Instant::now();
    let (sign_in, ..) = silent();
    let auth = McpAuth::new().sign_in(sign_in).sign_in_limit(Duration::from_millis(200));
    assert_eq!(failure(&servers, auth).await, "http-status (sign-in took too long) (HTTP 401)");

    servers.change(|rules| rules.token_hangs = true);
    let hanging = McpServerConfig { timeout_ms: 300, ..entry(&servers, person()) };
    let source = load_mcp(&document(hanging)).await;
    assert_eq!(failure_of(&source), "http-status (token request failed) (HTTP 401)");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

    servers.change(|rules| rules.token_hangs = false);
    let slow = McpSignIn::redirected(REDIRECT, |request| async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        visit(request).await
    });
    let auth = McpAuth::new().sign_in(slow);
    let impatient = McpServerConfig { timeout_ms: 1000, ..entry(&servers, auth) };
    let source = load_mcp(&document(impatient)).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    servers.forget();
    assert_eq!(support::output_within(&source, "docs_say", 1000).await, "done");
    source.close().await;
}

// A person who has said no is not asked again on that connection
#[tokio::test]
async fn a_refusal_is_remembered() {
    let servers = Authorization::start(Rules::default()).await;
    let source = connected(&servers, person()).await;
    servers.forget();
    servers.change(|rules| rules.denies = true);
    let refused = "mcp server \"docs\" failed at tools/call: http-status (sign-in refused) (HTTP 401)";
    assert_eq!(output(&source, "docs_say").await, refused);
    assert_eq!(output(&source, "docs_say").await, refused);
    assert_eq!(servers.seen("/as/authorize").len(), 2);
    source.close().await;
}

// A browser on this machine comes back to the listener; strangers do not disturb it
#[tokio::test]
async fn a_browser_comes_back_to_this_machine() {
    let servers = Authorization::start(Rules::default()).await;
    let pages = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&pages);
    let sign_in = McpSignIn::browser(move |request| {
        let pages = Arc::clone(&told);
        tokio::spawn(async move {
            let page = |url: String| async {
                let browser = reqwest::Client::builder().no_proxy().build().unwrap();
                let page = browser.get(url).send().await.unwrap();
                (page.status().as_u16(), page.text().await.unwrap())
            };
            let address = visit(request).await.unwrap();
            let forged = page(address.replace("state=", "state=x")).await;
            let elsewhere = page(address.replace("/callback", "/favicon.ico")).await;
            pages.lock().unwrap().extend([forged, elsewhere]);
            page(address).await
        });
        Ok(())
    });
    let source = connected(&servers, McpAuth::new().sign_in(sign_in)).await;
    assert_eq!(output(&source, "docs_say").await, "done");
    let redirect = servers.seen("/as/authorize")[0].query["redirect_uri"].clone();
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
    assert!(pages.lock().unwrap().iter().all(|(status, _)| *status == 404));
    source.close().await;
}

// Tokens go over https, or stay on this machine
#[tokio::test]
async fn a_plain_address_is_not_signed_in_to() {
    let plain = McpServerConfig {
        name: "docs".into(),
        kind: ServerKind::Remote,
        url: Some("http://docs.test/mcp".into()),
        auth: Some(person()),
        ..Default::default()
    };
    let source = load_mcp(&document(plain)).await;
    assert_eq!(failure_of(&source), "config: config (sign-in needs https)");
}

/// Everything that is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        self.note(|visit| event.record(visit));
    }

    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.note(|visit| attributes.record(visit));
    }
}

impl Log {
    fn note(&self, record: impl FnOnce(&mut dyn tracing::field::Visit)) {
        struct Text<'a>(&'a mut String);
        impl tracing::field::Visit for Text<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                use std::fmt::Write as _;
                let _ = writeln!(self.0, "{field}={value:?}");
            }
        }
        record(&mut Text(&mut self.0.lock().unwrap()));
    }
}

// MCP-40: a host that panics where it is asked fails that sign-in and nothing else
#[tokio::test]
async fn a_host_that_panics_has_shown_nothing() {
    struct Careless;
    impl McpTokenStore for Careless {
        fn load<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, BoxError>> {
            panic!("load")
        }
        fn save<'a>(&'a self, _: &'a str, _: &'a SecretString) -> BoxFuture<'a, Result<(), BoxError>> {
            panic!("save")
        }
        fn clear<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
            panic!("clear")
        }
    }
    let servers = Authorization::start(Rules::default()).await;
    for sign_in in [
        McpSignIn::browser(|_| panic!("no browser")),
        McpSignIn::redirected(REDIRECT, |_| async { panic!("nobody") }),
    ] {
        let failed = failure(&servers, McpAuth::new().sign_in(sign_in)).await;
        assert_eq!(failed, "http-status (sign-in could not be shown) (HTTP 401)");
    }
    let source = connected(&servers, person().store(Careless)).await;
    assert_eq!(output(&source, "docs_say").await, "done");
    source.close().await;
}

// MCP-16, MCP-22, MCP-48: no token, code, state, verifier or secret in a log, an error or `Debug`
#[tokio::test]
async fn secrets_are_shown_nowhere() {
    let log = Log::default();
    let _listening = listen_on_this_thread(tracing_subscriber::registry().with(log.clone()));
    let servers = Authorization::start(Rules::default()).await;
    let auth = person().client_id(KNOWN.0).client_secret(KNOWN.1);
    let mut shown = format!("{auth:?}");
    let config = entry(&servers, auth.clone());
    shown += &format!("{config:?} {:?}", LoadMcpOptions::default());
    let source = connected(&servers, auth.clone()).await;
    shown += &output(&source, "docs_say").await;
    servers.revoke();
    shown += &output(&source, "docs_rule").await;
    servers.change(|rules| rules.denies = true);
    servers.forget();
    shown += &output(&source, "docs_say").await;
    shown += &format!("{source:?} {:?} {:?}", tool(&source, "docs_say"), source.connections);
    source.close().await;
    shown += &failure(&servers, auth).await;
    shown += &log.0.lock().unwrap();
    assert!(shown.contains("sign-in refused") && shown.contains("signed in"), "{shown}");
    let secrets = servers.secrets();
    assert!(secrets.len() > 10, "{secrets:?}");
    for secret in secrets.iter().map(String::as_str).chain(["words of the authorization server"]) {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

// MCP-1, MCP-19: the `auth` key of an entry
#[tokio::test]
async fn an_entry_says_how_to_sign_in() {
    let auth = |auth: Value| server(json!({"url": "https://docs.test/mcp", "auth": auth}));
    for none in [json!(null), json!(false)] {
        assert!(auth(none).auth.is_none());
    }
    assert!(auth(json!(true)).auth.is_some());
    let (name, value) = support::inherited();
    let full = auth(json!({
        "clientId": "me", "clientSecret": format!("${{{name}}}"), "scopes": "a b", "redirectPort": 8123,
        "clientMetadataUrl": "https://me.test/about.json", "clientName": "me", "signInLimit": 1000,
        "somethingElse": 1,
    }));
    assert_eq!(full.invalid, None);
    let shown = format!("{:?}", full.auth);
    assert!(shown.contains("8123") && shown.contains("[\"a\", \"b\"]"), "{shown}");
    assert!(!shown.contains(&value), "{shown}");

    let id_missing = "auth needs a clientId for this grant";
    for (entry, reason) in [
        (json!("yes"), "auth must be an object, true or false"),
        (json!({"clientId": 1}), "auth clientId must be a text"),
        (json!({"scopes": [1]}), "auth scopes must be an array of texts, or one text"),
        (json!({"redirectPort": 0}), "auth redirectPort must be a positive whole number"),
        (json!({"redirectPort": 70000}), "auth redirectPort must be at most 65535"),
        (json!({"clientSecret": "s3cret"}), id_missing),
        (json!({"grant": "client_credentials", "clientSecret": "s3cret"}), id_missing),
        (
            json!({"grant": "client_credentials", "clientId": "me"}),
            "auth needs a clientSecret or a privateKey for client_credentials",
        ),
        (json!({"grant": "implicit"}), "auth grant must be authorization_code or client_credentials"),
        (
            json!({"clientId": "me", "clientSecret": "${TOOLNEXUS_NOT_SET}"}),
            "auth clientSecret names the variable TOOLNEXUS_NOT_SET, which is not set",
        ),
    ] {
        assert_eq!(auth(entry).invalid.as_deref(), Some(reason));
    }
}

// A secret that stands in the document is warned about, and not shown
#[tokio::test]
async fn a_secret_in_the_document_is_warned_about() {
    let warnings = toolnexus_testkit::warnings::Warnings::listen();
    let entry = json!({"url": "https://docs.test/mcp", "auth": {"clientId": "me", "clientSecret": "s3cret"}});
    assert!(server(entry).auth.is_some());
    let told = warnings.take().join("\n");
    assert!(told.contains("auth clientSecret stands in the document") && !told.contains("s3cret"), "{told}");
}

// An entry with `auth` asks whoever the load says, and keeps where it says
#[tokio::test]
async fn a_load_says_who_is_asked() {
    let servers = Authorization::start(Rules::default()).await;
    let config = support::servers(json!({"docs": {"url": servers.url(), "auth": true}}));
    let store = Arc::new(InMemoryTokenStore::default());
    let options = LoadMcpOptions {
        sign_in: Some(McpSignIn::redirected(REDIRECT, visit)),
        token_store: Some(store.clone()),
        ..Default::default()
    };
    let source = load_mcp_with(&config, options).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source.close().await;
    assert!(store.load(&servers.url()).await.unwrap().is_some());
}

// Files that only their owner reads, replaced as a whole
#[tokio::test]
async fn a_file_store_keeps_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a/b");
    let store = FileTokenStore::new(&dir);
    let url = "https://docs.test/mcp";
    assert!(store.load(url).await.unwrap().is_none());
    store.clear(url).await.unwrap();
    for text in ["first", "second"] {
        store.save(url, &text.into()).await.unwrap();
        let kept = store.load(url).await.unwrap().unwrap();
        assert_eq!(secrecy::ExposeSecret::expose_secret(&kept), text);
    }
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(!files[0].file_name().to_string_lossy().contains("docs"));
    store.clear(url).await.unwrap();
    assert!(store.load(url).await.unwrap().is_none());
}
