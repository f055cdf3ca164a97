//! What a client command may see and do: the one interface between the protocols and the engine.
//!
//! A command names one key. The engine calls [`Command::apply`] with the committed object while it holds the key's
//! lock; `apply` decides the effect and writes the reply, and the reply leaves only when the effect is durable
//! (rule R10). So a protocol verb is one pure function, and every engine (the real one, the map of the tests)
//! gives it the same atomicity.

use std::fmt;

use serde::{Deserialize, Serialize};
use shorttail_units::{Now, UnixMs, Version};

/// Bits that memcached's meta commands keep with an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes(pub u8);

impl Attributes {
    /// Invalidated by `md ... I`, still served as stale.
    pub const STALE: u8 = 1;
    /// The right to recache was already given to a client.
    pub const WIN_SENT: u8 = 2;
    /// Stored under a key that the client sent in base64, and echoed so.
    pub const KEY_BASE64: u8 = 4;
    /// Read in an earlier form, before it was counted up or down in place; or created by a read that vivified.
    pub const READ_BEFORE: u8 = 8;

    pub fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    pub fn with(self, bit: u8) -> Self {
        Attributes(self.0 | bit)
    }

    pub fn without(self, bit: u8) -> Self {
        Attributes(self.0 & !bit)
    }
}

/// A committed object, as a command sees it. Expired and flushed objects are never shown.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// Empty when the command wants [`Wants::Metadata`] only and the value lies elsewhere; see `value_bytes`.
    pub value: &'a [u8],
    /// Length of the value in bytes, also when `value` was not fetched.
    pub value_bytes: usize,
    pub flags: u32,
    /// `None`: never expires.
    pub expiry: Option<UnixMs>,
    /// The CAS token (memcached `gets`).
    pub cas: u64,
    pub attributes: Attributes,
    /// Was it read since it was stored?
    pub fetched: bool,
    /// Seconds since it was last read or stored (an upper bound when the engine no longer knows).
    pub idle_s: u32,
}

/// An object to be stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewObject {
    pub value: Vec<u8>,
    pub flags: u32,
    pub expiry: Option<UnixMs>,
    /// `None`: the version of this write is the CAS token.
    pub cas: Option<u64>,
    pub attributes: Attributes,
}

/// New metadata for an object whose value stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amendment {
    pub flags: u32,
    pub expiry: Option<UnixMs>,
    pub cas: u64,
    pub attributes: Attributes,
}

impl ObjectRef<'_> {
    /// The amendment that changes nothing; alter its fields.
    pub fn amendment(&self) -> Amendment {
        Amendment { flags: self.flags, expiry: self.expiry, cas: self.cas, attributes: self.attributes }
    }
}

/// What a command needs to see before it can decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wants {
    /// Nothing: an unconditional store. `apply` gets `None` even if there is an object, and must answer `Put`.
    Nothing,
    /// Whether the object exists, and its metadata.
    Metadata,
    /// The value too.
    Value,
}

/// What a command may do, told before it is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Never changes anything: runs beside writes that are in flight, on the committed object.
    Read,
    /// May change the object: runs under the key's lock.
    Write,
}

/// What a command does to its object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    Keep,
    Put(NewObject),
    Amend(Amendment),
    Delete,
}

/// Surroundings of one `apply`.
#[derive(Clone, Copy, Debug)]
pub struct ApplyContext {
    pub now: Now,
    /// The version that the write will have, and its CAS token unless the command sets another.
    pub version: Version,
}

/// Why the engine could not do what a command asked. Protocols turn it into their own error line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    #[error("out of memory storing object")]
    OutOfMemory,
    #[error("object too large for cache")]
    TooLarge,
    #[error("too few nodes are alive to store safely: {alive} of the {needed} needed")]
    TooFewNodes { alive: u16, needed: u16 },
    #[error("too many nodes failed: the object cannot be read now")]
    Unreadable,
    #[error("outcome unknown: the write was sent but not confirmed")]
    OutcomeUnknown,
    #[error("overloaded: too many requests in flight")]
    Overloaded,
    /// Nothing was done: nobody owns it, who does is not reached, or did not answer in time.
    #[error("no gateway answers for this now")]
    NotOwner,
}

/// A command of whatever protocol: so the engine is compiled once, and knows none.
pub type BoxCommand = Box<dyn Command + Send>;

/// One client verb on one key.
pub trait Command: fmt::Debug {
    fn key(&self) -> &[u8];
    fn access(&self) -> Access;
    fn wants(&self) -> Wants;

    /// Decides the effect and appends the reply to `reply`. Called at most once, unless the engine must look again
    /// (`reply` is then emptied first), so it must leave `self` able to answer the same again if it returns a `Put`.
    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect;

    /// Appends the reply for a command that could not be carried out.
    fn refuse(&self, error: StoreError, reply: &mut Vec<u8>);

    /// A read that takes no large value ([`LARGE_VALUE_BYTES`](crate::limits::LARGE_VALUE_BYTES)): itself as bytes, to
    /// be asked again when its connection has room for the value. `None`: it takes any.
    fn deferred(&self) -> Option<Vec<u8>> {
        None
    }

    /// Does reading with this command count as an access (eviction order, idle time)?
    fn touches(&self) -> bool {
        true
    }
}
