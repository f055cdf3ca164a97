//! What a request of a size usually takes, so that a node with large requests is not taken for a slow one.
//!
//! Sizes fall into eight classes, each four times the one before. Each learns a mean from the nodes that are normal. A
//! latency counts at most four times the mean: one slow node among many moves it little. Only the proportions between
//! the sizes matter, since nodes are compared with each other.
//!
//! Must not know: nodes.

/// Size classes: up to 1 KiB, 4 KiB, 16 KiB, ... 4 MiB, more.
pub const SIZES: usize = 8;

/// First answers of a size are averaged, later ones move the mean by 1/64.
const GAIN_SHIFT: u32 = 6;
const FIRST_SAMPLES: u32 = 1 << GAIN_SHIFT;
/// One latency counts at most so many means.
const CLIP: u64 = 4;
/// Unit of [`SizeModel::scale`].
const SCALE_BITS: u32 = 16;

/// Class of a size in bytes.
#[inline]
pub fn size_of_bytes(bytes: u32) -> u8 {
    let bits = u32::BITS - bytes.saturating_sub(1).leading_zeros();
    // The class is below SIZES.
    (bits.saturating_sub(9) / 2).min(SIZES as u32 - 1) as u8
}

/// Mean latency of each size class.
#[derive(Clone, Debug, Default)]
pub struct SizeModel {
    /// In units of 1/64 us; 0: nothing learnt.
    means: [u64; SIZES],
    samples: [u32; SIZES],
    /// What a latency of a size is multiplied with to be comparable with one of the base size; 0 where unknown.
    scales: [u32; SIZES],
    base: usize,
}

impl SizeModel {
    #[inline]
    pub fn learn(&mut self, size: u8, latency_us: u64) {
        let at = usize::from(size);
        let (mean, samples) = (&mut self.means[at], &mut self.samples[at]);
        if *samples < FIRST_SAMPLES {
            *mean = (*mean * u64::from(*samples) + (latency_us.max(1) << GAIN_SHIFT)) / (u64::from(*samples) + 1);
            *samples += 1;
        } else {
            let clipped = latency_us.clamp(1, CLIP * (*mean >> GAIN_SHIFT).max(1));
            *mean = *mean - (*mean >> GAIN_SHIFT) + clipped;
        }
    }

    /// Mean of a size; of the nearest known one where it is unknown, 0 where nothing is.
    #[inline]
    pub fn expected_us(&self, size: u8) -> u64 {
        let at = usize::from(size);
        if self.samples[at] == 0 {
            return self.nearest(at);
        }
        self.means[at] >> GAIN_SHIFT
    }

    fn nearest(&self, at: usize) -> u64 {
        let known = (0..SIZES).filter(|&other| self.samples[other] > 0);
        known.min_by_key(|other| other.abs_diff(at)).map_or(0, |other| self.means[other] >> GAIN_SHIFT)
    }

    /// A latency as it would have been for the base size.
    #[inline]
    pub fn scale(&self, size: u8, latency_us: u64) -> u64 {
        match self.scales[usize::from(size)] {
            0 => latency_us,
            scale => latency_us.saturating_mul(u64::from(scale)) >> SCALE_BITS,
        }
    }

    /// The inverse of [`Self::scale`].
    #[inline]
    pub fn unscale(&self, size: u8, latency_us: u64) -> u64 {
        match self.scales[usize::from(size)] {
            0 => latency_us,
            scale => (latency_us << SCALE_BITS) / u64::from(scale),
        }
    }

    /// Follows the means. The base is the size with most samples at first, and stays, so that what was
    /// scaled stays valid.
    pub fn rescale(&mut self) {
        if self.samples[self.base] == 0 {
            let Some(base) = (0..SIZES).filter(|&size| self.samples[size] > 0).max_by_key(|&size| self.samples[size])
            else {
                return;
            };
            self.base = base;
        }
        let base = self.means[self.base];
        for size in 0..SIZES {
            if let Some(scale) = (base << SCALE_BITS).checked_div(self.means[size]) {
                self.scales[size] = u32::try_from(scale).unwrap_or(u32::MAX).max(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_quadruple() {
        for (bytes, size) in [(0, 0), (1024, 0), (1025, 1), (4096, 1), (4097, 2), (1 << 22, 6), (u32::MAX, 7)] {
            assert_eq!(size_of_bytes(bytes), size, "{bytes} bytes");
        }
    }

    #[test]
    fn each_size_has_its_mean_and_an_outlier_moves_it_little() {
        let mut model = SizeModel::default();
        assert_eq!(model.expected_us(0), 0);
        (0..200).for_each(|_| model.learn(0, 300));
        (0..200).for_each(|_| model.learn(4, 9000));
        assert_eq!((model.expected_us(0), model.expected_us(4)), (300, 9000));
        assert_eq!((model.expected_us(1), model.expected_us(7)), (300, 9000), "the nearest one that is known");
        model.learn(0, 1_000_000);
        assert!(model.expected_us(0) <= 315, "{}", model.expected_us(0));
    }

    #[test]
    fn scaling_makes_sizes_comparable() {
        let mut model = SizeModel::default();
        assert_eq!(model.scale(4, 77), 77, "nothing is known");
        (0..200).for_each(|_| model.learn(0, 300));
        (0..100).for_each(|_| model.learn(4, 9000));
        model.rescale();
        assert_eq!((model.scale(0, 300), model.scale(0, 600)), (300, 600));
        assert!(model.scale(4, 18_000).abs_diff(600) <= 1);
        assert!(model.unscale(4, 600).abs_diff(18_000) <= 40);
    }
}
