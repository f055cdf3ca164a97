//! How far a gateway is with its tenures: what its cores say of their shares, put together.
//!
//! A core that was told of a tenure and has not begun it says nothing, and holds it up all the same: what the
//! coordinator believes of a tenure ends the waiting for earlier owners of all its partitions (rule R2).
//!
//! Must not know: how a core comes to its share.

use std::collections::BTreeMap;

use shorttail_units::Epoch;
use shorttail_wire::control::{Standing, TenureState, Terms};

/// How far a core is with its share of a tenure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    pub epoch: u32,
    pub state: TenureState,
    pub proven_by: u32,
}

impl Share {
    /// Of a core that has not begun.
    fn to_begin(terms: &Terms) -> Share {
        let state = if terms.prepares { TenureState::Preparing } else { TenureState::TakingOver };
        Share { epoch: terms.epoch.0, state, proven_by: 0 }
    }

    /// Two cores' shares of one tenure: it is as far as the one that is less far.
    #[must_use]
    fn and(self, other: Share) -> Share {
        let rank = |state: TenureState| match state {
            TenureState::Ended => 0,
            TenureState::Preparing => 1,
            TenureState::Prepared => 2,
            TenureState::TakingOver => 3,
            TenureState::Serving => 4,
            TenureState::LettingGo => 5,
            TenureState::LetGo => 6,
        };
        let state = if rank(other.state) < rank(self.state) { other.state } else { self.state };
        Share { epoch: self.epoch, state, proven_by: self.proven_by.min(other.proven_by) }
    }
}

/// Does this core serve the partition in the tenures of a gateway?
pub fn is_of_core(partition: u16, core: usize, core_count: usize) -> bool {
    usize::from(partition) % core_count == core
}

/// `terms`: what the cores were told last, which may be more than they have heard. `of_cores`: what each published.
pub fn standings(terms: &[Terms], of_cores: &[Vec<Share>]) -> Vec<Standing> {
    let mut sums: BTreeMap<u32, Share> = BTreeMap::new();
    let mut add = |share: Share| {
        let sum = sums.entry(share.epoch).or_insert(share);
        *sum = sum.and(share);
    };
    for (core, shares) in of_cores.iter().enumerate() {
        shares.iter().copied().for_each(&mut add);
        for terms in terms {
            let has_some = terms.partitions.iter().any(|&partition| is_of_core(partition, core, of_cores.len()));
            if has_some && !shares.iter().any(|share| share.epoch == terms.epoch.0) {
                add(Share::to_begin(terms));
            }
        }
    }
    let standings =
        sums.into_values().map(|sum| Standing { epoch: Epoch(sum.epoch), proven_by: sum.proven_by, state: sum.state });
    standings.collect()
}

#[cfg(test)]
mod tests {
    use super::TenureState::*;
    use super::*;

    fn terms(epoch: u32, partitions: &[u16]) -> Terms {
        Terms {
            epoch: Epoch(epoch),
            number: 2,
            partitions: partitions.to_vec(),
            voters: [].into(),
            before: Vec::new(),
            lets_go: false,
            prepares: false,
        }
    }

    /// A core's share of tenure 7.
    fn share(state: TenureState, proven_by: u32) -> Vec<Share> {
        vec![Share { epoch: 7, state, proven_by }]
    }

    fn sum(terms: &[Terms], of_cores: &[Vec<Share>]) -> Vec<(u32, TenureState, u32)> {
        let standings = standings(terms, of_cores);
        standings.into_iter().map(|standing| (standing.epoch.0, standing.state, standing.proven_by)).collect()
    }

    #[test]
    fn a_tenure_is_as_far_as_the_core_that_is_less_far() {
        let terms = [terms(7, &[0, 1])];
        for (one, other, both) in [
            (Serving, TakingOver, TakingOver),
            (Serving, LettingGo, Serving),
            (LettingGo, LetGo, LettingGo),
            (LetGo, LetGo, LetGo),
            (Preparing, Prepared, Preparing),
            (Serving, Ended, Ended),
        ] {
            assert_eq!(sum(&terms, &[share(one, 2), share(other, 1)]), [(7, both, 1)], "{one:?} and {other:?}");
            assert_eq!(sum(&terms, &[share(other, 1), share(one, 2)]), [(7, both, 1)], "{other:?} and {one:?}");
        }
    }

    #[test]
    fn a_core_that_has_not_begun_holds_a_tenure_up() {
        let terms = [terms(7, &[0, 1])];
        for state in [Serving, LettingGo, LetGo] {
            assert_eq!(sum(&terms, &[share(state, 2), vec![]]), [(7, TakingOver, 0)], "{state:?}");
            assert_eq!(sum(&terms, &[vec![], share(state, 2)]), [(7, TakingOver, 0)], "{state:?}");
        }
        assert_eq!(sum(&terms, &[vec![], vec![]]), [(7, TakingOver, 0)]);
        let of_another = vec![Share { epoch: 6, state: Serving, proven_by: 2 }];
        assert_eq!(sum(&terms, &[share(Serving, 2), of_another])[1], (7, TakingOver, 0), "an earlier one is no share");
    }

    #[test]
    fn a_tenure_is_not_prepared_before_every_core_has_begun() {
        let terms = [Terms { prepares: true, ..terms(7, &[0, 1]) }];
        assert_eq!(sum(&terms, &[share(Prepared, 0), vec![]]), [(7, Preparing, 0)]);
        assert_eq!(sum(&terms, &[share(Prepared, 0), share(Prepared, 0)]), [(7, Prepared, 0)]);
    }

    #[test]
    fn a_core_without_partitions_of_a_tenure_holds_nothing_up() {
        let terms = [terms(7, &[1, 3])];
        assert_eq!(sum(&terms, &[vec![], share(Serving, 2)]), [(7, Serving, 2)]);
        assert_eq!(sum(&terms, &[vec![], share(LetGo, 0)]), [(7, LetGo, 0)]);
    }

    #[test]
    fn a_tenure_that_ended_on_a_core_ends_whoever_has_not_begun() {
        let terms = [terms(7, &[0, 1])];
        assert_eq!(sum(&terms, &[share(Ended, 0), vec![]]), [(7, Ended, 0)]);
        assert_eq!(sum(&terms, &[vec![], share(Ended, 0)]), [(7, Ended, 0)]);
    }

    #[test]
    fn of_a_tenure_that_is_named_no_more_those_tell_that_still_have_it() {
        assert_eq!(sum(&[], &[share(Serving, 2), vec![]]), [(7, Serving, 2)]);
    }
}
