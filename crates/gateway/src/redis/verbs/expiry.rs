//! Expiry of one key: EXPIRE, TTL, PERSIST and their relatives.

use serde::{Deserialize, Serialize};
use shorttail_units::UnixMs;
use shorttail_wire::resp::encode;

use super::Moment;
use crate::command::{Access, Effect, ObjectRef, Wants};
use crate::redis::key_command::{Family, Miss, Scene, Verb};

/// Commands that read or change when a key expires.
#[derive(Debug, Serialize, Deserialize)]
pub enum ExpiryVerb {
    /// Expire at a time; a past one deletes.
    Expire {
        time: Moment,
        condition: ExpiryCondition,
    },
    Persist,
    /// Time left.
    Left(TimeUnit),
    /// Absolute time.
    Time(TimeUnit),
}

/// Unit of times that are told to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
}

/// When EXPIRE acts; all that are set must hold. A key without expiry counts as expiring never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ExpiryCondition {
    pub if_none: bool,
    pub if_any: bool,
    pub if_later: bool,
    pub if_earlier: bool,
}

impl From<ExpiryVerb> for Verb {
    fn from(verb: ExpiryVerb) -> Self {
        Verb::Expiry(verb)
    }
}

impl TimeUnit {
    /// `ms` in this unit, rounded to the nearest as Redis does.
    fn of_ms(self, ms: i64) -> i64 {
        match self {
            TimeUnit::Seconds => ms.saturating_add(500) / 1000,
            TimeUnit::Milliseconds => ms,
        }
    }
}

impl ExpiryCondition {
    fn holds(self, at_ms: i64, current_ms: Option<i64>) -> bool {
        let later = current_ms.is_some_and(|current| at_ms > current);
        let earlier = current_ms.is_none_or(|current| at_ms < current);
        !(self.if_none && current_ms.is_some()
            || self.if_any && current_ms.is_none()
            || self.if_later && !later
            || self.if_earlier && !earlier)
    }
}

impl Family for ExpiryVerb {
    fn access(&self) -> Access {
        match self {
            ExpiryVerb::Expire { .. } | ExpiryVerb::Persist => Access::Write,
            ExpiryVerb::Left(_) | ExpiryVerb::Time(_) => Access::Read,
        }
    }

    fn wants(&self) -> Wants {
        Wants::Metadata
    }

    /// Asking for the expiry is no access to the object.
    fn touches(&self) -> bool {
        self.access() == Access::Write
    }

    fn miss(&self) -> Miss {
        if self.access() == Access::Read { Miss::Told } else { Miss::Uncounted }
    }

    fn apply(&self, scene: Scene<'_>) -> Effect {
        let now = scene.context.now.unix_ms;
        let now_ms = i64::try_from(now.0).unwrap_or(i64::MAX);
        let expiry_ms = scene.current.and_then(expiry_ms);
        let (answer, effect) = match (self, scene.current) {
            (ExpiryVerb::Left(_) | ExpiryVerb::Time(_), None) => (-2, Effect::Keep),
            (ExpiryVerb::Left(unit), Some(_)) => {
                (expiry_ms.map_or(-1, |at| unit.of_ms((at - now_ms).max(0))), Effect::Keep)
            }
            (ExpiryVerb::Time(unit), Some(_)) => (expiry_ms.map_or(-1, |at| unit.of_ms(at)), Effect::Keep),
            (_, None) => (0, Effect::Keep),
            (ExpiryVerb::Persist, Some(object)) => match object.expiry {
                None => (0, Effect::Keep),
                Some(_) => (1, with_expiry(object, None)),
            },
            (ExpiryVerb::Expire { time, condition }, Some(object)) => {
                let at_ms = time.at_ms(now);
                if !condition.holds(at_ms, expiry_ms) {
                    (0, Effect::Keep)
                } else if at_ms <= now_ms {
                    (1, Effect::Delete)
                } else {
                    (1, with_expiry(object, Some(time.resolve(now))))
                }
            }
        };
        encode::integer(scene.reply, answer);
        effect
    }
}

fn expiry_ms(object: ObjectRef<'_>) -> Option<i64> {
    object.expiry.map(|at| i64::try_from(at.0).unwrap_or(i64::MAX))
}

fn with_expiry(object: ObjectRef<'_>, expiry: Option<UnixMs>) -> Effect {
    let mut amendment = object.amendment();
    amendment.expiry = expiry;
    Effect::Amend(amendment)
}
