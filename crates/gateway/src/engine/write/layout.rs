//! How an object is stored: packed, or by which code and in pieces of which length.
//!
//! It follows from the partition's policy, which may change while the store serves: each object says by itself how it
//! is stored (its record, or the manifest in it), so that a change concerns only writes that begin from then on.
//!
//! | | objects of at most `s` blocks | larger ones |
//! |---|---|---|
//! | packed | in a chunk beside others | striped |
//! | replicate | as many whole copies as may be lost, and one | striped, pieces of at least a block |
//! | pad | striped, pieces of at least a block | the same |
//!
//! Sources: ShortTail 3.3 (`s`, copies), ECWide-H (padding, overwriting in place). Decision 0009 says what differs.
//!
//! Must not know: nodes, stripes, commands.

use shorttail_policy::SmallWrite;
use shorttail_units::CodeShape;

use crate::engine::EngineConfig;

/// How a value is striped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub shape: CodeShape,
    /// Bytes of the value in a piece, zeros included, at least.
    pub payload_bytes_min: usize,
}

impl EngineConfig {
    /// Is an object packed whose record has so many bytes?
    pub(super) fn packs(&self, small_write: SmallWrite, record_bytes: usize) -> bool {
        small_write == SmallWrite::Packed && record_bytes <= self.packed_bytes_max()
    }

    /// How an object is striped that is not packed.
    pub(super) fn layout(&self, small_write: SmallWrite, value_bytes: usize) -> Layout {
        let is_small = value_bytes.div_ceil(self.block_bytes) <= self.small_blocks_max();
        match small_write {
            SmallWrite::Packed => Layout { shape: self.shape, payload_bytes_min: 1 },
            SmallWrite::Replicate if is_small => {
                let copies = CodeShape::reed_solomon(1, self.tolerance()).expect("no more copies than parities");
                Layout { shape: copies, payload_bytes_min: 1 }
            }
            SmallWrite::Replicate | SmallWrite::Pad => {
                Layout { shape: self.shape, payload_bytes_min: self.block_bytes }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{ClusterId, Epoch};

    use super::*;

    fn config(shape: &str) -> EngineConfig {
        EngineConfig::new(shape.parse().expect("a shape"), Epoch(1), ClusterId(1), 16)
    }

    fn layout(config: &EngineConfig, small_write: SmallWrite, value_bytes: usize) -> (String, usize) {
        let layout = config.layout(small_write, value_bytes);
        (layout.shape.to_string(), layout.payload_bytes_min)
    }

    #[test]
    fn the_threshold_is_where_copies_cost_as_much_as_a_stripe() {
        for (shape, blocks) in [("rs:4+2", 2), ("rs:8+2", 3), ("rs:10+4", 2), ("lrc:12+2+2", 4), ("rs:3+0", 3)] {
            assert_eq!(config(shape).small_blocks_max(), blocks, "{shape}");
        }
    }

    #[test]
    fn copies_end_where_stripes_begin() {
        let config = config("lrc:12+2+2");
        let copies = ("rs:1+3".to_owned(), 1);
        let stripe = ("lrc:12+2+2".to_owned(), 4096);
        for (value_bytes, expected) in [(0, &copies), (4 * 4096, &copies), (4 * 4096 + 1, &stripe)] {
            assert_eq!(layout(&config, SmallWrite::Replicate, value_bytes), *expected, "{value_bytes}");
            assert_eq!(layout(&config, SmallWrite::Pad, value_bytes), stripe, "{value_bytes}");
        }
        let longest = config.packed_bytes_max();
        assert!(config.packs(SmallWrite::Packed, longest) && !config.packs(SmallWrite::Packed, longest + 1));
        assert!(!config.packs(SmallWrite::Pad, 1) && !config.packs(SmallWrite::Replicate, 1));
    }
}
