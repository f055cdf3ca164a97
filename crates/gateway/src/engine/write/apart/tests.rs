//! Which groups go together, and what is told of the others.

use shorttail_policy::Policy;
use shorttail_units::CodeShape;

use super::*;
use crate::engine::Token;
use crate::engine::limits::KEY_QUEUE_MAX;
use crate::engine::state::index::Location;
use crate::engine::state::testing::engine_of_ready_nodes;
use crate::engine::write::round::{End, FinishedCommands};
use crate::request::{GroupPut, Reply, Request, RequestId};

fn engine() -> Engine {
    engine_of_ready_nodes(CodeShape::default(), 8)
}

/// Keys of one slot, with values of these lengths.
fn pairs(lengths: &[usize]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |number: usize| format!("{{t}}{number:04}").into_bytes();
    lengths.iter().enumerate().map(|(number, &length)| (key(number), vec![b'x'; length])).collect()
}

fn store(engine: &mut Engine, lengths: &[usize], only_if_absent: bool) -> Option<Reply> {
    let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
    let group = Request::Group(GroupPut { pairs: pairs(lengths), only_if_absent });
    engine.take_request(engine.now, token, group);
    reply(engine)
}

fn reply(engine: &mut Engine) -> Option<Reply> {
    engine.poll_reply(engine.now).map(|(_, reply)| reply)
}

/// Is it one operation, or a round for each pair?
fn is_together(engine: &Engine) -> bool {
    engine.groups.iter().next().expect("a group that waits").1.apart.is_none()
}

/// Bytes of a record beside those of its value.
fn extra_bytes() -> usize {
    let (key, value) = pairs(&[1_000]).remove(0);
    Record::object(&key, &value, Version::default()).longest_bytes() - 1_000
}

#[test]
fn what_is_packed_and_fits_into_an_operation_goes_together() {
    let packed = engine().config.packed_bytes_max() - extra_bytes();
    let chunk_bytes = engine().config.chunk_bytes;
    let many = chunk_bytes / (1_000 + extra_bytes());
    let rest = chunk_bytes - many * (1_000 + extra_bytes()) - extra_bytes();
    let full = [vec![1_000; many], vec![rest]].concat();
    let over = [vec![1_000; many], vec![rest + 1]].concat();
    for (lengths, goes_together) in
        [(vec![packed, 1], true), (vec![packed + 1, 1], false), (vec![33_000, 1], false), (full, true), (over, false)]
    {
        let mut engine = engine();
        assert_eq!(store(&mut engine, &lengths, false), None);
        assert_eq!(is_together(&engine), goes_together, "{lengths:?}");
        let refused = (!goes_together).then_some(Reply::Group(Err(StoreError::TooLarge)));
        assert_eq!(store(&mut self::engine(), &lengths, true), refused, "{lengths:?}");
    }
}

#[test]
fn where_small_objects_are_not_packed_only_what_must_be_is_stored_together() {
    let mut engine = engine();
    for policy in &mut engine.policies {
        *policy = Policy { small_write: SmallWrite::Replicate, ..Policy::default() };
    }
    assert_eq!(store(&mut engine, &[1, 2], false), None);
    assert!(!is_together(&engine));
    assert_eq!(engine.striped_writes.iter().count(), 2, "each is copied");
    assert_eq!(store(&mut engine, &[1, 2], true), None, "it waits for the keys");
    assert_eq!(engine.groups.iter().filter(|(_, group)| group.apart.is_none()).count(), 1);
}

#[test]
fn nobody_is_told_to_repeat_what_was_half_done() {
    let (full, unknown) = (StoreError::OutOfMemory, StoreError::OutcomeUnknown);
    for (ends, told) in [
        ([Ok(()), Ok(())], Ok(true)),
        ([Ok(()), Err(full)], Err(unknown)),
        ([Err(full), Ok(())], Err(unknown)),
        ([Err(full), Err(full)], Err(full)),
        ([Err(unknown), Err(full)], Err(unknown)),
        ([Err(full), Err(unknown)], Err(unknown)),
    ] {
        let mut engine = engine();
        assert_eq!(store(&mut engine, &[33_000, 33_000], false), None);
        let locks: Vec<_> = engine.locks.iter().map(|(lock, _)| lock).collect();
        for (lock, end) in locks.into_iter().zip(ends) {
            match end {
                Ok(()) => engine.finish_round(lock),
                Err(error) => engine.fail_round(lock, error),
            }
        }
        assert_eq!(reply(&mut engine), Some(Reply::Group(told)), "{ends:?}");
        engine.run_work();
        assert_eq!((engine.locks.iter().count(), engine.groups.iter().count()), (0, 0));
    }
}

#[test]
fn pairs_and_commands_meet_a_key_in_the_order_in_which_they_came() {
    let mut engine = engine();
    assert_eq!(store(&mut engine, &[33_000, 1], false), None);
    assert_eq!(store(&mut engine, &[2, 33_000], false), None);
    let locks: Vec<_> = engine.locks.iter().map(|(lock, _)| lock).collect();
    assert_eq!(locks.len(), 2, "the second group waits for both keys");
    locks.iter().for_each(|&lock| engine.finish_round(lock));
    assert_eq!(reply(&mut engine), Some(Reply::Group(Ok(true))));
    engine.run_work();
    assert_eq!(reply(&mut engine), None);
    locks.iter().for_each(|&lock| engine.finish_round(lock));
    assert_eq!(reply(&mut engine), Some(Reply::Group(Ok(true))));
}

/// Of what is given up some may be held.
#[test]
fn what_was_begun_is_unknown_once_the_owner_is_over() {
    let mut engine = engine();
    assert_eq!(store(&mut engine, &[33_000, 1], false), None);
    engine.give_up_all(engine.now);
    assert_eq!(reply(&mut engine), Some(Reply::Group(Err(StoreError::OutcomeUnknown))));
    assert_eq!(reply(&mut engine), None);
}

/// A key that nothing may change for now, or for which as many wait as may.
#[test]
fn a_group_waits_for_no_key_for_which_a_command_would_not() {
    let (full, unreadable) = (Err(StoreError::Overloaded), Err(StoreError::Unreadable));
    for (lengths, only_if_absent) in [([1, 1], false), ([1, 1], true), ([33_000, 33_000], false)] {
        for told in [full, unreadable] {
            let mut engine = engine();
            let (key, _) = pairs(&lengths).remove(0);
            let round = Round::new(FinishedCommands::new(), End::Delete, Version::default(), Old::Unreadable);
            let confirmed = (told == unreadable).then_some((Location { chunk_number: 0, offset: 0 }, 9));
            let phase = LockPhase::Writing(Box::new(Round { confirmed, ..round }));
            let lock = engine.locks.insert(engine.key_ref(&key), phase);
            let waiting = if told == full { KEY_QUEUE_MAX } else { 0 };
            let nobody = (0..waiting).map(|_| Waiting::Group(PoolKey::from_raw(u64::MAX)));
            engine.locks.get_mut(lock).expect("just inserted").queue.extend(nobody);
            let is_apart = lengths[0] > 1;
            let expected = (!is_apart).then_some(Reply::Group(told));
            assert_eq!(store(&mut engine, &lengths, only_if_absent), expected);
            assert_eq!(engine.locks.get(lock).expect("it stays").queue.len(), waiting, "it does not wait");
            if is_apart {
                let (other, _) = engine.locks.iter().find(|&(other, _)| other != lock).expect("the other key");
                engine.finish_round(other);
                assert_eq!(reply(&mut engine), Some(Reply::Group(Err(StoreError::OutcomeUnknown))));
            }
        }
    }
}
