//! How objects of a partition are stored: what becomes of small ones, and where an overwrite goes.
//!
//! Sources: ShortTail 3.3 (copies), ECWide-H (padding, overwriting in place).

use crate::names::{Words, by_word};

/// What becomes of small objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SmallWrite {
    /// They share chunks.
    #[default]
    Packed,
    /// Each is copied, whole.
    Replicate,
    /// Each has a stripe of its own, filled up with zeros.
    Pad,
}

/// Where the new value of a striped object goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Update {
    /// To any nodes, like that of a new object.
    #[default]
    Log,
    /// To the nodes that hold the old one. Only a dead one is replaced, a slow one is waited for.
    InPlace,
}

const SMALL_WRITES: Words<SmallWrite, 3> =
    [("packed", SmallWrite::Packed), ("replicate", SmallWrite::Replicate), ("pad", SmallWrite::Pad)];
const UPDATES: Words<Update, 2> = [("log", Update::Log), ("in-place", Update::InPlace)];

by_word!(SmallWrite, SMALL_WRITES);
by_word!(Update, UPDATES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_alike() {
        for (text, _) in SMALL_WRITES {
            assert_eq!(text.parse::<SmallWrite>().map(|it| it.to_string()).as_deref(), Ok(text));
        }
        for (text, _) in UPDATES {
            assert_eq!(text.parse::<Update>().map(|it| it.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("copied".parse::<SmallWrite>(), Err("\"copied\" is none of packed, replicate, pad".to_owned()));
    }
}
