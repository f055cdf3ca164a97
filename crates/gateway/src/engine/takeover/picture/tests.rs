//! A key of which stripes 4 and 5 hold the same record, in epoch 1, and what is left of it when one of them goes.

use shorttail_units::{ClusterId, CodeShape, Epoch};

use super::*;

const KEY: &[u8] = b"key";

fn id(counter: u64) -> StripeId {
    StripeId::new(Epoch(1), counter)
}

fn version(counter: u64) -> Version {
    Version::new(Epoch(1), counter)
}

struct Scene {
    picture: Picture,
    config: EngineConfig,
}

impl Scene {
    fn new() -> Self {
        let shape = CodeShape::reed_solomon(2, 1).expect("a code");
        Scene { picture: Picture::new(2), config: EngineConfig::new(shape, Epoch(2), ClusterId(7), 3) }
    }

    fn take(&mut self, stripe: StripeId, records: &[Record<'_>]) {
        self.take_of(PartitionId(0), stripe, records);
    }

    fn take_of(&mut self, partition: PartitionId, stripe: StripeId, records: &[Record<'_>]) {
        let mut chunk = Vec::new();
        for record in records {
            let start = chunk.len();
            chunk.resize(start + record.encoded_bytes(stripe.epoch()), 0);
            record.encode(stripe, &mut chunk[start..]);
        }
        let members = (0..3).map(NodeId).collect();
        let certain_bytes = vec![chunk.len(), 0];
        let (configuration, chunks) = (Configuration::default(), vec![chunk, Vec::new()]);
        let loaded =
            Loaded { partition, members, configuration, chunk_bytes: 4096, chunks, certain_bytes, is_sealed: true };
        self.picture.take(stripe, loaded, &self.config, &|_| false);
    }

    fn go(&mut self, stripe: StripeId) {
        self.picture.drop_stripe(stripe);
        self.picture.settle();
    }

    /// The stripes in which the index finds the key; the accounts add up.
    fn found(&self) -> Vec<StripeId> {
        let key = KeyId::of(KEY, &self.config).hashed();
        let picture = &self.picture;
        let (count, bytes) = picture
            .stripes
            .iter()
            .fold((0, 0), |(count, bytes), (_, stripe)| (count + stripe.live_count, bytes + stripe.live_bytes));
        assert_eq!(u64::from(count), picture.index.object_count());
        let value_bytes: u64 = picture.striped().map(|found| found.manifest.value_bytes as u64).sum();
        assert_eq!(picture.bytes_stored, bytes + value_bytes);
        let found = picture.index.candidates(key.slot, key.tag());
        found.map(|location| picture.stripes.at(picture.stripes.place_of(location).0).id).collect()
    }
}

fn object(counter: u64) -> Record<'static> {
    Record { expiry: Some(UnixMs(5000)), ..Record::object(KEY, b"value", version(counter)) }
}

fn tombstone(counter: u64) -> Record<'static> {
    Record::tombstone(KEY, &[9, 0, 0, 0, 0, 0, 0, 0], version(counter))
}

fn control(value: &[u8], counter: u64) -> Record<'_> {
    Record::control(value, version(counter))
}

#[test]
fn of_a_record_that_lies_twice_the_other_copy_stays_when_one_goes() {
    for order in [[4, 5], [5, 4]] {
        for gone in order {
            let mut scene = Scene::new();
            order.into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
            assert_eq!(scene.found(), [id(5)], "the youngest counts");
            scene.go(id(gone));
            assert_eq!(scene.found(), [id(9 - gone)], "read {order:?}, {gone} went");
            let slot = scene.picture.stripes.slot_of(id(9 - gone)).expect("it is there");
            assert!(scene.picture.stripes.at(slot).expiries.over_bytes(UnixMs(5000)) > 0);
            scene.go(id(9 - gone));
            assert!(scene.found().is_empty());
        }
    }
}

#[test]
fn of_three_copies_the_youngest_that_is_left_counts() {
    let mut scene = Scene::new();
    [4, 6, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
    scene.go(id(6));
    assert_eq!(scene.found(), [id(5)]);
    scene.go(id(5));
    assert_eq!(scene.found(), [id(4)]);
}

#[test]
fn copies_that_go_together_leave_nothing() {
    let mut scene = Scene::new();
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
    scene.picture.drop_stripe(id(4));
    scene.go(id(5));
    assert!(scene.found().is_empty());
    // A stripe may take the place of one that went.
    scene.take(id(8), &[object(9)]);
    scene.go(id(8));
    assert!(scene.found().is_empty());
}

#[test]
fn no_copy_of_what_was_overwritten_or_flushed_returns() {
    let mut scene = Scene::new();
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
    scene.take(id(6), &[object(8)]);
    assert_eq!(scene.found(), [id(6)]);
    scene.go(id(6));
    assert!(scene.found().is_empty());

    let mut scene = Scene::new();
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
    let floor = Control::Floor { floor: version(8), horizon: id(6) }.encode();
    scene.take(id(6), &[control(&floor, 8)]);
    scene.go(id(5));
    assert!(scene.found().is_empty());
}

/// Its owner carried it out in one partition, and another one, of the other partition, died before.
#[test]
fn a_flush_is_still_to_come_where_it_has_not_happened() {
    let mut scene = Scene::new();
    let order = Control::FlushDue(UnixMs(9)).encode();
    let floor = Control::Floor { floor: version(2), horizon: id(6) }.encode();
    scene.take_of(PartitionId(0), id(4), &[control(&order, 1), control(&floor, 2), object(3)]);
    scene.take_of(PartitionId(1), id(5), &[control(&order, 1)]);
    scene.picture.settle();
    let due: Vec<_> = scene.picture.flushes_due().collect();
    assert_eq!((due, scene.found()), (vec![(PartitionId(1), version(1), UnixMs(9))], vec![id(4)]));
}

/// Its owner gave it up: only one of its partitions has it, and that one's stripe is emptied.
#[test]
fn a_floor_holds_as_long_as_a_stripe_says_so() {
    let [lower, higher] = [8, 9].map(|counter| Control::Floor { floor: version(counter), horizon: id(6) }.encode());
    let floor_at = |scene: &mut Scene, stripe, value: &[u8]| scene.take(id(stripe), &[control(value, 8)]);
    for (beside, holds) in [(None, false), (Some(&lower), false), (Some(&higher), true)] {
        let mut scene = Scene::new();
        assert!(scene.picture.do_floors_hold(), "there is none");
        scene.take(id(4), &[object(7)]);
        floor_at(&mut scene, 5, &higher);
        beside.into_iter().for_each(|value| floor_at(&mut scene, 6, value));
        scene.picture.settle();
        assert!(scene.found().is_empty() && scene.picture.do_floors_hold());
        scene.go(id(5));
        assert_eq!(scene.picture.do_floors_hold(), holds);
        // One that was carried is read after the stripe went that it was in.
        floor_at(&mut scene, 8, &higher);
        assert!(scene.picture.do_floors_hold());
    }
}

/// While stripes are still read: a void record took the copy that counted, and something older is met after it.
#[test]
fn nothing_older_takes_the_place_of_a_copy_that_is_left() {
    let mut scene = Scene::new();
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
    scene.take(id(6), &[control(&Control::Void(id(5)).encode(), 8)]);
    let key = Record::object(KEY, b"", version(6));
    assert!(scene.picture.has_newer(&key, &scene.config));
    scene.take(id(3), &[object(6)]);
    scene.picture.settle();
    assert_eq!(scene.found(), [id(4)]);
}

#[test]
fn a_tombstone_that_lies_twice_ends_what_is_read_when_one_copy_went() {
    let mut scene = Scene::new();
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[tombstone(7)]));
    scene.go(id(5));
    scene.take(id(3), &[object(6)]);
    assert!(scene.found().is_empty());
}

#[test]
fn a_copy_that_stands_in_knows_how_far_older_records_lie() {
    let mut scene = Scene::new();
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[object(7)]));
    scene.take(id(8), &[object(6)]);
    scene.go(id(5));
    assert_eq!(scene.found(), [id(4)]);
    let slot = scene.picture.stripes.slot_of(id(4)).expect("it is there");
    assert_eq!(scene.picture.stripes.at(slot).reach, id(8));
}

#[test]
fn a_manifest_that_lies_twice_keeps_its_object() {
    let mut scene = Scene::new();
    let manifest = Manifest {
        shape: scene.config.shape,
        first: id(2),
        stripe_count: 1,
        piece_bytes: 4096,
        value_bytes: 7000,
        members: (0..3).map(NodeId).collect(),
    };
    let value = manifest.encode();
    let record = Record { kind: RecordKind::Manifest, ..Record::object(KEY, &value, version(7)) };
    [4, 5].into_iter().for_each(|stripe| scene.take(id(stripe), &[record]));
    let stored = scene.picture.bytes_stored;
    scene.go(id(5));
    assert_eq!((scene.found(), scene.picture.striped().count()), (vec![id(4)], 1));
    assert_eq!(scene.picture.bytes_stored, stored);
    scene.go(id(4));
    assert_eq!((scene.picture.striped().count(), scene.picture.bytes_stored), (0, 0));
}
