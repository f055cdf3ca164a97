//! Nothing a peer sends panics a node or breaks an invariant.

use proptest::prelude::*;
use shorttail_node::fuzz::fuzz_session;

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
