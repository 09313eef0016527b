//! What is known of a session before anything is sent on it.

use serde::{Deserialize, Serialize};

use crate::config::ConcurrencyPolicy;
use crate::wire::{MODERN_VERSION, OFFERED_VERSION};

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionMode {
    /// With `initialize`, as in all revisions up to 2025-11-25.
    Handshake,
    /// At once: every request says for itself who asks. `initialize` is never sent. Revision
    /// 2026-07-28 and later.
    Ready,
}

/// A session's shape. It changes only with a reconnect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Session {
    /// How it begins.
    pub mode: SessionMode,
    /// The protocol revision: the one offered, and once the server has answered the agreed one.
    pub version: String,
    /// How many requests may be under way at once.
    pub concurrency: ConcurrencyPolicy,
}

impl Session {
    /// A session of the legacy era: a handshake first, that offers revision 2025-11-25.
    pub fn handshake() -> Self {
        Session {
            mode: SessionMode::Handshake,
            version: OFFERED_VERSION.as_str().to_owned(),
            concurrency: ConcurrencyPolicy::Stateless,
        }
    }

    /// A session of the modern era, revision 2026-07-28.
    pub fn ready() -> Self {
        Session {
            mode: SessionMode::Ready,
            version: MODERN_VERSION.as_str().to_owned(),
            concurrency: ConcurrencyPolicy::Stateless,
        }
    }

    /// The same with that policy. The default is [`ConcurrencyPolicy::Stateless`].
    #[must_use]
    pub fn concurrency(mut self, policy: ConcurrencyPolicy) -> Self {
        self.concurrency = policy;
        self
    }
}
