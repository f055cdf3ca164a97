//! Which member holds which chunk.
//!
//! The order turns from stripe to stripe, so that each node holds data and parity chunks alike. With local groups and
//! failure domains, neighbours in one domain come into one group, so that most of what repairs a chunk is near it; if a
//! group fits into a domain, it lies there whole.
//!
//! Must not know: why these are the members.

use std::collections::BTreeMap;

use shorttail_units::CodeShape;

use crate::{Candidate, Domain, Name, Wish};

pub(crate) fn order_chunks<N: Name>(mut members: Vec<Candidate<N>>, wish: &Wish) -> Vec<N> {
    let turned = usize::try_from(wish.turn % members.len() as u64).expect("below a count");
    members.rotate_left(turned);
    if wish.shape.local_count() > 1 && members.iter().any(|member| member.domain.is_some()) {
        members = by_group(members, wish.shape);
    } else {
        members.sort_by_key(|member| !member.is_evaded);
    }
    members.into_iter().map(|candidate| candidate.node).collect()
}

/// Domains one after the other, the larger ones first, fill group after group; the rest hold the parities of all data.
fn by_group<N: Name>(members: Vec<Candidate<N>>, shape: CodeShape) -> Vec<Candidate<N>> {
    let mut domains: BTreeMap<Option<Domain>, Vec<Candidate<N>>> = BTreeMap::new();
    let mut order = Vec::new();
    for member in members {
        if !order.contains(&member.domain) {
            order.push(member.domain);
        }
        domains.entry(member.domain).or_default().push(member);
    }
    order.sort_by_key(|domain| std::cmp::Reverse(domain.map_or(0, |_| domains[domain].len())));
    let mut left: Vec<Candidate<N>> = order.iter().flat_map(|domain| domains[domain].iter().copied()).collect();
    left.reverse();
    let mut placed: Vec<Option<Candidate<N>>> = vec![None; shape.chunk_count()];
    for group in 0..shape.local_count() {
        let mut chunks: Vec<usize> = (0..shape.data_count()).filter(|&chunk| shape.group_of(chunk) == group).collect();
        chunks.push(shape.data_count() + group);
        let mut here = left.split_off(left.len() - chunks.len());
        // What is evaded comes last off the list, and so first: where data is.
        here.reverse();
        here.sort_by_key(|member| !member.is_evaded);
        chunks.into_iter().zip(here).for_each(|(chunk, member)| placed[chunk] = Some(member));
    }
    let globals = shape.data_count() + shape.local_count()..shape.chunk_count();
    for (chunk, member) in globals.zip(left.into_iter().rev()) {
        placed[chunk] = Some(member);
    }
    let mut placed: Vec<Candidate<N>> = placed.into_iter().flatten().collect();
    // An evaded parity node changes places with a data node that is not.
    for chunk in shape.data_count()..placed.len() {
        if placed[chunk].is_evaded
            && let Some(other) = (0..shape.data_count()).find(|&other| !placed[other].is_evaded)
        {
            placed.swap(chunk, other);
        }
    }
    placed
}
