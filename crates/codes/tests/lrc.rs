//! Codes with local groups: which losses they survive, and how cheaply.
//!
//! The rank of what the parities say of the lost data chunks is checked for every pattern that matters: for each shape
//! of up to 14 chunks and some of up to 20, every loss of `g + 1` chunks, and of the larger ones every maximal one that
//! a code with these groups could survive (what is survived is survived in part, too). Larger shapes: at random.

use crate::stripes::{assert_decodes, stripe};
use proptest::prelude::*;
use shorttail_codes::{Code, CodeShape, Cost};

fn shape(text: &str) -> CodeShape {
    text.parse().expect(text)
}

/// Every set of `size` of the first `of` numbers.
fn sets(of: usize, size: usize) -> impl Iterator<Item = u32> {
    (0u32..1 << of).filter(move |set| set.count_ones() as usize == size)
}

fn indexes(set: u32) -> Vec<usize> {
    (0..32).filter(|&index| set >> index & 1 == 1).collect()
}

fn survives(code: &Code, lost: u32) -> bool {
    code.is_decodable(&|chunk| lost >> chunk & 1 == 0)
}

/// Losses that the groups leave to the global parities.
fn left_to_globals(shape: CodeShape, lost: u32) -> usize {
    let (data_count, local_count) = (shape.data_count(), shape.local_count());
    let mut of_group = vec![0usize; local_count];
    let mut globals = 0;
    for chunk in indexes(lost) {
        match chunk.checked_sub(data_count) {
            None => of_group[shape.group_of(chunk)] += 1,
            Some(parity) if parity < local_count => of_group[parity] += 1,
            Some(_) => globals += 1,
        }
    }
    globals + of_group.iter().map(|count| count.saturating_sub(1)).sum::<usize>()
}

fn assert_tolerates(code: &Code, shape: CodeShape) {
    assert_eq!(code.tolerance(), shape.global_count() + 1);
    for lost in sets(shape.chunk_count(), code.tolerance()) {
        assert!(survives(code, lost), "{shape} without {:?}", indexes(lost));
    }
}

/// A pattern that leaves all it can to groups and global parities has a loss in every group, so it has as many losses
/// as there are parities.
fn survives_all_it_could(code: &Code, shape: CodeShape) -> bool {
    let could = |&lost: &u32| left_to_globals(shape, lost) <= shape.global_count();
    sets(shape.chunk_count(), shape.parity_count()).filter(could).all(|lost| survives(code, lost))
}

/// All shapes with groups and so many chunks.
fn shapes(chunk_count: usize) -> impl Iterator<Item = CodeShape> {
    let with = move |data: usize| (1..=data).map(move |local| (data, local));
    let counts = (1..chunk_count).flat_map(with).filter(move |(data, local)| data + local <= chunk_count);
    counts.filter_map(move |(data, local)| CodeShape::lrc(data, local, chunk_count - data - local).ok())
}

#[test]
fn every_small_shape_survives_one_loss_more_than_it_has_global_parities() {
    for shape in (2..=14).flat_map(shapes) {
        assert_tolerates(&Code::new(shape), shape);
    }
}

#[test]
fn a_code_that_claims_to_survive_all_it_could_does() {
    let (mut recoverable, mut all) = (0, 0);
    for shape in (2..=14).flat_map(shapes) {
        let code = Code::new(shape);
        let claims = code.is_maximally_recoverable();
        assert!(!claims || survives_all_it_could(&code, shape), "{shape}");
        recoverable += usize::from(claims);
        all += 1;
    }
    assert_eq!((recoverable, all), (230, 252));
}

#[test]
fn shapes_in_use_survive_all_they_could() {
    for text in
        ["lrc:4+2+1", "lrc:6+2+2", "lrc:12+2+2", "lrc:12+3+2", "lrc:16+2+2", "lrc:10+2+3", "lrc:14+2+3", "lrc:8+4+3"]
    {
        let (shape, code) = (shape(text), Code::parse(text).expect(text));
        assert!(code.is_maximally_recoverable(), "{text}");
        assert_tolerates(&code, shape);
        assert!(survives_all_it_could(&code, shape), "{text}");
    }
    assert!(Code::parse("lrc:60+4+2").expect("a code").is_maximally_recoverable());
    assert!(!Code::parse("lrc:62+4+2").expect("a code").is_maximally_recoverable(), "groups of sixteen");
    assert!(!Code::parse("lrc:30+2+4").expect("a code").is_maximally_recoverable(), "too few points");
}

#[test]
fn nothing_survives_what_no_code_could() {
    let (shape, code) = (shape("lrc:6+2+2"), Code::parse("lrc:6+2+2").expect("a code"));
    for lost in 0u32..1 << shape.chunk_count() {
        assert_eq!(survives(&code, lost), left_to_globals(shape, lost) <= 2, "{:?}", indexes(lost));
    }
}

#[test]
fn bytes_come_back() {
    for text in ["lrc:6+2+2", "lrc:5+2+3", "lrc:4+4+1", "lrc:7+3+0", "lrc:3+1+2"] {
        let code = Code::parse(text).expect(text);
        let stripe = stripe(&code, 9);
        for lost in (1..=code.parity_count()).flat_map(|size| sets(code.chunk_count(), size)) {
            if survives(&code, lost) {
                assert_decodes(&code, &stripe, &indexes(lost));
            }
        }
    }
}

fn sources(code: &Code, wanted: usize, lost: &[usize]) -> Vec<usize> {
    code.read_plan(wanted, &|chunk| !lost.contains(&chunk)).expect("decodable").sources.clone()
}

#[test]
fn one_loss_costs_its_group() {
    let code = Code::parse("lrc:12+2+2").expect("a code");
    assert_eq!(sources(&code, 3, &[3]), [0, 1, 2, 4, 5, 12]);
    assert_eq!(sources(&code, 13, &[13]), [6, 7, 8, 9, 10, 11]);
    assert_eq!(sources(&code, 3, &[3, 9, 14, 15]), [0, 1, 2, 4, 5, 12], "one in each group, and all global parities");
    assert_eq!(sources(&code, 14, &[14]).len(), 12);
    let both = code.repair_plan(&[3, 9], &[3, 9]).expect("decodable");
    assert_eq!(both.sources, [0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13]);
}

#[test]
fn two_losses_of_a_group_take_a_global_parity() {
    let code = Code::parse("lrc:12+2+2").expect("a code");
    assert_eq!(sources(&code, 3, &[3, 4]), [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 14]);
    assert_eq!(sources(&code, 3, &[3, 12]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 14]);
}

#[test]
fn dear_chunks_are_read_only_if_they_must() {
    let code = Code::parse("lrc:6+2+2").expect("a code");
    let plan = |wanted: usize, lost: &[usize], dear: &[usize]| {
        let cost = |chunk: usize| match chunk {
            chunk if lost.contains(&chunk) => Cost::Infinite,
            chunk if dear.contains(&chunk) => Cost::High,
            _ => Cost::Low,
        };
        let plan = code.cheapest_plan(wanted, &cost).expect("decodable");
        plan.sources.clone()
    };
    assert_eq!(plan(1, &[], &[1]), [0, 2, 6], "a group is cheaper than a slow node");
    assert_eq!(plan(1, &[1], &[2]), [0, 3, 4, 5, 6, 8], "another group is cheaper than a slow node");
    assert_eq!(plan(1, &[1, 6, 9], &[2, 8]), [0, 2, 3, 4, 5, 8], "both must be read");
    assert_eq!(plan(1, &[1, 6, 9], &[8]), [0, 2, 3, 4, 5, 8], "no other parity is left");
    assert_eq!(plan(1, &[0, 2, 6], &[1]), [1], "itself, when nothing gives it for less");
    assert_eq!(plan(1, &[1], &(0..10).collect::<Vec<_>>()), [0, 2, 6], "all are slow: the fewest");
    assert!(code.cheapest_plan(1, &|chunk| if chunk < 5 { Cost::Infinite } else { Cost::High }).is_err());
}

#[test]
fn reed_solomon_avoids_dear_chunks_too() {
    let code = Code::parse("rs:4+2").expect("a code");
    let plan = |dear: [usize; 2]| {
        let cost = |chunk: usize| match chunk {
            0 => Cost::Infinite,
            chunk if dear.contains(&chunk) => Cost::High,
            _ => Cost::Low,
        };
        code.cheapest_plan(0, &cost).expect("decodable").sources.clone()
    };
    assert_eq!(plan([4, 4]), [1, 2, 3, 5]);
    assert_eq!(plan([2, 2]), [1, 3, 4, 5]);
    assert_eq!(plan([2, 4]), [1, 2, 3, 5], "one of two, the one that leaves data chunks");
}

/// Whoever takes part in an operation is told by the shape alone.
#[test]
fn parities_depend_on_what_they_cover() {
    let large = ["rs:1+16", "rs:64+16", "lrc:64+8+8", "lrc:30+2+4"].map(shape);
    for shape in (2..=14).flat_map(shapes).chain(large) {
        let code = Code::new(shape);
        for (parity, data) in (0..shape.parity_count()).flat_map(|it| (0..shape.data_count()).map(move |to| (it, to))) {
            assert_eq!(code.coefficient(parity, data) != 0, shape.covers(parity, data), "{shape}: {parity}, {data}");
        }
    }
}

/// Nodes and owners make their codes by themselves: the coefficients are a format.
#[test]
fn coefficients_never_change() {
    let row = |text: &str, parity: usize| -> Vec<u8> {
        let code = Code::parse(text).expect(text);
        (0..code.data_count()).map(|data| code.coefficient(parity, data)).collect()
    };
    assert_eq!(row("rs:4+2", 0), [1, 1, 1, 1]);
    assert_eq!(row("rs:4+2", 1), [1, 217, 92, 172]);
    assert_eq!(row("lrc:6+2+2", 0), [1, 1, 1, 0, 0, 0]);
    assert_eq!(row("lrc:6+2+2", 1), [0, 0, 0, 1, 1, 1]);
    assert_eq!(row("lrc:6+2+2", 2), [197, 196, 1, 196, 204, 8]);
    assert_eq!(row("lrc:6+2+2", 3), [83, 82, 1, 83, 93, 14]);
    assert_eq!(row("lrc:4+2+1", 2), [1, 217, 92, 172]);
    assert_eq!(row("lrc:30+2+4", 3)[..6], [1, 115, 24, 77, 95, 21]);
    assert_eq!(row("rs:1+3", 2), [1], "copies");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn large_shapes_survive_one_loss_more_than_they_have_global_parities(
        data_count in 1..=64usize,
        local in 1..=15usize,
        global in 0..=15usize,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 16),
    ) {
        let local = local.min(data_count);
        let shape = CodeShape::lrc(data_count, local, global.min(16 - local)).expect("within limits");
        let code = Code::new(shape);
        let mut lost: Vec<usize> = picks[..shape.tolerance()].iter().map(|it| it.index(shape.chunk_count())).collect();
        lost.sort_unstable();
        lost.dedup();
        assert_decodes(&code, &stripe(&code, 17), &lost);
    }

    #[test]
    fn large_shapes_that_claim_it_survive_all_they_could(
        (data_count, local, global) in prop::sample::select(vec![(24, 2, 2), (30, 2, 2), (60, 4, 2), (64, 8, 2), (64, 6, 1)]),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 10),
    ) {
        let shape = CodeShape::lrc(data_count, local, global).expect("within limits");
        let code = Code::new(shape);
        prop_assert!(code.is_maximally_recoverable());
        // One of each group, and as many more as there are global parities.
        let group = |group: usize| {
            let data = (0..data_count).filter(move |&data| shape.group_of(data) == group);
            data.chain([data_count + group]).collect::<Vec<_>>()
        };
        let mut lost: Vec<usize> = (0..local).map(|it| group(it)[picks[it].index(group(it).len())]).collect();
        lost.extend(picks[local..local + global].iter().map(|it| it.index(shape.chunk_count())));
        lost.sort_unstable();
        lost.dedup();
        prop_assert!(code.is_decodable(&|chunk| !lost.contains(&chunk)), "{} without {:?}", shape, lost);
    }
}
