//! What a request does, as far as its latency is concerned.

/// Class of a request. Reads and writes of a node are judged apart: either may be slow alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    Read,
    Write,
}

impl Class {
    pub const ALL: [Class; CLASSES] = [Class::Read, Class::Write];

    #[inline]
    pub fn index(self) -> usize {
        match self {
            Class::Read => 0,
            Class::Write => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
        }
    }
}

/// How many classes there are.
pub(crate) const CLASSES: usize = 2;
