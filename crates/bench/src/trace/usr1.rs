//! A synthetic stand-in for MSR Cambridge's usr_1, whose trace cannot be had here.
//!
//! Made to its published statistics (Narayanan et al., FAST 2008, as later papers tabulate them): 91 % reads, reads of
//! 50 KB and writes of 15 KB on average, a skewed popularity. Assumptions of ours, where nothing is published: most
//! blocks are only read and are large (64 KiB, or 4 to 60 KiB), some are written too and small (4 KiB, or 8 to 44 KiB);
//! both follow Zipf's law with exponent 0.9; a tenth of the reads go to the blocks that are written.

use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::BlockRequest;

pub const NAME: &str = "usr_1";

const READ_SHARE: f64 = 0.91;
/// Of the reads, those that go to blocks that are written too.
const READS_OF_WRITTEN: f64 = 0.1;
const THETA: f64 = 0.9;
const READ_ONLY_BLOCKS: u32 = 3_000;
const WRITTEN_BLOCKS: u32 = 1_000;
/// Blocks lie so far apart, in bytes: further than any is long.
const STRIDE_BYTES: u64 = 128 * 1024;
const UNIT_BYTES: u32 = 4 * 1024;
/// So many of the blocks that are only read have 64 KiB; with the others' 4 to 60 KiB their mean is 53.9 KiB.
const FULL_SHARE: f64 = 0.684;

/// The first `count` requests; the same for the same seed.
pub fn generate(seed: u64, count: usize) -> Vec<BlockRequest> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let read_only: Vec<u32> = (0..READ_ONLY_BLOCKS).map(|_| large(&mut rng)).collect();
    let written: Vec<u32> = (0..WRITTEN_BLOCKS).map(|_| small(&mut rng)).collect();
    let zipf = |blocks: u32| rand_distr::Zipf::new(f64::from(blocks), THETA).expect("constants are legal");
    let (read_only_rank, written_rank) = (zipf(READ_ONLY_BLOCKS), zipf(WRITTEN_BLOCKS));
    let mut requests = Vec::with_capacity(count);
    for _ in 0..count {
        let is_read = rng.random::<f64>() < READ_SHARE;
        let of_written = !is_read || rng.random::<f64>() < READS_OF_WRITTEN;
        let (ranks, sizes, first) =
            if of_written { (&written_rank, &written, READ_ONLY_BLOCKS) } else { (&read_only_rank, &read_only, 0) };
        let index = ranks.sample(&mut rng) as usize - 1;
        let offset_bytes = (u64::from(first) + index as u64) * STRIDE_BYTES;
        requests.push(BlockRequest { offset_bytes, bytes: sizes[index], is_read });
    }
    requests
}

fn large(rng: &mut SmallRng) -> u32 {
    if rng.random::<f64>() < FULL_SHARE { 16 * UNIT_BYTES } else { rng.random_range(1..=15) * UNIT_BYTES }
}

fn small(rng: &mut SmallRng) -> u32 {
    if rng.random::<bool>() { UNIT_BYTES } else { rng.random_range(2..=11) * UNIT_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    #[test]
    fn it_has_the_published_statistics() {
        for seed in 1..=5 {
            let trace = Trace::new(NAME, &generate(seed, 100_000), 4096).expect("good");
            let summary = &trace.summary;
            assert!((summary.read_share - 0.91).abs() < 0.005, "{summary:?}");
            // Sizes are drawn per block and a few blocks are most of the requests: the means scatter with the seed.
            assert!((summary.read_bytes_mean / 50_000.0 - 1.0).abs() < 0.2, "{summary:?}");
            assert!((summary.write_bytes_mean / 15_000.0 - 1.0).abs() < 0.5, "{summary:?}");
            assert!((summary.read_bytes_mean_replayed / summary.read_bytes_mean - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn it_is_skewed_and_repeats_for_a_seed() {
        let requests = generate(1, 50_000);
        assert_eq!(requests, generate(1, 50_000));
        let first = requests.iter().filter(|request| request.offset_bytes == 0).count();
        assert!(first > 50_000 / 40, "{first} requests go to the first block");
    }
}
