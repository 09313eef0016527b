//! The seam: what is selected, permitted, shown, and sent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{noted, output, server, servers, tool, with};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use toolnexus_mcp::transport::rmcp::transport::async_rw::AsyncRwTransport;
use toolnexus_mcp::transport::{
    ConnectContext, McpRequest, Permit, SeamError, ServerSpec, Session, SessionMode, SpecSource, Target,
    TransportSpec, connect, permit, redact, select,
};
use toolnexus_mcp::{
    ConcurrencyPolicy, LoadMcpOptions, McpConnection, McpContext, McpContextError, McpFailureKind, McpPhase,
    McpServerConfig, McpStatus, connect_mcp_server, load_mcp_with,
};
use toolnexus_testkit::mcp::{FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture};

fn fixture() -> McpFixture {
    McpFixture::new().tool(FixtureTool::text("say", "hi")).tool(FixtureTool::hangs("stuck"))
}

/// Serves at a path that no other server of this process has had, so that its era is not known.
async fn serve(options: HttpOptions) -> McpHttpFixture {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let path = format!("/mcp/{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let options = HttpOptions { path, ..options };
    McpHttpFixture::start(fixture(), options).await.unwrap()
}

fn local(command: &[&str]) -> ServerSpec {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    ServerSpec { name: "x".into(), command, ..Default::default() }
}

fn remote(url: impl Into<String>) -> ServerSpec {
    ServerSpec { name: "x".into(), url: Some(url.into()), ..Default::default() }
}

/// Everything that may be secret in one specification, and nothing else that says `secret`.
fn secretive() -> ServerSpec {
    ServerSpec {
        name: "x".into(),
        command: vec!["s".into(), "--token=secret-1".into()],
        env: [("GITHUB_TOKEN".to_owned(), "secret-2".to_owned())].into_iter().collect(),
        url: Some("https://secret-3:secret-4@h:8/a?api_key=secret-5#secret-6".into()),
        headers: [("Authorization", "secret-7")].into_iter().collect(),
        ..Default::default()
    }
}

// MCP-109, case 63
#[test]
fn a_specification_names_one_transport() {
    assert!(matches!(select(local(&["s", "a"])), Ok(TransportSpec::Stdio { .. })));
    assert!(matches!(select(remote("http://h/mcp")), Ok(TransportSpec::Http { .. })));
    let with_empty_url = ServerSpec { url: Some(String::new()), ..local(&["s"]) };
    assert!(matches!(select(with_empty_url), Ok(TransportSpec::Stdio { .. })));
    let with_empty_command = ServerSpec { command: vec![String::new()], ..remote("http://h/mcp") };
    assert!(matches!(select(with_empty_command), Ok(TransportSpec::Http { .. })));

    let both = ServerSpec { command: vec!["s".into()], ..remote("http://h/mcp") };
    let error = select(both).unwrap_err();
    assert_eq!(error.to_string(), "mcp server \"x\" must have either a command or a url, not both");
    for neither in [local(&[]), local(&[""]), remote("")] {
        let error = select(neither).unwrap_err();
        assert!(matches!(error, SeamError::InvalidSpec(_)));
        assert_eq!(error.to_string(), "mcp server \"x\" must have either a command or a url");
    }
}

// MCP-109, MCP-111, MCP-112, MCP-22, case 62: what is echoed is redacted, in every form
#[tokio::test]
async fn an_echoed_specification_is_redacted() {
    let Err(SeamError::InvalidSpec(shown)) = select(secretive()) else { panic!() };
    assert_eq!((shown.name.as_str(), shown.command.as_deref()), ("x", Some("s")));
    let json = serde_json::to_value(&*shown).unwrap();
    assert_eq!(json["args"], json!(["[redacted]"]));
    assert_eq!(json["env"], json!({"GITHUB_TOKEN": "[redacted]"}));
    assert_eq!(json["url"], "https://h:8/a");
    assert_eq!(json["headers"], json!({"Authorization": "[redacted]"}));
    assert_eq!(*shown, redact(&secretive()));

    let connected = connect(secretive(), ConnectContext::default()).await;
    let entry = McpServerConfig::from(secretive());
    let command = Target::Command(secretive().command);
    let url = Target::Url(secretive().url.unwrap());
    for shown in [
        format!("{connected:?}"),
        format!("{}", connected.unwrap_err()),
        format!("{:?}", secretive()),
        format!("{:?}", TransportSpec::Stdio { spec: secretive() }),
        format!("{entry:?}"),
        format!("{:?}", ServerSpec::from(&entry)),
        format!("{command:?} {url:?}"),
    ] {
        assert!(!shown.contains("secret-"), "{shown}");
    }
    let request = McpRequest::new("tools/call").params(json!({"name": "secret-8"}));
    assert!(!format!("{request:?}").contains("secret-8"));
}

// MCP-111: an address that is none
#[test]
fn an_unreadable_address_is_hidden() {
    for url in ["secret words", "//secret", "mailto:secret@h", "", "http://"] {
        assert_eq!(redact(&remote(url)).url.as_deref(), Some("[redacted]"), "{url}");
    }
    assert_eq!(redact(&remote("http://h")).url.as_deref(), Some("http://h/"));
}

proptest! {
    // MCP-111: redacting what is redacted changes nothing, and no secret is left
    #[test]
    fn redacting_is_idempotent(
        args in prop::collection::vec("secret-[a-z]{0,5}", 0..4),
        env in prop::collection::btree_map("[A-Z]{1,5}", "secret-.{0,5}", 0..3),
        headers in prop::collection::btree_map("[A-Za-z]{1,5}", "secret-.{0,5}", 0..3),
        userinfo in prop::option::of("secret-[a-z]{0,4}(:secret-[a-z]{0,4})?"),
        rest in "(/[a-z]{0,5}){0,2}(\\?secret-[a-z=&]{0,6})?(#secret-[a-z]{0,3})?",
        words in any::<bool>(),
    ) {
        let userinfo = userinfo.map(|info| format!("{info}@")).unwrap_or_default();
        let url = if words { "secret-word".to_owned() } else { format!("https://{userinfo}h.test:8{rest}") };
        let spec = ServerSpec {
            command: [vec!["program".to_owned()], args.clone()].concat(),
            env: env.clone().into_iter().collect(),
            headers: headers.clone().into_iter().collect(),
            ..remote(url)
        };
        let once = redact(&spec);
        let shown = format!("{once:?}");
        prop_assert!(!shown.contains("secret-"));
        prop_assert_eq!(once.args.len(), args.len());
        prop_assert_eq!(once.env.keys().collect::<Vec<_>>(), env.keys().collect::<Vec<_>>());
        let again = ServerSpec {
            command: once.command.iter().chain(&once.args).cloned().collect(),
            env: once.env.clone(),
            headers: once.headers.clone().into_iter().collect(),
            ..remote(once.url.clone().unwrap())
        };
        prop_assert_eq!(redact(&again), once);
    }
}

// MCP-113, MCP-114, case 64: who is asked, and what a refusal says
#[tokio::test]
async fn the_gate_decides_on_what_is_not_the_users_own() {
    let spec =
        |source: SpecSource, permit: Option<Permit>| ServerSpec { source, permit, ..remote("http://h/mcp") };
    let target = Target::Url("http://h/mcp".into());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let gate = |answer: Result<(), &'static str>| {
        let asked = Arc::clone(&asked);
        Permit::new(move |target: Target| {
            asked.lock().unwrap().push(target);
            async move { answer }
        })
    };
    assert_eq!(permit(&spec(SpecSource::User, Some(gate(Err("no")))), &target).await, Ok(()));
    assert_eq!(permit(&spec(SpecSource::User, None), &target).await, Ok(()));
    assert!(asked.lock().unwrap().is_empty(), "the user's own is not asked about");

    let panics = Permit::new(|_| async { if true { panic!("host evil") } else { Ok::<(), ()>(()) } });
    let panics_early = Permit::new(|_| -> std::future::Ready<Result<(), ()>> { panic!("host evil") });
    for source in [SpecSource::Workspace, SpecSource::Other("marketplace".into())] {
        let blocked = Err(SeamError::Blocked(source.clone()));
        assert_eq!(permit(&spec(source.clone(), Some(gate(Ok(())))), &target).await, Ok(()));
        assert_eq!(permit(&spec(source.clone(), None), &target).await, blocked);
        for refusing in [gate(Err("host evil")), panics.clone(), panics_early.clone()] {
            let refused = permit(&spec(source.clone(), Some(refusing)), &target).await;
            assert_eq!(refused, blocked);
            assert!(!format!("{0:?} {0}", refused.unwrap_err()).contains("evil"));
        }
    }
    assert!(asked.lock().unwrap().iter().all(|asked| *asked == target));
    let command = Target::Command(vec!["s".into(), "a".into()]);
    assert_eq!(select(local(&["s", "a"])).unwrap().target(), command);
}

// MCP-113, MCP-114, MCP-115, case 64: nothing is contacted or started without leave
#[tokio::test]
async fn nothing_happens_without_leave() {
    let server = serve(HttpOptions::default()).await;
    let refusing = Permit::new(|_| async { Err::<(), _>("host evil") });
    let allowing = Permit::new(|_| async { Ok::<_, ()>(()) });
    let (stdio, ledger, _folder) = noted(fixture());
    let started = local(&["no-such-program"]);

    for gate in [None, Some(refusing.clone())] {
        for spec in [remote(server.url()), started.clone()] {
            let spec = ServerSpec { source: SpecSource::Workspace, permit: gate.clone(), ..spec };
            let refused = connect(spec, ConnectContext::default()).await.unwrap_err();
            assert_eq!(refused, SeamError::Blocked(SpecSource::Workspace));
        }
        let entries = json!({"far": server.server_json(), "near": support::stdio(&stdio, json!({}))});
        let opts =
            LoadMcpOptions { source: SpecSource::Workspace, permit: gate.clone(), ..Default::default() };
        let source = load_mcp_with(&servers(entries), opts).await;
        for name in ["far", "near"] {
            let text = format!("mcp server \"{name}\" failed at config: config (blocked)");
            assert_eq!(source.errors[name], text);
            assert_eq!(source.connection(name).unwrap().phase(), McpPhase::Config);
        }
    }
    assert_eq!(server.connections(), 0);
    assert!(server.requests().is_empty());
    assert!(!ledger.path().exists(), "no process was started");

    let spec =
        ServerSpec { source: SpecSource::Workspace, permit: Some(allowing.clone()), ..remote(server.url()) };
    let connection = connect(spec, ConnectContext::default()).await.unwrap();
    assert_eq!(connection.tools().len(), 2);
    connection.close().await;

    // An entry's own origin goes before the document's.
    let mut entries = servers(json!({"far": server.server_json()}));
    entries.servers[0].source = Some(SpecSource::User);
    let opts = LoadMcpOptions { source: SpecSource::Workspace, permit: Some(refusing), ..Default::default() };
    let source = load_mcp_with(&entries, opts).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source.close().await;
}

// MCP-115: asked again for the other transport and for each new connection
#[tokio::test]
async fn the_gate_is_asked_for_every_connection() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = |until: usize| {
        let asked = Arc::clone(&asked);
        Permit::new(move |_| {
            let count = asked.fetch_add(1, Ordering::SeqCst);
            async move { if count < until { Ok(()) } else { Err("enough") } }
        })
    };
    let options = HttpOptions { legacy_sse: Some("/messages".into()), ..Default::default() };
    let server = serve(options).await;
    let spec = |until| ServerSpec {
        source: SpecSource::Workspace,
        permit: Some(counting(until)),
        ..remote(server.url())
    };
    let refused = connect(spec(1), ConnectContext::default()).await.unwrap_err();
    assert_eq!(refused, SeamError::Blocked(SpecSource::Workspace));
    assert!(server.requests().iter().all(|request| request.method == "POST"), "no stream was opened");
    assert_eq!(asked.swap(0, Ordering::SeqCst), 2);
    let connection = connect(spec(2), ConnectContext::default()).await.unwrap();
    assert_eq!(asked.swap(0, Ordering::SeqCst), 2);
    connection.close().await;

    // A reconnect: the server turns out to be of another era.
    let discovered = json!({"jsonrpc": "2.0", "id": 0, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}});
    let faults = vec![
        HttpFault::on("server/discover", HttpEffect::body("application/json", discovered.to_string())).once(),
        HttpFault::on("tools/call", HttpEffect::status(404)).once(),
    ];
    let options = HttpOptions { sessions: false, faults, ..Default::default() };
    let server = serve(options).await;
    let spec =
        ServerSpec { source: SpecSource::Workspace, permit: Some(counting(1)), ..remote(server.url()) };
    let connection = connect(spec, ConnectContext::default()).await.unwrap();
    let output = connection.tools()[0].execute(json!({})).await.output;
    assert_eq!(output, "mcp server \"x\" failed at tools/call: http-status (HTTP 404)");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(server.requests_of("initialize").len(), 0, "the reconnect was not permitted");
    connection.close().await;
}

// MCP-115: leave for one origin is none for another
#[tokio::test]
async fn a_redirect_to_another_origin_is_refused() {
    let other = serve(HttpOptions::default()).await;
    let server = serve(HttpOptions {
        faults: vec![HttpFault::always(HttpEffect::redirect(other.url()))],
        ..Default::default()
    })
    .await;
    let refused = connect(remote(server.url()), ConnectContext::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "mcp server \"x\" failed at initialize: http-status (HTTP 307)");
    assert!(other.requests().is_empty());
}

// MCP-57, MCP-58: the context of one connection
#[tokio::test]
async fn connecting_can_be_ended() {
    let server =
        serve(HttpOptions { faults: vec![HttpFault::always(HttpEffect::Silence)], ..Default::default() })
            .await;
    let context = McpContext::default();
    let connecting =
        connect(remote(server.url()), ConnectContext { context: context.clone(), ..Default::default() });
    let ended = tokio::spawn(connecting);
    server.wait_for(1).await.unwrap();
    context.cancel.cancel();
    assert_eq!(ended.await.unwrap().unwrap_err(), SeamError::Ended(McpContextError::Cancelled));
    server.wait_for_silence().await.unwrap();
}

// MCP-124, MCP-77, case 73: there is no silent success
#[tokio::test]
async fn nothing_is_sent_without_a_connection() {
    let ping = || McpRequest::new("ping");
    let off =
        connect_mcp_server(&server(json!({"url": "http://h/mcp", "enabled": false})), Default::default())
            .await;
    assert_eq!(off.send(ping()).await, Err(SeamError::NotConnected));
    assert_eq!(off.session(), None);
    let failed =
        connect_mcp_server(&server(json!({"command": ["no-such-program"]})), Default::default()).await;
    assert_eq!(failed.send(ping()).await, Err(SeamError::NotConnected));

    let server = serve(HttpOptions::default()).await;
    let connection = connect(remote(server.url()), ConnectContext::default()).await.unwrap();
    assert_eq!(connection.send(ping()).await, Ok(json!({})));
    let stuck = tokio::spawn({
        let connection = connection.clone();
        async move {
            let call = McpRequest::new("tools/call").params(json!({"name": "stuck", "arguments": {}}));
            connection.send(call).await
        }
    });
    server.wait_for_method("tools/call", 1).await.unwrap();
    connection.close().await;
    assert_eq!(stuck.await.unwrap(), Err(SeamError::Closed));
    let before = server.requests().len();
    assert_eq!(connection.send(ping()).await, Err(SeamError::Closed));
    let called = connection.tools()[0].execute(json!({})).await;
    assert_eq!(called.output, "mcp server \"x\" failed at tools/call: closed");
    assert_eq!(server.requests().len(), before);
}

// MCP-124: lost on the other side
#[tokio::test]
async fn nothing_is_sent_on_a_lost_connection() {
    let fixture = fixture().tool(FixtureTool::exits("crash", 3));
    let connection =
        connect_mcp_server(&server(support::stdio(&fixture, json!({}))), Default::default()).await;
    let crash = McpRequest::new("tools/call").params(json!({"name": "crash"}));
    for request in [crash, McpRequest::new("ping")] {
        let Err(SeamError::Failed(failure)) = connection.send(request).await else { panic!() };
        assert_eq!((failure.kind(), failure.exit_code()), (McpFailureKind::PeerEof, Some(3)));
    }
    connection.close().await;
    assert_eq!(connection.send(McpRequest::new("ping")).await, Err(SeamError::Closed));
}

// MCP-125: a request is a method and parameters, over any wire
#[tokio::test]
async fn a_request_is_a_method_and_parameters() {
    let http = serve(HttpOptions::default()).await;
    let (noted, ledger, _folder) =
        noted(fixture().on("x/y", [toolnexus_testkit::mcp::Step::result(json!({"b": 1, "a": 2}))]));
    let near = connect_mcp_server(&server(support::stdio(&noted, json!({}))), Default::default()).await;
    let answer = near.send(McpRequest::new("x/y").params(json!({"k": [1]}))).await.unwrap();
    assert_eq!(answer.to_string(), r#"{"b":1,"a":2}"#);
    assert_eq!(ledger.of_method("x/y").unwrap()[0]["params"]["k"], json!([1]));
    near.close().await;

    let far = connect(remote(http.url()), ConnectContext::default()).await.unwrap();
    let Err(SeamError::Failed(unknown)) = far.send(McpRequest::new("x/y")).await else { panic!() };
    assert_eq!(unknown.to_string(), "mcp server \"x\" failed at request: rpc-error (code -32601)");
    assert_eq!(far.send(McpRequest::new("tools/list")).await.unwrap()["tools"][0]["name"], "say");
    let stuck = McpRequest::new("tools/call").params(json!({"name": "stuck"}));
    let Err(SeamError::Failed(slow)) = far.send(stuck.timeout(std::time::Duration::from_millis(50))).await
    else {
        panic!()
    };
    assert_eq!((slow.kind(), slow.phase()), (McpFailureKind::Timeout, McpPhase::CallTool));
    far.close().await;
}

/// A server at the other end of a pipe, which answers by `answer` and keeps what it was sent.
fn answering(
    pipe: DuplexStream,
    answer: impl Fn(&str, &Value) -> Option<Value> + Send + 'static,
) -> tokio::task::JoinHandle<Vec<Value>> {
    tokio::spawn(async move {
        let (read, mut write) = tokio::io::split(pipe);
        let mut lines = BufReader::new(read).lines();
        let mut sent = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let method = message["method"].as_str().unwrap_or_default();
            if message.get("id").is_some() {
                let Some(result) = answer(method, &message["params"]) else { break };
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            sent.push(message);
        }
        sent
    })
}

// MCP-116, MCP-125: a host's own wire, in either era
#[tokio::test]
async fn a_host_brings_its_own_wire() {
    for (session, expected) in [
        (Session::handshake(), &["initialize", "notifications/initialized", "tools/list", "tools/call"][..]),
        (
            Session::ready().concurrency(ConcurrencyPolicy::Pooled),
            &["server/discover", "tools/list", "tools/call"],
        ),
    ] {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let server = answering(far, |method, params| {
            Some(match method {
                "initialize" => json!({"protocolVersion": "2025-06-18", "serverInfo": {"name": "lab"}}),
                "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
                "tools/list" => json!({"tools": [{"name": "say", "x": 1}, {"name": "hide"}]}),
                "tools/call" => {
                    json!({"content": [{"type": "text", "text": params["arguments"]["t"]}], "action": "accept"})
                }
                _ => return None,
            })
        });
        let (read, write) = tokio::io::split(near);
        let config = McpServerConfig {
            name: "lab".into(),
            tools: [("hide".to_owned(), false)].into_iter().collect(),
            ..Default::default()
        };
        let wire = AsyncRwTransport::new_client(read, write);
        let lab = McpConnection::over(wire, session.clone(), &config, LoadMcpOptions::default()).await;
        assert_eq!(lab.status(), McpStatus::Connected, "{:?}", lab.error());
        let now = lab.session().unwrap();
        let version = if session.mode == SessionMode::Ready { "2026-07-28" } else { "2025-06-18" };
        assert_eq!(
            (now.mode, now.version.as_str(), now.concurrency),
            (session.mode, version, session.concurrency)
        );
        assert_eq!(lab.tools().len(), 1);
        assert_eq!(lab.tools()[0].name, "lab_say");
        assert_eq!(lab.tools()[0].execute(json!({"t": "hi"})).await.output, "hi");
        assert!(lab.is_connected());

        // The server leaves: a request it does not answer.
        let Err(SeamError::Failed(lost)) = lab.send(McpRequest::new("x/y")).await else { panic!() };
        assert_eq!(lost.to_string(), "mcp server \"lab\" failed at request: peer-eof (transport closed)");
        assert!(!lab.is_connected());
        lab.close().await;
        assert_eq!(lab.send(McpRequest::new("x/y")).await, Err(SeamError::Closed));

        let sent = server.await.unwrap();
        let methods: Vec<_> = sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
        assert_eq!(methods, expected);
        let modern =
            sent.last().unwrap()["params"]["_meta"].get("io.modelcontextprotocol/clientInfo").is_some();
        assert_eq!(modern, session.mode == SessionMode::Ready);
    }
}

// MCP-38, MCP-58: a wire on which nothing comes back is let go
#[tokio::test]
async fn a_silent_wire_is_given_up() {
    let (near, far) = tokio::io::duplex(1024);
    let (read, write) = tokio::io::split(near);
    let config = McpServerConfig { name: "lab".into(), timeout_ms: 50, ..Default::default() };
    let wire = AsyncRwTransport::new_client(read, write);
    let lab = McpConnection::over(wire, Session::handshake(), &config, LoadMcpOptions::default()).await;
    assert_eq!(lab.error().unwrap().to_string(), "mcp server \"lab\" failed at initialize: timeout");
    let mut far = BufReader::new(far).lines();
    assert!(far.next_line().await.unwrap().unwrap().contains("initialize"));
    assert_eq!(far.next_line().await.unwrap(), None, "the wire was dropped");
}

// MCP-116: the session of what is configured
#[tokio::test]
async fn a_session_is_known_by_its_policy() {
    let http = serve(HttpOptions::default()).await;
    let sessionless = serve(HttpOptions { sessions: false, ..Default::default() }).await;
    let entry = |server: &McpHttpFixture, more: Value| with(support::legacy(server.server_json()), more);
    let config = servers(json!({
        "a": entry(&http, json!({})),
        "b": entry(&http, json!({"concurrency": "pooled"})),
        "c": entry(&sessionless, json!({})),
        "d": support::stdio(&fixture(), json!({})),
    }));
    let source = load_mcp_with(&config, LoadMcpOptions::default()).await;
    let policies: Vec<_> =
        source.connections.iter().map(|connection| connection.session().unwrap().concurrency).collect();
    use ConcurrencyPolicy::{Pooled, Serialized, Stateless};
    assert_eq!(policies, [Serialized, Pooled, Stateless, Stateless]);
    assert_eq!(output(&source, "a_say").await, "hi");
    assert_eq!(tool(&source, "d_say").execute(json!({})).await.output, "hi");
    source.close().await;
}
