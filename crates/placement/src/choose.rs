//! The choice itself: who comes first by the rule, then failure domains, then who stands in for evaded nodes.
//!
//! ```text
//! rule: an order of preference, drawn or sorted -> domains: as many of each as may be lost, if that suffices
//!   -> stand-ins for evaded members -> order of the chunks
//! ```
//! Orders of preference are made as far as they are needed, so that ten nodes may be chosen of a million.
//!
//! Must not know: sessions, time, or why a node is a candidate or evaded.

use std::collections::BTreeMap;

use shorttail_units::{CodeShape, NodeId};

use crate::domains::room_of_domain;
use crate::draw::{Draw, Urn};
use crate::order::order_chunks;
use crate::{Candidate, Domain, Name, Placement, chunks_of_domain_max};

/// The nodes to choose from.
pub trait Candidates<N = NodeId> {
    fn count(&self) -> usize;
    /// The candidate at a place below `count`.
    fn at(&self, place: usize) -> Candidate<N>;
    /// Coding sets that have candidates, and the places of those of one.
    fn set_count(&self) -> usize;
    fn set(&self, number: usize) -> &[usize];
}

/// What stripe the members are for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub shape: CodeShape,
    /// Decides ties and the order of the chunks: the next stripe has the next one.
    pub turn: u64,
    /// What is drawn follows from it.
    pub seed: u64,
}

/// Who holds a stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice<N = NodeId> {
    /// In the order of the chunks. Evaded nodes come where data chunks are, as far as they fit.
    pub members: Vec<N>,
    /// Members that stand in for evaded nodes.
    pub stand_ins: Vec<N>,
}

/// Members for a stripe; `None`: too few candidates.
pub fn choose<N: Name>(placement: Placement, candidates: &dyn Candidates<N>, wish: &Wish) -> Option<Choice<N>> {
    let count = wish.shape.chunk_count();
    if candidates.count() < count {
        return None;
    }
    let mut preference = preference(placement, candidates, wish);
    let domain_max = room_of_domain(wish.shape);
    let (mut members, passed) = take(&mut *preference, count, domain_max);
    let mut stand_ins = Vec::new();
    if members.iter().any(|member| member.is_evaded) {
        let others = passed.into_iter().chain(preference).filter(|other| !other.is_evaded);
        stand_ins = replace_evaded(&mut members, others.collect(), domain_max);
    }
    Some(Choice { members: order_chunks(members, wish), stand_ins })
}

/// Of the candidates, who takes the place of a stripe's lost member. In failure domains with room for one more chunk if
/// there are such, and there in the set of most of the others; an evaded one never. `None`: those who could are evaded.
pub fn choose_replacement(
    placement: Placement,
    candidates: &[Candidate],
    others: &[(Option<Domain>, Option<usize>)],
    wish: &Wish,
) -> Option<NodeId> {
    let mut counts: BTreeMap<Domain, usize> = BTreeMap::new();
    others.iter().filter_map(|&(domain, _)| domain).for_each(|domain| *counts.entry(domain).or_default() += 1);
    let held = |one: &Candidate| one.domain.map_or(0, |domain| counts.get(&domain).copied().unwrap_or(0));
    let least = candidates.iter().map(held).min()?.max(room_of_domain(wish.shape) - 1);
    let mut able: Vec<Candidate> = candidates.iter().filter(|one| held(one) <= least).copied().collect();
    if matches!(placement, Placement::CodingSets { .. }) {
        let most = |set: &usize| others.iter().filter(|(_, other)| *other == Some(*set)).count();
        let home = others.iter().filter_map(|&(_, set)| set).max_by_key(most);
        if able.iter().any(|one| one.set.is_some() && one.set == home) {
            able.retain(|one| one.set == home);
        }
    }
    able.retain(|one| !one.is_evaded);
    let single = CodeShape::reed_solomon(1, 0).expect("one chunk");
    let rule = if matches!(placement, Placement::CodingSets { .. }) { Placement::LeastLoaded } else { placement };
    let choice = choose(rule, &List::new(able), &Wish { shape: single, ..*wish })?;
    choice.members.first().copied()
}

/// Candidates one after the other, the best first.
fn preference<'a, N: Name + 'a>(
    placement: Placement,
    candidates: &'a dyn Candidates<N>,
    wish: &Wish,
) -> Box<dyn Iterator<Item = Candidate<N>> + 'a> {
    let mut draw = Draw::new(wish.seed);
    let mut urn = Urn::new(candidates.count());
    match placement {
        Placement::LeastLoaded => by_load((0..candidates.count()).collect(), candidates, wish.turn),
        Placement::CodingSets { .. } => {
            let places = match draw_set(candidates, wish.shape, &mut draw) {
                Some(set) => candidates.set(set).to_vec(),
                // To store at all comes before storing it where it should be.
                None => (0..candidates.count()).collect(),
            };
            by_load(places, candidates, wish.turn)
        }
        Placement::Random => Box::new(std::iter::from_fn(move || {
            (urn.len() > 0).then(|| candidates.at(urn.take(draw.below(urn.len()))))
        })),
        Placement::TwoChoices => Box::new(std::iter::from_fn(move || {
            let first = (urn.len() > 0).then(|| draw.below(urn.len()))?;
            let mut better = first;
            if urn.len() > 1 {
                let second = (first + 1 + draw.below(urn.len() - 1)) % urn.len();
                let load = |place: usize| candidates.at(urn.at(place)).load;
                better = if load(second) < load(first) { second } else { first };
            }
            Some(candidates.at(urn.take(better)))
        })),
    }
}

/// The least loaded first; `turn` decides ties.
fn by_load<'a, N: Name + 'a>(
    places: Vec<usize>,
    candidates: &dyn Candidates<N>,
    turn: u64,
) -> Box<dyn Iterator<Item = Candidate<N>> + 'a> {
    let shift = usize::try_from(turn % places.len() as u64).expect("below a length");
    let mut order: Vec<Candidate<N>> = places.iter().map(|&place| candidates.at(place)).collect();
    order.rotate_left(shift);
    order.sort_by_key(|candidate| candidate.load);
    Box::new(order.into_iter())
}

/// Of two sets with enough candidates, the one with the smaller mean load. Sets of which a domain would have to hold
/// more chunks than with others are left out.
fn draw_set<N: Name>(candidates: &dyn Candidates<N>, shape: CodeShape, draw: &mut Draw) -> Option<usize> {
    let mut urn = Urn::new(candidates.set_count());
    let able = std::iter::from_fn(|| (urn.len() > 0).then(|| urn.take(draw.below(urn.len()))))
        .filter(|&set| candidates.set(set).len() >= shape.chunk_count());
    let (aim, mut least, mut drawn) = (room_of_domain(shape), usize::MAX, Vec::new());
    for set in able {
        let domains = candidates.set(set).iter().map(|&place| candidates.at(place).domain);
        let most = chunks_of_domain_max(domains, shape).max(aim);
        if most < least {
            (least, drawn) = (most, Vec::new());
        }
        if most == least {
            drawn.push(set);
        }
        // Fewer are not aimed at.
        if least == aim && drawn.len() == 2 {
            break;
        }
    }
    let load = |set: usize| {
        let places = candidates.set(set);
        let sum: u128 = places.iter().map(|&place| u128::from(candidates.at(place).load)).sum();
        sum / places.len() as u128
    };
    let first = *drawn.first()?;
    let second = drawn.get(1).copied().filter(|&second| load(second) < load(first));
    Some(second.unwrap_or(first))
}

/// The first `count`, at most `domain_max` of a domain, or as few as possible; and who was passed over.
fn take<N: Name>(
    preference: &mut dyn Iterator<Item = Candidate<N>>,
    count: usize,
    mut domain_max: usize,
) -> (Vec<Candidate<N>>, Vec<Candidate<N>>) {
    let mut counts: BTreeMap<Domain, usize> = BTreeMap::new();
    let mut taken = Vec::with_capacity(count);
    let mut passed = Vec::new();
    let mut fits = |candidate: &Candidate<N>, domain_max: usize| {
        let Some(domain) = candidate.domain else { return true };
        let held = counts.entry(domain).or_default();
        let is_fit = *held < domain_max;
        *held += usize::from(is_fit);
        is_fit
    };
    while taken.len() < count {
        let Some(candidate) = preference.next() else { break };
        let list = if fits(&candidate, domain_max) { &mut taken } else { &mut passed };
        list.push(candidate);
    }
    while taken.len() < count && !passed.is_empty() {
        domain_max += 1;
        for candidate in std::mem::take(&mut passed) {
            let is_taken = taken.len() < count && fits(&candidate, domain_max);
            if is_taken { taken.push(candidate) } else { passed.push(candidate) }
        }
    }
    (taken, passed)
}

/// Evaded members give their place to those that took one least often, as far as domains allow it.
fn replace_evaded<N: Name>(members: &mut [Candidate<N>], mut others: Vec<Candidate<N>>, domain_max: usize) -> Vec<N> {
    let mut stand_ins = Vec::new();
    others.sort_by_key(|candidate| (candidate.redirect_count, candidate.load));
    for place in 0..members.len() {
        if !members[place].is_evaded {
            continue;
        }
        let leaves = members[place].domain;
        let held = |domain: Domain| members.iter().filter(|member| member.domain == Some(domain)).count();
        let fits = |other: &Candidate<N>| {
            other.domain.is_none_or(|domain| leaves == Some(domain) || held(domain) < domain_max)
        };
        let Some(found) = others.iter().position(fits) else { continue };
        members[place] = others.remove(found);
        stand_ins.push(members[place].node);
    }
    stand_ins
}

/// Candidates in a list, with their sets.
#[derive(Debug, Default)]
pub struct List {
    candidates: Vec<Candidate>,
    sets: Vec<Vec<usize>>,
}

impl List {
    pub fn new(candidates: Vec<Candidate>) -> Self {
        let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, candidate) in candidates.iter().enumerate() {
            if let Some(set) = candidate.set {
                sets.entry(set).or_default().push(place);
            }
        }
        List { candidates, sets: sets.into_values().collect() }
    }
}

impl Candidates for List {
    fn count(&self) -> usize {
        self.candidates.len()
    }

    fn at(&self, place: usize) -> Candidate {
        self.candidates[place]
    }

    fn set_count(&self) -> usize {
        self.sets.len()
    }

    fn set(&self, number: usize) -> &[usize] {
        &self.sets[number]
    }
}
