//! The memory budget of one core: chunks and raw operations draw on the same number.

use shorttail_wire::node::Refusal;

/// Bytes that may be used, bytes that are, and bytes that are promised to what was accepted and is not here yet.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: usize,
    used_bytes: usize,
    promised_bytes: usize,
}

impl Budget {
    pub fn new(limit_bytes: usize) -> Self {
        Budget { limit_bytes, used_bytes: 0, promised_bytes: 0 }
    }

    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub fn free_bytes(&self) -> usize {
        self.limit_bytes - self.used_bytes - self.promised_bytes
    }

    /// Keeps up to `bytes` free for what will come; all promises together are at most `bytes_max`. Returns how many.
    pub fn promise(&mut self, bytes: usize, bytes_max: usize) -> usize {
        let promised = bytes.min(self.free_bytes()).min(bytes_max.saturating_sub(self.promised_bytes));
        self.promised_bytes += promised;
        promised
    }

    /// What `bytes` were promised for has come, or will not.
    ///
    /// # Panics
    /// If they were not promised.
    pub fn redeem(&mut self, bytes: usize) {
        self.promised_bytes = self.promised_bytes.checked_sub(bytes).expect("only promised bytes are redeemed");
    }

    /// Takes `bytes`, or nothing.
    ///
    /// # Errors
    /// When they are not there.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.free_bytes() < bytes {
            return Err(Refusal::OutOfMemory);
        }
        self.used_bytes += bytes;
        Ok(())
    }

    /// # Panics
    /// If more is given back than was taken.
    pub fn release(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.checked_sub(bytes).expect("only charged bytes are released");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_can_be_taken_and_no_more() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.charge(10), Ok(()));
        assert_eq!(budget.charge(1), Err(Refusal::OutOfMemory));
        budget.release(4);
        assert_eq!((budget.charge(5), budget.charge(4)), (Err(Refusal::OutOfMemory), Ok(())));
    }

    #[test]
    fn what_is_promised_is_there_for_nobody_else() {
        let mut budget = Budget::new(10);
        assert_eq!([3, 2, 1].map(|bytes| budget.promise(bytes, 4)), [3, 1, 0]);
        assert_eq!((budget.charge(7), budget.charge(6)), (Err(Refusal::OutOfMemory), Ok(())));
        assert_eq!(budget.promise(1, 10), 0, "all is used");
        budget.redeem(3);
        assert_eq!((budget.charge(3), budget.used_bytes()), (Ok(()), 9));
    }
}
