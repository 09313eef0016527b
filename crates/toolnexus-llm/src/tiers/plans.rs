//! The plans of a client, each frozen for its toolkit.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use toolnexus_core::{Style, Toolkit, WeakToolkit};

use super::{TierPlan, ToolTierOptions};

/// One plan for each toolkit that was asked about, until it is reset.
///
/// Clones of a toolkit have the same plan, also after more tools were registered. The plans keep no
/// toolkit alive; those of toolkits that are gone are dropped when the next is made.
#[derive(Default)]
pub(crate) struct TierPlans {
    frozen: Mutex<Vec<Frozen>>,
}

struct Frozen {
    toolkit: WeakToolkit,
    /// Filled outside the lock, since that calls the host's functions. Whoever asks meanwhile for
    /// the same toolkit waits; a reset takes the whole cell away, so that what is being made of
    /// older tools cannot be found after it.
    plan: Arc<OnceLock<Arc<TierPlan>>>,
}

impl TierPlans {
    /// The plan of a toolkit, made now unless there is one.
    pub(crate) fn plan_for(
        &self,
        toolkit: &Toolkit,
        style: Style,
        options: &ToolTierOptions,
    ) -> Arc<TierPlan> {
        let plan = self.cell(toolkit);
        Arc::clone(plan.get_or_init(|| Arc::new(TierPlan::of(&toolkit.snapshot(), style, options))))
    }

    /// Forgets the plan of a toolkit: the next request makes a new one.
    pub(crate) fn reset(&self, toolkit: &Toolkit) {
        self.lock().retain(|frozen| !frozen.toolkit.refers_to(toolkit));
    }

    /// Forgets every plan.
    pub(crate) fn reset_all(&self) {
        self.lock().clear();
    }

    fn cell(&self, toolkit: &Toolkit) -> Arc<OnceLock<Arc<TierPlan>>> {
        let mut frozen = self.lock();
        if let Some(known) = frozen.iter().find(|frozen| frozen.toolkit.refers_to(toolkit)) {
            return Arc::clone(&known.plan);
        }
        frozen.retain(|frozen| frozen.toolkit.is_alive());
        let plan = Arc::default();
        frozen.push(Frozen { toolkit: toolkit.downgrade(), plan: Arc::clone(&plan) });
        plan
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Frozen>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}
