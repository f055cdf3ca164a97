//! What failure domains must take of a stripe.
//!
//! Must not know: which nodes are chosen, or loads.

use std::collections::BTreeMap;

use shorttail_units::CodeShape;

/// How many chunks of a stripe a domain may take while others can take the rest: as many as may be lost. If none may
/// be, one: the stripe ends with any of its nodes, whatever else fails with it, and who fails alone is no better.
pub(crate) fn room_of_domain(shape: CodeShape) -> usize {
    shape.tolerance().max(1)
}

/// How many chunks of a stripe the domain that takes most has to take, if its members lie on these nodes: one domain
/// for each, none if it fails alone. At least as many as may be lost: fewer are not aimed at.
pub fn chunks_of_domain_max<D: Ord>(nodes: impl IntoIterator<Item = Option<D>>, shape: CodeShape) -> usize {
    let mut counts: BTreeMap<Option<D>, usize> = BTreeMap::new();
    nodes.into_iter().for_each(|domain| *counts.entry(domain).or_default() += 1);
    let needed = shape.chunk_count().min(counts.values().sum());
    let alone = counts.remove(&None).unwrap_or(0);
    let is_enough = |most: &usize| {
        let taken: usize = counts.values().map(|&count| count.min(*most)).sum();
        taken + alone >= needed
    };
    (shape.tolerance()..shape.chunk_count()).find(is_enough).unwrap_or(shape.chunk_count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_domains_must_take_is_counted() {
        for (domains, most) in [
            ("aaaabbb", 3),
            ("aaaaaabbbbbb", 3),
            ("aaaaaaaaaabb", 4),
            ("aaaaaaaa", 6),
            ("aaaaa..bbb", 2),
            ("aabbcc", 2),
            ("abcdefgh", 2),
            ("........", 2),
            ("aaa", 3),
            ("", 2),
        ] {
            let nodes = domains.chars().map(|letter| (letter != '.').then_some(letter));
            assert_eq!(chunks_of_domain_max(nodes, CodeShape::default()), most, "{domains}");
        }
    }
}
