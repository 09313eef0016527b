//! A protected MCP server and its authorization server, in one process and on one port.
//!
//! `/mcp` speaks just enough MCP for a tool `say`, which needs nothing, and a tool `rule`, which
//! needs the scope `admin`. The authorization server is below `/as`. It checks what a real one
//! checks (PKCE, redirect address, client, resource) and answers as its [`Rules`] say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

/// What the servers do.
#[derive(Clone)]
pub(crate) struct Rules {
    /// Lifetime of a token in seconds.
    pub(crate) expires_in: Option<u64>,
    /// Whether tokens can be renewed.
    pub(crate) refresh: bool,
    /// Whether a client may register itself.
    pub(crate) registration: bool,
    /// Whether a client may be known by its document.
    pub(crate) documents: bool,
    /// Whether the person says no.
    pub(crate) denies: bool,
    /// Scopes that are never granted.
    pub(crate) withheld: Vec<&'static str>,
    /// Whether the token endpoint never answers.
    pub(crate) token_hangs: bool,
    /// What the metadata says of client authentication.
    pub(crate) auth_methods: Option<Vec<&'static str>>,
    /// Whether the metadata of the resource names another resource.
    pub(crate) foreign_resource: bool,
    /// The issuer that the browser brings along.
    pub(crate) issuer_in_redirect: Option<&'static str>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            expires_in: Some(3600),
            refresh: true,
            registration: true,
            documents: false,
            denies: false,
            withheld: Vec::new(),
            token_hangs: false,
            auth_methods: None,
            foreign_resource: false,
            issuer_in_redirect: None,
        }
    }
}

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) form: HashMap<String, String>,
    pub(crate) json: Value,
    pub(crate) authorization: Option<String>,
}

#[derive(Clone)]
struct Code {
    challenge: String,
    redirect_uri: String,
    client: String,
    scopes: Vec<String>,
}

#[derive(Default)]
struct Book {
    seen: Vec<Seen>,
    /// Clients, and their secrets.
    clients: HashMap<String, String>,
    codes: HashMap<String, Code>,
    access: HashMap<String, Vec<String>>,
    refresh: HashMap<String, Code>,
    issued: usize,
}

struct Inner {
    origin: String,
    rules: Mutex<Rules>,
    book: Mutex<Book>,
    refusals: watch::Sender<usize>,
}

/// The running servers. They end with the test.
#[derive(Clone)]
pub(crate) struct Authorization(Arc<Inner>);

/// A client that is known from the start, with its secret.
pub(crate) const KNOWN: (&str, &str) = ("known-client", "known secret/&");

impl Authorization {
    pub(crate) async fn start(rules: Rules) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let book =
            Book { clients: HashMap::from([(KNOWN.0.to_owned(), KNOWN.1.to_owned())]), ..Book::default() };
        let inner = Inner {
            origin,
            rules: Mutex::new(rules),
            book: Mutex::new(book),
            refusals: watch::Sender::new(0),
        };
        let servers = Authorization(Arc::new(inner));
        let app = Router::new().fallback(serve).with_state(servers.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        servers
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.0.origin)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.0.rules.lock().unwrap());
    }

    /// Makes every access token worthless.
    pub(crate) fn revoke(&self) {
        self.0.book.lock().unwrap().access.clear();
    }

    /// Makes every refresh token worthless too.
    pub(crate) fn forget(&self) {
        self.revoke();
        self.0.book.lock().unwrap().refresh.clear();
    }

    /// The requests for a path, all if none is given.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        let book = self.0.book.lock().unwrap();
        book.seen.iter().filter(|seen| path.is_empty() || seen.path == path).cloned().collect()
    }

    /// Waits for so many refused requests in all.
    pub(crate) async fn refused(&self, times: usize) {
        self.0.refusals.subscribe().wait_for(|refused| *refused >= times).await.unwrap();
    }

    /// Everything secret that was ever sent.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let book = self.0.book.lock().unwrap();
        let mut secrets: Vec<String> = book.codes.keys().cloned().collect();
        secrets.extend(
            (1..=book.issued)
                .flat_map(|at| [format!("access-{at}"), format!("refresh-{at}"), format!("identity-{at}")]),
        );
        secrets.extend(book.seen.iter().filter_map(|seen| seen.form.get("code_verifier").cloned()));
        secrets.extend(book.seen.iter().filter_map(|seen| seen.query.get("state").cloned()));
        secrets.extend(book.clients.values().filter(|secret| !secret.is_empty()).cloned());
        secrets
    }

    fn metadata(&self, rules: &Rules) -> Value {
        let issuer = format!("{}/as", self.0.origin);
        let mut metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": rules.documents,
        });
        if rules.registration {
            metadata["registration_endpoint"] = json!(format!("{issuer}/register"));
        }
        if let Some(methods) = &rules.auth_methods {
            metadata["token_endpoint_auth_methods_supported"] = json!(methods);
        }
        metadata
    }

    async fn answer(&self, method: Method, seen: Seen) -> Response {
        let rules = self.0.rules.lock().unwrap().clone();
        let origin = &self.0.origin;
        match (method.as_str(), seen.path.as_str()) {
            ("POST", "/mcp") => self.mcp(&seen),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                let resource = if rules.foreign_resource { "https://other.test/mcp" } else { &self.url() };
                ok(json!({
                    "resource": resource,
                    "authorization_servers": [format!("{origin}/as")],
                    "scopes_supported": ["read"],
                }))
            }
            ("GET", "/.well-known/oauth-authorization-server/as") => ok(self.metadata(&rules)),
            ("POST", "/as/register") => {
                let mut book = self.0.book.lock().unwrap();
                let id = format!("client-{}", book.clients.len());
                book.clients.insert(id.clone(), String::new());
                let redirects = &seen.json["redirect_uris"];
                json_answer(StatusCode::CREATED, json!({"client_id": id, "redirect_uris": redirects}))
            }
            ("GET", "/as/authorize") => self.authorize(&seen, &rules),
            ("POST", "/as/token") if rules.token_hangs => std::future::pending().await,
            ("POST", "/as/token") => match self.token(&seen, &rules) {
                Ok(answer) => ok(answer),
                Err(error) => json_answer(
                    StatusCode::BAD_REQUEST,
                    json!({"error": error, "error_description": "words of the authorization server"}),
                ),
            },
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn mcp(&self, seen: &Seen) -> Response {
        let bearer = seen.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        let granted = bearer.and_then(|token| self.0.book.lock().unwrap().access.get(token).cloned());
        let leads =
            format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", self.0.origin);
        let refuse = |status, challenge: String| {
            self.0.refusals.send_modify(|refused| *refused += 1);
            (status, [("www-authenticate", challenge)]).into_response()
        };
        let Some(granted) = granted else {
            return refuse(StatusCode::UNAUTHORIZED, format!("Bearer {leads}"));
        };
        let rules = seen.json["params"]["name"] == "rule";
        if rules && !granted.iter().any(|scope| scope == "admin") {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"admin\", {leads}");
            return refuse(StatusCode::FORBIDDEN, challenge);
        }
        let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
        let result = match seen.json["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            }),
            "tools/list" => json!({"tools": [tool("rule"), tool("say")]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
            _ => return StatusCode::ACCEPTED.into_response(),
        };
        ok(json!({"jsonrpc": "2.0", "id": seen.json["id"], "result": result}))
    }

    fn authorize(&self, seen: &Seen, rules: &Rules) -> Response {
        let given = |name: &str| seen.query.get(name).cloned().unwrap_or_default();
        let mut book = self.0.book.lock().unwrap();
        let client = given("client_id");
        let known = book.clients.contains_key(&client) || (rules.documents && client.starts_with("https://"));
        let fits = given("response_type") == "code"
            && given("code_challenge_method") == "S256"
            && given("resource") == self.url();
        if !known || !fits {
            return StatusCode::BAD_REQUEST.into_response();
        }
        let code = format!("code-{}", book.codes.len() + 1);
        let redirect_uri = given("redirect_uri");
        let mut location = url::Url::parse(&redirect_uri).unwrap();
        location.query_pairs_mut().append_pair("state", &given("state"));
        if rules.denies {
            location.query_pairs_mut().append_pair("error", "access_denied");
        } else {
            location.query_pairs_mut().append_pair("code", &code);
        }
        if let Some(issuer) = rules.issuer_in_redirect {
            location.query_pairs_mut().append_pair("iss", issuer);
        }
        let asked = given("scope").split_whitespace().map(str::to_owned).collect();
        let record = Code { challenge: given("code_challenge"), redirect_uri, client, scopes: asked };
        book.codes.insert(code, record);
        (StatusCode::FOUND, [("location", location.to_string())]).into_response()
    }

    fn token(&self, seen: &Seen, rules: &Rules) -> Result<Value, &'static str> {
        let given = |name: &str| seen.form.get(name).cloned().unwrap_or_default();
        let mut book = self.0.book.lock().unwrap();
        if given("resource") != self.url() {
            return Err("invalid_target");
        }
        let basic = seen.authorization.as_deref().and_then(|value| value.strip_prefix("Basic "));
        let (client, secret) = match basic {
            Some(basic) => {
                let pair = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
                let (client, secret) = pair.split_once(':').unwrap();
                let plain = |text: &str| {
                    url::form_urlencoded::parse(text.as_bytes()).next().map(|(text, _)| text.into_owned())
                };
                (plain(client).unwrap(), plain(secret).unwrap())
            }
            None => (given("client_id"), given("client_secret")),
        };
        let proven = given("client_assertion").split('.').count() == 3;
        let by_document = rules.documents && client.starts_with("https://");
        if !proven && !by_document && book.clients.get(&client) != Some(&secret) {
            return Err("invalid_client");
        }
        let record = match given("grant_type").as_str() {
            "authorization_code" => {
                let record = book.codes.get(&given("code")).cloned().ok_or("invalid_grant")?;
                let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(given("code_verifier")));
                let fits = digest == record.challenge
                    && given("redirect_uri") == record.redirect_uri
                    && client == record.client;
                fits.then_some(record).ok_or("invalid_grant")?
            }
            "refresh_token" => {
                let record = book.refresh.remove(&given("refresh_token")).ok_or("invalid_grant")?;
                (client == record.client).then_some(record).ok_or("invalid_grant")?
            }
            "client_credentials" => Code {
                challenge: String::new(),
                redirect_uri: String::new(),
                client,
                scopes: given("scope").split_whitespace().map(str::to_owned).collect(),
            },
            _ => return Err("unsupported_grant_type"),
        };
        book.issued += 1;
        let at = book.issued;
        let granted: Vec<String> =
            record.scopes.iter().filter(|scope| !rules.withheld.contains(&scope.as_str())).cloned().collect();
        let mut answer = json!({
            "access_token": format!("access-{at}"),
            "token_type": "Bearer",
            "id_token": format!("identity-{at}"),
            "scope": granted.join(" "),
        });
        if let Some(lifetime) = rules.expires_in {
            answer["expires_in"] = json!(lifetime);
        }
        if rules.refresh {
            answer["refresh_token"] = json!(format!("refresh-{at}"));
            book.refresh.insert(format!("refresh-{at}"), record);
        }
        book.access.insert(format!("access-{at}"), granted);
        Ok(answer)
    }
}

async fn serve(
    State(servers): State<Authorization>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let pairs = |text: &[u8]| url::form_urlencoded::parse(text).into_owned().collect();
    let seen = Seen {
        path: uri.path().to_owned(),
        query: pairs(uri.query().unwrap_or_default().as_bytes()),
        form: pairs(&body),
        json: serde_json::from_slice(&body).unwrap_or_default(),
        authorization: headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()),
    };
    servers.0.book.lock().unwrap().seen.push(seen.clone());
    servers.answer(method, seen).await
}

fn ok(body: Value) -> Response {
    json_answer(StatusCode::OK, body)
}

fn json_answer(status: StatusCode, body: Value) -> Response {
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}
