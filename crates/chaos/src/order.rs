//! What an operator orders of a node.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, FaultError};
use crate::limits::FLIP_COUNT_MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChaosOrder {
    /// Have this fault from now on, in place of another of its kind.
    Apply(Fault),
    /// Flip bits of sealed chunks, once.
    FlipBits(FlipBits),
    /// Have no fault any more. What is held back leaves at once; flipped bits stay flipped.
    Clear,
    /// Die as by `kill -9`.
    Kill,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlipBits {
    pub count: u32,
}

impl ChaosOrder {
    /// # Errors
    /// Names the number that is beyond its limits.
    pub fn check(&self) -> Result<(), FaultError> {
        match self {
            ChaosOrder::Apply(fault) => fault.check(),
            ChaosOrder::FlipBits(FlipBits { count }) if !(1..=FLIP_COUNT_MAX).contains(count) => {
                let (min, max) = (1, u64::from(FLIP_COUNT_MAX));
                Err(FaultError::OutOfRange { what: "the number of bits", value: u64::from(*count), min, max })
            }
            ChaosOrder::FlipBits(_) | ChaosOrder::Clear | ChaosOrder::Kill => Ok(()),
        }
    }
}
