//! Encoding, folding and decoding: every pattern of losses for small shapes, random ones for the rest.

use crate::stripes::{assert_decodes, pick, slices, slices_mut, stripe};
use proptest::prelude::*;
use shorttail_codes::limits::{CHUNK_COUNT_MAX, DATA_COUNT_MAX, PARITY_COUNT_MAX};
use shorttail_codes::{Code, CodeError, CodeShapeError};

/// Sets of up to `size_max` of the first `of` numbers.
fn sets(of: usize, size_max: usize) -> impl Iterator<Item = Vec<usize>> {
    let indexes = move |set: u32| (0..of).filter(|&index| set >> index & 1 == 1).collect();
    (0u32..1 << of).filter(move |set| set.count_ones() as usize <= size_max).map(indexes)
}

#[test]
fn every_loss_of_every_small_shape_is_decoded() {
    for chunk_count in 1..=12 {
        for data_count in 1..=chunk_count {
            let code = Code::reed_solomon(data_count, chunk_count - data_count).expect("within limits");
            let stripe = stripe(&code, 5);
            sets(chunk_count, code.parity_count()).for_each(|lost| assert_decodes(&code, &stripe, &lost));
        }
    }
}

#[test]
fn one_loss_too_many_is_an_error_for_data_and_for_nothing_else() {
    let code = Code::reed_solomon(4, 2).expect("within limits");
    for lost in sets(6, 3).filter(|lost| lost.len() == 3) {
        for &wanted in &lost {
            let plan = code.read_plan(wanted, &|index| !lost.contains(&index));
            assert_eq!(plan.expect_err("too many"), CodeError::NotDecodable { wanted, available_count: 3 });
        }
        assert!(matches!(code.repair_plan(&lost, &lost[1..]), Err(CodeError::NotDecodable { .. })));
        let there = (0..6).find(|index| !lost.contains(index)).expect("three of six");
        let plan = code.read_plan(there, &|index| !lost.contains(&index)).expect("it may be read");
        assert_eq!((plan.sources.as_slice(), plan.coefficients.as_slice()), (&[there][..], &[1][..]));
    }
}

#[test]
fn a_repair_gives_what_is_wanted_and_no_more() {
    let code = Code::reed_solomon(6, 3).expect("within limits");
    let stripe = stripe(&code, 33);
    let plan = code.repair_plan(&[1, 4, 7], &[7, 1, 7]).expect("decodable");
    assert_eq!(plan.wanted, [1, 7]);
    let mut outs = vec![vec![0; 33]; 2];
    plan.decode(&pick(&stripe, &plan.sources), &mut slices_mut(&mut outs));
    assert_eq!(outs, [stripe[1].clone(), stripe[7].clone()]);
}

#[test]
fn a_single_loss_is_decoded_by_xor() {
    for (data_count, parity_count) in [(4, 2), (10, 4), (64, 16)] {
        let code = Code::reed_solomon(data_count, parity_count).expect("within limits");
        assert!((0..data_count).all(|data| code.coefficient(0, data) == 1));
        let plan = code.read_plan(1, &|index| index != 1).expect("decodable");
        assert_eq!(plan.sources.len(), data_count);
        assert!(plan.coefficients.iter().all(|&coefficient| coefficient == 1));
    }
}

#[test]
fn plans_are_remembered_and_shared() {
    let code = Code::parse("rs:8+2").expect("a code");
    let plan = code.read_plan(3, &|index| index != 3).expect("decodable");
    let again = code.clone().read_plan(3, &|index| index != 3).expect("decodable");
    assert!(std::sync::Arc::ptr_eq(&plan, &again));
    let other = code.read_plan(3, &|index| index != 3 && index != 8).expect("decodable");
    assert_ne!(plan.sources, other.sources);
    let (one, two) = (code.repair_plan(&[1, 2], &[1, 2]), code.repair_plan(&[2, 1], &[2, 1]));
    assert!(std::sync::Arc::ptr_eq(&one.expect("decodable"), &two.expect("decodable")));
}

#[test]
fn limits_hold_at_their_edges() {
    assert!(Code::reed_solomon(1, 0).is_ok());
    let largest = Code::reed_solomon(DATA_COUNT_MAX, PARITY_COUNT_MAX).expect("within limits");
    assert_eq!(largest.chunk_count(), CHUNK_COUNT_MAX);
    assert_eq!(Code::reed_solomon(0, 2).expect_err("none"), CodeError::Shape(CodeShapeError::DataCount(0)));
    assert_eq!(Code::reed_solomon(65, 2).expect_err("too many"), CodeError::Shape(CodeShapeError::DataCount(65)));
    assert_eq!(Code::reed_solomon(4, 17).expect_err("too many"), CodeError::Shape(CodeShapeError::ParityCount(17)));
    assert_eq!(
        Code::reed_solomon(usize::MAX, usize::MAX).expect_err("too many"),
        CodeError::Shape(CodeShapeError::DataCount(usize::MAX))
    );
    let error = largest.read_plan(CHUNK_COUNT_MAX, &|_| true).expect_err("counted from zero");
    assert_eq!(error, CodeError::NoSuchChunk { index: 80, chunk_count: 80 });
    assert!(largest.repair_plan(&[80], &[]).is_err());
    assert!(largest.repair_plan(&[], &[usize::MAX]).is_err());
}

#[test]
fn no_parities_and_no_bytes_are_fine() {
    let code = Code::reed_solomon(3, 0).expect("within limits");
    code.encode(&[&[1], &[2], &[3]], &mut []);
    assert!(code.read_plan(1, &|index| index != 1).is_err());
    let code = Code::reed_solomon(2, 1).expect("within limits");
    code.encode(&[&[], &[]], &mut [&mut []]);
    code.fold(0, 1, &[], &mut []);
    let plan = code.repair_plan(&[1], &[]).expect("nothing is easily given");
    plan.decode(&[], &mut []);
}

#[test]
#[should_panic(expected = "all chunks have the same length")]
fn unequal_lengths_are_a_broken_promise() {
    let code = Code::reed_solomon(2, 1).expect("within limits");
    code.encode(&[&[1, 2], &[3]], &mut [&mut [0, 0]]);
}

#[test]
#[should_panic(expected = "all chunks have the same length")]
fn folding_past_the_end_is_a_broken_promise() {
    Code::reed_solomon(2, 1).expect("within limits").fold(0, 0, &[1, 2], &mut [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_losses_of_any_shape_are_decoded(
        data_count in 1..=DATA_COUNT_MAX,
        parity_count in 0..=PARITY_COUNT_MAX,
        bytes in 0..200usize,
        picks in prop::collection::vec(any::<prop::sample::Index>(), PARITY_COUNT_MAX),
    ) {
        let code = Code::reed_solomon(data_count, parity_count).expect("within limits");
        let mut lost: Vec<usize> = picks[..parity_count].iter().map(|pick| pick.index(code.chunk_count())).collect();
        lost.sort_unstable();
        lost.dedup();
        assert_decodes(&code, &stripe(&code, bytes), &lost);
    }

    #[test]
    fn folding_a_change_equals_encoding_again(
        data_count in 1..=DATA_COUNT_MAX,
        parity_count in 1..=PARITY_COUNT_MAX,
        data in any::<prop::sample::Index>(),
        start in 0..100usize,
        change in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let code = Code::reed_solomon(data_count, parity_count).expect("within limits");
        let mut stripe = stripe(&code, 300);
        let (data_chunks, parities) = stripe.split_at_mut(data_count);
        let data = data.index(data_count);
        let range = start..start + change.len();
        data_chunks[data][range.clone()].iter_mut().zip(&change).for_each(|(byte, delta)| *byte ^= delta);
        for (parity_index, parity) in parities.iter_mut().enumerate() {
            code.fold(parity_index, data, &change, &mut parity[range.clone()]);
        }
        let mut again = vec![vec![0; 300]; parity_count];
        code.encode(&slices(data_chunks), &mut slices_mut(&mut again));
        prop_assert_eq!(parities, again);
    }

    #[test]
    fn folding_every_chunk_into_zeros_equals_encoding(data_count in 1..20usize, bytes in 0..300usize) {
        let code = Code::reed_solomon(data_count, 3).expect("within limits");
        let stripe = stripe(&code, bytes);
        for parity_index in 0..3 {
            let mut parity = vec![0; bytes];
            for (data, chunk) in stripe[..data_count].iter().enumerate() {
                code.fold(parity_index, data, chunk, &mut parity);
            }
            prop_assert_eq!(&parity, &stripe[data_count + parity_index]);
        }
    }
}
