//! The server itself: which script a message runs, and what it knows across messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Semaphore, oneshot, watch};

use super::in_flight::InFlight;
use super::listing;
use super::message::{Incoming, RpcError};
use super::outlet::Outlet;
use super::run::Run;
use super::script::nth;
use super::{McpFixture, Reply, Step};

/// A fixture being served.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) fixture: McpFixture,
    pub(crate) grandchild: Option<u32>,
    /// How often each script was asked for.
    counts: Mutex<HashMap<String, usize>>,
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// The ids of all cancel notices, in order.
    cancelled: watch::Sender<Vec<Value>>,
    /// Requests of ours that the client has not answered.
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    next_id: AtomicU64,
    pub(crate) in_flight: Arc<InFlight>,
}

impl Engine {
    pub(crate) fn new(fixture: McpFixture, grandchild: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            fixture,
            grandchild,
            counts: Mutex::default(),
            gates: Mutex::default(),
            cancelled: watch::Sender::default(),
            asked: Mutex::default(),
            next_id: AtomicU64::new(1),
            in_flight: Arc::default(),
        })
    }

    /// Takes a message in. A message that runs a script gives the run, which the transport has to
    /// drive; everything else has been dealt with.
    pub(crate) fn receive(self: &Arc<Self>, message: Incoming, outlet: Outlet) -> Option<Run> {
        match message {
            Incoming::Request { id, method, params } => {
                let call = (method == "tools/call").then(|| self.in_flight.open(id.clone()));
                let script =
                    self.script(&method, &params).unwrap_or_else(|| vec![Step::Answer(Reply::Standard)]);
                Some(Run::new(self.clone(), script, outlet).for_request(id, method, params, call))
            }
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    let id = params.get("requestId").cloned().unwrap_or_default();
                    self.in_flight.close(&id);
                    self.cancelled.send_modify(|ids| ids.push(id));
                }
                let script = self.script(&method, &params)?;
                Some(Run::new(self.clone(), script, outlet))
            }
            Incoming::Response { id, body } => {
                if let Some(waiter) = lock(&self.asked).remove(&id.to_string()) {
                    // The script may have ended without waiting for its answer.
                    let _ = waiter.send(body);
                }
                None
            }
            Incoming::Unknown => Some(self.refuse(-32600, "Invalid Request", outlet)),
            Incoming::Garbage => Some(self.refuse(-32700, "Parse error", outlet)),
        }
    }

    /// Answers what has no id.
    fn refuse(self: &Arc<Self>, code: i64, message: &str, outlet: Outlet) -> Run {
        let script = vec![Step::error(code, message)];
        Run::new(self.clone(), script, outlet).for_request(Value::Null, String::new(), Value::Null, None)
    }

    /// The script of this message: the method's own, else that of the called tool.
    fn script(&self, method: &str, params: &Value) -> Option<Vec<Step>> {
        if let Some(scripts) = self.fixture.methods.get(method) {
            return nth(scripts, self.count(method)).map(<[Step]>::to_vec);
        }
        if method != "tools/call" {
            return None;
        }
        let name = params.get("name")?.as_str()?;
        let tool = self.fixture.tools.iter().find(|tool| tool.name == name)?;
        nth(&tool.calls, self.count(&format!("tools/call {name}"))).map(<[Step]>::to_vec)
    }

    /// Counts one more of these; how many there were before.
    fn count(&self, key: &str) -> usize {
        let mut counts = lock(&self.counts);
        let count = counts.entry(key.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// What a method answers without a script, `tools/call` of a known tool excepted.
    pub(crate) fn standard(&self, method: &str, params: &Value) -> Result<String, RpcError> {
        if self.fixture.modern {
            return self.modern(method, params);
        }
        match method {
            "initialize" => {
                let asked = params.get("protocolVersion").and_then(Value::as_str);
                Ok(self.fixture.initialize_result(asked))
            }
            "ping" => Ok("{}".to_owned()),
            "tools/list" => listing::page(&self.fixture, params.get("cursor")),
            _ => Err(RpcError::new(-32601, "Method not found")),
        }
    }

    fn modern(&self, method: &str, params: &Value) -> Result<String, RpcError> {
        match method {
            "server/discover" => Ok(self.fixture.discover_result()),
            // What every list says of itself there.
            "tools/list" => listing::page(&self.fixture, params.get("cursor")).map(|page| {
                let rest = page.strip_prefix('{').unwrap_or_default();
                format!(r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private",{rest}"#)
            }),
            _ => Err(RpcError::new(-32601, "Method not found")),
        }
    }

    /// Whether the fixture speaks the modern era.
    pub(crate) fn is_modern(&self) -> bool {
        self.fixture.modern
    }

    /// Whether a tool of that name can be called.
    pub(crate) fn knows(&self, tool: &str) -> bool {
        self.fixture.tools.iter().any(|known| known.name == tool)
    }

    pub(crate) fn gate(&self, name: &str) -> Arc<Semaphore> {
        lock(&self.gates).entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
    }

    pub(crate) fn cancelled(&self) -> watch::Receiver<Vec<Value>> {
        self.cancelled.subscribe()
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a request of ours; the receiver gets the client's answer.
    pub(crate) fn ask(&self, id: &str) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.asked).insert(id.to_owned(), sender);
        receiver
    }
}

/// No code panics while it holds one of these locks.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
