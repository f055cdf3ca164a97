//! What the host withheld from this machine meanwhile.

use serde::Serialize;

use crate::process::stolen_ms;

/// Processor time that the host gave to others during each phase, in milliseconds of all processors: operations that
/// were under way then waited for it, whatever this machine did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stolen {
    pub healthy_ms: u64,
    pub counting_ms: u64,
    pub beside_ms: u64,
    pub degraded_ms: u64,
    pub repairing_ms: u64,
}

/// Reads what was stolen since it was read last.
pub struct Theft {
    told_ms: u64,
}

impl Theft {
    /// # Errors
    /// The system does not tell.
    pub fn now() -> anyhow::Result<Self> {
        Ok(Theft { told_ms: stolen_ms()? })
    }

    /// # Errors
    /// The system does not tell.
    pub fn since(&mut self) -> anyhow::Result<u64> {
        let before_ms = std::mem::replace(&mut self.told_ms, stolen_ms()?);
        Ok(self.told_ms.saturating_sub(before_ms))
    }
}
