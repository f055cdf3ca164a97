//! What clients of one core store at once: how many bytes of requests they have under way together.
//!
//! A connection has a bound of its own, but there may be many. While all of them have much under way, what is longer
//! than a little waits: one request of each connection, which is read whole and not asked. So of what clients of a
//! gateway wait for owners and their connections with nodes hold no more than this, and what one connection may have;
//! nobody is refused, and small requests go on. What other gateways ask is not counted here but by them: an owner may
//! hold as much for each.
//!
//! Must not know: who asks, what becomes of it.

use hashbrown::HashMap;
use shorttail_gateway::engine::Token;
use shorttail_gateway::forward::Ask;
use shorttail_gateway::limits::{LARGE_BYTES_MAX, SMALL_REQUEST_BYTES};

/// Bytes that clients of a gateway may store at once: enough for many fast nodes. Each core has its part, and room for
/// what one connection may have.
const WRITES_BYTES_MAX: usize = 256 << 20;

#[derive(Debug)]
pub struct Writes {
    under_way: HashMap<Token, usize>,
    bytes: usize,
    bytes_max: usize,
}

impl Writes {
    pub fn of_core(core_count: usize) -> Self {
        Self::new((WRITES_BYTES_MAX / core_count).max(LARGE_BYTES_MAX))
    }

    pub fn new(bytes_max: usize) -> Self {
        Writes { under_way: HashMap::new(), bytes: 0, bytes_max }
    }

    /// May more than a little be asked?
    pub fn has_room(&self) -> bool {
        self.bytes < self.bytes_max
    }

    /// A client asks.
    pub fn begin(&mut self, token: Token, ask: &Ask) {
        let bytes = if ask.is_write() { ask.bytes() } else { 0 };
        if bytes > SMALL_REQUEST_BYTES {
            self.bytes += bytes;
            self.under_way.insert(token, bytes);
        }
    }

    /// It is answered.
    pub fn end(&mut self, token: Token) {
        if !self.under_way.is_empty()
            && let Some(bytes) = self.under_way.remove(&token)
        {
            self.bytes -= bytes;
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
