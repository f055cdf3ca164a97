//! Nothing a peer sends panics a node or breaks an invariant.

use proptest::prelude::*;
use shorttail_node::fuzz::{fuzz_session, run_session};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_survived(mode in 0u8..2, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut data = vec![mode];
        data.extend_from_slice(&bytes);
        fuzz_session(&data);
    }

    #[test]
    fn well_formed_nonsense_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut data = vec![2];
        data.extend_from_slice(&bytes);
        fuzz_session(&data);
    }
}

/// The well-formed nonsense is worth its time only if it gets past the checks.
#[test]
fn nonsense_goes_deep() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut reached = [0u64; 9];
    for _ in 0..300 {
        let mut data = vec![2];
        data.extend((0..3000).map(|_| byte()));
        let stats = run_session(&data);
        let counts = [
            stats.opens,
            stats.appends,
            stats.duplicate_appends,
            stats.folds,
            stats.seals,
            stats.installs,
            stats.frees,
            stats.sealed_chunks,
            stats.raw_bytes,
        ];
        reached.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(reached.iter().all(|&count| count > 100), "opens, appends, repetitions, folds, seals, ...: {reached:?}");
}
