//! Operations of one open stripe, and who acknowledges them.

use super::*;

const PARITY: [usize; 2] = [2, 3];

fn stripe() -> OpenStripe<u32> {
    opened("rs:2+2")
}

fn opened(shape: &str) -> OpenStripe<u32> {
    let mut stripe = stripe_of(shape);
    (0..stripe.members.len()).for_each(|member| _ = stripe.open(member));
    stripe
}

fn stripe_of(shape: &str) -> OpenStripe<u32> {
    let shape: CodeShape = shape.parse().expect("a shape");
    OpenStripe::new(shape, 100)
}

fn put(stripe: &mut OpenStripe<u32>, data_index: usize, purpose: u32) -> (Append, Vec<Share>) {
    stripe.append(data_index, 10, purpose).1.fill(purpose as u8);
    (stripe.flush(0).expect("a pending operation"), stripe.shares().to_vec())
}

fn share(member: usize, previous: u32, stable: u32) -> Share {
    Share { member, previous: OpNumber(previous), stable: OpNumber(stable) }
}

fn confirmed(items: Vec<Item<u32>>) -> Vec<u32> {
    items.into_iter().map(|item| item.purpose).collect()
}

#[test]
fn an_operation_is_confirmed_by_its_data_node_and_every_parity() {
    let mut stripe = stripe();
    put(&mut stripe, 0, 1);
    for member in [0, PARITY[0]] {
        assert!(stripe.acknowledge(member, OpNumber(1)).is_empty());
    }
    assert_eq!(confirmed(stripe.acknowledge(PARITY[1], OpNumber(1))), [1]);
    assert_eq!(stripe.stable, OpNumber(1));
}

#[test]
fn nothing_is_confirmed_before_enough_members_have_their_chunks() {
    let mut stripe = stripe_of("rs:2+2");
    put(&mut stripe, 0, 1);
    for member in [0, PARITY[0], PARITY[1]] {
        assert!(stripe.acknowledge(member, OpNumber(1)).is_empty());
    }
    assert_eq!(confirmed(stripe.open(1)), [1]);
    let mut stripe = stripe_of("rs:4+2");
    put(&mut stripe, 0, 1);
    for member in [0, 4, 5] {
        assert!(stripe.acknowledge(member, OpNumber(1)).is_empty());
    }
    assert!(stripe.open(1).is_empty());
    assert_eq!(confirmed(stripe.open(2)), [1], "all but one");
}

#[test]
fn a_laggard_blocks_stability_but_not_the_confirmation_of_others() {
    let mut stripe = stripe();
    put(&mut stripe, 0, 1);
    let (_, shares) = put(&mut stripe, 1, 2);
    assert!(shares.iter().all(|share| share.stable == OpNumber(0)));
    stripe.acknowledge(1, OpNumber(2));
    stripe.acknowledge(PARITY[0], OpNumber(2));
    assert_eq!(confirmed(stripe.acknowledge(PARITY[1], OpNumber(2))), [2]);
    assert_eq!(stripe.stable, OpNumber(0), "operation 1 is not held by its data node");
    stripe.invariant_only_the_confirmed_prefix_is_stable();
    assert_eq!(stripe.laggards(1), [0]);
    assert_eq!(confirmed(stripe.acknowledge(0, OpNumber(1))), [1]);
    assert_eq!(stripe.stable, OpNumber(2));
}

#[test]
fn appends_name_the_participants_previous_operation() {
    let mut stripe = stripe();
    put(&mut stripe, 0, 1);
    put(&mut stripe, 1, 2);
    let (third, shares) = put(&mut stripe, 0, 3);
    assert_eq!((third.op, third.offset), (OpNumber(3), 10));
    assert_eq!(shares, [share(0, 1, 0), share(2, 2, 0), share(3, 2, 0)]);
}

#[test]
fn a_local_parity_hears_of_its_own_operations_only() {
    let mut stripe = opened("lrc:4+2+1");
    put(&mut stripe, 0, 1);
    put(&mut stripe, 2, 2);
    let (_, shares) = put(&mut stripe, 3, 3);
    assert_eq!(shares, [share(3, 0, 0), share(5, 2, 0), share(6, 2, 0)]);
    for (member, op) in [(0, 1), (4, 1), (2, 2), (3, 3), (5, 3)] {
        assert!(stripe.acknowledge(member, OpNumber(op)).is_empty(), "the global parity holds nothing yet");
    }
    assert_eq!(confirmed(stripe.acknowledge(6, OpNumber(2))), [1, 2]);
    stripe.invariant_only_the_confirmed_prefix_is_stable();
    let (_, shares) = put(&mut stripe, 1, 4);
    assert_eq!(shares, [share(1, 0, 0), share(4, 1, 1), share(6, 3, 2)]);
    assert_eq!(stripe.stable_untold(9, 10), []);
    let untold = [(0, 1), (2, 2), (5, 2)].map(|(member, op)| (member, OpNumber(op)));
    assert_eq!(stripe.stable_untold(10, 10), untold, "the others know");
    assert_eq!((4..7).map(|parity| stripe.member_last(parity).0).collect::<Vec<_>>(), [4, 3, 4]);
    assert_eq!(stripe.laggards(1), [1, 4, 6]);
}

#[test]
fn records_of_one_turn_share_an_operation() {
    let mut stripe = stripe();
    stripe.append(0, 10, 1);
    assert!(!stripe.needs_flush(0, 10, 100));
    stripe.append(0, 10, 2);
    assert!(stripe.needs_flush(1, 10, 100) && stripe.needs_flush(0, 10, 25));
    assert_eq!(stripe.flush(0).map(|append| append.length), Some(20));
    assert_eq!(confirmed(stripe.take_unconfirmed()), [1, 2]);
}

#[test]
fn a_hampered_chunk_takes_nothing_if_another_can() {
    let mut stripe = stripe();
    stripe.set_hampered(ChunkSet::of(0));
    assert_eq!(stripe.room_for(10), Some(1));
    (0..10).for_each(|purpose| _ = put(&mut stripe, 1, purpose));
    assert_eq!((stripe.room_for(10), stripe.chunks_with_room(10).next()), (None, Some(0)));
    stripe.set_hampered(ChunkSet::EMPTY);
    assert_eq!(stripe.room_for(10), Some(0));
}

#[test]
fn an_operation_is_raced_once_and_knows_whom_it_waits_for() {
    let mut stripe = stripe();
    put(&mut stripe, 0, 1);
    put(&mut stripe, 1, 2);
    stripe.acknowledge(0, OpNumber(1));
    stripe.acknowledge(PARITY[0], OpNumber(2));
    let first = stripe.next_to_race().expect("operation 1 lacks a parity");
    assert_eq!(first.laggards.as_slice(), [PARITY[1]]);
    let (items, bytes) = stripe.begin_race().expect("operation 1");
    assert_eq!((items.len(), bytes), (1, vec![1; 10]));
    stripe.set_purposes(items[0].data_index, items[0].offset, &[7]);
    assert_eq!(stripe.next_to_race().expect("operation 2").laggards.as_slice(), [1, PARITY[1]]);
    assert_eq!(confirmed(stripe.acknowledge(PARITY[1], OpNumber(2))), [7], "operation 2 lacks its data node");
    stripe.invariant_only_the_confirmed_prefix_is_stable();
    assert_eq!(confirmed(stripe.take_unconfirmed()), [2]);
}

#[test]
fn an_operation_that_all_hold_waits_for_the_members_without_their_chunk() {
    let mut stripe = stripe_of("rs:4+2");
    put(&mut stripe, 0, 1);
    let laggards = |stripe: &OpenStripe<u32>| stripe.next_to_race().expect("operation 1").laggards;
    assert_eq!(laggards(&stripe).as_slice(), [0, 4, 5], "its participants");
    for member in [0, 4, 5] {
        assert!(stripe.acknowledge(member, OpNumber(1)).is_empty(), "three have their chunk");
    }
    assert_eq!(laggards(&stripe).as_slice(), [1, 2, 3]);
    stripe.open(3);
    assert_eq!(laggards(&stripe).as_slice(), [1, 2]);
    assert_eq!(confirmed(stripe.open(2)), [1], "one may be without");
    assert_eq!((stripe.next_to_race().is_none(), stripe.unopened().next()), (true, None));
}

#[test]
fn a_full_chunk_gives_way_to_the_next_and_a_full_stripe_to_none() {
    let mut stripe = stripe();
    for purpose in 0..10 {
        put(&mut stripe, 0, purpose);
    }
    assert_eq!(stripe.room_for(10), Some(1));
    for purpose in 0..10 {
        put(&mut stripe, 1, purpose);
    }
    assert_eq!(stripe.room_for(10), None);
}
