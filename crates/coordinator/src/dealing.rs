//! How partitions are dealt: so that gateways own equally many, and as few as possible move.
//!
//! Must not know: epochs, voters, who is alive.

use std::collections::BTreeMap;

/// A partition to be dealt, and the gateway that had it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loose {
    pub partition: u16,
    pub owner: Option<u16>,
}

/// Deals `loose` to gateways that own so many partitions already. How many each gets: one in turn goes to the one with
/// the fewest, and among those to the one that had it. Which ones: partitions that follow each other.
///
/// So what a gateway owns is few ranges of slots, and its cores have equally many: a core's are those of one remainder.
///
/// # Panics
/// If there is no gateway.
pub fn deal(loose: &[Loose], loads: &BTreeMap<u16, usize>) -> BTreeMap<u16, Vec<u16>> {
    let mut loads = loads.clone();
    let mut shares: BTreeMap<u16, usize> = BTreeMap::new();
    for Loose { owner, .. } in loose {
        let fewest = loads.iter().min_by_key(|&(&gateway, &count)| (count, Some(gateway) != *owner, gateway));
        let (&gateway, _) = fewest.expect("somebody is there to own partitions");
        *loads.entry(gateway).or_default() += 1;
        *shares.entry(gateway).or_default() += 1;
    }
    let mut partitions: Vec<u16> = loose.iter().map(|loose| loose.partition).collect();
    partitions.sort_unstable();
    let mut partitions = partitions.into_iter();
    shares.into_iter().map(|(gateway, count)| (gateway, partitions.by_ref().take(count).collect())).collect()
}

/// Which tenure, of those given as (gateway, epoch, partitions), should be handed over so that loads come closer; none
/// if they cannot. One that fits as a whole is better than one that is split.
pub fn to_level(loads: &BTreeMap<u16, usize>, tenures: &[(u16, u32, usize)]) -> Option<u32> {
    let least = *loads.values().min()?;
    let (&richest, &most) = loads.iter().max_by_key(|&(&gateway, &count)| (count, std::cmp::Reverse(gateway)))?;
    let wanted = (most - least) / 2;
    if wanted == 0 {
        return None;
    }
    let own = || tenures.iter().filter(|(gateway, ..)| *gateway == richest);
    let fitting = own().filter(|(.., count)| *count <= wanted).max_by_key(|(.., count)| *count);
    let chosen = fitting.or_else(|| own().min_by_key(|(.., count)| *count));
    chosen.map(|&(_, epoch, _)| epoch)
}

/// The tenures, of those given as (gateway, epoch), that a gateway should have one instead of: of the gateway that has
/// most. Each is an engine more for all of its cores.
pub fn to_unite(tenures: &[(u16, u32)]) -> Option<(u16, Vec<u32>)> {
    let mut owned: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for &(gateway, epoch) in tenures {
        owned.entry(gateway).or_default().push(epoch);
    }
    let several = owned.into_iter().filter(|(_, epochs)| epochs.len() > 1);
    several.max_by_key(|(gateway, epochs)| (epochs.len(), std::cmp::Reverse(*gateway)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loose(partitions: std::ops::Range<u16>, owner: Option<u16>) -> Vec<Loose> {
        partitions.map(|partition| Loose { partition, owner }).collect()
    }

    fn counts(dealt: &BTreeMap<u16, Vec<u16>>) -> Vec<(u16, usize)> {
        dealt.iter().map(|(&gateway, partitions)| (gateway, partitions.len())).collect()
    }

    #[test]
    fn everybody_gets_equally_many() {
        let dealt = deal(&loose(0..16, None), &[(1, 0), (2, 0), (5, 0)].into());
        assert_eq!(counts(&dealt), [(1, 6), (2, 5), (5, 5)]);
    }

    #[test]
    fn a_gateway_gets_what_follows_each_other() {
        let dealt = deal(&loose(0..16, None), &[(1, 0), (2, 0)].into());
        assert_eq!(dealt, [(1, (0..8).collect()), (2, (8..16).collect())].into());
        let left = [loose(9..12, Some(4)), loose(2..5, Some(3))].concat();
        assert_eq!(deal(&left, &[(1, 0), (2, 0)].into()), [(1, vec![2, 3, 4]), (2, vec![9, 10, 11])].into());
    }

    /// A core serves the partitions whose number leaves its own.
    #[test]
    fn all_cores_get_equally_many() {
        for (gateway_count, core_count) in [(1, 4), (2, 2), (2, 4), (3, 2), (3, 3), (4, 6)] {
            let gateways = (0..gateway_count).map(|gateway| (gateway, 0)).collect();
            for partitions in deal(&loose(0..4 * gateway_count * core_count, None), &gateways).values() {
                let of_core = |core| partitions.iter().filter(|&&partition| partition % core_count == core).count();
                assert!(
                    (0..core_count).all(|core| of_core(core) == 4),
                    "{gateway_count} of {core_count}: {partitions:?}"
                );
            }
        }
    }

    #[test]
    fn what_a_dead_gateway_leaves_goes_to_those_with_fewest() {
        let dealt = deal(&loose(0..6, Some(9)), &[(1, 8), (2, 4)].into());
        assert_eq!(counts(&dealt), [(1, 1), (2, 5)]);
    }

    #[test]
    fn a_split_leaves_half_where_it_was() {
        let dealt = deal(&loose(0..8, Some(3)), &[(1, 0), (3, 0)].into());
        assert_eq!(counts(&dealt), [(1, 4), (3, 4)]);
    }

    #[test]
    fn only_what_is_out_of_balance_is_handed_over() {
        let tenures = [(1, 4, 4), (1, 7, 2), (2, 5, 4), (3, 6, 4)];
        assert_eq!(to_level(&[(1, 6), (2, 4), (3, 4)].into(), &tenures), Some(7), "splits the smaller");
        assert_eq!(to_level(&[(1, 5), (2, 4), (3, 4)].into(), &tenures), None);
        assert_eq!(to_level(&[(1, 6), (2, 4), (3, 4), (4, 0)].into(), &tenures), Some(7), "fits");
        assert_eq!(to_level(&[].into(), &[]), None);
    }

    #[test]
    fn who_has_several_tenures_is_to_have_one() {
        assert_eq!(to_unite(&[(1, 4), (2, 5), (1, 7), (3, 6), (3, 8), (3, 9)]), Some((3, vec![6, 8, 9])));
        assert_eq!(to_unite(&[(1, 4), (2, 5), (2, 6), (1, 7)]), Some((1, vec![4, 7])));
        assert_eq!(to_unite(&[(1, 4), (2, 5)]), None);
    }
}
