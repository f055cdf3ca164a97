//! What the engine keeps with a request, so that its end finds its beginning without a table.

use crate::Class;

/// Beginning of a request. A request ends once: [`crate::Monitor::answered`] or [`crate::Monitor::cancelled`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub(crate) start_us: u64,
    pub(crate) slice: u32,
    pub(crate) bytes: u32,
    /// What such a request usually took when this one started.
    pub(crate) expected_us: u32,
    /// Place in the monitor's table; [`Ticket::NOBODY`] for a node it does not know.
    pub(crate) place: u16,
    /// Of the place: requests of an earlier session are forgotten.
    pub(crate) session: u8,
    /// See [`Ticket::kind`].
    pub(crate) kind: u8,
}

// It is kept with every request under way.
const _: () = assert!(size_of::<Ticket>() == 24);

impl Ticket {
    pub(crate) const NOBODY: u16 = u16::MAX;

    /// Class and size class in one byte.
    #[inline]
    pub(crate) fn kind(class: Class, size: u8) -> u8 {
        (class.index() as u8) << 4 | size
    }

    #[inline]
    pub fn class(&self) -> Class {
        Class::ALL[usize::from(self.kind >> 4)]
    }

    #[inline]
    pub(crate) fn size(&self) -> u8 {
        self.kind & 15
    }
}
