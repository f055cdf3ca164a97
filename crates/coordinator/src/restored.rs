//! A state that was put back from a backup, and is older than what members know: epochs that were handed out after it
//! are not handed out again, as far as those that come back tell of them.
//!
//! Whoever is silent tells nothing. So the operator skips epochs before putting a state back (docs/OPERATING.md); what
//! is here helps where that was forgotten.
//!
//! Must not know: what is dealt, or to whom.

use shorttail_units::Epoch;
use shorttail_wire::control::Standing;

use crate::coordinator::Coordinator;
use crate::limits::EPOCHS_SKIPPED;

impl Coordinator {
    /// An epoch that was never handed out shows that the state is older. Others may have later ones and not be heard
    /// yet, so many are skipped; but not the last.
    pub(crate) fn note_epochs(&mut self, standings: &[Standing]) {
        let epochs = standings.iter().map(|standing| standing.epoch).filter(|epoch| *epoch <= Epoch::MAX);
        if let Some(Epoch(epoch)) = epochs.max().filter(|epoch| epoch.0 > self.durable.epoch) {
            let beyond = epoch + EPOCHS_SKIPPED;
            self.durable.epoch = if beyond < Epoch::MAX.0 { beyond } else { epoch };
            self.persist();
        }
    }

    /// Has every living gateway that this coordinator did not let in first told of its tenures? Until then one of them
    /// may have the epoch that would be handed out next. Each tells with its first heartbeat.
    pub(crate) fn are_epochs_told(&self) -> bool {
        self.living().all(|gateway| !gateway.is_unheard)
    }
}
