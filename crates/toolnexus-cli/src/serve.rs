//! `toolnexus serve`: lends the tools to other programs, over MCP.

use std::env::VarError;
use std::io::{self, IsTerminal as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use toolnexus::builtins::is_builtin_name;
use toolnexus::serve::{
    Authenticate, Identity, McpProfile, McpServeConfig, OnCall, ServeError, ServeHandle, ServeOptions,
    exposed_tools,
};
use toolnexus::skills::SkillPathDisplay;
use toolnexus::{BuiltinsConfig, Toolkit};

use crate::cli::SourceArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::render::{count, milliseconds, plain};
use crate::screen::Screen;

/// The variable that holds the callers' token when `--token-env` names no other.
const TOKEN_VARIABLE: &str = "TOOLNEXUS_TOKEN";

/// What `--help` says at the end.
pub(crate) const HELP: &str = "\
Examples:
  toolnexus serve --mcp 8080
  toolnexus serve --mcp 8080 --tools docs_search,skill
  TOOLNEXUS_TOKEN=… toolnexus serve --mcp 0.0.0.0:8080
  toolnexus serve --mcp-stdio --config ops.json

A program that starts its MCP servers itself, as most do, has this among them:
  \"tools\": {\"command\": \"toolnexus\", \"args\": [\"serve\", \"--mcp-stdio\"],
            \"cwd\": \"/where/mcp.json/is\"}
and one that is told where they are:
  \"tools\": {\"url\": \"http://127.0.0.1:8080/mcp\",
            \"headers\": {\"Authorization\": \"Bearer ${TOOLNEXUS_TOKEN}\"}}

Who can call:
  Over stdio, the program that started it. Over HTTP, every program that reaches the address and
  sends the token, if there is one: it is read from TOOLNEXUS_TOKEN, or from the variable of
  --token-env. Without a token only addresses of this machine are served, unless --open says that
  anybody may call. Web pages are refused, but for those of this machine and of --allow-origin.

What they can call:
  Tools of MCP servers, and skills. The built-in tools (a shell among them) are served only when
  --builtins asks for them, or --tools names them. The `mcpServer` section of the configuration may
  say more: `name`, `version`, `protocolVersion`, `tools`; flags win over it.

Stdout stays empty, or carries the protocol with --mcp-stdio; everything else goes to stderr. \
Ctrl-C ends it, as does the end of stdin with --mcp-stdio: exit code 0.";

/// `toolnexus serve`.
#[derive(Args)]
#[command(group = ArgGroup::new("way").required(true).args(["mcp_http", "mcp_stdio"]))]
pub(crate) struct ServeArgs {
    /// Listen for MCP clients at this address, as in 8080 or 127.0.0.1:8080; port 0 is any that is free
    #[arg(long = "mcp", value_name = "ADDR")]
    mcp_http: Option<String>,
    /// Serve the MCP client that started this, over stdin and stdout
    #[arg(long)]
    mcp_stdio: bool,
    /// Serve these tools alone, by the names that `toolnexus tools` shows; separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Serve the built-in tools too: a shell, and files to read
    #[arg(long)]
    builtins: bool,
    /// What the server calls itself
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The environment variable that holds the token of callers, instead of TOOLNEXUS_TOKEN
    #[arg(long, value_name = "VARIABLE", conflicts_with = "mcp_stdio", help_heading = "HTTP")]
    token_env: Option<String>,
    /// Let anybody call who reaches the address, without a token and from other machines
    #[arg(long, conflicts_with_all = ["mcp_stdio", "token_env"], help_heading = "HTTP")]
    open: bool,
    /// Let web pages of this origin call, as in https://app.example.com; may be given more than once
    #[arg(long, value_name = "ORIGIN", conflicts_with = "mcp_stdio", help_heading = "HTTP")]
    allow_origin: Vec<String>,

    #[command(flatten)]
    sources: ServedSources,
}

/// Where the tools come from: as for `toolnexus run`, but that `--mcp` says where to listen here.
#[derive(Args)]
#[command(next_help_heading = "Tools")]
struct ServedSources {
    /// The MCP configuration, instead of `mcp.json` or `.mcp.json` in the working directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// No MCP servers
    #[arg(long, conflicts_with = "config")]
    no_mcp: bool,
    /// A directory with skills, instead of `skills`; may be given more than once
    #[arg(long, value_name = "DIR")]
    skills: Vec<PathBuf>,
    /// No skills
    #[arg(long, conflicts_with = "skills")]
    no_skills: bool,
}

impl ServedSources {
    fn as_for_run(&self) -> SourceArgs {
        SourceArgs {
            mcp: self.config.clone(),
            no_mcp: self.no_mcp,
            skills: self.skills.clone(),
            no_skills: self.no_skills,
            // Settled by what is asked for.
            no_builtins: false,
        }
    }
}

/// Carries the command out.
pub(crate) async fn serve(args: ServeArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    // Everything that can be wrong by itself is looked at before anything is started.
    let token = if args.mcp_stdio { None } else { find_token(&args)? };
    if let Some(addr) = &args.mcp_http {
        check_reach(addr, &args, token.is_some())?;
    }
    let mut sources = Sources::find(&args.sources.as_for_run(), screen)?;
    let profile = profile(&args, &sources)?;
    let named = profile.tools.iter().flatten().any(|name| is_builtin_name(name));
    let builtins = args.builtins || named;
    if !builtins {
        sources.builtins = Some(BuiltinsConfig::off());
    }
    if args.mcp_http.is_some() {
        // Callers may be anywhere: paths of this machine are none of their business.
        sources.skill_paths = SkillPathDisplay::Logical;
    }
    let Loaded { toolkit, failed } = loading::load(sources, None, screen, interrupt).await?;
    for server in failed {
        screen.note(&format!("{} {}", screen.paint().warn("warning:"), server.text()));
    }
    note_unknown(&profile, &toolkit, screen);
    let ended = match &args.mcp_http {
        Some(addr) => listen(addr, &args, token, profile, &toolkit, builtins, screen, interrupt).await,
        None => over_stdio(profile, &toolkit, builtins, screen, interrupt).await,
    };
    toolkit.close().await;
    ended.map(|()| Exit::Done)
}

/// The configuration's profile, changed by flags.
fn profile(args: &ServeArgs, sources: &Sources) -> Result<McpServeConfig, Failure> {
    let section = sources.mcp.as_ref().and_then(|config| config.mcp_server.as_ref());
    let mut profile = match section {
        Some(section) => McpServeConfig::from_value(section)
            .map_err(|error| Failure::usage(format!("the MCP configuration cannot be served: {error}")))?,
        None => McpServeConfig::default(),
    };
    if let Some(name) = &args.name {
        profile.name.clone_from(name);
    }
    if let Some(tools) = &args.tools {
        profile.tools = Some(tools.iter().map(|name| name.trim().to_owned()).collect());
    }
    Ok(profile)
}

/// What callers have to send.
fn find_token(args: &ServeArgs) -> Result<Option<String>, Failure> {
    let value = |name: &str| match std::env::var(name) {
        Ok(token) => Ok(Some(token).filter(|token| !token.trim().is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        // Somebody wants a token: that it cannot be read must not mean that none is asked for.
        Err(VarError::NotUnicode(_)) => Err(Failure::usage(format!(
            "{name} is not text in UTF-8, which callers could not send; set it to a long random text"
        ))),
    };
    match &args.token_env {
        None if args.open => Ok(None),
        None => value(TOKEN_VARIABLE),
        Some(name) => match value(name)? {
            Some(token) => Ok(Some(token)),
            None => Err(Failure::usage(format!(
                "--token-env {name}: the variable is not set; set it to a long random text, and give callers the same"
            ))),
        },
    }
    .map(|token| token.map(|token| token.trim().to_owned()))
}

/// Lets nobody open this machine to the network by accident.
fn check_reach(addr: &str, args: &ServeArgs, has_token: bool) -> Result<(), Failure> {
    if has_token || args.open || is_local(addr) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{addr} can be reached from other machines, which could then run these tools: set {TOKEN_VARIABLE} \
         to a token that callers must send, or say --open if anybody may call"
    )))
}

/// Whether only programs of this machine reach an address. A name may mean anything.
fn is_local(addr: &str) -> bool {
    let host = addr.rsplit_once(':').map_or("", |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.is_empty() || host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Says which of the wanted tools there are not, which is most likely a typing error.
fn note_unknown(profile: &McpServeConfig, toolkit: &Toolkit, screen: &Screen) {
    for name in profile.tools.iter().flatten().filter(|name| toolkit.get(name).is_none()) {
        let warning = screen.paint().warn("warning:");
        screen.note(&format!(
            "{warning} there is no tool {}; `toolnexus tools` lists those that there are",
            plain(name)
        ));
    }
}

/// Says what is served.
fn note_tools(profile: &McpServeConfig, toolkit: &Toolkit, builtins: bool, place: &str, screen: &Screen) {
    let tools = exposed_tools(toolkit, profile);
    let names: Vec<_> = tools.iter().map(|tool| plain(&tool.name)).collect();
    let paint = screen.paint();
    let list = if names.is_empty() { String::new() } else { paint.dim(&format!(": {}", names.join(", "))) };
    screen.note(&format!("serving {} over MCP {place}{list}", count(tools.len(), "tool")));
    if !builtins {
        screen.note(&paint.dim("the built-in tools are not served; --builtins adds them"));
        return;
    }
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    if has("bash") {
        screen.note(&format!("{} callers can run any command of yours with bash", paint.warn("warning:")));
    } else if let Some(writer) =
        ["write", "edit", "apply_patch", "notebook_edit"].into_iter().find(|it| has(it))
    {
        screen.note(&format!("{} callers can change your files with {writer}", paint.warn("warning:")));
    }
}

#[expect(clippy::too_many_arguments, reason = "each is a part of its own of what was asked")]
async fn listen(
    addr: &str,
    args: &ServeArgs,
    token: Option<String>,
    profile: McpServeConfig,
    toolkit: &Toolkit,
    builtins: bool,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let has_token = token.is_some();
    let options = ServeOptions {
        mcp: Some(profile.clone()),
        on_call: Some(note_calls(screen)),
        authenticate: token.map(by_token),
        www_authenticate: Some(Arc::new(|_head, _error| Some("Bearer".into()))),
        allowed_origins: args.allow_origin.clone(),
        ..Default::default()
    };
    let server = toolkit.serve(addr, options).await.map_err(cannot_listen)?;
    note_tools(
        &profile,
        toolkit,
        builtins,
        &format!("at {}", screen.paint().bold(&endpoint(&server))),
        screen,
    );
    let who = match (has_token, is_local(addr)) {
        (true, _) => "callers must send the token, as `Authorization: Bearer …`",
        (false, true) if args.open => "every program on this machine can call, as --open says",
        (false, true) => "every program on this machine can call; set TOOLNEXUS_TOKEN to ask for a token",
        (false, false) => "everybody who reaches this address can call",
    };
    screen.note(&screen.paint().dim(&format!("{who}\nCtrl-C ends it")));
    tokio::select! {
        () = interrupt.raised() => screen.note(&screen.paint().dim("stopping")),
        () = server.stopped() => {}
    }
    server.stop().await;
    Ok(())
}

fn endpoint(server: &ServeHandle) -> String {
    format!("{}/mcp", server.url)
}

fn cannot_listen(error: ServeError) -> Failure {
    match error {
        ServeError::Bind { .. } => Failure::new(Exit::Failed, format!("{error}; try another port")),
        error => Failure::usage(error.to_string()),
    }
}

/// A line for each call.
fn note_calls(screen: &Screen) -> OnCall {
    let screen = screen.clone();
    Arc::new(move |call| {
        let paint = screen.paint();
        let time = paint.dim(&milliseconds(call.ms));
        let failed = if call.is_error { format!(" {}", paint.bad("failed")) } else { String::new() };
        screen.note(&format!("{} {time}{failed}", paint.name(&plain(&call.name))));
    })
}

/// Lets in whoever sends the token.
fn by_token(token: String) -> Authenticate {
    Arc::new(move |head| {
        let sent = head.headers.get("authorization").map(|value| value.as_bytes());
        let admitted = sent.and_then(bearer).is_some_and(|sent| is_same(sent, token.as_bytes()));
        Box::pin(async move { if admitted { Ok(Identity::new("token")) } else { Err("wrong token".into()) } })
    })
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Compares in a time that tells nothing about the token but its length.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

async fn over_stdio(
    profile: McpServeConfig,
    toolkit: &Toolkit,
    builtins: bool,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    note_tools(&profile, toolkit, builtins, "on stdin and stdout", screen);
    if io::stdin().is_terminal() {
        screen.note(&screen.paint().dim(
            "it waits for a program that speaks MCP, which normally starts it by itself; Ctrl-D ends it",
        ));
    }
    let profile = McpProfile::new(toolkit, profile);
    profile.serve_lines(tokio::io::stdin(), tokio::io::stdout(), interrupt.token()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_local() {
        for local in ["8080", ":8080", "127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1", "::1:1"] {
            assert!(is_local(local), "{local}");
        }
        for open in ["0.0.0.0:1", "[::]:1", "192.168.0.1:1", "box.local:1", "localhost.evil.test:1"] {
            assert!(!is_local(open), "{open}");
        }
    }

    #[test]
    fn a_token_is_the_whole_token() {
        for (value, expected) in [
            ("Bearer s3cret", Some("s3cret")),
            ("bearer  s3cret ", Some("s3cret")),
            ("Bearer ", Some("")),
            ("Basic s3cret", None),
            ("s3cret", None),
            ("", None),
        ] {
            assert_eq!(bearer(value.as_bytes()), expected.map(str::as_bytes), "{value}");
        }
        assert!(is_same(b"s3cret", b"s3cret"));
        assert!(!is_same(b"s3cre", b"s3cret") && !is_same(b"S3cret", b"s3cret") && !is_same(b"", b"s3cret"));
    }
}
