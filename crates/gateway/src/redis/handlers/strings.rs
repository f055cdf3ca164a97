//! Commands on one string.

use crate::redis::error::CommandError;
use crate::redis::long_double::LongDouble;
use crate::redis::plan::{Call, Handled};
use crate::redis::verbs::{
    Condition, ExpiryChange, Moment, NumberVerb, ReadVerb, SetReply, StoreExpiry, TimeUnit, WriteVerb,
};

pub fn get(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ReadVerb::Get)
}

pub fn getdel(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ReadVerb::GetDelete)
}

pub fn getex(call: &mut Call<'_>) -> Handled {
    let options = parse_options(call, 2, Dialect::GetEx)?;
    let change = match options.expiry {
        Some(Expiry::Persist) => ExpiryChange::Persist,
        Some(Expiry::Time(time)) => match time.resolve(call) {
            Ok(time) => ExpiryChange::Time(time),
            Err(error) => ExpiryChange::Invalid(error),
        },
        Some(Expiry::Keep) | None => ExpiryChange::Keep,
    };
    call.on_key(1, ReadVerb::GetExpire(change))
}

pub fn strlen(call: &mut Call<'_>) -> Handled {
    call.on_key(1, ReadVerb::Length)
}

/// GETRANGE, and its old name SUBSTR.
pub fn getrange(call: &mut Call<'_>) -> Handled {
    let verb = ReadVerb::GetRange { start: call.integer(2)?, end: call.integer(3)? };
    call.on_key(1, verb)
}

pub fn set(call: &mut Call<'_>) -> Handled {
    if call.args.len() == 3 {
        return store(call, 2, StoreExpiry::Never, Condition::Always, SetReply::Status);
    }
    let options = parse_options(call, 3, Dialect::Set)?;
    let expiry = match options.expiry {
        Some(Expiry::Time(time)) => StoreExpiry::Time(time.resolve(call)?),
        Some(Expiry::Keep) => StoreExpiry::Keep,
        Some(Expiry::Persist) | None => StoreExpiry::Never,
    };
    let reply = if options.get { SetReply::OldValue } else { SetReply::Status };
    store(call, 2, expiry, options.condition, reply)
}

pub fn setnx(call: &mut Call<'_>) -> Handled {
    store(call, 2, StoreExpiry::Never, Condition::IfAbsent, SetReply::Count)
}

pub fn getset(call: &mut Call<'_>) -> Handled {
    store(call, 2, StoreExpiry::Never, Condition::Always, SetReply::OldValue)
}

pub fn setex(call: &mut Call<'_>) -> Handled {
    store_for(call, TimeUnit::Seconds)
}

pub fn psetex(call: &mut Call<'_>) -> Handled {
    store_for(call, TimeUnit::Milliseconds)
}

fn store_for(call: &mut Call<'_>, unit: TimeUnit) -> Handled {
    let time = Time { index: 2, unit, absolute: false }.resolve(call)?;
    store(call, 3, StoreExpiry::Time(time), Condition::Always, SetReply::Status)
}

fn store(
    call: &mut Call<'_>,
    value_index: usize,
    expiry: StoreExpiry,
    condition: Condition,
    reply: SetReply,
) -> Handled {
    call.shared.counters.set_commands += 1;
    let value = call.value(value_index)?;
    call.on_key(1, WriteVerb::Set { value, expiry, condition, reply })
}

pub fn append(call: &mut Call<'_>) -> Handled {
    let value_bytes_max = call.settings().value_bytes_max;
    let verb = WriteVerb::Append { tail: call.value(2)?, value_bytes_max };
    call.on_key(1, verb)
}

pub fn setrange(call: &mut Call<'_>) -> Handled {
    let offset = usize::try_from(call.integer(2)?).map_err(|_| CommandError::OFFSET_RANGE)?;
    let value_bytes_max = call.settings().value_bytes_max;
    let verb = WriteVerb::SetRange { offset, patch: call.value(3)?, value_bytes_max };
    call.on_key(1, verb)
}

pub fn incr(call: &mut Call<'_>) -> Handled {
    call.on_key(1, NumberVerb::Add(1))
}

pub fn decr(call: &mut Call<'_>) -> Handled {
    call.on_key(1, NumberVerb::Add(-1))
}

pub fn incrby(call: &mut Call<'_>) -> Handled {
    call.on_key(1, NumberVerb::Add(call.integer(2)?))
}

pub fn decrby(call: &mut Call<'_>) -> Handled {
    let increment = call.integer(2)?.checked_neg().ok_or(CommandError::DECREMENT_OVERFLOW)?;
    call.on_key(1, NumberVerb::Add(increment))
}

pub fn incrbyfloat(call: &mut Call<'_>) -> Handled {
    let increment = LongDouble::parse(&call.args[2]).ok_or(CommandError::NOT_A_FLOAT)?;
    call.on_key(1, NumberVerb::AddFloat(increment))
}

/// Which command's options are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Set,
    GetEx,
}

struct Options {
    condition: Condition,
    get: bool,
    expiry: Option<Expiry>,
}

/// What the options say of the expiry; at most one kind.
#[derive(Clone, Copy)]
enum Expiry {
    Keep,
    Persist,
    Time(Time),
}

/// A time among the arguments, not looked at yet: syntax errors come first.
#[derive(Clone, Copy)]
struct Time {
    index: usize,
    unit: TimeUnit,
    absolute: bool,
}

impl Time {
    /// What it says.
    ///
    /// # Errors
    /// If it is no integer, not positive, or beyond what 64 bits of milliseconds hold.
    fn resolve(self, call: &Call<'_>) -> Result<Moment, CommandError> {
        let moment = call.moment(self.index, self.unit, self.absolute)?.filter(|moment| moment.is_positive());
        moment.ok_or_else(|| CommandError::expire_time(call.spec.name))
    }
}

fn parse_options(call: &Call<'_>, start: usize, dialect: Dialect) -> Result<Options, CommandError> {
    let mut options = Options { condition: Condition::Always, get: false, expiry: None };
    let mut index = start;
    while index < call.args.len() {
        let set = dialect == Dialect::Set;
        if set && call.is(index, "NX") && options.condition != Condition::IfPresent {
            options.condition = Condition::IfAbsent;
        } else if set && call.is(index, "XX") && options.condition != Condition::IfAbsent {
            options.condition = Condition::IfPresent;
        } else if set && call.is(index, "GET") {
            options.get = true;
        } else if set && call.is(index, "KEEPTTL") && matches!(options.expiry, None | Some(Expiry::Keep)) {
            options.expiry = Some(Expiry::Keep);
        } else if !set && call.is(index, "PERSIST") && matches!(options.expiry, None | Some(Expiry::Persist)) {
            options.expiry = Some(Expiry::Persist);
        } else {
            let time = parse_time(call, index).filter(|time| time.may_follow(options.expiry));
            options.expiry = Some(Expiry::Time(time.ok_or(CommandError::SYNTAX)?));
            index += 1;
        }
        index += 1;
    }
    Ok(options)
}

impl Time {
    /// The same option may be given again; the last one counts.
    fn may_follow(self, earlier: Option<Expiry>) -> bool {
        match earlier {
            None => true,
            Some(Expiry::Time(time)) => time.unit == self.unit && time.absolute == self.absolute,
            Some(Expiry::Keep | Expiry::Persist) => false,
        }
    }
}

/// The time option at `index`, if its argument follows.
fn parse_time(call: &Call<'_>, index: usize) -> Option<Time> {
    let kinds = [
        ("EX", TimeUnit::Seconds, false),
        ("PX", TimeUnit::Milliseconds, false),
        ("EXAT", TimeUnit::Seconds, true),
        ("PXAT", TimeUnit::Milliseconds, true),
    ];
    let (_, unit, absolute) = kinds.into_iter().find(|(word, ..)| call.is(index, word))?;
    (index + 1 < call.args.len()).then_some(Time { index: index + 1, unit, absolute })
}
