//! Reads of one string: GET and its relatives, GETEX and GETDEL included.

use serde::{Deserialize, Serialize};
use shorttail_units::UnixMs;
use shorttail_wire::resp::encode;

use super::Moment;
use crate::command::{Access, Effect, ObjectRef, Wants};
use crate::redis::error::CommandError;
use crate::redis::key_command::{Family, Miss, Scene, Verb};

/// Commands that answer with a string, or with part or length of one.
#[derive(Debug, Serialize, Deserialize)]
pub enum ReadVerb {
    Get,
    GetDelete,
    GetExpire(ExpiryChange),
    /// Both ends inclusive; negative ones count from the end.
    GetRange {
        start: i64,
        end: i64,
    },
    Length,
}

/// What GETEX does to the expiry.
#[derive(Debug, Serialize, Deserialize)]
pub enum ExpiryChange {
    Keep,
    Persist,
    Time(Moment),
    /// The time makes no sense; Redis says so only if the key exists.
    Invalid(CommandError),
}

impl From<ReadVerb> for Verb {
    fn from(verb: ReadVerb) -> Self {
        Verb::Read(verb)
    }
}

impl Family for ReadVerb {
    fn access(&self) -> Access {
        match self {
            ReadVerb::Get | ReadVerb::GetRange { .. } | ReadVerb::Length => Access::Read,
            ReadVerb::GetExpire(ExpiryChange::Keep) => Access::Read,
            ReadVerb::GetDelete | ReadVerb::GetExpire(_) => Access::Write,
        }
    }

    fn wants(&self) -> Wants {
        if matches!(self, ReadVerb::Length) { Wants::Metadata } else { Wants::Value }
    }

    fn miss(&self) -> Miss {
        if matches!(self, ReadVerb::Length | ReadVerb::GetRange { .. }) { Miss::Nothing } else { Miss::Told }
    }

    fn apply(&self, scene: Scene<'_>) -> Effect {
        let Some(object) = scene.current else {
            match self {
                ReadVerb::Length => encode::integer(scene.reply, 0),
                ReadVerb::GetRange { .. } => encode::bulk(scene.reply, b""),
                _ => encode::null(scene.reply, scene.protocol),
            }
            return Effect::Keep;
        };
        match self {
            ReadVerb::Length => {
                encode::count(scene.reply, object.value_bytes as u64);
                Effect::Keep
            }
            ReadVerb::GetRange { start, end } => {
                encode::bulk(scene.reply, range(object.value, *start, *end));
                Effect::Keep
            }
            ReadVerb::GetExpire(ExpiryChange::Invalid(error)) => {
                error.encode(scene.reply);
                Effect::Keep
            }
            ReadVerb::Get => answer(scene, object, Effect::Keep),
            ReadVerb::GetDelete => answer(scene, object, Effect::Delete),
            ReadVerb::GetExpire(change) => {
                let effect = change.effect(object, scene.context.now.unix_ms);
                answer(scene, object, effect)
            }
        }
    }
}

impl ExpiryChange {
    fn effect(&self, object: ObjectRef<'_>, now: UnixMs) -> Effect {
        let expiry = match self {
            ExpiryChange::Keep | ExpiryChange::Invalid(_) => return Effect::Keep,
            ExpiryChange::Persist => None,
            ExpiryChange::Time(time) => Some(time.resolve(now)),
        };
        if expiry.is_some_and(|at| at <= now) {
            return Effect::Delete;
        }
        let mut amendment = object.amendment();
        if amendment.expiry == expiry {
            return Effect::Keep;
        }
        amendment.expiry = expiry;
        Effect::Amend(amendment)
    }
}

fn answer(scene: Scene<'_>, object: ObjectRef<'_>, effect: Effect) -> Effect {
    encode::bulk(scene.reply, object.value);
    effect
}

/// The bytes from `start` to `end`, both inclusive.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let from_end = |index: i64| {
        let absolute = if index < 0 { index.saturating_add_unsigned(value.len() as u64).max(0) } else { index };
        usize::try_from(absolute).unwrap_or(usize::MAX)
    };
    let first = from_end(start);
    let after = from_end(end).saturating_add(1).min(value.len());
    value.get(first..after).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_are_cut_to_the_value() {
        for (start, end, expected) in [
            (0, -1, "hello"),
            (0, 0, "h"),
            (1, 3, "ell"),
            (-3, -1, "llo"),
            (-100, 100, "hello"),
            (5, 9, ""),
            (3, 1, ""),
            (-1, -3, ""),
            (-100, -90, "h"),
            (i64::MIN, i64::MAX, "hello"),
            (i64::MAX, i64::MAX, ""),
            (4, 4, "o"),
        ] {
            assert_eq!(range(b"hello", start, end), expected.as_bytes(), "{start}..={end}");
        }
        assert_eq!(range(b"", 0, -1), b"");
    }
}
