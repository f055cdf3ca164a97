//! Scenarios of single chunks and stores; each rule has one that fails without it.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use shorttail_units::{Configuration, Epoch, PartitionId, StripeId, Version};
use shorttail_wire::node::{ChunkDescription, ChunkKind, Refusal};

use super::*;
use crate::chunk::FoldStep;
use crate::limits::{
    BLOCK_BYTES, CHUNK_BYTES_MAX, FREE_COUNT_MAX, FREES_REMEMBERED_MAX, HEADER_BYTES, RAW_CHUNK_BYTES_MAX,
    SCAN_COUNT_MAX,
};
use crate::record::Record;

fn store() -> ChunkStore {
    ChunkStore::new(MEMORY_BYTES).expect("memory")
}

fn with_id(counter: u64, description: ChunkDescription) -> ChunkDescription {
    ChunkDescription { stripe: stripe_id(counter), ..description }
}

fn striped(counter: u64, chunk_bytes: u32) -> ChunkDescription {
    ChunkDescription { kind: ChunkKind::Striped, ..with_id(counter, description(0, 3, 2, chunk_bytes)) }
}

#[test]
fn r1_a_parity_folds_only_what_is_stable_and_keeps_the_rest_raw() {
    let mut stripe = Stripe::open(3, 2, 1000);
    stripe.append(0, b"first", 0);
    stripe.append(1, b"second", 0);
    stripe.append(0, b"third", 1);
    let inspected = stripe.stores[3].chunk(stripe_id(1)).expect("here").inspect().expect("good");
    assert_eq!((inspected.report.folded, inspected.report.last), (op(1), op(3)));
    let raw: Vec<_> = inspected.raw.iter().map(|raw| (raw.op.0, raw.data_index, raw.offset, raw.bytes)).collect();
    assert_eq!(raw, [(2, 1, 0, &b"second"[..]), (3, 0, 5, &b"third"[..])]);
    let inspected = stripe.stores[0].chunk(stripe_id(1)).expect("here").inspect().expect("good");
    let raw: Vec<_> = inspected.raw.iter().map(|raw| (raw.op.0, raw.offset, raw.length, raw.bytes.len())).collect();
    assert_eq!(raw, [(3, 5, 5, 0)]);
    assert_eq!(stripe.stable(3, 4), Err(Refusal::Gap), "nothing is stable that a parity does not hold");
}

#[test]
fn r5_an_open_chunk_answers_exactly_at_an_operation_or_refuses() {
    let mut stripe = Stripe::open(3, 2, 1000);
    (0..4).for_each(|number| assert_eq!(stripe.append(0, &[number + 1; 10], 0), u32::from(number) + 1));
    assert_eq!(stripe.read(0, 0), Err(Refusal::NotAtOp), "an open chunk is read as of an operation");
    for at in 1..=4 {
        assert_eq!(stripe.read(0, at), Ok(stripe.expected(0, at)));
        assert_eq!(stripe.read(3, at), Err(Refusal::NotAtOp));
    }
    stripe.stable(0, 3).expect("stable");
    stripe.stable(3, 3).expect("stable");
    assert_eq!(stripe.read(0, 2), Err(Refusal::NotAtOp), "its length at 2 is forgotten");
    assert_eq!(stripe.read(3, 3), Ok(stripe.expected(3, 3)));
    assert_eq!(stripe.read(3, 2), Err(Refusal::NotAtOp));
    let chunk = stripe.stores[0].chunk(stripe_id(1)).expect("here");
    assert_eq!(chunk.read_range(990, 11, op(4)), Err(Refusal::OutOfRange));
    assert_eq!(chunk.read_range(u32::MAX, 2, op(4)), Err(Refusal::OutOfRange));
}

#[test]
fn r5_a_seal_needs_every_operation_that_was_sent() {
    let mut stripe = Stripe::open(3, 2, 1000);
    stripe.append(0, b"first", 0);
    stripe.append(1, b"second", 0);
    let mut seal = |participant: usize, last, chunk_last| {
        stripe.stores[participant].chunk_mut(stripe_id(1)).expect("here").seal(op(last), op(chunk_last), 0)
    };
    assert_eq!(seal(0, 3, 3), Err(Refusal::Gap));
    assert_eq!(seal(1, 2, 1), Err(Refusal::Invalid), "the owner forgot an operation");
    assert_eq!(seal(3, 3, 2), Err(Refusal::Invalid), "every operation passes through a parity");
    assert_eq!(seal(0, 1, 2), Err(Refusal::Gap));
    assert_eq!((seal(0, 2, 1), seal(2, 2, 0), seal(3, 2, 2)), (Ok(()), Ok(()), Ok(())));
    assert_eq!((seal(0, 2, 1), seal(0, 4, 1)), (Ok(()), Err(Refusal::Immutable)));
}

#[test]
fn what_decayed_while_it_was_open_is_not_sealed_and_counts() {
    let mut stripe = Stripe::open(3, 2, 1000);
    stripe.append(0, b"first", 0);
    let seal =
        |stripe: &mut Stripe, sum| stripe.stores[3].chunk_mut(stripe_id(1)).expect("here").seal(op(1), op(1), sum);
    assert_eq!(seal(&mut stripe, 1), Err(Refusal::Damaged), "some other content has this sum");
    assert_eq!(stripe.stores[3].counters().corruptions_found, 1);
    assert!(!stripe.report(3).sealed);
    assert_eq!(seal(&mut stripe, 0), Ok(()), "the owner names none");
    assert_eq!(stripe.stores[3].counters().corruptions_found, 1);
}

#[test]
fn r6_a_fold_that_was_interrupted_makes_the_chunk_an_erasure() {
    for step in [FoldStep::Marked, FoldStep::Folded] {
        let mut stripe = Stripe::open(3, 2, 1000);
        stripe.append(0, b"first", 0);
        stripe.append(1, b"second", 0);
        let mut chunk = stripe.stores[3].chunk_mut(stripe_id(1)).expect("here");
        let mut state = chunk.state().expect("good");
        chunk.fold(&mut state, op(2), Some(step));
        assert!(stripe.report(3).damaged, "{step:?}");
        assert_eq!(stripe.read(3, 2), Err(Refusal::Damaged));
        assert_eq!(stripe.read(3, 0), Err(Refusal::Damaged));
        assert_eq!(stripe.stable(3, 2), Err(Refusal::Damaged));
        assert_eq!(stripe.seal(3), Err(Refusal::Damaged));
        let sent = stripe.sent[1].clone();
        assert_eq!(stripe.send(3, &sent, 0), Err(Refusal::Damaged));
        stripe.check_invariants();
        assert_eq!(stripe.stores[3].free(stripe_id(1), 1, PARTITION), Ok(()));
        assert_eq!(stripe.stores[3].used_bytes(), 0);
        stripe.check_invariants();
    }
}

#[test]
fn r7_gaps_are_refused_and_repetitions_acknowledged() {
    let mut stripe = Stripe::open(3, 2, 1000);
    stripe.append(0, b"first", 0);
    let second = stripe.append(0, b"second", 0);
    let sent = |number, previous: u32, offset| Sent {
        op: number,
        data_index: 0,
        offset,
        bytes: b"xx".to_vec(),
        previous: vec![previous; 5],
    };
    for participant in [0, 3] {
        let before = stripe.report(participant);
        assert_eq!(stripe.send(participant, &sent(4, 3, 11), 0), Err(Refusal::Gap));
        assert_eq!(stripe.send(participant, &sent(3, 1, 11), 0), Err(Refusal::Invalid), "another history");
        assert_eq!(stripe.send(participant, &sent(3, 2, 12), 0), Err(Refusal::Invalid), "a hole in the bytes");
        assert_eq!(stripe.send(participant, &sent(3, 2, 11), 3), Err(Refusal::Invalid), "stable before it is held");
        assert_eq!(stripe.send(participant, &sent(3, 3, 11), 0), Err(Refusal::Invalid), "its own predecessor");
        assert_eq!(stripe.send(participant, &sent(3, 2, 999), 0), Err(Refusal::OutOfRange));
        assert_eq!(stripe.send(participant, &sent(1, 0, 0), 0), Ok(op(second)));
        assert_eq!(stripe.report(participant), before, "nothing changed");
    }
    let elsewhere = Sent { data_index: 1, ..sent(3, 2, 0) };
    assert_eq!(stripe.send(0, &elsewhere, 0), Err(Refusal::Invalid), "another chunk's bytes");
    assert_eq!(stripe.send(3, &Sent { data_index: 3, ..elsewhere }, 0), Err(Refusal::Invalid), "no data chunk");
}

#[test]
fn r7_and_r11_a_stripe_id_is_used_once() {
    let mut store = store();
    let chunk = description(0, 3, 2, 1000);
    assert_eq!(store.open(&chunk), Ok(()));
    assert_eq!(store.open(&chunk), Err(Refusal::Exists));
    assert_eq!(store.install(&chunk, b"late"), Err(Refusal::Exists));
    assert_eq!(store.free(stripe_id(1), 2, PARTITION), Ok(()));
    for counter in [1, 2] {
        assert_eq!(store.install(&with_id(counter, chunk.clone()), b"late"), Err(Refusal::Exists));
        assert_eq!(store.open(&with_id(counter, chunk.clone())), Err(Refusal::Exists));
    }
    assert_eq!(store.open(&with_id(3, chunk)), Ok(()));
    store.check_invariants();
}

#[test]
fn r4_the_highest_close_wins_and_voids_what_is_later() {
    let mut stripe = Stripe::open(3, 2, 1000);
    stripe.append(0, b"first", 0);
    let mut close = |epoch, last| stripe.stores[0].chunk_mut(stripe_id(1)).expect("here").close(Epoch(epoch), op(last));
    assert_eq!((close(5, 1), close(5, 1)), (Ok(()), Ok(())));
    assert_eq!(close(4, 3), Err(Refusal::Fenced));
    assert_eq!(close(5, 2), Err(Refusal::Invalid));
    assert_eq!(close(6, 2), Ok(()));
    assert_eq!((close(6, 0), close(6, 2)), (Ok(()), Err(Refusal::Invalid)), "emptied by who closed it");
    assert_eq!(close(7, 2), Ok(()));
    let sent = |number, previous: u32, offset| Sent {
        op: number,
        data_index: 0,
        offset,
        bytes: b"xx".to_vec(),
        previous: vec![previous; 5],
    };
    assert_eq!(stripe.send(0, &sent(2, 1, 5), 0), Ok(op(2)), "what the close counts may be completed");
    assert_eq!(stripe.send(0, &sent(3, 2, 7), 0), Err(Refusal::Immutable));
    let report = stripe.report(0);
    assert_eq!((report.close_epoch, report.close_op, report.last), (Epoch(7), op(2), op(2)));
    let mut chunk = stripe.stores[0].chunk_mut(stripe_id(1)).expect("here");
    assert_eq!(chunk.seal(op(3), op(2), 0), Err(Refusal::Immutable));
    assert_eq!(chunk.seal(op(2), op(2), 0), Ok(()));
    assert_eq!(chunk.close(Epoch(8), op(1)), Err(Refusal::Immutable));
}

#[test]
fn a_stable_operation_is_never_appended_afterwards() {
    let mut stripe = Stripe::open(3, 2, 1000);
    stripe.stable(0, 5).expect("other chunks hold them");
    let sent = Sent { op: 5, data_index: 0, offset: 0, bytes: b"xx".to_vec(), previous: vec![0; 5] };
    assert_eq!(stripe.send(0, &sent, 0), Err(Refusal::Invalid));
    assert_eq!(stripe.send(0, &Sent { op: 6, ..sent }, 0), Ok(op(6)));
    stripe.check_invariants();
}

#[test]
fn records_are_found_by_their_offset_in_a_sealed_data_chunk_only() {
    let mut stripe = Stripe::open(3, 2, 1000);
    let record = Record::object(b"key", b"value", Version::new(Epoch(1), 9));
    let mut bytes = vec![0; record.encoded_bytes(Epoch(1))];
    record.encode(stripe_id(1), &mut bytes);
    stripe.append(0, &bytes, 0);
    stripe.append(0, &bytes, 0);
    stripe.append(0, &[0xff; 20], 0);
    let length = bytes.len() as u32;
    let read = |stripe: &Stripe, participant: usize, offset| {
        stripe.stores[participant].chunk(stripe_id(1)).expect("here").read_record(offset).map(<[u8]>::to_vec)
    };
    assert_eq!(read(&stripe, 0, 0), Err(Refusal::NotAtOp));
    (0..5).for_each(|participant| stripe.seal(participant).expect("sealed"));
    assert_eq!((read(&stripe, 0, 0), read(&stripe, 0, length)), (Ok(bytes.clone()), Ok(bytes)));
    assert_eq!(read(&stripe, 0, 2 * length), Err(Refusal::OutOfRange), "a record that would end outside");
    assert_eq!(read(&stripe, 0, 2 * length + 20), Err(Refusal::OutOfRange));
    assert_eq!(read(&stripe, 0, u32::MAX), Err(Refusal::OutOfRange));
    assert_eq!(read(&stripe, 3, 0), Err(Refusal::Invalid));
}

#[test]
fn a_sealed_chunk_is_found_in_memory_that_is_shared() {
    let mut store = ChunkStore::shared(MEMORY_BYTES).expect("memory");
    store.install(&striped(1, 3000), &[1; 3000]).expect("room");
    store.install(&striped(2, 3000), b"second").expect("room");
    store.open(&ChunkDescription { stripe: stripe_id(3), ..description(0, 3, 2, 1000) }).expect("room");
    let file = Arc::clone(store.file().expect("it is shared"));
    let read = |store: &ChunkStore, stripe| {
        let mut bytes = [0; 6];
        let position = store.position(stripe)?;
        file.read_exact_at(&mut bytes, position).expect("it is inside");
        Ok(bytes)
    };
    assert_eq!(read(&store, stripe_id(2)), Ok(*b"second"));
    assert_eq!(read(&store, stripe_id(1)), Ok([1; 6]));
    assert_eq!(read(&store, stripe_id(3)), Err(Refusal::NotAtOp), "it still takes appends");
    assert_eq!(read(&store, stripe_id(4)), Err(Refusal::NoChunk));
    store.free(stripe_id(1), 1, PARTITION).expect("freed");
    assert_eq!(read(&store, stripe_id(1)), Err(Refusal::NoChunk));
    let alone = Stripe::open(3, 2, 1000);
    assert!(alone.stores[0].file().is_none());
    store.check_invariants();
}

#[test]
fn an_installed_piece_takes_its_own_size_and_reads_as_zeros_beyond() {
    let mut store = store();
    assert_eq!(store.install(&striped(1, 5000), &[7; 700]), Ok(()));
    assert_eq!(store.used_bytes(), 1024);
    let read = store.chunk(stripe_id(1)).expect("here").read_range(600, 4400, op(0)).expect("sealed");
    assert_eq!((read.held, read.zero_count), (&[7; 100][..], 4300));
    assert_eq!(store.install(&striped(2, 5000), &[7; 5001]), Err(Refusal::OutOfRange));
    assert_eq!(store.install(&striped(3, CHUNK_BYTES_MAX as u32), &[7; CHUNK_BYTES_MAX]), Ok(()));
    assert_eq!(store.used_bytes(), 1024 + BLOCK_BYTES);
    assert_eq!(store.open(&striped(4, 5000)), Err(Refusal::Invalid), "a piece is installed whole");
    store.check_invariants();
}

#[test]
fn a_flipped_bit_in_a_sealed_payload_or_a_header_is_an_erasure() {
    let mut store = store();
    store.install(&striped(1, 5000), &[7; 700]).expect("room");
    store.chunk_mut(stripe_id(1)).expect("here").bytes[HEADER_BYTES + 5] ^= 1;
    let chunk = store.chunk(stripe_id(1)).expect("here");
    assert_eq!(chunk.read_range(0, 700, op(0)), Err(Refusal::Damaged));
    assert!(chunk.inspect().expect("a good header").report.damaged);
    store.chunk_mut(stripe_id(1)).expect("here").bytes[12] ^= 1;
    assert_eq!(store.chunk(stripe_id(1)).expect("here").read_range(0, 1, op(0)), Err(Refusal::Damaged));
    store.chunk_mut(stripe_id(1)).expect("here").bytes[57] ^= 1;
    assert_eq!(store.chunk(stripe_id(1)).expect("here").inspect(), Err(Refusal::Damaged));
    let other = PartitionId(PARTITION.0 + 1);
    for (partitions, undescribed) in
        [(&[][..], &[(stripe_id(1), PARTITION)][..]), (&[PARTITION], &[(stripe_id(1), PARTITION)]), (&[other], &[])]
    {
        let scanned = store.scan(Wanted { partitions, ..everything() });
        assert_eq!((scanned.reports.len(), &scanned.undescribed[..]), (0, undescribed));
    }
    assert_eq!(store.free(stripe_id(1), 1, other), Err(Refusal::Invalid), "it is another owner's");
    assert_eq!(store.free(stripe_id(1), 1, PARTITION), Ok(()), "and it can be dropped");
}

#[test]
fn over_budget_is_refused_before_anything_changes() {
    let mut store = store();
    let mut opened = 0;
    while store.open(&with_id(opened + 1, description(3, 3, 2, CHUNK_BYTES_MAX as u32))).is_ok() {
        opened += 1;
    }
    assert_eq!(opened, 7, "512 KiB, less what is kept for raw bytes");
    let used = store.used_bytes();
    assert_eq!(store.open(&with_id(99, description(3, 3, 2, CHUNK_BYTES_MAX as u32))), Err(Refusal::OutOfMemory));
    assert_eq!((store.used_bytes(), store.chunk_count()), (used, 7));
    let mut appended = 0;
    let refusal = loop {
        let number = appended + 1;
        let bytes = [1; 4000];
        let offset = appended / 2 * 4000;
        let data_index = (appended % 2) as u8;
        let append =
            Append { op: op(number), previous: op(appended), stable: op(0), data_index, offset, bytes: &bytes };
        match store.chunk_mut(stripe_id(1)).expect("here").append(&append) {
            Ok(_) => appended += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(
        (refusal, appended),
        (Refusal::OutOfMemory, 16),
        "the reserve takes raw bytes when chunks fill the rest"
    );
    store.check_invariants();
    store.chunk_mut(stripe_id(1)).expect("here").stable(op(appended)).expect("folds");
    assert_eq!(store.used_bytes(), used);
}

#[test]
fn the_raw_bytes_of_one_chunk_are_bounded_so_that_an_inspection_fits_a_frame() {
    let mut store = ChunkStore::new(8 << 20).expect("memory");
    store.open(&description(20, 20, 2, CHUNK_BYTES_MAX as u32)).expect("room");
    let bytes = vec![1; CHUNK_BYTES_MAX];
    let append = |number: u32| Append {
        op: op(number),
        previous: op(number - 1),
        stable: op(0),
        data_index: (number - 1) as u8,
        offset: 0,
        bytes: &bytes,
    };
    let fitting = (RAW_CHUNK_BYTES_MAX / (CHUNK_BYTES_MAX + 16)) as u32;
    for number in 1..=fitting {
        assert_eq!(store.chunk_mut(stripe_id(1)).expect("here").append(&append(number)), Ok(op(number)));
    }
    let mut chunk = store.chunk_mut(stripe_id(1)).expect("here");
    assert_eq!(chunk.append(&append(fitting + 1)), Err(Refusal::OutOfMemory));
    assert_eq!(
        chunk.append(&Append { stable: op(1), ..append(fitting + 1) }),
        Ok(op(fitting + 1)),
        "folding makes room"
    );
    store.check_invariants();
}

#[test]
fn a_free_of_another_partition_or_of_too_many_drops_nothing() {
    let mut store = store();
    store.install(&striped(1, 100), b"piece").expect("room");
    store.install(&ChunkDescription { partition: PartitionId(9), ..striped(2, 100) }, b"piece").expect("room");
    assert_eq!(store.free(stripe_id(1), 2, PARTITION), Err(Refusal::Invalid));
    assert_eq!(store.free(stripe_id(1), FREE_COUNT_MAX as u32 + 1, PARTITION), Err(Refusal::Invalid));
    assert_eq!(store.free(StripeId::from_raw(u64::MAX), 2, PARTITION), Err(Refusal::Invalid));
    assert_eq!(store.chunk_count(), 2);
    assert_eq!(store.free(stripe_id(1), 1, PARTITION), Ok(()));
    assert_eq!(store.chunk_count(), 1);
}

#[test]
fn a_scan_goes_on_from_the_last_id_it_told() {
    let mut store = store();
    for counter in (1..=40).rev() {
        let partition = PartitionId((counter % 2) as u16);
        store.install(&ChunkDescription { partition, ..striped(counter, 100) }, b"piece").expect("room");
    }
    let ids = |partitions: &[PartitionId], after, count| -> Vec<u64> {
        let scanned = store.scan(Wanted { partitions, since: 0, after: stripe_id(after), count });
        scanned.reports.iter().map(|report| report.description.stripe.counter()).collect()
    };
    assert_eq!(ids(&[], 0, 3), [1, 2, 3]);
    assert_eq!(ids(&[], 3, 3), [4, 5, 6]);
    assert_eq!(ids(&[PartitionId(0)], 35, usize::MAX), [36, 38, 40]);
    assert_eq!(ids(&[PartitionId(1), PartitionId(7), PartitionId(0)], 35, 3), [36, 37, 38]);
    assert!(ids(&[PartitionId(7)], 0, 3).is_empty());
    assert_eq!(ids(&[], 0, SCAN_COUNT_MAX + 1).len(), 40);
    assert!(ids(&[], 40, 3).is_empty());
}

#[test]
fn a_scan_tells_what_changed_since_the_one_before() {
    let mut store = store();
    let of = |counter, partition| ChunkDescription { partition, ..striped(counter, 100) };
    let (own, other) = (PartitionId(1), PartitionId(2));
    let empty = store.scan(everything()).change;
    store.install(&of(1, own), b"piece").expect("room");
    assert_eq!(store.scan(Wanted { since: empty, ..everything() }).reports.len(), 1, "the first chunk is a change");
    for counter in 2..=6 {
        let partition = if counter == 6 { other } else { own };
        store.install(&of(counter, partition), b"piece").expect("room");
    }
    let asked = |store: &ChunkStore, since, after: u64| {
        let after = if after == 0 { StripeId::default() } else { stripe_id(after) };
        let scanned = store.scan(Wanted { partitions: &[own], since, after, count: 2 });
        let reports = scanned.reports.iter().map(|report| report.description.stripe.counter());
        let freed = scanned.freed.iter().map(|stripe| stripe.counter()).collect::<Vec<_>>();
        (reports.collect::<Vec<_>>(), freed, scanned.is_complete, scanned.change)
    };
    let (first, _, is_complete, seen) = asked(&store, 0, 0);
    assert_eq!((first, is_complete), (vec![1, 2], true));
    assert_eq!(asked(&store, seen, 0), (vec![], vec![], false, seen));

    assert_eq!(store.free(stripe_id(2), 1, own), Ok(()));
    assert_eq!(store.free(stripe_id(6), 1, other), Ok(()));
    store.note_damaged(stripe_id(4));
    let opened = with_id(7, description(0, 3, 2, 1000));
    store.open(&ChunkDescription { partition: own, ..opened }).expect("room");
    store.install(&of(9, own), b"piece").expect("room");
    let (reports, freed, is_complete, later) = asked(&store, seen, 0);
    assert_eq!((reports, freed, is_complete), (vec![4, 7], vec![2], false));
    assert_eq!(asked(&store, seen, 7), (vec![9], vec![], false, later));
    assert_eq!(asked(&store, later, 0).0, [7], "an open chunk changes all the time");
    assert_eq!(store.free(stripe_id(4), 1, own), Ok(()));
    assert_eq!(asked(&store, later, 0).1, [4]);
    assert!(asked(&store, later + 9, 0).2, "that is another store's count");

    for counter in 0..FREES_REMEMBERED_MAX as u64 {
        store.install(&of(100 + counter, other), b"").expect("room");
        assert_eq!(store.free(stripe_id(100 + counter), 1, other), Ok(()));
    }
    let (reports, freed, is_complete, last) = asked(&store, later, 0);
    assert_eq!((reports, freed, is_complete), (vec![1, 3], vec![], true), "what was freed is not known any more");
    assert_eq!(asked(&store, last, 0), (vec![7], vec![], false, last));
    store.check_invariants();
}

#[test]
fn members_that_are_not_the_shapes_and_sizes_that_are_no_chunk_are_refused() {
    let mut store = store();
    let good = description(0, 3, 2, 1000);
    let bad = [
        ChunkDescription { shape: CodeShape::default(), ..good.clone() },
        ChunkDescription { index: 5, ..good.clone() },
        ChunkDescription { members: Members(vec![NodeId(1)]), ..good.clone() },
        ChunkDescription { chunk_bytes: 0, ..good.clone() },
        ChunkDescription { chunk_bytes: CHUNK_BYTES_MAX as u32 + 1, ..good.clone() },
    ];
    for description in bad {
        assert_eq!(store.open(&description), Err(Refusal::Invalid), "{description:?}");
        assert_eq!(store.install(&description, b""), Err(Refusal::Invalid), "{description:?}");
    }
    assert_eq!((store.chunk_count(), store.used_bytes()), (0, 0));
    assert_eq!(store.open(&description(79, 64, 16, 1000)), Ok(()));
}

#[test]
fn a_local_parity_is_passed_by_operations_of_other_groups() {
    let mut stripe = Stripe::open_as("lrc:4+2+1".parse().expect("a shape"), 1000);
    assert_eq!((stripe.participants(1), stripe.participants(2)), (vec![1, 4, 6], vec![2, 5, 6]));
    stripe.append(0, b"first", 0);
    stripe.append(2, b"of the other group", 0);
    stripe.append(1, b"third", 2);
    assert_eq!((stripe.report(4).last, stripe.report(4).folded), (op(3), op(1)), "the first is its last stable one");
    assert_eq!((stripe.report(5).last, stripe.report(6).folded), (op(2), op(2)));
    let strayed = Sent { op: 4, data_index: 3, offset: 0, bytes: b"lost".to_vec(), previous: vec![3; 7] };
    assert_eq!(stripe.send(4, &strayed, 0), Err(Refusal::Invalid), "it concerns another group");
    for participant in 0..7 {
        assert_eq!(stripe.seal(participant), Ok(()));
        assert_eq!(stripe.read(participant, 0), Ok(stripe.expected(participant, 3)));
    }
    stripe.check_invariants();
}

#[test]
fn r7_a_local_parity_notices_a_gap_in_its_own_operations() {
    let mut stripe = Stripe::open_as("lrc:4+2+1".parse().expect("a shape"), 1000);
    stripe.append(0, b"first", 0);
    stripe.append(2, b"second", 0);
    let third = Sent { op: 4, data_index: 1, offset: 0, bytes: b"fourth".to_vec(), previous: vec![3; 7] };
    assert_eq!(stripe.send(4, &third, 0), Err(Refusal::Gap));
    let (last, chunk_last) = (op(3), op(3));
    let sealed = stripe.stores[4].chunk_mut(stripe_id(1)).expect("here").seal(last, chunk_last, 0);
    assert_eq!(sealed, Err(Refusal::Gap));
}

#[test]
fn budgets_outside_the_limits_are_refused() {
    for bytes in [0, crate::limits::MEMORY_BYTES_MIN - 1, crate::limits::MEMORY_BYTES_MAX + 1] {
        assert!(matches!(ChunkStore::new(bytes), Err(crate::StoreError::MemoryBytes { asked }) if asked == bytes));
    }
    assert!(ChunkStore::new(crate::limits::MEMORY_BYTES_MIN).is_ok());
}

#[test]
fn r11_the_highest_configuration_of_a_sealed_chunk_counts_and_its_payload_stays() {
    let mut store = store();
    let [first, second] = [1, 2].map(|epoch| Configuration::default().next(Epoch(epoch)));
    let moved = |node| Members([0, node, 2, 3, 4].map(NodeId).to_vec());
    let reconfigure = |store: &mut ChunkStore, configuration, members: &Members| {
        store.chunk_mut(stripe_id(7)).expect("here").reconfigure(configuration, members)
    };
    store.open(&with_id(7, description(0, 3, 2, 1000))).expect("room");
    assert_eq!(reconfigure(&mut store, first, &moved(9)), Err(Refusal::NotAtOp), "it takes appends");
    store.free(stripe_id(7), 1, PARTITION).expect("mine");
    let mut store = self::store();
    store.install_at(&striped(7, 1000), b"piece", op(4)).expect("room");
    assert_eq!(reconfigure(&mut store, second, &moved(9)), Ok(()));
    assert_eq!(reconfigure(&mut store, second, &moved(9)), Ok(()), "told twice");
    assert_eq!(reconfigure(&mut store, first, &moved(8)), Err(Refusal::Fenced), "of an earlier owner");
    assert_eq!(reconfigure(&mut store, second, &moved(8)), Err(Refusal::Invalid), "one says one thing");
    let few = Members(vec![NodeId(0)]);
    assert_eq!(reconfigure(&mut store, second.next(Epoch(2)), &few), Err(Refusal::Invalid));
    let inspected = store.chunk(stripe_id(7)).expect("here").inspect().expect("whole").report;
    assert_eq!((inspected.description.configuration, inspected.description.members), (second, moved(9)));
    assert_eq!((inspected.damaged, inspected.sealed, inspected.last), (false, true, op(4)));
    store.check_invariants();
}
