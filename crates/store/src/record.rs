//! Records: how an object lies in a packed chunk.
//!
//! ```text
//! u8      fields: bits 0-1 kind, 2 expiry, 3 flags, 4 cas, 5 attributes, 6 full version, 7 always 1
//! varint  key bytes
//! varint  value bytes
//! u32     CRC32C of the stripe's id and the whole record but these four bytes
//! u32     counter of the version, or u64 the whole version when its epoch is not the stripe's or the counter is longer
//! u48     expiry, milliseconds since the Unix epoch    (if bit 2)
//! u32     client flags                                 (if bit 3)
//! u64     CAS token other than the version             (if bit 4)
//! u8      attributes                                   (if bit 5)
//! ...     key, value
//! ```
//!
//! The smallest object costs 11 bytes beside key and value. A zero byte is never the start of a record, so the
//! unused tail of a chunk ends a walk. A record checks itself, and that it is of the stripe: a mismatch is an
//! erasure, never an answer.

use shorttail_units::{Epoch, StripeId, UnixMs, Version};
use shorttail_wire::crc32c_of;

/// What a record says about its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The value follows.
    Object,
    /// The value is a manifest of the stripes that hold the real value.
    Manifest,
    /// The key was deleted; the value is the horizon (see rule R3 in the owner engine).
    Tombstone,
    /// Something about the partition, not about a key: see [`Control`]. The key is empty.
    Control,
}

/// The value of a control record: a type byte and one or two 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Every object of the partition below this version is gone (flush_all). `horizon`: as of a tombstone.
    Floor { floor: Version, horizon: StripeId },
    /// A flush_all that takes effect later.
    FlushDue(UnixMs),
    /// The stripe was emptied and is being freed: nothing in it counts any more.
    Void(StripeId),
}

impl Control {
    pub fn encode(self) -> Vec<u8> {
        let (kind, numbers) = match self {
            Control::Floor { floor, horizon } => (0, vec![floor.raw(), horizon.raw()]),
            Control::FlushDue(at) => (1, vec![at.0]),
            Control::Void(stripe) => (2, vec![stripe.raw()]),
        };
        std::iter::once(kind).chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    pub fn parse(value: &[u8]) -> Option<Self> {
        let (kind, numbers) = value.split_first()?;
        let number = |place: usize| {
            let bytes = numbers.get(place * 8..place * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        match kind {
            0 => Some(Control::Floor { floor: Version::from_raw(number(0)?), horizon: StripeId::from_raw(number(1)?) }),
            1 => Some(Control::FlushDue(UnixMs(number(0)?))),
            2 => Some(Control::Void(StripeId::from_raw(number(0)?))),
            _ => None,
        }
    }
}

/// A record, borrowed from where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub kind: RecordKind,
    pub version: Version,
    pub expiry: Option<UnixMs>,
    pub flags: u32,
    /// `None`: the version is the token.
    pub cas: Option<u64>,
    pub attributes: u8,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Why bytes are not a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the bytes end inside the record")]
    Short,
    #[error("no record begins here")]
    NoRecord,
    #[error("the checksum does not hold")]
    Checksum,
}

const KIND_MASK: u8 = 3;
const HAS_EXPIRY: u8 = 1 << 2;
const HAS_FLAGS: u8 = 1 << 3;
const HAS_CAS: u8 = 1 << 4;
const HAS_ATTRIBUTES: u8 = 1 << 5;
const FULL_VERSION: u8 = 1 << 6;
const PRESENT: u8 = 1 << 7;

/// Most bytes that can precede the key: enough to learn a record's whole length.
#[cfg(test)]
const RECORD_HEADER_BYTES_MAX: usize = 1 + 5 + 5 + 4 + 8 + 6 + 4 + 8 + 1;

/// Bytes of a version whose epoch is the stripe's and whose counter fits: four thousand million writes of an owner.
const SHORT_VERSION_BYTES: usize = 4;

fn is_short(version: Version, stripe_epoch: Epoch) -> bool {
    version.raw() >> (8 * SHORT_VERSION_BYTES) == u64::from(stripe_epoch.0) << (Version::COUNTER_BITS - 32)
}

impl<'a> Record<'a> {
    pub fn object(key: &'a [u8], value: &'a [u8], version: Version) -> Self {
        Record { kind: RecordKind::Object, version, expiry: None, flags: 0, cas: None, attributes: 0, key, value }
    }

    /// `horizon`: the bytes of a stripe's id.
    pub fn tombstone(key: &'a [u8], horizon: &'a [u8; 8], version: Version) -> Self {
        Record { kind: RecordKind::Tombstone, ..Record::object(key, horizon, version) }
    }

    /// `value`: of a [`Control`].
    pub fn control(value: &'a [u8], version: Version) -> Self {
        Record { kind: RecordKind::Control, ..Record::object(b"", value, version) }
    }

    /// The CAS token that a client sees.
    pub fn cas_token(&self) -> u64 {
        self.cas.unwrap_or(self.version.raw())
    }

    fn fields(&self, stripe_epoch: Epoch) -> u8 {
        let kind = match self.kind {
            RecordKind::Object => 0,
            RecordKind::Manifest => 1,
            RecordKind::Tombstone => 2,
            RecordKind::Control => 3,
        };
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        PRESENT
            | kind
            | bit(self.expiry.is_some(), HAS_EXPIRY)
            | bit(self.flags != 0, HAS_FLAGS)
            | bit(self.cas.is_some(), HAS_CAS)
            | bit(self.attributes != 0, HAS_ATTRIBUTES)
            | bit(!is_short(self.version, stripe_epoch), FULL_VERSION)
    }

    /// Length in bytes once encoded in a stripe of `stripe_epoch`.
    pub fn encoded_bytes(&self, stripe_epoch: Epoch) -> usize {
        self.bytes_of(self.fields(stripe_epoch))
    }

    /// Length in bytes in a stripe of any epoch, at most: the owners to come move the record to stripes of theirs.
    pub fn longest_bytes(&self) -> usize {
        self.bytes_of(self.fields(self.version.epoch()) | FULL_VERSION)
    }

    fn bytes_of(&self, fields: u8) -> usize {
        let fixed = 1 + varint_bytes(self.key.len()) + varint_bytes(self.value.len()) + 4;
        fixed + after_crc_bytes(fields) + self.key.len() + self.value.len()
    }

    /// Writes the record as one of `stripe` at the front of `out`, which has exactly [`Record::encoded_bytes`].
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn encode(&self, stripe: StripeId, out: &mut [u8]) {
        let fields = self.fields(stripe.epoch());
        let mut writer = Writer { out, at: 0 };
        writer.put(&[fields]);
        writer.put_varint(self.key.len());
        writer.put_varint(self.value.len());
        let crc_at = writer.at;
        writer.put(&[0; 4]);
        let version_bytes = if fields & FULL_VERSION != 0 { 8 } else { SHORT_VERSION_BYTES };
        writer.put(&self.version.raw().to_le_bytes()[..version_bytes]);
        if let Some(expiry) = self.expiry {
            writer.put(&expiry.0.min((1 << 48) - 1).to_le_bytes()[..6]);
        }
        if self.flags != 0 {
            writer.put(&self.flags.to_le_bytes());
        }
        if let Some(cas) = self.cas {
            writer.put(&cas.to_le_bytes());
        }
        if self.attributes != 0 {
            writer.put(&[self.attributes]);
        }
        writer.put(self.key);
        writer.put(self.value);
        assert_eq!(writer.at, out.len(), "the record fills its place");
        let crc = checksum(stripe, out, crc_at);
        out[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Has its lifetime ended?
    pub fn is_over(&self, now: UnixMs) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    /// The record at the front of `bytes`, and its length in bytes.
    ///
    /// # Errors
    /// When there is none, it is cut short, or its checksum does not hold.
    pub fn parse(bytes: &'a [u8], stripe: StripeId) -> Result<(Self, usize), RecordError> {
        let layout = Layout::of(bytes)?;
        let whole = bytes.get(..layout.record_bytes).ok_or(RecordError::Short)?;
        let stored = u32::from_le_bytes(whole[layout.crc_at..layout.crc_at + 4].try_into().expect("four bytes"));
        if checksum(stripe, whole, layout.crc_at) != stored {
            return Err(RecordError::Checksum);
        }
        let mut at = layout.crc_at + 4;
        let mut field = |count: usize| {
            let mut word = [0u8; 8];
            word[..count].copy_from_slice(&whole[at..at + count]);
            at += count;
            u64::from_le_bytes(word)
        };
        let fields = layout.fields;
        let version = if fields & FULL_VERSION != 0 {
            field(8)
        } else {
            (stripe.raw() >> StripeId::COUNTER_BITS << Version::COUNTER_BITS) | field(SHORT_VERSION_BYTES)
        };
        let expiry = (fields & HAS_EXPIRY != 0).then(|| UnixMs(field(6)));
        let flags = if fields & HAS_FLAGS != 0 { field(4) as u32 } else { 0 };
        let cas = (fields & HAS_CAS != 0).then(|| field(8));
        let attributes = if fields & HAS_ATTRIBUTES != 0 { field(1) as u8 } else { 0 };
        let (key, value) = whole[at..].split_at(layout.key_bytes);
        let kind = match fields & KIND_MASK {
            0 => RecordKind::Object,
            1 => RecordKind::Manifest,
            2 => RecordKind::Tombstone,
            _ => RecordKind::Control,
        };
        let version = Version::from_raw(version);
        Ok((Record { kind, version, expiry, flags, cas, attributes, key, value }, layout.record_bytes))
    }
}

/// The records of a packed chunk, or of the end of one, up to the first place where none can be read: where each lies
/// in `bytes`, and its length in bytes.
pub fn records(bytes: &[u8], stripe: StripeId) -> impl Iterator<Item = (usize, Record<'_>, usize)> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let offset = end;
        let (record, length) = Record::parse(&bytes[offset..], stripe).ok()?;
        end += length;
        Some((offset, record, length))
    })
}

/// Length of the record that begins at the front of `bytes`, which may end early but not inside the record's header.
///
/// # Errors
/// When no record begins here, or its header is cut short.
pub fn record_bytes(bytes: &[u8]) -> Result<usize, RecordError> {
    Layout::of(bytes).map(|layout| layout.record_bytes)
}

struct Layout {
    fields: u8,
    key_bytes: usize,
    crc_at: usize,
    record_bytes: usize,
}

impl Layout {
    fn of(bytes: &[u8]) -> Result<Self, RecordError> {
        let fields = *bytes.first().ok_or(RecordError::Short)?;
        if fields & PRESENT == 0 {
            return Err(RecordError::NoRecord);
        }
        let mut at = 1;
        let key_bytes = read_varint(bytes, &mut at)?;
        let value_bytes = read_varint(bytes, &mut at)?;
        let crc_at = at;
        let record_bytes = at + 4 + after_crc_bytes(fields) + key_bytes + value_bytes;
        Ok(Layout { fields, key_bytes, crc_at, record_bytes })
    }
}

/// Bytes between the checksum and the key.
fn after_crc_bytes(fields: u8) -> usize {
    let bytes = |bit: u8, count: usize| if fields & bit != 0 { count } else { 0 };
    let version = if fields & FULL_VERSION != 0 { 8 } else { SHORT_VERSION_BYTES };
    version + bytes(HAS_EXPIRY, 6) + bytes(HAS_FLAGS, 4) + bytes(HAS_CAS, 8) + bytes(HAS_ATTRIBUTES, 1)
}

fn checksum(stripe: StripeId, record: &[u8], crc_at: usize) -> u32 {
    crc32c_of([&stripe.raw().to_le_bytes(), &record[..crc_at], &record[crc_at + 4..]])
}

fn varint_bytes(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Result<usize, RecordError> {
    let mut value = 0usize;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or(RecordError::Short)?;
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(RecordError::NoRecord)
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn put_varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(3);

    fn stripe() -> StripeId {
        StripeId::new(EPOCH, 9)
    }

    fn encode(record: &Record<'_>) -> Vec<u8> {
        let mut bytes = vec![0; record.encoded_bytes(EPOCH)];
        record.encode(stripe(), &mut bytes);
        bytes
    }

    fn full<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record {
            kind: RecordKind::Object,
            version: Version::new(Epoch(1), 5),
            expiry: Some(UnixMs(1_700_000_000_123)),
            flags: 7,
            cas: Some(u64::MAX),
            attributes: 3,
            key,
            value,
        }
    }

    #[test]
    fn no_record_is_longer_in_any_stripe_than_its_longest() {
        for (epoch, other) in [(1, 1), (1, 2), (7, 300), (1 << 22, 1)] {
            let record = Record::object(b"key", b"value", Version::new(Epoch(epoch), 5));
            assert!(record.encoded_bytes(Epoch(other)) <= record.longest_bytes(), "{epoch} in {other}");
            assert_eq!(record.encoded_bytes(Epoch(other)) == record.longest_bytes(), epoch != other);
        }
    }

    #[test]
    fn records_survive_the_trip() {
        let value = vec![9u8; 70_000];
        let plain = Record::object(b"key", b"value", Version::new(EPOCH, 77));
        let manifest = Record { kind: RecordKind::Manifest, ..plain };
        for record in [plain, manifest, full(b"key", &value), full(b"", b"")] {
            let bytes = encode(&record);
            assert_eq!(Record::parse(&bytes, stripe()), Ok((record, bytes.len())));
            assert_eq!(record_bytes(&bytes[..bytes.len().min(RECORD_HEADER_BYTES_MAX)]), Ok(bytes.len()));
        }
    }

    #[test]
    fn a_version_is_short_while_its_counter_is() {
        let short = Record::object(b"key", b"value", Version::new(EPOCH, u64::from(u32::MAX)));
        let long = Record::object(b"key", b"value", Version::new(EPOCH, 1 << 32));
        assert_eq!(encode(&short).len() + 4, encode(&long).len());
        for record in [short, long] {
            assert_eq!(Record::parse(&encode(&record), stripe()).map(|(parsed, _)| parsed), Ok(record));
        }
    }

    #[test]
    fn a_small_object_costs_eleven_bytes() {
        let bytes = encode(&Record::object(&[b'k'; 24], &[b'v'; 32], Version::new(EPOCH, 1)));
        assert_eq!(bytes.len(), 24 + 32 + 11);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let record = full(b"key", b"value");
        let good = encode(&record);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::parse(&bad, stripe()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_another_stripe_is_noticed() {
        let bytes = encode(&full(b"key", b"value"));
        assert_eq!(Record::parse(&bytes, StripeId::new(EPOCH, 10)), Err(RecordError::Checksum));
    }

    #[test]
    fn control_records_survive_the_trip() {
        let floor = Control::Floor { floor: Version::from_raw(7), horizon: stripe() };
        for control in [floor, Control::FlushDue(UnixMs(5)), Control::Void(stripe())] {
            assert_eq!(Control::parse(&control.encode()), Some(control));
        }
        assert_eq!(Control::parse(&[2, 0]), None);
    }

    #[test]
    fn the_unused_tail_of_a_chunk_holds_no_record() {
        assert_eq!(Record::parse(&[0; 64], stripe()), Err(RecordError::NoRecord));
        assert_eq!(Record::parse(&[], stripe()), Err(RecordError::Short));
    }
}
