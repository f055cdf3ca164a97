//! The probability that some stripe is lost, counted instead of estimated.
//!
//! - Random: each stripe is on nodes drawn by themselves. It survives with the hypergeometric probability, and all do
//!   with its power.
//! - Coding sets, of a given placement: in each set, the subsets of its nodes that may fail are counted by their size.
//!   Sets are disjoint, so their generating functions are multiplied.
//!
//! The paper's formula lets each subset of `r+1` failing nodes have a chance of its own, though they overlap, and takes
//! `N/(k+r+l)` sets where there is no such fraction of one.
//!
//! Must not know: what is drawn.

use super::Parameters;

/// Sets of up to so many nodes are counted: each subset is looked at.
const SET_NODES_MAX: usize = 20;

/// Over all placements at random.
pub fn random(parameters: &Parameters) -> f64 {
    let Parameters { node_count, failed_count, parity_count, .. } = *parameters;
    let chunk_count = parameters.chunk_count();
    let with = |failed: usize| {
        choose(failed_count, failed) * choose(node_count - failed_count, chunk_count - failed)
            / choose(node_count, chunk_count)
    };
    let is_lost: f64 = (parity_count + 1..=chunk_count.min(failed_count)).map(with).sum();
    -((-is_lost).ln_1p() * parameters.stripe_count() as f64).exp_m1()
}

/// Of stripes that were placed in these sets, one after the other in `members`. `None`: a set is too large to count.
pub fn in_sets(sets: &[Vec<usize>], members: &[u32], parameters: &Parameters) -> Option<f64> {
    if sets.is_empty() || sets.iter().any(|set| set.len() > SET_NODES_MAX) {
        return None;
    }
    let failed_count = parameters.failed_count;
    // Set of each node, and the node's bit there.
    let mut places = vec![(0, 0u32); parameters.node_count];
    for (number, set) in sets.iter().enumerate() {
        set.iter().enumerate().for_each(|(bit, &node)| places[node] = (number, 1 << bit));
    }
    let mut stripes: Vec<Vec<u32>> = vec![Vec::new(); sets.len()];
    for stripe in members.chunks(parameters.chunk_count()) {
        let of_node = |&node: &u32| places[node as usize];
        stripes[of_node(&stripe[0]).0].push(stripe.iter().map(|node| of_node(node).1).sum());
    }
    // How many subsets of so many nodes of the sets so far lose nothing.
    let mut harmless = vec![0.0; failed_count + 1];
    harmless[0] = 1.0;
    for (set, stripes) in sets.iter().zip(&stripes) {
        let of_set = harmless_subsets(set.len(), stripes, parameters.parity_count, failed_count);
        let mut next = vec![0.0; failed_count + 1];
        for (fail_before, &before) in harmless.iter().enumerate() {
            for (fail_here, &here) in of_set.iter().enumerate().take(failed_count + 1 - fail_before) {
                next[fail_before + fail_here] += before * here;
            }
        }
        harmless = next;
    }
    Some(1.0 - harmless[failed_count] / choose(parameters.node_count, failed_count))
}

/// Subsets of a set's nodes, by their number of nodes, of which no stripe has more than `parity_count`.
fn harmless_subsets(node_count: usize, stripes: &[u32], parity_count: usize, most: usize) -> Vec<f64> {
    let mut counts = vec![0.0; node_count.min(most) + 1];
    for failing in 0..1u32 << node_count {
        let size = failing.count_ones() as usize;
        let bears = |stripe: &u32| (stripe & failing).count_ones() as usize <= parity_count;
        if size < counts.len() && stripes.iter().all(bears) {
            counts[size] += 1.0;
        }
    }
    counts
}

/// How many subsets of `count` out of `of`.
pub fn choose(of: usize, count: usize) -> f64 {
    if of < count {
        return 0.0;
    }
    (0..count).map(|step| (of - step) as f64 / (step + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::super::BASE;
    use super::*;

    #[test]
    fn subsets_are_counted() {
        assert_eq!([choose(10, 3), choose(12, 3), choose(2, 3), choose(5, 0)], [120.0, 220.0, 0.0, 1.0]);
    }

    /// Twelve nodes, three fail: a stripe of six is lost by 20 of 220 triples. Two of them: 1 - (200/220)^2.
    #[test]
    fn random_placement_by_hand() {
        let parameters = Parameters { node_count: 12, failed_count: 3, data_count: 4, chunks_per_node: 1, ..BASE };
        assert_eq!(parameters.stripe_count(), 2);
        let by_hand = 1.0 - (200.0 / 220.0_f64).powi(2);
        assert!((random(&parameters) - by_hand).abs() < 1e-12);
        assert_eq!(random(&Parameters { failed_count: 2, ..parameters }), 0.0);
    }

    /// Two sets of six with a stripe each on all of it: 2 x 20 of 220 triples. With a spare node, seven and five, and
    /// one stripe on six of the seven: 20 of 220.
    #[test]
    fn sets_by_hand() {
        let parameters = Parameters { node_count: 12, failed_count: 3, data_count: 4, ..BASE };
        let sets = [(0..6).collect(), (6..12).collect()];
        let members: Vec<u32> = (0..12).collect();
        let lost = in_sets(&sets, &members, &parameters).expect("small sets");
        assert!((lost - 40.0 / 220.0).abs() < 1e-12, "{lost}");
        let sets = [(0..7).collect(), (7..12).collect()];
        let lost = in_sets(&sets, &members[1..7], &parameters).expect("small sets");
        assert!((lost - 20.0 / 220.0).abs() < 1e-12, "{lost}");
        assert_eq!(in_sets(&[], &members, &parameters), None);
        assert_eq!(in_sets(&[(0..21).collect()], &members, &parameters), None);
    }

    /// Of random placement; coding sets lose a tenth of it (`docs/results/hydra`).
    #[test]
    fn the_base_parameters() {
        let exact = random(&BASE);
        assert!((0.12507..0.12509).contains(&exact), "{exact}");
    }
}
