//! A read that waits for a node while the key gets another value, or after it got one.

use shorttail_units::{CodeShape, Epoch, NodeId, PartitionId, UnixMs};

use super::*;
use crate::engine::state::stripes::Stripe;
use crate::engine::state::testing::{commands_of, engine_of_ready_nodes, leave_stripe};
use crate::engine::write::round::Round;

const KEY: &[u8] = b"key";
/// When the first value is over.
const OVER: UnixMs = UnixMs(1_000);

/// A key whose record lies in the first of two sealed stripes, and a read of it that has asked for that record.
struct Scene {
    engine: Engine,
    stripes: [StripeId; 2],
}

/// The read waits for the first record.
fn scene() -> Scene {
    let mut scene = at_rest();
    scene.reads();
    scene
}

fn at_rest() -> Scene {
    let shape = CodeShape::reed_solomon(2, 2).expect("a code");
    let mut engine = engine_of_ready_nodes(shape, 6);
    let stripes = [5, 6].map(|sequence| StripeId::new(Epoch(1), sequence));
    for stripe in stripes {
        let members = [0, 1, 2, 3].map(NodeId).to_vec().into();
        engine.stripes.insert(Stripe::inherited(stripe, PartitionId(0), members, Box::from([0; 2])));
    }
    let mut scene = Scene { engine, stripes };
    scene.index(0);
    scene
}

impl Scene {
    fn reads(&mut self) {
        self.engine.ownership.outstanding_count = 1;
        let (id, command) = commands_of(Now::default(), b"get key\r\n").pop().expect("a command");
        self.engine.read(Token { connection: 1, id }, command);
    }

    fn location(&self, place: usize) -> Location {
        let slot = self.engine.stripes.slot_of(self.stripes[place]).expect("a stripe");
        self.engine.stripes.location(slot, 0, 0)
    }

    fn index(&mut self, place: usize) {
        let (key, location) = (self.engine.key_ref(KEY), self.location(place));
        self.engine.index.insert(key.slot, key.tag(), location);
    }

    /// A value without an end is durable in the second stripe. The record that it replaces was compared already, or not
    /// yet.
    fn write(&mut self, is_compared: bool) {
        if is_compared {
            let (key, [from, to]) = (self.engine.key_ref(KEY), [0, 1].map(|place| self.location(place)));
            assert!(self.engine.index.replace(key.slot, key.tag(), from, to));
            return;
        }
        self.index(1);
        let confirmed = Some((self.location(1), 0));
        let round =
            Round { old: Old::Unverified, confirmed, ..Round::ending(self.old(), Version::new(Epoch(1), 2), None) };
        let key = self.engine.key_ref(KEY);
        self.engine.locks.insert(key, LockPhase::Writing(Box::new(round)));
    }

    fn old(&self) -> OldRecord {
        let location = self.location(0);
        OldRecord { location, version: Version::new(Epoch(1), 1), record_bytes: 0, object_bytes: 0, manifest: None }
    }

    /// A write of the key was sent to a stripe, which was left, and failed. Returns the stripe.
    fn fail_to_write(&mut self) -> StripeId {
        let left = leave_stripe(&mut self.engine, KEY);
        let key = self.engine.key_ref(KEY).hashed;
        self.engine.note_unsettled(key);
        left
    }

    /// The record of the stripe comes, at this moment.
    fn comes(&mut self, place: usize, value: &[u8], expiry: Option<UnixMs>, now: UnixMs) {
        self.engine.now.unix_ms = now;
        let stripe = self.stripes[place];
        let record = Record { expiry, ..Record::object(KEY, value, Version::new(Epoch(1), 1 + place as u64)) };
        let mut bytes = vec![0; record.encoded_bytes(stripe.epoch())];
        record.encode(stripe, &mut bytes);
        self.fetched(place, ChunkSet::EMPTY, Ok(&bytes));
    }

    /// What the read was to fetch from the stripe ends like this.
    fn fetched(&mut self, place: usize, excluded: ChunkSet, result: Result<&[u8], FetchError>) {
        let (key, _) = self.engine.lookups.iter().next().expect("a read that waits");
        let (slot, _) = self.engine.stripes.place_of(self.location(place));
        let wanted = self.engine.wanted(slot, 0, 0, Extent::Record, FetchPurpose::Lookup(key));
        self.engine.lookup_fetched(key, wanted, excluded, result);
    }

    /// Records that were asked for and did not come, and what is to be looked at afterwards.
    fn awaited(&self) -> Vec<Location> {
        let asked = self.engine.fetches.iter().map(|(_, fetch)| {
            let slot = self.engine.stripes.slot_of(fetch.wanted.stripe).expect("a stripe");
            self.engine.stripes.location(slot, fetch.wanted.data_index, fetch.wanted.offset as usize)
        });
        asked.chain(self.engine.lookups.iter().flat_map(|(_, lookup)| lookup.candidates.clone())).collect()
    }

    /// Which value the client was shown, or that none can be.
    fn answer(&mut self) -> Option<&'static str> {
        let (_, reply) = self.engine.poll_reply(self.engine.now)?;
        let Reply::Bytes(bytes) = reply else { panic!("{reply:?}") };
        let text = String::from_utf8_lossy(&bytes);
        let shown = ["old", "new", "SERVER_ERROR"].into_iter().find(|word| text.contains(word));
        Some(shown.unwrap_or("none"))
    }
}

#[test]
fn shows_no_end_of_a_value_that_was_replaced_before_it() {
    for is_compared in [false, true] {
        let mut scene = scene();
        scene.write(is_compared);
        scene.comes(0, b"old", Some(OVER), OVER);
        assert_eq!(scene.answer(), None, "it looks at the newer one, compared: {is_compared}");
        scene.comes(1, b"new", None, OVER);
        assert_eq!(scene.answer(), Some("new"));
    }
}

#[test]
fn shows_what_was_there_when_it_began() {
    for is_compared in [false, true] {
        let mut scene = scene();
        scene.write(is_compared);
        scene.comes(0, b"old", Some(OVER), UnixMs(OVER.0 - 1));
        assert_eq!(scene.answer(), Some("old"));
    }
}

/// The first value is not to be seen by a read that begins once another one was acknowledged, whatever becomes of what
/// it fetches.
#[test]
fn shows_nothing_that_was_replaced_before_it_began() {
    let mut scene = at_rest();
    scene.write(false);
    scene.reads();
    // What was decoded makes no sense: it reads again.
    scene.fetched(1, ChunkSet::of(0), Ok(b"rubbish"));
    assert_eq!(scene.answer(), None);
    assert_eq!(scene.awaited(), [scene.location(1); 2]);
    scene.comes(1, b"new", None, OVER);
    assert_eq!(scene.answer(), Some("new"));
}

/// It is moved while it is compared with what it replaced, and what lies where it was can be read no more.
#[test]
fn shows_what_was_moved_while_it_read_and_nothing_older() {
    let mut scene = at_rest();
    scene.write(false);
    scene.reads();
    let (key, from) = (scene.engine.key_ref(KEY), scene.location(1));
    let slot = scene.engine.stripes.slot_of(scene.stripes[1]).expect("a stripe");
    let to = scene.engine.stripes.location(slot, 1, 0);
    assert!(scene.engine.index.replace(key.slot, key.tag(), from, to));
    let lock = scene.engine.locks.find(key).expect("it is written");
    let Some(LockPhase::Writing(round)) = scene.engine.locks.get_mut(lock).map(|lock| &mut lock.phase) else {
        panic!("it is written")
    };
    round.confirmed = Some((to, 0));
    scene.fetched(1, ChunkSet::EMPTY, Err(FetchError::Unreadable));
    assert_eq!(scene.answer(), None);
    assert_eq!(scene.awaited(), [from, to]);
}

/// The write saw the value before its end, and may succeed.
#[test]
fn follows_a_write_under_way_instead_of_showing_the_end() {
    let mut scene = scene();
    let round = Round::ending(scene.old(), Version::new(Epoch(1), 2), None);
    let key = scene.engine.key_ref(KEY);
    let lock = scene.engine.locks.insert(key, LockPhase::Writing(Box::new(round)));
    scene.comes(0, b"old", Some(OVER), OVER);
    assert_eq!(scene.answer(), None);
    assert_eq!(scene.engine.locks.get(lock).expect("it is held").queue.len(), 1);
}

#[test]
fn shows_the_end_of_a_value_that_nothing_replaced() {
    let mut scene = scene();
    scene.comes(0, b"old", Some(OVER), OVER);
    assert_eq!(scene.answer(), Some("none"));
}

/// What it was to change is not said to be over while the write may come back.
#[test]
fn shows_no_end_beside_a_write_of_unknown_outcome() {
    for (ends, shown) in [("", "SERVER_ERROR"), ("a later write", "none"), ("a flush", "none"), ("void", "none")] {
        let mut scene = scene();
        let left = scene.fail_to_write();
        let hash = scene.engine.key_ref(KEY).hash;
        match ends {
            "a later write" => scene.engine.settle(hash),
            "a flush" => {
                let partition = scene.engine.config.partition_of(scene.engine.key_ref(KEY).slot);
                scene.engine.settle_all_of(&[partition].into());
            }
            "void" => {
                let slot = scene.engine.stripes.slot_of(left).expect("a stripe");
                drop(scene.engine.stripes.remove(slot));
                scene.engine.forget_settled();
            }
            _ => scene.engine.forget_settled(),
        }
        scene.comes(0, b"old", Some(OVER), OVER);
        assert_eq!(scene.answer(), Some(shown), "ended by {ends:?}");
    }
}

#[test]
fn shows_what_a_write_of_unknown_outcome_was_to_change() {
    let mut scene = scene();
    scene.fail_to_write();
    scene.comes(0, b"old", Some(OVER), UnixMs(OVER.0 - 1));
    assert_eq!(scene.answer(), Some("old"));
}
