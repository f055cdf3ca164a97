//! Decoding when a source may be damaged: what was decoded is wrong, so other sets of sources are tried.
//!
//! ```text
//! decoded, wrong --> leave out one of what arrived, two, three --right--> the bytes; those left out are looked at
//!       ^                        | no set is right
//!       '---- one source more <--+--> no source is left: the chunk cannot be read
//! ```
//! A chunk proves itself by the checksum of what is read: of a record, or of a piece. Parities have none for a
//! range, and a data chunk read as a source is not looked at record by record, so which source was wrong shows only
//! in what comes out.
//!
//! Must not know: what is read for.

use std::sync::Arc;

use shorttail_codes::{ChunkSet, Code, Plan};

use crate::engine::limits::DISTRUSTED_SETS_MAX;

/// Sets of chunks to leave out, the smallest first.
fn distrusted(among: ChunkSet) -> impl Iterator<Item = ChunkSet> {
    let one = move || among.iter().map(ChunkSet::of);
    let two = move || one().flat_map(move |a| one().filter(move |&b| b > a).map(move |b| a | b));
    // Further ones are above the highest of the two.
    let three = move || two().flat_map(move |two| one().filter(move |&c| c > two).map(move |c| two | c));
    one().chain(two()).chain(three()).take(DISTRUSTED_SETS_MAX)
}

/// Plans for chunk `wanted` from chunks that `arrived`, each without some that may be damaged, and what it leaves out.
pub(super) fn plans_without(
    code: &Code,
    wanted: usize,
    arrived: ChunkSet,
    suspects: ChunkSet,
) -> impl Iterator<Item = (ChunkSet, Arc<Plan>)> {
    distrusted(arrived & suspects).filter_map(move |left_out| {
        let plan = code.read_plan(wanted, &|chunk| (arrived - left_out).contains(chunk)).ok()?;
        Some((left_out, plan))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_two_and_three_are_left_out_once() {
        let among = [1, 5, 7, 8].into_iter().collect();
        let sets: Vec<ChunkSet> = distrusted(among).collect();
        assert_eq!(sets.len(), 4 + 6 + 4);
        assert!(sets.iter().all(|&set| (set - among).is_empty()));
        let counts: Vec<usize> = sets.iter().map(|set| set.len()).collect();
        assert!(counts.is_sorted(), "{counts:?}");
        let mut unique = sets.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), sets.len());
        assert_eq!(distrusted(ChunkSet::first(32)).count(), DISTRUSTED_SETS_MAX);
    }

    #[test]
    fn a_plan_leaves_out_what_it_says() {
        let code = Code::reed_solomon(4, 2).expect("a code");
        // Chunk 0 is wanted, all others arrived: any one of five may be left out.
        let arrived = (1..6).collect();
        let plans: Vec<_> = plans_without(&code, 0, arrived, arrived).collect();
        assert_eq!(plans.len(), 5);
        assert!(plans.iter().all(|(out, plan)| plan.sources.iter().all(|&source| !out.contains(source))));
        assert_eq!(plans_without(&code, 0, (1..5).collect(), arrived).count(), 0, "four are needed");
    }
}
