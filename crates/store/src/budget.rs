//! The memory budget of one core: chunks and raw operations draw on the same number.

use shorttail_wire::node::Refusal;

/// Bytes that may be used, and bytes that are.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: usize,
    used_bytes: usize,
}

impl Budget {
    pub fn new(limit_bytes: usize) -> Self {
        Budget { limit_bytes, used_bytes: 0 }
    }

    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Takes `bytes`, or nothing.
    ///
    /// # Errors
    /// When they are not there.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.limit_bytes - self.used_bytes < bytes {
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
}
