//! Objects in the hands of a round, and what has to be known of the records that they replace.
//!
//! Must not know: why a record is read or written.

use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{UnixMs, Version};

use super::manifest::Manifest;
use crate::command::{Attributes, NewObject, ObjectRef};
use crate::engine::state::index::Location;

/// The value of an object, or where it is.
#[derive(Clone, Debug)]
pub enum ObjectData {
    Inline(Vec<u8>),
    /// `value`: once it was fetched.
    Striped {
        manifest: Manifest,
        value: Option<Vec<u8>>,
    },
}

impl ObjectData {
    pub fn value_bytes(&self) -> usize {
        match self {
            ObjectData::Inline(value) => value.len(),
            ObjectData::Striped { manifest, .. } => manifest.value_bytes,
        }
    }
}

/// An object in the hands of a round.
#[derive(Clone, Debug)]
pub struct Object {
    pub data: ObjectData,
    pub flags: u32,
    pub expiry: Option<UnixMs>,
    /// Token that clients see.
    pub cas: u64,
    pub attributes: Attributes,
    pub fetched: bool,
    pub idle_s: u32,
}

impl Object {
    /// What a write of this version stores.
    pub fn new(new: NewObject, version: Version) -> Self {
        Object {
            data: ObjectData::Inline(new.value),
            flags: new.flags,
            expiry: new.expiry,
            cas: new.cas.unwrap_or(version.raw()),
            attributes: new.attributes,
            fetched: false,
            idle_s: 0,
        }
    }

    pub(super) fn record<'a>(&self, kind: RecordKind, key: &'a [u8], value: &'a [u8], version: Version) -> Record<'a> {
        Record {
            kind,
            version,
            expiry: self.expiry,
            flags: self.flags,
            cas: (self.cas != version.raw()).then_some(self.cas),
            attributes: self.attributes.0,
            key,
            value,
        }
    }

    pub(super) fn shown(&self) -> ObjectRef<'_> {
        let value = match &self.data {
            ObjectData::Inline(value) => value.as_slice(),
            ObjectData::Striped { value, .. } => value.as_deref().unwrap_or(&[]),
        };
        ObjectRef {
            value,
            value_bytes: self.data.value_bytes(),
            flags: self.flags,
            expiry: self.expiry,
            cas: self.cas,
            attributes: self.attributes,
            fetched: self.fetched,
            idle_s: self.idle_s,
        }
    }
}

/// The committed record of a key, as far as it matters for replacing it.
#[derive(Clone, Debug)]
pub struct OldRecord {
    pub location: Location,
    pub version: Version,
    pub record_bytes: usize,
    /// Bytes of the record, and of a striped value.
    pub object_bytes: u64,
    /// The stripes that hold its value, if it is striped.
    pub manifest: Option<Manifest>,
}

impl OldRecord {
    /// What is to be known of the record that lies there.
    pub fn of(record: &Record<'_>, location: Location, record_bytes: usize) -> Self {
        let manifest = Manifest::of(record);
        let striped_bytes = manifest.as_ref().map_or(0, |manifest| manifest.value_bytes);
        OldRecord {
            location,
            version: record.version,
            record_bytes,
            object_bytes: (record_bytes + striped_bytes) as u64,
            manifest,
        }
    }
}
