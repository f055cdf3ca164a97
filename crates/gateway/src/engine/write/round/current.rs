//! The object as the next command of a round sees it.

use shorttail_units::Version;

use crate::command::{BoxCommand, Effect, ObjectRef, Wants};
use crate::engine::write::object::{Object, ObjectData};
use crate::request::Reply;

pub(super) enum Current {
    Unseen,
    Absent,
    Present(Object),
}

impl Current {
    /// Is enough known for a command that wants this?
    pub fn suffices(&self, wants: Wants) -> bool {
        match self {
            Current::Unseen => wants == Wants::Nothing,
            Current::Absent => true,
            Current::Present(object) => match &object.data {
                ObjectData::Striped { value: None, .. } => wants != Wants::Value,
                ObjectData::Striped { .. } | ObjectData::Inline(_) => true,
            },
        }
    }

    /// The reply to a read that takes no large value and meets one.
    pub fn deferred(&self, command: &BoxCommand) -> Option<Reply> {
        let Current::Present(object) = self else { return None };
        Reply::large(&**command, object.data.value_bytes())
    }

    pub fn shown(&self, command: &BoxCommand) -> Option<ObjectRef<'_>> {
        match self {
            Current::Present(object) if command.wants() != Wants::Nothing => Some(object.shown()),
            _ => None,
        }
    }

    pub fn after(self, effect: Effect, version: Version) -> Self {
        match (effect, self) {
            (Effect::Keep, current) => current,
            (Effect::Delete, _) => Current::Absent,
            (Effect::Put(new), _) => Current::Present(Object::new(new, version)),
            (Effect::Amend(amendment), Current::Present(object)) => Current::Present(Object {
                flags: amendment.flags,
                expiry: amendment.expiry,
                cas: amendment.cas,
                attributes: amendment.attributes,
                ..object
            }),
            (Effect::Amend(_), _) => unreachable!("only an object that was shown is amended"),
        }
    }
}
