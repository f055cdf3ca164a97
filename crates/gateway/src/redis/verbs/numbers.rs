//! Arithmetic on strings that spell numbers: INCR and its relatives.

use serde::{Deserialize, Serialize};
use shorttail_wire::resp::{encode, parse_i64};

use super::with_value;
use crate::command::{Access, Effect, Wants};
use crate::redis::error::CommandError;
use crate::redis::key_command::{Family, Scene, Verb};
use crate::redis::long_double::LongDouble;

/// Commands that add to a number; an absent key counts as 0.
#[derive(Debug, Serialize, Deserialize)]
pub enum NumberVerb {
    Add(i64),
    AddFloat(LongDouble),
}

impl From<NumberVerb> for Verb {
    fn from(verb: NumberVerb) -> Self {
        Verb::Number(verb)
    }
}

impl NumberVerb {
    pub(in crate::redis) fn is_well_formed(&self) -> bool {
        match self {
            NumberVerb::Add(_) => true,
            NumberVerb::AddFloat(increment) => increment.is_well_formed(),
        }
    }
}

impl Family for NumberVerb {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        Wants::Value
    }

    fn apply(&self, scene: Scene<'_>) -> Effect {
        let old = scene.current.map_or(&b"0"[..], |object| object.value);
        let sum = match self {
            NumberVerb::Add(increment) => add(old, *increment),
            NumberVerb::AddFloat(increment) => add_float(old, *increment),
        };
        let value = match sum {
            Ok(value) => value,
            Err(error) => {
                error.encode(scene.reply);
                return Effect::Keep;
            }
        };
        match self {
            NumberVerb::Add(_) => {
                scene.reply.push(b':');
                scene.reply.extend_from_slice(&value);
                scene.reply.extend_from_slice(b"\r\n");
            }
            NumberVerb::AddFloat(_) => encode::bulk(scene.reply, &value),
        }
        Effect::Put(with_value(scene.current, value))
    }
}

fn add(old: &[u8], increment: i64) -> Result<Vec<u8>, CommandError> {
    let old = parse_i64(old).ok_or(CommandError::NOT_AN_INTEGER)?;
    let sum = old.checked_add(increment).ok_or(CommandError::INTEGER_OVERFLOW)?;
    Ok(itoa::Buffer::new().format(sum).as_bytes().to_vec())
}

fn add_float(old: &[u8], increment: LongDouble) -> Result<Vec<u8>, CommandError> {
    let old = LongDouble::parse(old).ok_or(CommandError::NOT_A_FLOAT)?;
    let sum = old.checked_add(increment).ok_or(CommandError::NOT_FINITE)?;
    Ok(sum.format().into_bytes())
}
