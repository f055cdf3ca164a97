//! Terms as a message: each set of voters once, and by its number wherever tenures name it. A gateway may have a
//! thousand tenures that thousands of nodes vote on, and nearly all of them name the same few sets.
//!
//! ```text
//! sets:     [ [voter, ...], [voter, ...], ... ]
//! tenures:  [ epoch, number, partitions, voters: set, before: [set, ...], lets_go, prepares ] ...
//! ```
//!
//! Must not know: what voters are for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use shorttail_units::Epoch;

use super::{Terms, Voter, ids};

#[derive(Serialize, Deserialize)]
struct Message<Set> {
    sets: Vec<Set>,
    tenures: Vec<Tenure>,
}

#[derive(Serialize, Deserialize)]
struct Tenure {
    #[serde(with = "ids::epoch")]
    epoch: Epoch,
    number: u32,
    partitions: Vec<u16>,
    /// Places in `sets`.
    voters: u32,
    before: Vec<u32>,
    lets_go: bool,
    prepares: bool,
}

/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(terms: &[Terms], serializer: S) -> Result<S::Ok, S::Error> {
    let mut places: BTreeMap<&[Voter], u32> = BTreeMap::new();
    let mut sets: Vec<&[Voter]> = Vec::new();
    let mut place_of = |set| {
        *places.entry(set).or_insert_with(|| {
            sets.push(set);
            sets.len() as u32 - 1
        })
    };
    let tenures = terms.iter().map(|terms| Tenure {
        epoch: terms.epoch,
        number: terms.number,
        partitions: terms.partitions.clone(),
        voters: place_of(&terms.voters),
        before: terms.before.iter().map(|set| place_of(set)).collect(),
        lets_go: terms.lets_go,
        prepares: terms.prepares,
    });
    let tenures = tenures.collect();
    Message { sets, tenures }.serialize(serializer)
}

/// # Errors
/// Those of the deserializer, and where a set is named that is not there.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Terms>, D::Error> {
    let Message::<Vec<Voter>> { sets, tenures } = Message::deserialize(deserializer)?;
    let sets: Vec<Arc<[Voter]>> = sets.into_iter().map(Arc::from).collect();
    let set = |place: u32| {
        let set = usize::try_from(place).ok().and_then(|place| sets.get(place));
        set.cloned().ok_or_else(|| de::Error::custom("a set of voters is named that is not there"))
    };
    let terms = tenures.into_iter().map(|tenure| {
        Ok(Terms {
            epoch: tenure.epoch,
            number: tenure.number,
            partitions: tenure.partitions,
            voters: set(tenure.voters)?,
            before: tenure.before.into_iter().map(set).collect::<Result<_, _>>()?,
            lets_go: tenure.lets_go,
            prepares: tenure.prepares,
        })
    });
    terms.collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use shorttail_units::{Incarnation, NodeId};

    use crate::control::{ControlFrameError, FromCoordinator, next_message, put_message, tests::framed};

    use super::*;

    fn sets() -> impl Strategy<Value = Vec<Arc<[Voter]>>> {
        let voter = (any::<u16>(), any::<u64>())
            .prop_map(|(node, life)| Voter { node: NodeId(node), incarnation: Incarnation(life) });
        vec(vec(voter, 0..6).prop_map(Arc::from), 1..5)
    }

    fn terms(sets: Vec<Arc<[Voter]>>) -> impl Strategy<Value = Vec<Terms>> {
        let count = sets.len();
        let before = vec(0..count, 0..4);
        let tenure = (any::<(u32, u32, bool, bool)>(), vec(any::<u16>(), 0..4), 0..count, before);
        let tenure = tenure.prop_map(move |((epoch, number, lets_go, prepares), partitions, voters, before)| Terms {
            epoch: Epoch(epoch),
            number,
            partitions,
            voters: Arc::clone(&sets[voters]),
            before: before.into_iter().map(|place| Arc::clone(&sets[place])).collect(),
            lets_go,
            prepares,
        });
        vec(tenure, 0..8)
    }

    /// The body of a message of terms.
    fn body(sets: &[Vec<Voter>], tenures: Vec<Tenure>) -> Vec<u8> {
        let message = Message { sets: sets.to_vec(), tenures };
        // The variant of `FromCoordinator`.
        [vec![4], postcard::to_stdvec(&message).expect("plain data")].concat()
    }

    fn tenure(voters: u32, before: Vec<u32>) -> Tenure {
        Tenure { epoch: Epoch(3), number: 1, partitions: vec![0], voters, before, lets_go: false, prepares: false }
    }

    proptest! {
        #[test]
        fn terms_come_back_as_they_went(terms in sets().prop_flat_map(terms)) {
            let message = FromCoordinator::Terms(terms);
            let mut stream = Vec::new();
            put_message(&mut stream, &message).expect("it is short");
            prop_assert_eq!(next_message(&stream), Ok(Some((message, stream.len()))));
            // Cut short on the way it is waited for; as a whole frame it is none.
            for length in 0..stream.len() {
                prop_assert_eq!(next_message::<FromCoordinator>(&stream[..length]), Ok(None));
            }
            let body = &stream[crate::control::CONTROL_HEADER_BYTES..];
            for length in 0..body.len() {
                let cut = next_message::<FromCoordinator>(&framed(&body[..length])).map(|_| ());
                prop_assert_eq!(cut, Err(ControlFrameError::Malformed));
            }
        }

        #[test]
        fn sets_that_are_not_there_are_refused(place in any::<u32>(), set_count in 0..4_u32) {
            let sets = vec![vec![Voter { node: NodeId(1), incarnation: Incarnation(2) }]; set_count as usize];
            let named = [tenure(place, vec![]), tenure(0, vec![0, place])];
            for tenure in named {
                let is_there = tenure.before.iter().chain([&tenure.voters]).all(|&place| place < set_count);
                let taken = next_message::<FromCoordinator>(&framed(&body(&sets, vec![tenure]))).map(|_| ());
                prop_assert_eq!(taken, if is_there { Ok(()) } else { Err(ControlFrameError::Malformed) });
            }
        }
    }

    #[test]
    fn a_set_is_sent_once() {
        let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(u64::MAX) };
        let set: Arc<[Voter]> = (0..100).map(voter).collect();
        let terms = |count| {
            let terms = (0..count).map(|epoch| Terms {
                epoch: Epoch(epoch),
                number: 1,
                partitions: vec![7],
                // Alike is enough.
                voters: set.iter().copied().collect(),
                before: vec![Arc::clone(&set)],
                lets_go: false,
                prepares: false,
            });
            let mut stream = Vec::new();
            put_message(&mut stream, &FromCoordinator::Terms(terms.collect())).expect("it is short");
            stream.len()
        };
        assert!(terms(100) - terms(1) < 100 * 12, "a tenure names its sets");
    }
}
