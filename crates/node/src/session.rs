//! One session: a connection of an owner, or of another node, to this core.
//!
//! ```text
//! greeting --Hello, answered--> serving --error, or a newer session of the owner--> ended
//!     |------Peer, answered---> reading --error-----------------------------------> ended
//!     `------refused; error-------------------------------------------------------> ended
//! ```

use shorttail_units::{Epoch, OpNumber, StripeId};
use shorttail_wire::node::{FrameError, NodeReply, Refusal};

use crate::limits::{ACK_SEARCH_DEPTH, OUTPUT_BYTES_MAX, OUTPUT_KEPT_BYTES};
use crate::rings::Ring;

/// Why a session ends. The caller sends what output there still is and closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionError {
    #[error("not a message: {0}")]
    Frame(#[from] FrameError),
    #[error("the first message is not a greeting, or a later one is")]
    Greeting,
    #[error("the greeting was refused: {0}")]
    Refused(Refusal),
    #[error("the peer does not read its replies")]
    OutputFull,
    #[error("no such session, or it ended")]
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Greeting,
    Serving {
        owner: u32,
        epoch: Epoch,
    },
    /// Another node reads.
    Reading,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub phase: Phase,
    pub output: Vec<u8>,
    /// Appends to acknowledge at the end of the turn, the last operation per stripe.
    acks: Vec<(StripeId, OpNumber)>,
    /// Where its owner may put appends without a message.
    pub ring: Option<Ring>,
}

impl Session {
    pub fn new() -> Self {
        Session { phase: Phase::Greeting, output: Vec::new(), acks: Vec::new(), ring: None }
    }

    /// Ends it because of what its peer did; what was answered may still be sent.
    pub fn end(&mut self) {
        self.phase = Phase::Ended;
        self.acks = Vec::new();
    }

    /// Ends it because the owner has a newer one: nothing more is sent.
    pub fn supersede(&mut self) {
        self.end();
        self.output = Vec::new();
    }

    pub fn reply(&mut self, tag: u64, reply: &NodeReply<'_>) {
        reply.encode(tag, &mut self.output);
    }

    pub fn has_acks(&self) -> bool {
        !self.acks.is_empty()
    }

    /// Remembers that everything up to `op` of the stripe is held.
    pub fn acknowledge(&mut self, stripe: StripeId, op: OpNumber) {
        let recent = self.acks.iter_mut().rev().take(ACK_SEARCH_DEPTH).find(|(other, _)| *other == stripe);
        match recent {
            Some((_, last)) => *last = op.max(*last),
            None => self.acks.push((stripe, op)),
        }
    }

    /// Writes one acknowledgement per stripe, in the order in which the stripes were first appended to.
    pub fn write_acks(&mut self) {
        if self.acks.len() > ACK_SEARCH_DEPTH {
            self.acks.sort_unstable();
            // Of neighbours with one stripe the later one, with the higher operation, stays.
            self.acks.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    kept.1 = later.1;
                }
                same
            });
        }
        for (stripe, op) in self.acks.drain(..) {
            NodeReply::Acked { stripe, op }.encode(0, &mut self.output);
        }
    }

    pub fn check_output(&self) -> Result<(), SessionError> {
        if self.output.len() > OUTPUT_BYTES_MAX { Err(SessionError::OutputFull) } else { Ok(()) }
    }

    /// Has it more to read than a turn's replies? What is said unasked is not added to that.
    pub fn is_behind(&self) -> bool {
        self.output.len() > OUTPUT_KEPT_BYTES
    }

    /// Gives back a buffer that a burst made large.
    pub fn trim(&mut self) {
        if self.output.is_empty() {
            self.output.shrink_to(OUTPUT_KEPT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_wire::node::next_frame;

    use super::*;

    #[test]
    fn one_acknowledgement_per_stripe_whatever_their_number() {
        for stripe_count in [1, 5, 100] {
            let mut session = Session::new();
            for op in 1..=3 {
                (0..stripe_count).for_each(|id| session.acknowledge(StripeId::from_raw(id), OpNumber(op)));
            }
            session.write_acks();
            let mut rest = &session.output[..];
            let mut seen = Vec::new();
            while let Some((frame, length)) = next_frame(rest).expect("frames") {
                seen.push(NodeReply::parse(&frame).expect("a reply"));
                rest = &rest[length..];
            }
            let acked = |id| NodeReply::Acked { stripe: StripeId::from_raw(id), op: OpNumber(3) };
            assert_eq!(seen, (0..stripe_count).map(acked).collect::<Vec<_>>());
        }
    }
}
