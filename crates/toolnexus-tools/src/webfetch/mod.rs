//! The `webfetch` tool: a page as Markdown, as text, or as it is.
//!
//! ```text
//! arguments ─▶ Asked       address, format, time          what a model may ask for
//!           ─▶ outbound    policy, redirects, limits      shared with http_tool
//!           ─▶ kind        page, text, or no text at all  before any of the body is read
//!           ─▶ page        Markdown or text               off the threads that drive the runs
//! ```

mod kind;
mod page;

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Map, Value};
use toolnexus_core::{Tool, ToolContext, ToolResult};
use url::Url;

use crate::args::Args;
use crate::builtin::{Face, READS_THE_WORLD, number, off_thread, one_of, string};
use crate::config::BuiltinsConfig;
use crate::outbound::{Arrival, Body, Failed, Outbound, Outgoing, bounded, shown_url, taken_credentials};
use kind::{Kind, kind, starts_like_html};
use page::{Converted, Target, convert};

/// How long a call may take by default, in seconds.
const DEFAULT_SECONDS: f64 = 30.0;

/// What is asked for: text before everything else, pages before other text.
const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.7, \
     text/*;q=0.6, */*;q=0.1",
);

pub(crate) fn tool(cfg: &BuiltinsConfig) -> Tool {
    let face = Face {
        name: "webfetch",
        description: "Fetch a URL with GET and return its body as markdown, text or raw HTML.",
        properties: vec![
            ("url", string("The http or https URL to fetch")),
            ("format", one_of(&["text", "markdown", "html"], "How to return a page; default markdown")),
            ("timeout", number("How long it may take, in seconds; default 30")),
        ],
        required: &["url"],
        hints: READS_THE_WORLD,
    };
    let fetcher = Arc::new(Fetcher { outbound: Outbound::new(&cfg.web), limit: limit(cfg.limits.web_bytes) });
    face.tool(move |args, context| {
        let fetcher = Arc::clone(&fetcher);
        async move { fetcher.call(&Asked::read(&args, &context)?, &context).await }
    })
}

fn limit(bytes: u64) -> usize {
    if bytes == 0 { usize::MAX } else { usize::try_from(bytes).unwrap_or(usize::MAX) }
}

/// How a page is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Markdown,
    Text,
    Html,
}

impl Format {
    fn read(text: Option<&str>) -> Self {
        match text {
            Some("text") => Format::Text,
            Some("html") => Format::Html,
            _ => Format::Markdown,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Format::Markdown => "markdown",
            Format::Text => "text",
            Format::Html => "html",
        }
    }
}

/// What a call asks for.
#[derive(Debug)]
struct Asked {
    /// Without user and password.
    url: Url,
    credentials: Option<HeaderValue>,
    format: Format,
    seconds: f64,
}

impl Asked {
    fn read(args: &Args, context: &ToolContext) -> Result<Self, String> {
        let text = args.required_text(&["url"])?;
        let format = Format::read(args.text(&["format"]).as_deref());
        let seconds = seconds(args, context)?;
        let mut url = address(&text)?;
        let credentials = taken_credentials(&mut url);
        Ok(Asked { url, credentials, format, seconds })
    }

    fn request(&self) -> Outgoing {
        Outgoing {
            method: Method::GET,
            url: self.url.clone(),
            headers: self.credentials.iter().map(|value| (AUTHORIZATION, value.clone())).collect(),
            open_headers: HeaderMap::from_iter([(ACCEPT, ACCEPTED)]),
            body: None,
        }
    }
}

/// The address that a text is.
fn address(text: &str) -> Result<Url, String> {
    const SHOWN: usize = 200;
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(url) if !is_host_and_port(&url) => Err(format!("unsupported URL scheme: {}", url.scheme())),
        _ => {
            let shown: String = shown_url(text).chars().take(SHOWN).collect();
            Err(format!("invalid URL \"{shown}\": give an absolute http or https URL"))
        }
    }
}

/// Whether what reads as a scheme is a host in front of a port, as in `localhost:8080/x`.
fn is_host_and_port(url: &Url) -> bool {
    let port = url.path().split('/').next().unwrap_or_default();
    (url.scheme() == "localhost" || url.scheme().contains('.')) && port.parse::<u16>().is_ok()
}

/// The limit of a call: the model's wish, bounded by the host's.
fn seconds(args: &Args, context: &ToolContext) -> Result<f64, String> {
    let host = context.timeout_ms.map(|ms| Duration::from_millis(ms).as_secs_f64());
    let Some(asked) = args.number(&["timeout"]) else { return Ok(host.unwrap_or(DEFAULT_SECONDS)) };
    if !asked.is_finite() || asked <= 0.0 {
        return Err("timeout must be greater than 0".to_owned());
    }
    Ok(host.map_or(asked, |host| host.min(asked)))
}

struct Fetcher {
    outbound: Outbound,
    /// How many bytes of a body are read.
    limit: usize,
}

/// Why there is no result.
enum Unfetched {
    Failed(Failed),
    Other(String),
}

impl From<Failed> for Unfetched {
    fn from(failed: Failed) -> Self {
        Unfetched::Failed(failed)
    }
}

impl Fetcher {
    async fn call(&self, asked: &Asked, context: &ToolContext) -> Result<ToolResult, String> {
        // What no clock can hold is no limit.
        let limit = Duration::try_from_secs_f64(asked.seconds).unwrap_or(Duration::MAX);
        match bounded(&context.cancel, limit, self.fetch(asked, context)).await {
            Ok(result) => Ok(result),
            Err(Unfetched::Failed(Failed::Timeout)) => Err(format!("timed out after {}s", asked.seconds)),
            Err(Unfetched::Failed(Failed::Policy(bad))) => Err(format!("builtins.web: {bad}")),
            Err(Unfetched::Failed(denied @ Failed::Denied { .. })) => {
                let facts = Map::from_iter([("error".to_owned(), denied.kind().into())]);
                Ok(ToolResult::failure(format!("webfetch: {denied}")).with_metadata(facts))
            }
            Err(Unfetched::Failed(failed)) => Err(failed.to_string()),
            Err(Unfetched::Other(message)) => Err(message),
        }
    }

    async fn fetch(&self, asked: &Asked, context: &ToolContext) -> Result<ToolResult, Unfetched> {
        let arrival = self.outbound.open(asked.request()).await?;
        let status = arrival.status();
        let mut facts = Map::from_iter([("status".to_owned(), status.as_u16().into())]);
        if arrival.redirected {
            facts.insert("finalUrl".to_owned(), arrival.url.as_str().into());
        }
        if !status.is_success() {
            let output = format!("HTTP {}", status.as_u16());
            return Ok(ToolResult::failure(output).with_metadata(facts));
        }
        let (text, cut) = self.body(arrival, asked.format, context).await?;
        facts.insert("format".to_owned(), asked.format.as_str().into());
        if cut {
            facts.insert("truncated".to_owned(), Value::Bool(true));
        }
        Ok(ToolResult::success(text).with_metadata(facts))
    }

    /// The body in the format that was asked for, and whether something of it is missing.
    async fn body(
        &self,
        arrival: Arrival,
        format: Format,
        context: &ToolContext,
    ) -> Result<(String, bool), Unfetched> {
        let kind = kind(arrival.headers());
        if let Kind::Binary(kind) = kind {
            return Err(Unfetched::Other(format!("unsupported content type {kind}")));
        }
        let address = arrival.url.clone();
        let progress = |came: usize, announced: Option<u64>| {
            context.progress(came as f64, announced.map(|bytes| bytes as f64), None);
        };
        let body = arrival.read(self.limit, progress).await?;
        let limit = self.limit;
        // Decoding and converting are work for a processor, up to seconds of it.
        let work = move || Ok(formatted(&body, &kind, format, &address, limit));
        off_thread(work).await.map_err(Unfetched::Other)
    }
}

/// A body as it is told; conversion ends by itself, wanted or not.
fn formatted(body: &Body, kind: &Kind, format: Format, address: &Url, limit: usize) -> (String, bool) {
    let cut = body.cut_at.is_some();
    let text = body.text();
    let target = match format {
        Format::Html => return (text, cut),
        Format::Markdown => Target::Markdown,
        Format::Text => Target::Text,
    };
    let is_page = *kind == Kind::Page || (*kind == Kind::Unnamed && starts_like_html(&text));
    if !is_page {
        return (text, cut);
    }
    let Converted { text, cut: more_cut } = convert(&text, target, address, limit);
    (text, cut || more_cut)
}
