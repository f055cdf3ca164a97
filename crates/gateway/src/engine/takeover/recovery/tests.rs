//! What a new owner does with stripes while something in one of them is in doubt.

use shorttail_store::record::{Control, Record, RecordKind, records};
use shorttail_units::{CodeShape, Configuration, Epoch, Now, OpNumber, Slot, UnixMs, Version};
use shorttail_wire::node::{ChunkDescription, ChunkKind, ChunkReport, Members, NodeRequest, next_frame};

use super::*;
use crate::engine::state::stripes::StripePhase;
use crate::engine::state::testing::engine_of_ready_nodes;
use crate::engine::takeover::picture::Loaded;
use crate::engine::takeover::reconstruct::Content;
use crate::engine::write::lock::LockPhase;
use crate::engine::{SessionId, Standing, WhenFull};

const KEY: &[u8] = b"key";
const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

fn id(counter: u64) -> StripeId {
    StripeId::new(Epoch(1), counter)
}

fn object<'a>(key: &'a [u8], counter: u64) -> Record<'a> {
    Record::object(key, b"value", Version::new(Epoch(1), counter))
}

fn control(value: &[u8], counter: u64) -> Record<'_> {
    Record::control(value, Version::new(Epoch(1), counter))
}

/// Is what a stripe holds certain?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Sealed,
    Certainly,
    ByOne,
}

/// An owner in RS(1,1) that has just taken over stripes which nobody sealed.
struct Scene {
    engine: Engine,
    partition: PartitionId,
    /// Appends whose records are not confirmed.
    appended: Vec<(NodeId, StripeId, OpNumber)>,
    /// By a record, or as its members are to close it at 0.
    voided: BTreeSet<StripeId>,
    /// Closes at 0 that are not answered.
    closing: Vec<(NodeId, StripeId)>,
    freed: BTreeSet<StripeId>,
    /// Keys of objects that were appended.
    keys: BTreeSet<Vec<u8>>,
    /// Floors that were appended, counted at one node.
    floor_count: u32,
    /// Of the tombstone that was appended last.
    horizon: Option<StripeId>,
}

impl Scene {
    fn new(stripes: &[(u64, &[Record<'_>], Held)]) -> Self {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        let partition = engine.config.partition_of(Slot::of_key(KEY));
        let (mut picture, mut doubts, mut uncertain) = (Picture::new(1), Doubts::default(), BTreeSet::new());
        for &(counter, records, held) in stripes {
            let mut chunk = Vec::new();
            for record in records {
                let start = chunk.len();
                chunk.resize(start + record.encoded_bytes(Epoch(1)), 0);
                record.encode(id(counter), &mut chunk[start..]);
            }
            let certain_bytes = vec![if held == Held::ByOne { 0 } else { chunk.len() }];
            let content = Content { certain_bytes, ..Content::certain(vec![chunk]) };
            if !content.is_certain() {
                uncertain.insert(id(counter));
                doubts.take(id(counter), partition, &content, &engine.config);
            }
            let Content { chunks, certain_bytes, .. } = content;
            let (members, configuration) = (NODES.into(), Configuration::default());
            let (chunk_bytes, is_sealed) = (engine.config.chunk_bytes, held == Held::Sealed);
            let loaded = Loaded { partition, members, configuration, chunk_bytes, chunks, certain_bytes, is_sealed };
            picture.take(id(counter), loaded, &engine.config, &|_| false);
        }
        doubts.drop_copies(&picture);
        let shadowed = picture.take_shadowed();
        let (census, voids) = (Census::default(), BTreeSet::new());
        engine.adopt(picture, &census, &BTreeSet::new());
        engine.phase = Phase::Completing;
        engine.completing = Some(Box::new(Completing { uncertain, shadowed, doubts, census, voids }));
        let (appended, closing) = (Vec::new(), Vec::new());
        let (voided, freed, keys) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Scene { engine, partition, appended, voided, closing, freed, keys, floor_count: 0, horizon: None }
    }

    /// Some turns pass, in which nodes open what they are to.
    fn pass(&mut self) {
        for _ in 0..4 {
            let mono_us = self.engine.now.mono_us + 10_000;
            self.engine.end_turn(Now { mono_us, unix_ms: UnixMs(0) });
            NODES.into_iter().for_each(|node| self.hear(node));
        }
    }

    fn hear(&mut self, node: NodeId) {
        let session = self.engine.nodes.session_mut(SessionId { node, core: 0 }).expect("a session");
        let (bytes, mut at) = (std::mem::take(session.rest()), 0);
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
            at += length;
            match NodeRequest::parse(&frame).expect("a request") {
                NodeRequest::Open(description) => self.engine.stripe_opened(node, description.stripe),
                NodeRequest::Append { stripe, op, bytes, .. } => self.note(node, stripe, op, bytes),
                NodeRequest::Close { stripe, last: OpNumber(0), .. } => {
                    self.voided.insert(stripe);
                    self.closing.push((node, stripe));
                }
                NodeRequest::Free { first, .. } => _ = self.freed.insert(first),
                _ => {}
            }
        }
    }

    fn note(&mut self, node: NodeId, stripe: StripeId, op: OpNumber, bytes: &[u8]) {
        self.appended.push((node, stripe, op));
        for (_, record, _) in records(bytes, stripe) {
            match Control::parse(record.value).filter(|_| record.kind == RecordKind::Control) {
                Some(Control::Void(void)) => _ = self.voided.insert(void),
                Some(Control::Floor { .. }) => self.floor_count += u32::from(node == NODES[0]),
                _ => {}
            }
            if record.kind == RecordKind::Tombstone {
                self.horizon = record.value.try_into().ok().map(|raw| StripeId::from_raw(u64::from_le_bytes(raw)));
            }
            self.keys.insert(record.key.to_vec());
        }
    }

    /// All that was appended is confirmed, and all closes.
    fn confirm(&mut self) {
        for (node, stripe, op) in std::mem::take(&mut self.appended) {
            self.engine.acknowledged(node, stripe, op);
        }
        for (node, stripe) in std::mem::take(&mut self.closing) {
            self.engine.rescind_answered(node, stripe, Ok(()));
        }
        self.pass();
    }

    /// Each node has room for so many chunks beside what it had at first.
    fn leave_room(&mut self, chunk_count: u64) {
        let chunk_bytes = self.engine.chunk_room_bytes(self.engine.config.chunk_bytes);
        for node in self.engine.nodes.iter_mut() {
            node.sessions[0].memory_bytes = chunk_count * chunk_bytes;
        }
    }

    fn is_in_doubt(&self, found: Option<u64>) -> bool {
        let key = self.engine.key_ref(KEY).hashed;
        self.engine.is_in_doubt(key, found.map(|counter| Version::new(Epoch(1), counter)))
    }

    fn is_emptied(&self, counter: u64) -> bool {
        self.engine.voids.is_emptied(id(counter))
    }
}

#[test]
fn what_something_in_doubt_replaces_stays_until_that_is_written_anew() {
    let horizon = id(9).raw().to_le_bytes();
    let tombstone = Record { kind: RecordKind::Tombstone, value: &horizon, ..object(KEY, 2) };
    // The older record may lie in the younger stripe: it was moved.
    for (old, second) in [(1, object(KEY, 2)), (3, object(KEY, 2)), (1, tombstone), (3, tombstone)] {
        let (doubted, certain) = ([second], [object(KEY, 1)]);
        let mut stripes: [(u64, &[Record<'_>], Held); 2] =
            [(2, &doubted, Held::ByOne), (old, &certain, Held::Certainly)];
        for _ in 0..2 {
            stripes.reverse();
            let mut scene = Scene::new(&stripes);
            scene.pass();
            assert!(scene.is_emptied(old) && !scene.is_emptied(2), "nothing in it is alive");
            assert!(scene.voided.is_empty() && scene.freed.is_empty(), "{:?}, {:?}", scene.voided, scene.freed);
            (0..3).for_each(|_| scene.confirm());
            assert_eq!(scene.freed, [id(2), id(old)].into(), "both are gone when it is");
            assert!(scene.engine.completing.is_none());
        }
    }
}

/// What replaces the record that replaced the moved one reaches as far.
#[test]
fn what_replaces_a_tombstone_in_doubt_holds_what_that_held() {
    let horizon = id(3).raw().to_le_bytes();
    let tombstone = Record { kind: RecordKind::Tombstone, value: &horizon, ..object(KEY, 2) };
    let stripes: [(u64, &[Record<'_>], Held); 3] =
        [(2, &[tombstone], Held::ByOne), (5, &[object(KEY, 1)], Held::Certainly), (4, &[object(KEY, 3)], Held::ByOne)];
    let mut scene = Scene::new(&stripes);
    scene.pass();
    assert!(scene.is_emptied(5) && !scene.is_emptied(2) && !scene.is_emptied(4));
    assert!(scene.voided.is_empty(), "{:?}", scene.voided);
    (0..3).for_each(|_| scene.confirm());
    assert_eq!(scene.freed, [2, 4, 5].map(id).into());
}

/// A delete that its owner gave up, and above its horizon the object, which that owner moved on.
#[test]
fn an_inherited_tombstone_lasts_until_nothing_inherited_is_left() {
    let horizon = id(3).raw().to_le_bytes();
    let tombstone = Record { kind: RecordKind::Tombstone, value: &horizon, ..object(KEY, 2) };
    let moved = [object(KEY, 1), object(b"other", 1)];
    for left in [Held::ByOne, Held::Certainly] {
        let mut scene = Scene::new(&[(2, &[tombstone], left), (3, &moved, Held::Sealed)]);
        scene.pass();
        (0..3).for_each(|_| scene.confirm());
        assert_eq!(scene.freed, [id(2)].into());
        assert!(scene.keys.contains(KEY), "it is carried");
        assert_eq!(scene.horizon, Some(StripeId::new(Epoch(2), 0)), "for the owners to come");
    }
    // Where all of a stripe was confirmed its owner knew what it ended.
    let scene = Scene::new(&[(2, &[tombstone], Held::Sealed), (3, &moved, Held::Sealed)]);
    assert!(!scene.engine.is_needed(scene.partition, id(2), &tombstone));
}

/// While memory is cramped one job goes on: one that gives some back.
#[test]
fn what_must_stay_is_moved_last() {
    let live: Vec<Vec<u8>> = (0..20).map(|name| format!("live{name}").into_bytes()).collect();
    let doubted: Vec<_> = live.iter().map(|key| object(key, 1)).chain([object(KEY, 3)]).collect();
    let stripes: [(u64, &[Record<'_>], Held); 2] =
        [(2, &doubted, Held::ByOne), (1, &[object(KEY, 1), object(b"other", 1)], Held::Certainly)];
    let mut scene = Scene::new(&stripes);
    scene.leave_room(1);
    scene.pass();
    assert!(scene.engine.shortage.is_cramped && scene.keys.contains(KEY));
    assert!(!scene.keys.contains(&b"other"[..]), "although that is less");
    (0..3).for_each(|_| scene.confirm());
    assert_eq!(scene.freed, [1, 2].map(id).into());
}

/// Nothing is gained by emptying it.
#[test]
fn what_must_stay_is_not_chosen_while_memory_is_short() {
    for held in [Held::ByOne, Held::Certainly] {
        let stripes: [(u64, &[Record<'_>], Held); 2] =
            [(2, &[object(KEY, 2)], held), (1, &[object(KEY, 1)], Held::Sealed)];
        let mut scene = Scene::new(&stripes);
        scene.leave_room(10);
        scene.pass();
        let slot = scene.engine.stripes.slot_of(id(1)).expect("it is there");
        let is_left = scene.engine.stripes.at(slot).phase() == StripePhase::Leaving;
        assert_eq!(is_left, held == Held::Certainly);
    }
}

#[test]
fn what_nothing_in_doubt_replaces_goes_at_once() {
    let (first, second) = (object(KEY, 1), object(KEY, 2));
    let other = object(b"other", 3);
    let stripes: [(u64, &[Record<'_>], Held); 3] =
        [(4, &[other], Held::ByOne), (2, &[second], Held::Certainly), (1, &[first], Held::Certainly)];
    let mut scene = Scene::new(&stripes);
    scene.pass();
    assert_eq!(scene.voided, [id(1)].into());
    // Nor does a stripe hold itself.
    let stripes: [(u64, &[Record<'_>], Held); 2] = [(4, &[other], Held::ByOne), (2, &[first, second], Held::ByOne)];
    assert!(!Scene::new(&stripes).engine.is_held_back(id(2)));
}

/// Each holds what something in doubt in a younger one replaces: the youngest goes first, so that memory for one
/// suffices.
#[test]
fn of_several_in_doubt_the_youngest_can_go_first() {
    let live: [&[u8]; 3] = [b"one", b"two", b"three"];
    let records = [1, 2, 3].map(|counter| [object(KEY, counter), object(live[counter as usize - 1], 1)]);
    let stripes = [3, 2, 1].map(|counter| (counter as u64, &records[counter - 1][..], Held::ByOne));
    let mut scene = Scene::new(&stripes);
    scene.pass();
    assert!(scene.voided.is_empty());
    for youngest in [3, 2, 1] {
        assert!(!scene.engine.is_held_back(id(youngest)));
        (1..youngest).for_each(|older| assert!(scene.engine.is_held_back(id(older))));
        scene.engine.completing.as_mut().expect("it is not over").uncertain.remove(&id(youngest));
    }
    scene.confirm();
    assert_eq!(scene.voided, [1, 2, 3].map(id).into());
}

/// A record of a fifth of a chunk.
const BIG: &[u8] = &[7; 13_000];

fn big(key: &[u8]) -> Record<'_> {
    Record { value: BIG, ..object(key, 1) }
}

/// Nobody else gives anything back while nobody is served, unless something can be evicted.
#[test]
fn what_must_be_written_anew_takes_the_last_memory_however_much_it_is() {
    use WhenFull::{Error, Evict};
    let live = [b"1", b"2", b"3", b"4"].map(|key| big(key));
    let sealed = [object(KEY, 1)];
    let beside: [(u64, &[Record<'_>], Held); 1] = [(1, &sealed, Held::Sealed)];
    for (held, beside, when_full, is_written) in [
        (Held::ByOne, &beside[..], Error, true),
        (Held::ByOne, &[], Evict, true),
        (Held::ByOne, &beside, Evict, false),
        (Held::Certainly, &[], Error, false),
    ] {
        let mut scene = Scene::new(&[&[(2, &live[..], held)], beside].concat());
        scene.engine.config.when_full = when_full;
        scene.leave_room(1);
        scene.pass();
        (0..4).for_each(|_| scene.confirm());
        assert_eq!(scene.keys.contains(&b"4"[..]), is_written, "{when_full:?}");
        assert_eq!(scene.freed.contains(&id(2)), is_written);
        assert_eq!(scene.engine.is_serving(), is_written || held == Held::Certainly);
    }
}

/// With a control record in doubt, and memory for one of two stripes that together need more.
#[test]
fn what_holds_everything_is_emptied_first() {
    let void = Control::Void(id(0)).encode();
    let first = [control(&void, 2), big(b"1"), big(b"2"), big(b"3")];
    let second = [b"4", b"5", b"6"].map(|key| big(key));
    let mut scene = Scene::new(&[(4, &second, Held::ByOne), (2, &first, Held::ByOne)]);
    scene.leave_room(1);
    scene.pass();
    (0..4).for_each(|_| scene.confirm());
    assert_eq!(scene.freed, [id(2)].into());
    scene.leave_room(2);
    (0..4).for_each(|_| scene.confirm());
    assert_eq!(scene.freed, [2, 4].map(id).into());
    assert!(scene.engine.completing.is_none());
}

#[test]
fn what_lies_elsewhere_for_certain_is_not_in_doubt() {
    let horizon = id(9).raw().to_le_bytes();
    let tombstone = Record { kind: RecordKind::Tombstone, value: &horizon, ..object(KEY, 2) };
    for (record, found) in [(object(KEY, 2), Some(2)), (tombstone, None)] {
        for (original, is_in_doubt) in [(Held::Sealed, false), (Held::Certainly, false), (Held::ByOne, true)] {
            for order in [[3, 4], [4, 3]] {
                let [first, second] = order;
                let scene = Scene::new(&[(first, &[record], original), (second, &[record], Held::ByOne)]);
                assert_eq!(scene.is_in_doubt(found), is_in_doubt, "{order:?}");
                // The original may be all there is, should the copy that counts get lost.
                assert!(scene.engine.is_held_back(id(first)) || first > second);
            }
        }
    }
    let scene = Scene::new(&[(3, &[object(KEY, 1)], Held::Sealed), (4, &[object(KEY, 2)], Held::ByOne)]);
    assert!(scene.is_in_doubt(Some(2)), "only something older is certain");
}

#[test]
fn what_a_control_record_says_for_certain_is_not_in_doubt() {
    let floor = |counter| Control::Floor { floor: Version::new(Epoch(1), counter), horizon: id(3) }.encode();
    let said = [Control::Void(id(1)).encode(), Control::FlushDue(UnixMs(7)).encode(), floor(5)];
    let higher = floor(6);
    let others = [Control::Void(id(2)).encode(), Control::FlushDue(UnixMs(8)).encode(), floor(4)];
    let pairs = said.iter().map(|said| (said, said, false));
    let pairs = pairs.chain([(&higher, &said[2], false)]).chain(others.iter().zip(&said).map(|(a, b)| (a, b, true)));
    for (original, copy, is_in_doubt) in pairs {
        for held in [Held::Sealed, Held::ByOne] {
            let scene = Scene::new(&[(4, &[control(copy, 5)], Held::ByOne), (3, &[control(original, 5)], held)]);
            assert_eq!(scene.is_in_doubt(Some(5)), is_in_doubt || held == Held::ByOne, "{original:?}, {copy:?}");
            assert!(scene.engine.is_held_back(id(3)), "its record may be dropped for the copy");
        }
    }
}

/// A client had the lock of its key when the job passed.
#[test]
fn what_was_locked_is_moved_later_though_memory_is_cramped() {
    let mut scene = Scene::new(&[(2, &[object(KEY, 1)], Held::Certainly)]);
    scene.leave_room(1);
    let lock = scene.engine.locks.insert(scene.engine.key_ref(KEY), LockPhase::Held);
    scene.pass();
    assert!(scene.engine.shortage.is_cramped && scene.keys.is_empty());
    scene.engine.locks.remove(lock);
    scene.pass();
    assert!(scene.keys.contains(KEY));
}

/// A void record of which one node alone knows: what it ended might come back, and with it what later records ended
/// there.
#[test]
fn while_a_control_record_is_in_doubt_everything_of_its_partition_stays() {
    let void = Control::Void(id(0)).encode();
    let stripes: [(u64, &[Record<'_>], Held); 3] = [
        (4, &[object(KEY, 4)], Held::Certainly),
        (3, &[object(KEY, 3)], Held::Certainly),
        (2, &[control(&void, 2), object(b"other", 3)], Held::ByOne),
    ];
    let mut scene = Scene::new(&stripes);
    assert!(scene.engine.config.partitions.contains(&scene.partition));
    scene.pass();
    assert!(scene.is_emptied(3) && scene.voided.is_empty(), "{:?}", scene.voided);
    scene.confirm();
    assert!(scene.voided.contains(&id(3)));
}

/// A floor that its owner gave up, and above its horizon what that owner moved there of what the next one ends by it.
#[test]
fn an_inherited_floor_lasts_until_nothing_inherited_is_left() {
    let floor = Control::Floor { floor: Version::new(Epoch(1), 5), horizon: id(6) }.encode();
    let stripes: [(u64, &[Record<'_>], Held); 2] =
        [(9, &[object(KEY, 3)], Held::Certainly), (5, &[control(&floor, 5)], Held::Certainly)];
    let mut scene = Scene::new(&stripes);
    assert_eq!(scene.engine.index.object_count(), 0, "it is applied");
    let of_floor = scene.engine.stripes.slot_of(id(5)).expect("it is there");
    assert!(scene.engine.stripes.at(of_floor).kept.needed_bytes(Some(id(9)), None) > 0);
    scene.pass();
    assert_eq!(scene.floor_count, 1, "it is carried");
    (0..3).for_each(|_| scene.confirm());
    assert_eq!(scene.freed, [id(5), id(9)].into());
    // Nothing is left that it ended: it is not carried again.
    let own = scene.engine.stripes.iter().map(|(slot, _)| slot).collect::<Vec<_>>();
    let [own] = own[..] else { panic!("{own:?}") };
    scene.engine.abandon(own);
    (0..3).for_each(|_| scene.confirm());
    assert_eq!(scene.floor_count, 1);
}

/// Where no stripe can be opened, a record that says so finds no place.
#[test]
fn what_is_empty_goes_without_any_memory() {
    let stripes: [(u64, &[Record<'_>], Held); 2] =
        [(3, &[object(KEY, 2)], Held::Sealed), (2, &[object(KEY, 1)], Held::Certainly)];
    let mut scene = Scene::new(&stripes);
    for node in scene.engine.nodes.iter_mut() {
        node.sessions[0].memory_bytes = 0;
    }
    scene.pass();
    assert_eq!((&scene.voided, scene.appended.len()), (&[id(2)].into(), 0));
    assert!(scene.freed.is_empty(), "a member has not closed it");
    scene.confirm();
    assert_eq!(scene.freed, [id(2)].into());
}

#[test]
fn an_epoch_that_was_used_before_is_over_at_once() {
    for (epoch, is_used) in [(1, false), (2, true)] {
        let mut scene = Scene::new(&[]);
        let description = ChunkDescription {
            stripe: StripeId::new(Epoch(epoch), 1),
            epoch: Epoch(epoch),
            partition: scene.partition,
            kind: ChunkKind::Packed,
            index: 0,
            shape: scene.engine.config.shape,
            chunk_bytes: 1 << 20,
            configuration: Configuration::default(),
            members: Members(NODES.to_vec()),
        };
        let (last, close_epoch) = (OpNumber(0), Epoch(0));
        let report = ChunkReport {
            description,
            sealed: true,
            damaged: false,
            length: 0,
            last,
            folded: last,
            close_epoch,
            close_op: last,
            payload_crc: 0,
        };
        let completing = scene.engine.completing.as_mut().expect("it takes over");
        completing.census.take(SessionId { node: NODES[0], core: 0 }, report);
        assert_eq!(scene.engine.is_epoch_used(), is_used);
        assert_eq!(scene.engine.standing() == Standing::Deposed, is_used);
    }
}
