//! Which tenures of the cluster are served: this gateway's own as its cores say, those of others as the coordinator
//! told.
//!
//! What the coordinator did not tell of stays as it was: another one that leads knows only what it heard so far.
//!
//! Must not know: who owns what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_wire::control::{Standing, View};

#[derive(Debug, Default)]
pub struct Served {
    /// By epoch; of other gateways, and what was told of this one's.
    told: BTreeMap<u32, bool>,
    /// What [`Served::news`] said last.
    known: Arc<BTreeSet<u32>>,
}

impl Served {
    pub fn take(&mut self, told: Vec<(u32, bool)>) {
        self.told.extend(told);
    }

    /// Tenures that ended are not spoken of again.
    pub fn forget_ended(&mut self, view: &View) {
        self.told.retain(|epoch, _| view.tenures.iter().any(|tenure| tenure.epoch.0 == *epoch));
    }

    /// The epochs of all that are served, if these are others than before. `own`: how far this gateway is.
    pub fn news(&mut self, own: &[Standing]) -> Option<Arc<BTreeSet<u32>>> {
        let is_own = |epoch: u32| own.iter().any(|standing| standing.epoch.0 == epoch);
        let others = self.told.iter().filter(|&(&epoch, &is_served)| is_served && !is_own(epoch));
        let mine = own.iter().filter(|standing| standing.is_served());
        let all: BTreeSet<u32> = others.map(|(&epoch, _)| epoch).chain(mine.map(|standing| standing.epoch.0)).collect();
        if all == *self.known {
            return None;
        }
        self.known = Arc::new(all);
        Some(Arc::clone(&self.known))
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::Epoch;
    use shorttail_wire::control::{TenureEntry, TenureState};

    use super::*;

    fn own(epoch: u32, state: TenureState, proven_by: u32) -> Standing {
        Standing { epoch: Epoch(epoch), proven_by, state }
    }

    fn news(served: &mut Served, own: &[Standing]) -> Option<Vec<u32>> {
        served.news(own).map(|epochs| epochs.iter().copied().collect())
    }

    #[test]
    fn of_its_own_tenures_a_gateway_knows_better() {
        let mut served = Served::default();
        assert_eq!(news(&mut served, &[own(4, TenureState::TakingOver, 0)]), None);
        assert_eq!(news(&mut served, &[own(4, TenureState::Serving, 0)]), None, "nobody confirms it");
        assert_eq!(news(&mut served, &[own(4, TenureState::Serving, 1)]), Some(vec![4]));
        served.take(vec![(4, true), (5, true), (6, false)]);
        assert_eq!(news(&mut served, &[own(4, TenureState::LettingGo, 1)]), Some(vec![5]));
        assert_eq!(news(&mut served, &[own(4, TenureState::LettingGo, 1)]), None, "as before");
    }

    #[test]
    fn what_is_not_told_of_stays_as_it_was() {
        let mut served = Served::default();
        served.take(vec![(5, true), (6, true)]);
        assert_eq!(news(&mut served, &[]), Some(vec![5, 6]));
        served.take(vec![(6, false)]);
        assert_eq!(news(&mut served, &[]), Some(vec![5]));
        let entry = |epoch| TenureEntry { epoch: Epoch(epoch), gateway: 1, partitions: vec![0] };
        served.forget_ended(&View { tenures: vec![entry(6), entry(7)], ..View::default() });
        assert_eq!(news(&mut served, &[]), Some(vec![]));
    }
}
