//! What the peers of a node would have taken for its requests.
//!
//! Each node's latencies are compared with what requests of their sizes usually take: how many times as long they were,
//! and how much longer each was. The median of the others, without the node itself, tells what holds for everyone now,
//! be it that all are slow or that the gateway is. Sizes mix differently from node to node, and a common cause may
//! multiply latencies or add to them, so the kinder of both explanations counts.
//!
//! Must not know: time, verdicts.

/// Latencies of some requests of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    pub samples: u32,
    pub sum_us: u64,
    /// What requests of these sizes usually take.
    pub expected_us: u64,
}

/// Unit of ratios.
const ONE: u64 = 1024;

impl Sums {
    pub fn mean_us(&self) -> u64 {
        self.sum_us / u64::from(self.samples.max(1))
    }

    fn ratio(&self) -> u64 {
        self.sum_us * ONE / self.expected_us.max(1)
    }

    fn excess_us(&self) -> i64 {
        // Sums of microseconds are far below 2^63.
        (self.sum_us as i64 - self.expected_us as i64) / i64::from(self.samples.max(1))
    }
}

/// What holds for everyone now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Common {
    ratio: u64,
    excess_us: i64,
}

impl Common {
    /// Nothing but what is usual.
    pub const USUAL: Common = Common { ratio: ONE, excess_us: 0 };

    pub fn excess_us(&self) -> i64 {
        self.excess_us
    }

    /// What requests like these take if nothing is wrong with their node alone.
    pub fn would_take_us(&self, own: &Sums) -> u64 {
        let multiplied = own.expected_us * self.ratio / ONE;
        multiplied.max(own.expected_us.saturating_add_signed(i64::from(own.samples) * self.excess_us))
    }
}

/// The nodes that others are compared with.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    ratios: Vec<u64>,
    excesses_us: Vec<i64>,
}

impl Peers {
    pub fn clear(&mut self) {
        self.ratios.clear();
        self.excesses_us.clear();
    }

    pub fn add(&mut self, sums: &Sums) {
        self.ratios.push(sums.ratio());
        self.excesses_us.push(sums.excess_us());
    }

    /// To be called after the last [`Self::add`].
    pub fn sort(&mut self) {
        self.ratios.sort_unstable();
        self.excesses_us.sort_unstable();
    }

    pub fn count(&self) -> usize {
        self.ratios.len()
    }

    /// The median of all but `own`, which is among them if `is_peer`. `None`: there are no others.
    pub fn common_without(&self, own: &Sums, is_peer: bool) -> Option<Common> {
        let ratio = median_without(&self.ratios, is_peer.then(|| own.ratio()))?;
        let excess_us = median_without(&self.excesses_us, is_peer.then(|| own.excess_us()))?;
        Some(Common { ratio, excess_us })
    }
}

/// The median of what is sorted, without one value that is in it. Of an even count the upper one: it flags less.
fn median_without<T: Copy + Ord>(sorted: &[T], left_out: Option<T>) -> Option<T> {
    let place = left_out.map(|value| sorted.partition_point(|&other| other < value));
    let middle = (sorted.len() - usize::from(place.is_some())) / 2;
    sorted.get(middle + usize::from(place.is_some_and(|place| place <= middle))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(samples: u32, mean_us: u64, usual_us: u64) -> Sums {
        let count = u64::from(samples);
        Sums { samples, sum_us: mean_us * count, expected_us: usual_us * count }
    }

    fn peers(all: &[Sums]) -> Peers {
        let mut peers = Peers::default();
        all.iter().for_each(|it| peers.add(it));
        peers.sort();
        peers
    }

    fn would_take(peers: &Peers, own: &Sums) -> Option<u64> {
        peers.common_without(own, true).map(|common| common.would_take_us(own) / u64::from(own.samples))
    }

    #[test]
    fn a_node_is_not_its_own_peer() {
        let own = sums(10, 50_000, 300);
        assert_eq!(would_take(&peers(&[own]), &own), None);
        assert_eq!(would_take(&peers(&[own, sums(10, 300, 300)]), &own), Some(300));
        let three = peers(&[own, sums(10, 50_000, 300), sums(10, 300, 300)]);
        assert_eq!(would_take(&three, &own), Some(50_000), "of two others the slower one");
        assert_eq!(would_take(&peers(&[own, own, sums(9, 300, 300), sums(9, 300, 300)]), &own), Some(300));
    }

    #[test]
    fn what_slows_everyone_slows_nobody() {
        let all = [20_300, 20_400, 20_500, 21_000].map(|mean| sums(10, mean, 300));
        all.iter().for_each(|own| {
            let expected = would_take(&peers(&all), own).expect("there are others");
            assert!((20_000..22_000).contains(&expected), "{expected}");
        });
    }

    #[test]
    fn the_kinder_explanation_counts_when_sizes_differ() {
        // Everyone is 20 ms later; this node has small requests only, the others large ones.
        let own = sums(10, 20_300, 300);
        let all = [own, sums(10, 30_000, 10_000), sums(10, 30_000, 10_000), sums(10, 30_000, 10_000)];
        assert_eq!(would_take(&peers(&all), &own), Some(20_300));
    }
}
