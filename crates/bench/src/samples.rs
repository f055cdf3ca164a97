//! Every operation of a measured phase by itself, so that a run can be cut into parts afterwards.

use crate::workload::OperationClass;

/// One operation. One that failed has the time it took: leaving it out would make a broken store look fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was meant to start, nanoseconds since the start of the phase.
    pub intended_ns: u64,
    pub latency_ns: u64,
    pub class: OperationClass,
    pub is_failed: bool,
}
