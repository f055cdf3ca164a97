//! Commands on the expiry of one key.

use crate::redis::error::CommandError;
use crate::redis::plan::{Call, Handled};
use crate::redis::verbs::{ExpiryCondition, ExpiryVerb, TimeUnit};

pub fn expire(call: &mut Call<'_>) -> Handled {
    expire_by(call, TimeUnit::Seconds, false)
}

pub fn pexpire(call: &mut Call<'_>) -> Handled {
    expire_by(call, TimeUnit::Milliseconds, false)
}

pub fn expireat(call: &mut Call<'_>) -> Handled {
    expire_by(call, TimeUnit::Seconds, true)
}

pub fn pexpireat(call: &mut Call<'_>) -> Handled {
    expire_by(call, TimeUnit::Milliseconds, true)
}

pub fn ttl(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ExpiryVerb::Left(TimeUnit::Seconds))
}

pub fn pttl(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ExpiryVerb::Left(TimeUnit::Milliseconds))
}

pub fn expiretime(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ExpiryVerb::Time(TimeUnit::Seconds))
}

pub fn pexpiretime(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ExpiryVerb::Time(TimeUnit::Milliseconds))
}

pub fn persist(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ExpiryVerb::Persist)
}

fn expire_by(call: &mut Call<'_>, unit: TimeUnit, is_absolute: bool) -> Handled {
    call.shared.counters.touch_commands += 1;
    let condition = parse_condition(call)?;
    let time = call.moment(2, unit, is_absolute)?.ok_or_else(|| CommandError::expire_time(call.spec.name))?;
    call.on_key(1, ExpiryVerb::Expire { time, condition })
}

fn parse_condition(call: &Call<'_>) -> Result<ExpiryCondition, CommandError> {
    let mut condition = ExpiryCondition::default();
    for index in 3..call.args.len() {
        let option = if call.is(index, "NX") {
            &mut condition.if_none
        } else if call.is(index, "XX") {
            &mut condition.if_any
        } else if call.is(index, "GT") {
            &mut condition.if_later
        } else if call.is(index, "LT") {
            &mut condition.if_earlier
        } else {
            let shown = super::echoed(&call.args[index], usize::MAX);
            // Redis takes away the ends of lines that an error would end with.
            let ends = shown.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let shown = &shown[..shown.len() - ends];
            return Err(CommandError::owned([b"ERR Unsupported option ", shown].concat()));
        };
        *option = true;
    }
    if condition.if_none && (condition.if_any || condition.if_later || condition.if_earlier) {
        return Err(CommandError::fixed("ERR NX and XX, GT or LT options at the same time are not compatible"));
    }
    if condition.if_later && condition.if_earlier {
        return Err(CommandError::fixed("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(condition)
}
