//! What was found out about servers, for as long as it is believed.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a verdict is believed: 15 minutes.
const BELIEVED: Duration = Duration::from_millis(900_000);

/// Servers that are remembered at once.
const MAX_VERDICTS: usize = 1024;

/// An era, as found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Modern,
    Legacy {
        /// The handshake is refused, and the HTTP+SSE transport of 2024-11-05 is there.
        sse: bool,
    },
}

/// Origin and path of a server: neither who asks nor with which query makes another server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address(String);

impl Address {
    /// `None` for a text that is no URL of a host.
    pub(crate) fn of(url: &str) -> Option<Self> {
        let url = url::Url::parse(url).ok().filter(|url| url.has_host())?;
        Some(Address(format!("{}{}", url.origin().ascii_serialization(), url.path())))
    }
}

/// The verdicts of this process.
pub(crate) fn verdicts() -> &'static Verdicts {
    static VERDICTS: LazyLock<Verdicts> = LazyLock::new(Verdicts::default);
    &VERDICTS
}

#[derive(Default)]
pub(crate) struct Verdicts(Mutex<HashMap<Address, (Verdict, Instant)>>);

impl Verdicts {
    /// What is known of a server.
    pub(crate) fn get(&self, address: &Address) -> Option<Verdict> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(address).filter(|(_, since)| is_believed(*since)).map(|(verdict, _)| *verdict)
    }

    /// Remembers a verdict from now on. Where too much is remembered, the oldest is forgotten.
    pub(crate) fn remember(&self, address: &Address, verdict: Verdict) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_VERDICTS && !known.contains_key(address) {
            known.retain(|_, (_, since)| is_believed(*since));
            let oldest =
                known.iter().min_by_key(|(_, (_, since))| *since).map(|(address, _)| address.clone());
            if let Some(oldest) = oldest.filter(|_| known.len() >= MAX_VERDICTS) {
                known.remove(&oldest);
            }
        }
        known.insert(address.clone(), (verdict, Instant::now()));
    }

    /// Forgets a verdict and says whether it was what was known: whoever comes late with an old one must
    /// not drop what was found out since.
    pub(crate) fn forget(&self, address: &Address, verdict: Verdict) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.get(address).is_some_and(|(now, _)| *now == verdict);
        if is_known {
            known.remove(address);
        }
        is_known
    }
}

fn is_believed(since: Instant) -> bool {
    since.elapsed() < BELIEVED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        Address::of(url).unwrap()
    }

    // MCP-122: query, fragment and userinfo play no part; origin and path do
    #[test]
    fn a_server_is_its_origin_and_path() {
        let one = address("https://h.test/mcp");
        assert_eq!(one, address("https://u:p@h.test:443/mcp?key=1#f"));
        for other in
            ["http://h.test/mcp", "https://h.test:8443/mcp", "https://h.test/other", "https://i.test/mcp"]
        {
            assert_ne!(one, address(other), "{other}");
        }
        assert!(Address::of("words").is_none() && Address::of("mailto:x").is_none());
        assert!(!format!("{:?}", address("https://user:pass@h.test/mcp?key=1")).contains("pass"));
    }

    // MCP-122: for 900 000 ms
    #[tokio::test(start_paused = true)]
    async fn a_verdict_is_believed_for_a_while() {
        let (verdicts, server) = (Verdicts::default(), address("https://h.test/mcp"));
        verdicts.remember(&server, Verdict::Modern);
        tokio::time::advance(Duration::from_millis(899_999)).await;
        assert_eq!(verdicts.get(&server), Some(Verdict::Modern));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(verdicts.get(&server), None);
        verdicts.remember(&server, Verdict::Legacy { sse: false });
        assert_eq!(verdicts.get(&server), Some(Verdict::Legacy { sse: false }));
        assert!(!verdicts.forget(&server, Verdict::Modern));
        assert_eq!(verdicts.get(&server), Some(Verdict::Legacy { sse: false }));
        assert!(verdicts.forget(&server, Verdict::Legacy { sse: false }));
        assert_eq!(verdicts.get(&server), None);
    }

    // MCP-122: bounded
    #[tokio::test(start_paused = true)]
    async fn the_oldest_verdict_gives_way() {
        let verdicts = Verdicts::default();
        let nth = |n: usize| address(&format!("https://h.test/{n}"));
        for n in 0..MAX_VERDICTS {
            verdicts.remember(&nth(n), Verdict::Modern);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        verdicts.remember(&nth(5), Verdict::Modern);
        verdicts.remember(&nth(MAX_VERDICTS), Verdict::Modern);
        assert_eq!(verdicts.0.lock().unwrap().len(), MAX_VERDICTS);
        assert_eq!(verdicts.get(&nth(0)), None);
        assert_eq!(verdicts.get(&nth(1)), Some(Verdict::Modern));
        tokio::time::advance(BELIEVED).await;
        verdicts.remember(&nth(MAX_VERDICTS + 1), Verdict::Modern);
        assert_eq!(verdicts.0.lock().unwrap().len(), 1);
    }
}
