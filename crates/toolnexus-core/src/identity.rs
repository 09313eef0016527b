//! Who calls a served toolkit.

use std::any::Any;
use std::sync::Arc;

/// Who calls: what a host's authentication found out about a request. Two identities are the same
/// when their ids are. Only the id ever leaves this process's hooks: it is what events and
/// conversation ids show.
///
/// ```
/// use toolnexus_core::Identity;
/// struct Account { plan: &'static str }
/// let identity = Identity::with_data("alice", Account { plan: "team" });
/// assert_eq!(identity.data::<Account>().map(|account| account.plan), Some("team"));
/// assert_eq!(identity, Identity::new("alice"));
/// ```
#[derive(Clone, Default)]
pub struct Identity {
    /// A stable name of the caller, for example its account's id. Not a secret.
    pub id: String,
    /// Whatever else the host knows of the caller, for its own hooks and tools.
    pub data: Option<Arc<dyn Any + Send + Sync>>,
}

impl Identity {
    /// An identity of which only the id is known.
    pub fn new(id: impl Into<String>) -> Self {
        Identity { id: id.into(), data: None }
    }

    /// An identity with something of the host's own.
    pub fn with_data<T: Any + Send + Sync>(id: impl Into<String>, data: T) -> Self {
        Identity { id: id.into(), data: Some(Arc::new(data)) }
    }

    /// What the host attached, if it is of this type.
    pub fn data<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.data.as_ref()?.downcast_ref()
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Identity {}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("id", &self.id).field("data", &self.data.is_some()).finish()
    }
}
