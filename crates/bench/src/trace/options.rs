//! The flags that choose a trace.

use std::sync::Arc;

use anyhow::ensure;

use super::{Trace, read_trace};

/// Which trace is replayed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TraceOptions {
    /// Replay a block trace: a file of MSR Cambridge or CloudPhysics, gzip or not; or usr_1, made to
    /// published statistics.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "preset", "keys", "key_choice", "value_size", "deletes"],
    )]
    pub trace: Option<String>,
    /// Only so many requests from its beginning.
    #[arg(long, value_name = "COUNT", requires = "trace")]
    pub trace_requests: Option<usize>,
    /// Addresses are rounded down to a multiple of this; each is a key. None: 4096.
    #[arg(long, value_name = "BYTES", requires = "trace")]
    pub trace_block: Option<u64>,
}

impl TraceOptions {
    /// Reads or makes the trace, if one is wanted.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(&self, seed: u64) -> anyhow::Result<Option<Arc<Trace>>> {
        const PAGE_BYTES: u64 = 4096;
        let Some(name) = &self.trace else { return Ok(None) };
        let align = self.trace_block.unwrap_or(PAGE_BYTES);
        ensure!(align > 0, "--trace-block is 0: it must be at least 1");
        read_trace(name, self.trace_requests, align, seed).map(|trace| Some(Arc::new(trace)))
    }
}
