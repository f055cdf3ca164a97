//! Commands on several keys: MGET, MSET, DEL and their relatives.

use std::collections::BTreeMap;

use shorttail_units::Slot;

use crate::limits::GROUP_BYTES_MAX;
use crate::redis::error::CommandError;
use crate::redis::fanout::EachKey;
use crate::redis::plan::{Call, Handled, Plan};
use crate::request::GroupPut;

pub fn mget(call: &mut Call<'_>) -> Handled {
    each_key(call, EachKey::Get)
}

/// DEL, and UNLINK: memory is always reclaimed later.
pub fn del(call: &mut Call<'_>) -> Handled {
    each_key(call, EachKey::Delete)
}

pub fn exists(call: &mut Call<'_>) -> Handled {
    each_key(call, EachKey::Exists)
}

pub fn touch(call: &mut Call<'_>) -> Handled {
    each_key(call, EachKey::Touch)
}

fn each_key(call: &mut Call<'_>, each: EachKey) -> Handled {
    let key_bytes_max = call.settings().key_bytes_max;
    if call.args.skip(1).iter().any(|key| key.len() > key_bytes_max) {
        return Err(CommandError::KEY_TOO_LARGE);
    }
    Ok(Plan::EachKey(each))
}

/// All at once if the keys share a hash slot and there is not too much, one by one otherwise.
pub fn mset(call: &mut Call<'_>) -> Handled {
    check_pairs(call)?;
    if call.args.len() > 3 && share_slot(call) && fit_together(call) {
        return Ok(Plan::Group(group(call, false)));
    }
    Ok(Plan::EachKey(EachKey::Store))
}

pub fn msetnx(call: &mut Call<'_>) -> Handled {
    check_pairs(call)?;
    if !share_slot(call) {
        return Err(CommandError::CROSS_SLOT);
    }
    if !fit_together(call) {
        return Err(CommandError::TOO_LARGE_TOGETHER);
    }
    Ok(Plan::Group(group(call, true)))
}

fn fit_together(call: &Call<'_>) -> bool {
    call.args.skip(1).iter().map(<[u8]>::len).sum::<usize>() <= GROUP_BYTES_MAX
}

fn check_pairs(call: &mut Call<'_>) -> Result<(), CommandError> {
    if call.args.len().is_multiple_of(2) {
        return Err(CommandError::arity(call.spec.name));
    }
    call.shared.counters.set_commands += call.args.len() as u64 / 2;
    let (key_bytes_max, value_bytes_max) = (call.settings().key_bytes_max, call.settings().value_bytes_max);
    for (index, arg) in call.args.skip(1).iter().enumerate() {
        if index % 2 == 0 && arg.len() > key_bytes_max {
            return Err(CommandError::KEY_TOO_LARGE);
        }
        if index % 2 == 1 && arg.len() > value_bytes_max {
            return Err(CommandError::TOO_LARGE);
        }
    }
    Ok(())
}

fn share_slot(call: &Call<'_>) -> bool {
    let slot = Slot::of_key(&call.args[1]);
    call.args.skip(1).iter().step_by(2).all(|key| Slot::of_key(key) == slot)
}

/// The pairs, each key once: the last value counts.
fn group(call: &Call<'_>, only_if_absent: bool) -> GroupPut {
    let args = call.args.skip(1);
    let pairs: BTreeMap<_, _> = args.iter().step_by(2).zip(args.skip(1).iter().step_by(2)).collect();
    let pairs = pairs.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    GroupPut { pairs, only_if_absent }
}
