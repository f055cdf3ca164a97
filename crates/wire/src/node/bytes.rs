//! Little-endian reading and writing with bounds; the only place that slices a body.

use shorttail_units::{Epoch, OpNumber, StripeId};

use super::FrameError;

/// In the place of a position in a node's memory that is not known.
const POSITION_UNKNOWN: u64 = u64::MAX;

/// Reads fields from the front of a body.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(FrameError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(FrameError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, FrameError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, FrameError> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn position(&mut self) -> Result<Option<u64>, FrameError> {
        self.u64().map(|position| Some(position).filter(|&position| position != POSITION_UNKNOWN))
    }

    pub fn stripe(&mut self) -> Result<StripeId, FrameError> {
        self.u64().map(StripeId::from_raw)
    }

    pub fn epoch(&mut self) -> Result<Epoch, FrameError> {
        let epoch = Epoch(self.u32()?);
        if epoch > Epoch::MAX { Err(FrameError::Value("epoch")) } else { Ok(epoch) }
    }

    pub fn op(&mut self) -> Result<OpNumber, FrameError> {
        self.u32().map(OpNumber)
    }

    /// Items up to the end.
    pub fn rest_of<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, FrameError>) -> Result<Vec<T>, FrameError> {
        let mut items = Vec::new();
        while !self.is_empty() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn finish(self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(FrameError::Long) }
    }
}

/// Appends fields to a frame.
pub(super) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);

    fn put_position(&mut self, position: Option<u64>) {
        self.put_u64(position.unwrap_or(POSITION_UNKNOWN));
    }
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}
