//! What commands do to one key: pure functions from the committed object to an effect and a reply.
//!
//! Must not know: arguments, sessions; who applies them and when.

mod expiry;
mod keys;
mod moment;
mod numbers;
mod read;
mod write;

pub use expiry::{ExpiryCondition, ExpiryVerb, TimeUnit};
pub use keys::KeyVerb;
pub use moment::Moment;
pub use numbers::NumberVerb;
pub use read::{ExpiryChange, ReadVerb};
pub use write::{Condition, SetReply, StoreExpiry, WriteVerb};

use crate::command::{Attributes, NewObject, ObjectRef};

/// An object like `current`, but for its value: a change in place keeps flags and expiry.
fn with_value(current: Option<ObjectRef<'_>>, value: Vec<u8>) -> NewObject {
    let (flags, expiry) = current.map_or((0, None), |object| (object.flags, object.expiry));
    NewObject { value, flags, expiry, cas: None, attributes: Attributes::default() }
}
