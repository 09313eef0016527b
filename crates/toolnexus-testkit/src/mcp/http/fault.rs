//! Misbehaviour of the HTTP layer.

/// What goes wrong for which requests.
///
/// ```
/// use toolnexus_testkit::mcp::{HttpEffect, HttpFault};
///
/// // The second and third call get 503, later ones are fine again.
/// let fault = HttpFault::on("tools/call", HttpEffect::status(503)).after(1).times(2);
/// ```
#[derive(Clone, Debug)]
pub struct HttpFault {
    target: Target,
    after: usize,
    times: usize,
    effect: HttpEffect,
}

#[derive(Clone, Debug)]
enum Target {
    Rpc(String),
    Http(String),
    All,
}

impl HttpFault {
    /// For every POST whose message has that JSON-RPC method; `""`: one that has none, such as an
    /// answer to the server.
    #[must_use]
    pub fn on(method: impl Into<String>, effect: HttpEffect) -> Self {
        Self::new(Target::Rpc(method.into()), effect)
    }

    /// For every request of that HTTP method, such as `GET`.
    #[must_use]
    pub fn on_http(method: impl Into<String>, effect: HttpEffect) -> Self {
        Self::new(Target::Http(method.into()), effect)
    }

    /// For every request.
    #[must_use]
    pub fn always(effect: HttpEffect) -> Self {
        Self::new(Target::All, effect)
    }

    fn new(target: Target, effect: HttpEffect) -> Self {
        Self { target, after: 0, times: usize::MAX, effect }
    }

    /// Not for the first `count` of these requests.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.after = count;
        self
    }

    /// For so many of these requests only.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = count;
        self
    }

    /// For one of these requests only.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    pub(super) fn concerns(&self, http_method: &str, rpc_method: Option<&str>) -> bool {
        match &self.target {
            Target::Rpc(method) => http_method == "POST" && rpc_method.unwrap_or_default() == method,
            Target::Http(method) => http_method == method,
            Target::All => true,
        }
    }

    /// What happens to a request it concerns, given how many it has concerned before.
    pub(super) fn effect(&self, before: usize) -> Option<&HttpEffect> {
        let spent = before.checked_sub(self.after)?;
        (spent < self.times).then_some(&self.effect)
    }
}

/// What happens instead of an answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpEffect {
    /// A response made by hand.
    Respond {
        /// The status.
        status: u16,
        /// Headers, names and values.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// An event stream that has these bytes and is then cut, the connection lost.
    CutStream(String),
    /// An event stream without an event that never ends.
    SilentStream,
    /// No response, the connection kept.
    Silence,
    /// No response, the connection closed.
    HangUp,
    /// The ordinary answer, so many milliseconds later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// The ordinary answer in pieces, with a pause before each.
    Drip {
        /// Length of a piece in bytes.
        bytes: usize,
        /// The pause in milliseconds.
        ms: u64,
    },
}

impl HttpEffect {
    /// A response with that status and an empty body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Respond { status, headers: Vec::new(), body: String::new() }
    }

    /// A 200 with that body and content type.
    #[must_use]
    pub fn body(content_type: impl Into<String>, body: impl Into<String>) -> Self {
        Self::status(200).header("content-type", content_type).text(body)
    }

    /// A 307 to that location.
    #[must_use]
    pub fn redirect(location: impl Into<String>) -> Self {
        Self::status(307).header("location", location)
    }

    /// An event stream that ends at once.
    #[must_use]
    pub fn empty_stream() -> Self {
        Self::body("text/event-stream", "")
    }

    /// Adds a header to a response made by hand; nothing for other effects.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Self::Respond { headers, .. } = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Sets the body of a response made by hand; nothing for other effects.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        if let Self::Respond { body, .. } = &mut self {
            *body = text.into();
        }
        self
    }
}
