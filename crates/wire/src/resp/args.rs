//! The arguments of one request: slices of the read buffer.
//!
//! Must not know: what they mean.

/// Where an argument lies in the bytes of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    pub start: u32,
    pub end: u32,
}

impl Slice {
    /// # Panics
    /// If the offsets do not fit in 32 bits; requests are capped far below.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let narrow = |offset| u32::try_from(offset).expect("offsets are below REQUEST_BYTES_MAX");
        Slice { start: narrow(start), end: narrow(end) }
    }
}

/// Arguments of one request; the first is the command's name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    slices: &'a [Slice],
}

impl<'a> Args<'a> {
    pub(super) fn new(bytes: &'a [u8], slices: &'a [Slice]) -> Self {
        Args { bytes, slices }
    }

    pub fn len(&self) -> usize {
        self.slices.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.slices.get(index).map(|slice| &self.bytes[slice.start as usize..slice.end as usize])
    }

    /// The arguments from `index` on (none, if there are fewer).
    pub fn skip(&self, index: usize) -> Args<'a> {
        Args { bytes: self.bytes, slices: self.slices.get(index..).unwrap_or_default() }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.slices.iter().map(move |slice| &bytes[slice.start as usize..slice.end as usize])
    }
}

impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];

    /// # Panics
    /// If there are not that many arguments: for those that the arity check guarantees.
    fn index(&self, index: usize) -> &[u8] {
        self.get(index).expect("an argument that the arity check guarantees")
    }
}
