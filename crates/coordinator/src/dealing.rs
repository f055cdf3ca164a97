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

/// Deals `loose` to gateways that own so many partitions already: each in turn to the one with the fewest, and among
/// those to the one that had it.
///
/// # Panics
/// If there is no gateway.
pub fn deal(loose: &[Loose], loads: &BTreeMap<u16, usize>) -> BTreeMap<u16, Vec<u16>> {
    let mut loads = loads.clone();
    let mut dealt: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for Loose { partition, owner } in loose {
        let fewest = loads.iter().min_by_key(|&(&gateway, &count)| (count, Some(gateway) != *owner, gateway));
        let (&gateway, _) = fewest.expect("somebody is there to own partitions");
        *loads.entry(gateway).or_default() += 1;
        dealt.entry(gateway).or_default().push(*partition);
    }
    dealt
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
        assert_eq!(dealt[&1], [0, 3, 6, 9, 12, 15]);
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
}
