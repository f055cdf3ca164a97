//! Random histories of a stripe against what its bytes must be.

use proptest::prelude::*;
use shorttail_units::CodeShape;
use shorttail_wire::node::Refusal;

use super::Stripe;

#[derive(Clone, Debug)]
enum Step {
    /// Append `length` bytes to a data chunk, telling that all but the last `lag` operations are stable.
    Append {
        data_index: u8,
        length: usize,
        lag: u32,
    },
    /// Tell one participant alone.
    Stable {
        participant: usize,
        lag: u32,
    },
    /// Send an operation again to one of its participants.
    Again {
        which: usize,
        participant: usize,
    },
    /// Read a whole chunk as of an operation.
    Read {
        participant: usize,
        lag: u32,
    },
    SealOne {
        participant: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u8..3, 1usize..300, 0u32..6).prop_map(|(data_index, length, lag)| Step::Append { data_index, length, lag }),
        2 => (0usize..5, 0u32..6).prop_map(|(participant, lag)| Step::Stable { participant, lag }),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(which, participant)| Step::Again { which, participant }),
        4 => (0usize..5, 0u32..8).prop_map(|(participant, lag)| Step::Read { participant, lag }),
    ];
    // Sealing ends the history: nothing but reads and repetitions may follow.
    let seal = (0usize..5).prop_map(|participant| Step::SealOne { participant });
    (proptest::collection::vec(step, 1..60), proptest::collection::vec(seal, 0..5))
        .prop_map(|(steps, seals)| steps.into_iter().chain(seals).collect())
}

/// The stripe and what each participant was told is stable.
struct History {
    stripe: Stripe,
    told: Vec<u32>,
}

impl History {
    fn last(&self) -> u32 {
        self.stripe.sent.len() as u32
    }

    /// A participant hears of the last stable one of its own operations.
    fn tell(&mut self, participant: usize, stable: u32) -> u32 {
        let own = self.stripe.own_stable(participant, stable);
        self.told[participant] = self.told[participant].max(own);
        own
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append { data_index, length, lag } => {
                if self.stripe.length(data_index) + length as u32 > self.stripe.chunk_bytes {
                    return;
                }
                let stable = self.last().saturating_sub(lag);
                let bytes: Vec<u8> = (0..length).map(|at| (at as u32 * 31 + self.last() * 7 + 1) as u8).collect();
                self.stripe.append(data_index, &bytes, stable);
                for participant in self.stripe.participants(data_index) {
                    self.tell(participant, stable);
                }
            }
            Step::Stable { participant, lag } => {
                let participant = participant % self.told.len();
                let stable = self.tell(participant, self.last().saturating_sub(lag));
                assert_eq!(self.stripe.stable(participant, stable), Ok(()));
            }
            Step::Again { which, participant } => {
                let Some(sent) = self.stripe.sent.get(which % self.stripe.sent.len().max(1)).cloned() else { return };
                let participants = self.stripe.participants(sent.data_index);
                let participant = participants[participant % participants.len()];
                let held = self.stripe.report(participant).last;
                assert_eq!(self.stripe.send(participant, &sent, 0), Ok(held), "a repetition is acknowledged");
            }
            Step::Read { participant, lag } => {
                self.check_read(participant % self.told.len(), self.last().saturating_sub(lag));
            }
            Step::SealOne { participant } => {
                let participant = participant % self.told.len();
                assert_eq!(self.stripe.seal(participant), Ok(()));
                assert_eq!(self.stripe.seal(participant), Ok(()), "sealing twice is the same");
            }
        }
    }

    /// A chunk answers exactly as of the operation or refuses, and refuses only where it may.
    fn check_read(&self, participant: usize, at: u32) {
        let told = self.told[participant];
        let is_parity = self.stripe.shape.is_parity(participant);
        let knows = if at == 0 {
            false
        } else if is_parity {
            at == told
        } else {
            at >= told || at >= self.stripe.last_sent[participant]
        };
        let expected = if knows { Ok(self.stripe.expected(participant, at)) } else { Err(Refusal::NotAtOp) };
        assert_eq!(self.stripe.read(participant, at), expected, "chunk {participant} at {at}, told {told}");
    }
}

proptest! {
    #[test]
    fn chunks_are_what_was_appended_and_parities_what_is_encoded(steps in steps(), lrc: bool) {
        let shape: CodeShape = if lrc { "lrc:3+2+1" } else { "rs:3+2" }.parse().expect("a shape");
        let mut history = History { stripe: Stripe::open_as(shape, 5000), told: vec![0; shape.chunk_count()] };
        for step in &steps {
            history.run(step);
            history.stripe.check_invariants();
        }
        let last = history.last();
        for participant in 0..shape.chunk_count() {
            prop_assert_eq!(history.stripe.seal(participant), Ok(()));
            prop_assert_eq!(history.stripe.read(participant, 0), Ok(history.stripe.expected(participant, last)));
            prop_assert_eq!(history.stripe.read(participant, last), history.stripe.read(participant, 0));
            let report = history.stripe.report(participant);
            prop_assert!(report.sealed && !report.damaged && report.last.0 == last && report.folded.0 == last);
        }
        history.stripe.check_invariants();
        let counters = history.stripe.stores[4].counters();
        prop_assert_eq!((counters.raw_bytes, counters.sealed_chunks), (0, 1));
    }
}
