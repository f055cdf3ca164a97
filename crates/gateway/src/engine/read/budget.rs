//! The budget of hedges: a bucket that every read and every operation fills a little, and a hedge takes a token from.
//!
//! ```text
//! request --0.05 token--> [ at most 256 tokens ] --1 token--> hedge
//! ```
//! So hedges are a small share of all requests in the long run, whatever goes wrong, and a burst is there when
//! a node turns slow. The emptier the bucket, the longer a request must be late: the usual tail must not eat
//! what an onset needs.
//!
//! Must not know: requests, nodes, time.

/// Tokens are counted in millionths.
const TOKEN: u64 = 1_000_000;

/// Tokens that a full bucket holds: what is late until a verdict at some ten thousand requests a second and one of
/// eight nodes (decision 0010).
const BURST: u64 = 256;

/// How many times longer than usual a request must be late when the bucket is empty.
const STRETCH_MAX: u64 = 4;

#[derive(Clone, Debug)]
pub struct Budget {
    /// Millionths of a token that each request brings.
    share: u64,
    level: u64,
}

impl Budget {
    /// `share`: hedges for each request, 0 to 1.
    pub fn new(share: f64) -> Self {
        Budget { share: (share.clamp(0.0, 1.0) * TOKEN as f64) as u64, level: BURST * TOKEN }
    }

    pub fn set_share(&mut self, share: f64) {
        self.share = Budget::new(share).share;
    }

    /// A request was made.
    pub fn earn(&mut self) {
        self.level = (self.level + self.share).min(BURST * TOKEN);
    }

    pub fn has_token(&self) -> bool {
        self.has_tokens(1)
    }

    /// Are there so many tokens, and is anything hedged at all? What takes none is not a matter of the budget.
    pub fn has_tokens(&self, count: u64) -> bool {
        count == 0 || self.share > 0 && self.level / TOKEN >= count
    }

    pub fn take(&mut self) -> bool {
        if !self.has_token() {
            return false;
        }
        self.level -= TOKEN;
        true
    }

    /// How late a request must be that is usually late after `delay_us`.
    pub fn stretch(&self, delay_us: u64) -> u64 {
        let missing = BURST - self.level / TOKEN;
        delay_us + delay_us * (STRETCH_MAX - 1) * missing / BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_there_and_then_a_share_of_the_requests() {
        let mut budget = Budget::new(0.05);
        let burst = (0..10_000).filter(|_| budget.take()).count();
        assert_eq!(burst, BURST as usize);
        let hedges = (0..100_000).filter(|_| {
            budget.earn();
            budget.take()
        });
        assert_eq!(hedges.count(), 5_000);
    }

    #[test]
    fn an_empty_bucket_asks_for_more_patience() {
        let mut budget = Budget::new(0.5);
        assert_eq!(budget.stretch(1_000), 1_000);
        while budget.take() {}
        assert_eq!(budget.stretch(1_000), 4_000);
        (0..BURST).for_each(|_| budget.earn());
        assert_eq!(budget.stretch(1_000), 2_500, "half full");
    }

    #[test]
    fn no_share_is_no_hedge() {
        let mut budget = Budget::new(0.0);
        assert!(!budget.take() && budget.has_tokens(0));
    }
}
