//! Calls that cost something, and the permission to spend it.
//!
//! An entry may have prices. Calling a priced tool takes a [`Reservation`], which only the server's
//! [`SpendGate`] makes: for one tool, once, and for two minutes. The gate stands in the way that every
//! request takes, so no caller can pass it by: it looks before a call queues, and takes the reservation
//! when the call is admitted. A reservation is this side's own business: it never goes on the wire.
//!
//! A [`Tool`](toolnexus_core::Tool) asks for its reservation through
//! [`LoadMcpOptions::reserve`](crate::LoadMcpOptions::reserve), once a call. Whoever has one already puts
//! it into the [`extensions`](toolnexus_core::ToolContext::extensions) of the call's context.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use rmcp::model::ClientRequest;
use serde_json::Value;
use tokio::time::Instant;
use toolnexus_core::{BoxFuture, ToolContext};

use crate::config::McpServerConfig;
use crate::failure::{Fault, McpFailureKind};

/// How long a reservation can be used.
const VALID_FOR: Duration = Duration::from_secs(120);

/// Decides whether a call of a priced tool may be paid, once a call.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_mcp::{LoadMcpOptions, Reserve};
/// let reserve: Reserve = Arc::new(|call| Box::pin(async move { (call.price < 0.5).then(|| call.reserve()) }));
/// let options = LoadMcpOptions { reserve: Some(reserve), ..Default::default() };
/// # assert!(options.reserve.is_some());
/// ```
pub type Reserve = Arc<dyn Fn(PricedCall) -> BoxFuture<'static, Option<Reservation>> + Send + Sync>;

/// A call that waits to be paid.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PricedCall {
    /// The configured name of the server.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    /// What the call costs, in the unit of the entry's prices.
    pub price: f64,
    gate: SpendGate,
}

impl PricedCall {
    /// The reservation that lets this call through.
    pub fn reserve(&self) -> Reservation {
        self.gate.reserve(&self.tool)
    }
}

/// The prices of one server, and the only maker of reservations for its tools. Clones are the same
/// gate.
#[derive(Clone)]
pub struct SpendGate(Arc<Gate>);

struct Gate {
    server: String,
    prices: BTreeMap<String, f64>,
    metered: bool,
    reserve: Option<Reserve>,
}

impl SpendGate {
    pub(crate) fn new(config: &McpServerConfig, reserve: Option<Reserve>) -> Self {
        SpendGate(Arc::new(Gate {
            server: config.name.clone(),
            metered: config.metered.unwrap_or(!config.prices.is_empty()),
            prices: config.prices.clone(),
            reserve,
        }))
    }

    /// Whether tools need a price to be called.
    pub fn is_metered(&self) -> bool {
        self.0.metered
    }

    /// What a call of a tool costs, by the tool's name on the server; 0 is known to be free. `None`: not
    /// known.
    pub fn price(&self, tool: &str) -> Option<f64> {
        self.0.prices.get(tool).copied()
    }

    /// A reservation for one call of that tool, valid for two minutes.
    pub fn reserve(&self, tool: &str) -> Reservation {
        Reservation(Arc::new(Minted {
            gate: self.clone(),
            tool: tool.to_owned(),
            expires: Instant::now() + VALID_FOR,
            spent: AtomicBool::new(false),
        }))
    }

    /// What a call has to pay, if it needs a reservation.
    fn due(&self, tool: &str) -> Result<Option<f64>, Fault> {
        if !self.0.metered {
            return Ok(None);
        }
        match self.price(tool) {
            None => Err(Fault::with_detail(McpFailureKind::UnknownPrice, tool)),
            Some(0.0) => Ok(None),
            Some(price) => Ok(Some(price)),
        }
    }

    /// Gets the means to pay for a call and puts them into its context.
    pub(crate) async fn fund(&self, tool: &str, context: &mut ToolContext) {
        let Ok(Some(price)) = self.due(tool) else { return };
        let given = context.extensions.remove::<Reservation>();
        let reservation = match (given, &self.0.reserve) {
            (Some(given), _) => Some(given),
            (None, Some(reserve)) => {
                let call = PricedCall {
                    server: self.0.server.clone(),
                    tool: tool.to_owned(),
                    price,
                    gate: self.clone(),
                };
                asked(reserve, call).await
            }
            (None, None) => None,
        };
        if let Some(reservation) = reservation {
            reservation.put_into(context);
        }
    }

    /// What a request has to pay; refuses one that cannot.
    pub(crate) fn toll(&self, request: &ClientRequest, context: Option<&ToolContext>) -> Result<Toll, Fault> {
        if !self.0.metered {
            return Ok(Toll(None));
        }
        let Some(tool) = called(request) else { return Ok(Toll(None)) };
        if self.due(tool)?.is_none() {
            return Ok(Toll(None));
        }
        let unpaid = || Fault::with_detail(McpFailureKind::UnmeteredCall, tool);
        let purse = context.and_then(|context| context.extensions.get::<Purse>()).ok_or_else(unpaid)?;
        if !purse.is_paid() && !purse.reservation.is_good(self, tool) {
            return Err(unpaid());
        }
        Ok(Toll(Some(Owed { gate: self.clone(), tool: tool.to_owned(), purse: purse.clone() })))
    }
}

impl std::fmt::Debug for SpendGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpendGate")
            .field("server", &self.0.server)
            .field("metered", &self.0.metered)
            .finish_non_exhaustive()
    }
}

/// Asks the host. One that panics has made no reservation.
async fn asked(reserve: &Reserve, call: PricedCall) -> Option<Reservation> {
    AssertUnwindSafe(async { reserve(call).await }).catch_unwind().await.unwrap_or_else(|_| {
        tracing::warn!("[toolnexus] the reserve callback panicked: no spend reservation was made");
        None
    })
}

/// The tool that a request calls.
fn called(request: &ClientRequest) -> Option<&str> {
    match request {
        ClientRequest::CallToolRequest(call) => Some(&call.params.name),
        ClientRequest::CustomRequest(custom) if custom.method == "tools/call" => {
            // A call whose tool nobody can tell has no price.
            Some(
                custom
                    .params
                    .as_ref()
                    .and_then(|params| params.get("name"))
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            )
        }
        _ => None,
    }
}

/// Permission to pay for one call of one tool, made by that server's [`SpendGate`]. Clones are the same
/// permission: it is good once.
#[derive(Clone)]
pub struct Reservation(Arc<Minted>);

struct Minted {
    gate: SpendGate,
    tool: String,
    expires: Instant,
    spent: AtomicBool,
}

impl Reservation {
    /// Lets one execution pay with it.
    pub(crate) fn put_into(self, context: &mut ToolContext) {
        context.extensions.insert(Purse { reservation: self, paid: Arc::default() });
    }

    fn is_good(&self, gate: &SpendGate, tool: &str) -> bool {
        self.is_for(gate, tool) && !self.0.spent.load(Ordering::Acquire)
    }

    fn is_for(&self, gate: &SpendGate, tool: &str) -> bool {
        Arc::ptr_eq(&self.0.gate.0, &gate.0) && self.0.tool == tool && Instant::now() < self.0.expires
    }

    /// Uses it up; `false` when it was not good any more.
    fn spend(&self, gate: &SpendGate, tool: &str) -> bool {
        self.is_for(gate, tool) && !self.0.spent.swap(true, Ordering::AcqRel)
    }
}

/// Tells nothing: it is as good as money.
impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reservation")
    }
}

/// What one execution of a tool has to pay with. It pays once, however many requests the execution
/// takes.
#[derive(Clone)]
struct Purse {
    reservation: Reservation,
    paid: Arc<AtomicBool>,
}

impl Purse {
    fn is_paid(&self) -> bool {
        self.paid.load(Ordering::Acquire)
    }
}

/// What a request owes when it is admitted. Only a gate can tell.
#[derive(Clone)]
pub(crate) struct Toll(Option<Owed>);

#[derive(Clone)]
struct Owed {
    gate: SpendGate,
    tool: String,
    purse: Purse,
}

impl Toll {
    /// Takes the reservation, which is not given back.
    pub(crate) fn pay(self) -> Result<(), Fault> {
        let Some(Owed { gate, tool, purse }) = self.0 else { return Ok(()) };
        if purse.is_paid() {
            return Ok(());
        }
        if !purse.reservation.spend(&gate, &tool) {
            return Err(Fault::with_detail(McpFailureKind::UnmeteredCall, tool));
        }
        purse.paid.store(true, Ordering::Release);
        Ok(())
    }
}
