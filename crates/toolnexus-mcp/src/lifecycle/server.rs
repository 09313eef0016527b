//! One server with the tools it has now.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use toolnexus_core::Tool;

use super::{AutoRestart, LONGEST_PAUSE, Listeners, McpState, McpToolsChange, Starting};
use crate::failure::{Fault, McpFailure, McpPhase};
use crate::listing::{ListedTool, list_tools};
use crate::load::tools_of;
use crate::slot::{Joined, Slot};
use crate::sync::lock;

/// A server's place and its tools. Tools hold the place; this holds both, so the place knows it weakly.
pub(crate) struct Server {
    this: Weak<Server>,
    pub(crate) slot: Arc<Slot>,
    tools: Mutex<Known>,
    pub(crate) tools_listeners: Listeners<McpToolsChange>,
    /// Held while the list is compared: one comparison after another.
    refreshing: tokio::sync::Mutex<()>,
    /// How often it has been started again without running for long.
    attempts: AtomicU32,
    /// Nobody has the server any more, whatever is under way for it.
    abandoned: CancellationToken,
}

struct Known {
    /// What was taken from the list.
    listed: Vec<ListedTool>,
    tools: Arc<[Tool]>,
}

impl Server {
    /// A server with the tools it has listed.
    pub(crate) fn new(slot: Arc<Slot>, listed: Vec<ListedTool>) -> Arc<Self> {
        let known = Known { tools: tools_of(&listed, &slot, |_| None).into(), listed };
        let server = Arc::new_cyclic(|this: &Weak<Server>| Server {
            this: this.clone(),
            slot,
            tools: Mutex::new(known),
            tools_listeners: Listeners::default(),
            refreshing: tokio::sync::Mutex::default(),
            attempts: AtomicU32::new(0),
            abandoned: CancellationToken::new(),
        });
        server.slot.belongs_to(&server.this);
        server
    }

    /// Ends what goes on in the background, and with it the last hold on the server.
    pub(crate) fn abandon(&self) {
        self.abandoned.cancel();
    }

    /// Cancelled once nobody has the server any more.
    pub(crate) fn abandoned(&self) -> CancellationToken {
        self.abandoned.clone()
    }

    /// The tools it has now.
    pub(crate) fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&lock(&self.tools).tools)
    }

    /// Stops the server if it runs, starts it and lists its tools. Whoever comes while that is done waits
    /// for the same; it is given up when nobody waits for it any more.
    pub(crate) fn restart(&self) -> Joined {
        let this = self.this.clone();
        self.slot.join(move || {
            async move {
                match this.upgrade() {
                    Some(server) => server.start_again().await,
                    None => Ok(()),
                }
            }
            .boxed()
        })
    }

    async fn start_again(&self) -> Result<(), McpFailure> {
        let slot = &self.slot;
        if slot.closed.is_cancelled() {
            return Err(slot.failure(Fault::closed(), McpPhase::Connect));
        }
        if let Some(old) = slot.take() {
            // A lost one has nothing to stop; what it leaves behind is cleaned up all the same.
            if slot.state() == McpState::Running {
                slot.set_state(McpState::Stopped, None);
            }
            old.close().await;
        }
        let starting = Starting::begin(slot);
        let failure = match slot.renew(None).boxed().await {
            Err(unreached) => unreached.failure,
            Ok(live) => match self.list().await {
                Ok(listed) => {
                    self.take(listed);
                    starting.done();
                    return Ok(());
                }
                Err(failure) => {
                    slot.take();
                    live.close().await;
                    failure
                }
            },
        };
        starting.failed(failure.to_string());
        Err(failure)
    }

    async fn list(&self) -> Result<Vec<ListedTool>, McpFailure> {
        let limit = Duration::from_millis(self.slot.config.timeout_ms);
        let listed = list_tools(&self.slot, limit).await;
        listed.map_err(|fault| self.slot.failure(fault, McpPhase::ListTools))
    }

    /// Lists the tools anew. New ones are added and vanished ones dropped, the others stay as they are.
    pub(crate) async fn refresh(&self) -> Result<(), McpFailure> {
        let _refreshing = self.refreshing.lock().await;
        let listed = self.list().await?;
        self.take(listed);
        Ok(())
    }

    /// Takes over what the server lists now.
    fn take(&self, listed: Vec<ListedTool>) {
        let tools = {
            let mut known = lock(&self.tools);
            if known.listed == listed {
                return;
            }
            let tools: Arc<[Tool]> = {
                let before = by_name(known.listed.iter().map(|listed| (listed.name.as_str(), listed)));
                let made = by_name(known.tools.iter().filter_map(|tool| {
                    tool.origin.as_ref().map(|origin| (origin.remote_name.as_str(), tool))
                }));
                let same = |wanted: &ListedTool| {
                    let unchanged = before.get(wanted.name.as_str()).is_some_and(|listed| *listed == wanted);
                    made.get(wanted.name.as_str()).filter(|_| unchanged).map(|tool| Tool::clone(tool))
                };
                tools_of(&listed, &self.slot, same).into()
            };
            let definitions = |tools: &[Tool]| {
                let definition = |tool: &Tool| {
                    (
                        tool.name.clone(),
                        tool.description.clone(),
                        tool.input_schema.clone(),
                        tool.title.clone(),
                        tool.hints,
                    )
                };
                tools.iter().map(definition).collect::<Vec<_>>()
            };
            let changed = definitions(&known.tools) != definitions(&tools);
            *known = Known { listed, tools: Arc::clone(&tools) };
            if !changed {
                return;
            }
            tools
        };
        let server = self.slot.server.to_string();
        self.tools_listeners.tell(&McpToolsChange { server, tools });
    }
}

/// A list, ready to be asked by name. Of several of one name, which are one tool, the first counts.
fn by_name<'a, T>(entries: impl Iterator<Item = (&'a str, T)>) -> HashMap<&'a str, T> {
    let mut named = HashMap::new();
    for (name, entry) in entries {
        named.entry(name).or_insert(entry);
    }
    named
}

/// Starts a lost server again, after a pause that doubles, until it runs, is closed, or it was tried often
/// enough. `ran` is when it came up.
pub(crate) async fn bring_back(server: Weak<Server>, policy: AutoRestart, ran: Instant) {
    let closed = {
        let Some(server) = server.upgrade() else { return };
        if ran.elapsed() >= LONGEST_PAUSE {
            server.attempts.store(0, Ordering::Relaxed);
        }
        server.slot.closed.clone()
    };
    loop {
        let attempt = {
            let Some(server) = server.upgrade() else { return };
            server.attempts.fetch_add(1, Ordering::Relaxed)
        };
        if attempt >= policy.max_retries {
            return;
        }
        // Nothing is held while it waits: a source that is dropped meanwhile is gone.
        tokio::select! {
            biased;
            () = closed.cancelled() => return,
            () = sleep(policy.pause(attempt)) => {}
        }
        let Some(server) = server.upgrade() else { return };
        // By hand, meanwhile.
        if server.slot.state() != McpState::Error {
            return;
        }
        let abandoned = server.abandoned();
        tokio::select! {
            biased;
            () = abandoned.cancelled() => return,
            restarted = server.restart() => if restarted.is_ok() { return },
        }
    }
}
