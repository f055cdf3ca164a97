//! `-C`: every command runs as if objects had no CAS token, which then reads as 0 and is matched by none but 0.
//!
//! Deviation: a token that the client chose itself (`E` of the meta commands) still shows in the reply to that command.

use shorttail_units::Version;

use super::command::MemcachedCommand;
use crate::command::{ApplyContext, Command, Effect, ObjectRef};

/// Runs `command` with all tokens hidden.
pub(super) fn apply(
    command: &mut MemcachedCommand,
    current: Option<ObjectRef<'_>>,
    context: &ApplyContext,
    reply: &mut Vec<u8>,
) -> Effect {
    let hidden = current.map(|object| ObjectRef { cas: 0, ..object });
    let context = ApplyContext { version: Version::default(), ..*context };
    match command.apply(hidden, &context, reply) {
        Effect::Put(mut object) => {
            object.cas = None;
            Effect::Put(object)
        }
        Effect::Amend(mut amendment) => {
            amendment.cas = current.map_or(0, |object| object.cas);
            Effect::Amend(amendment)
        }
        effect @ (Effect::Keep | Effect::Delete) => effect,
    }
}
