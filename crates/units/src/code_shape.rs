//! The shape of an erasure code: how many chunks of which kind a stripe has, and the text that names it.
//!
//! ```text
//! rs:4+2          d d d d | p p                          every parity is of all data chunks
//! lrc:6+2+2       d d d | d d d | L L | G G              group 0, group 1, a local parity of each, global parities
//! chunk           0 1 2   3 4 5   6 7   8 9
//! ```
//! Chunks are counted from zero: data, then local parities, then parities of all data chunks. Groups are ranges of
//! neighbouring data chunks, as equally long as can be.

use std::fmt;
use std::str::FromStr;

/// Data chunks in a stripe, at least one: beyond 64 a degraded read asks more nodes than it helps.
pub const DATA_COUNT_MAX: usize = 64;

/// Parity chunks in a stripe, local ones included, possibly none: what the codes are tested for.
pub const PARITY_COUNT_MAX: usize = 16;

/// Local parities in a stripe: formats have four bits for them.
pub const LOCAL_COUNT_MAX: usize = 15;

/// Chunks of each kind in a stripe, within the limits. The default is `rs:4+2`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CodeShape {
    data_count: u8,
    /// Local parities, one for each group; 0: there are no groups.
    local_count: u8,
    global_count: u8,
}

/// Why there is no such shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeShapeError {
    Malformed(String),
    DataCount(usize),
    ParityCount(usize),
    LocalCount { local_count: usize, local_count_max: usize },
}

impl CodeShape {
    /// Reed-Solomon: any `parity_count` chunks may be lost.
    ///
    /// # Errors
    /// A count outside its limits.
    pub fn reed_solomon(data_count: usize, parity_count: usize) -> Result<Self, CodeShapeError> {
        Self::from_counts(data_count, 0, parity_count)
    }

    /// A local reconstruction code: `local_count` groups with a parity each, and `global_count` parities of all data.
    ///
    /// # Errors
    /// A count outside its limits; there are no more groups than data chunks, and at least one.
    pub fn lrc(data_count: usize, local_count: usize, global_count: usize) -> Result<Self, CodeShapeError> {
        let local_count_max = LOCAL_COUNT_MAX.min(data_count);
        if local_count == 0 {
            return Err(CodeShapeError::LocalCount { local_count, local_count_max });
        }
        Self::from_counts(data_count, local_count, global_count)
    }

    /// Either kind: no local parities make it Reed-Solomon.
    ///
    /// # Errors
    /// A count outside its limits.
    pub fn from_counts(data_count: usize, local_count: usize, global_count: usize) -> Result<Self, CodeShapeError> {
        if !(1..=DATA_COUNT_MAX).contains(&data_count) {
            return Err(CodeShapeError::DataCount(data_count));
        }
        let local_count_max = LOCAL_COUNT_MAX.min(data_count);
        if local_count > local_count_max {
            return Err(CodeShapeError::LocalCount { local_count, local_count_max });
        }
        if global_count > PARITY_COUNT_MAX - local_count {
            return Err(CodeShapeError::ParityCount(local_count.saturating_add(global_count)));
        }
        let count = |count: usize| u8::try_from(count).expect("within the limits");
        Ok(CodeShape {
            data_count: count(data_count),
            local_count: count(local_count),
            global_count: count(global_count),
        })
    }

    pub fn data_count(self) -> usize {
        usize::from(self.data_count)
    }

    /// Local parities, as many as there are groups.
    pub fn local_count(self) -> usize {
        usize::from(self.local_count)
    }

    /// Parities of all data chunks.
    pub fn global_count(self) -> usize {
        usize::from(self.global_count)
    }

    /// Local and global parities.
    pub fn parity_count(self) -> usize {
        self.local_count() + self.global_count()
    }

    /// Data and parity chunks, each on its own node.
    pub fn chunk_count(self) -> usize {
        self.data_count() + self.parity_count()
    }

    /// How many chunks may be lost, whichever they are: the `m` of every promise.
    pub fn tolerance(self) -> usize {
        self.global_count() + usize::from(self.local_count > 0)
    }

    /// Members that may lack their (empty) chunk when the first operation of a stripe is acknowledged. If all the
    /// others are lost or away, at most [`CodeShape::tolerance`] of them away, more are lost than the code tolerates:
    /// only then does no node tell of the stripe.
    pub fn unopened_max(self) -> usize {
        let tolerance = self.tolerance();
        (self.data_count() - 1).saturating_sub(tolerance).min(tolerance)
    }

    pub fn is_parity(self, chunk: usize) -> bool {
        chunk >= self.data_count()
    }

    /// The group of a data chunk; all are in group 0 if there are no local parities.
    pub fn group_of(self, data_index: usize) -> usize {
        data_index * self.local_count() / self.data_count()
    }

    /// Does parity `parity_index` depend on data chunk `data_index`?
    pub fn covers(self, parity_index: usize, data_index: usize) -> bool {
        parity_index >= self.local_count() || parity_index == self.group_of(data_index)
    }

    /// The chunks that hold what is written to a data chunk: itself and the parities that cover it, ascending. At least
    /// one more than [`CodeShape::tolerance`].
    pub fn participants(self, data_index: usize) -> impl Iterator<Item = usize> {
        let parities = (0..self.parity_count()).filter(move |&parity| self.covers(parity, data_index));
        std::iter::once(data_index).chain(parities.map(move |parity| self.data_count() + parity))
    }
}

impl Default for CodeShape {
    /// The usual choice: any two nodes may die, for 1.5 times the memory.
    fn default() -> Self {
        CodeShape { data_count: 4, local_count: 0, global_count: 2 }
    }
}

impl FromStr for CodeShape {
    type Err = CodeShapeError;

    fn from_str(text: &str) -> Result<Self, CodeShapeError> {
        let malformed = || CodeShapeError::Malformed(text.to_owned());
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<usize>().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        let (family, counts) = text.split_once(':').ok_or_else(malformed)?;
        let counts = counts.split('+').map(number).collect::<Result<Vec<_>, _>>()?;
        match (family, counts.as_slice()) {
            ("rs", &[data, parity]) => CodeShape::reed_solomon(data, parity),
            ("lrc", &[data, local, global]) => CodeShape::lrc(data, local, global),
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for CodeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CodeShape { data_count, local_count, global_count } = self;
        match local_count {
            0 => f.pad(&format!("rs:{data_count}+{global_count}")),
            _ => f.pad(&format!("lrc:{data_count}+{local_count}+{global_count}")),
        }
    }
}

impl fmt::Display for CodeShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeShapeError::Malformed(text) => write!(
                f,
                "{text:?} is not a code: write rs:DATA+PARITY or lrc:DATA+LOCAL+GLOBAL, for example rs:4+2 or lrc:12+2+2"
            ),
            CodeShapeError::DataCount(count) => {
                write!(f, "a code needs 1 to {DATA_COUNT_MAX} data chunks, not {count}")
            }
            CodeShapeError::ParityCount(count) => {
                write!(f, "a code has 0 to {PARITY_COUNT_MAX} parity chunks, not {count}")
            }
            CodeShapeError::LocalCount { local_count, local_count_max } => {
                write!(f, "such a code has 1 to {local_count_max} local parities, not {local_count}")
            }
        }
    }
}

impl std::error::Error for CodeShapeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> CodeShape {
        text.parse().expect(text)
    }

    #[test]
    fn shapes_read_back_what_they_print() {
        for text in ["rs:1+0", "rs:4+2", "rs:64+16", "lrc:4+2+1", "lrc:12+2+2", "lrc:5+5+0", "lrc:64+15+1"] {
            assert_eq!(shape(text).to_string(), text);
        }
        assert_eq!(format!("{:>8}", shape("rs:04+02")), "  rs:4+2");
        assert_eq!(CodeShape::default(), shape("rs:4+2"));
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let said = |text: &str| text.parse::<CodeShape>().expect_err(text).to_string();
        let malformed = [
            "",
            "rs",
            "rs:",
            "rs:4",
            "rs:4+",
            "rs:+2",
            "rs:+4+2",
            "4+2",
            "rs:4-2",
            "rs:4+2+1",
            "lrc:4+2",
            "rs: 4+2",
            "lrc:4+2+1+1",
            "lrc:4++1",
            "LRC:4+2+1",
            "xor:4+2",
            "rs:99999999999999999999999999+2",
        ];
        for text in malformed {
            let expected = "write rs:DATA+PARITY or lrc:DATA+LOCAL+GLOBAL, for example rs:4+2 or lrc:12+2+2";
            assert_eq!(said(text), format!("{text:?} is not a code: {expected}"));
        }
        assert_eq!(said("rs:0+2"), "a code needs 1 to 64 data chunks, not 0");
        assert_eq!(said("rs:65+2"), "a code needs 1 to 64 data chunks, not 65");
        assert_eq!(said("rs:4+17"), "a code has 0 to 16 parity chunks, not 17");
        assert_eq!(said("lrc:20+14+3"), "a code has 0 to 16 parity chunks, not 17");
        assert_eq!(said("lrc:4+0+2"), "such a code has 1 to 4 local parities, not 0");
        assert_eq!(said("lrc:4+5+2"), "such a code has 1 to 4 local parities, not 5");
        assert_eq!(said("lrc:64+16+0"), "such a code has 1 to 15 local parities, not 16");
        assert!(CodeShape::from_counts(4, usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn a_stripe_that_failures_hide_has_more_of_them_than_the_code_tolerates() {
        for (name, unopened) in [("rs:4+2", 1), ("rs:8+2", 2), ("rs:2+1", 0), ("rs:1+2", 0), ("rs:3+0", 0)] {
            let shape = shape(name);
            assert_eq!(shape.unopened_max(), unopened, "{name}");
            let lost = shape.chunk_count() - shape.unopened_max() - shape.tolerance();
            assert!(unopened == 0 || lost > shape.tolerance(), "{name}");
        }
    }

    #[test]
    fn the_tolerance_is_not_the_number_of_parities() {
        assert_eq!((shape("rs:4+2").tolerance(), shape("rs:3+0").tolerance()), (2, 0));
        assert_eq!((shape("lrc:12+2+2").tolerance(), shape("lrc:12+2+2").parity_count()), (3, 4));
        assert_eq!(shape("lrc:6+3+0").tolerance(), 1);
    }

    #[test]
    fn groups_are_ranges_of_nearly_equal_length() {
        for (data_count, local_count) in (1..=64).flat_map(|data| (1..=data.min(15)).map(move |local| (data, local))) {
            let shape = CodeShape::lrc(data_count, local_count, 1).expect("within limits");
            let groups: Vec<usize> = (0..data_count).map(|data| shape.group_of(data)).collect();
            assert!(groups.is_sorted());
            for group in 0..local_count {
                let length = groups.iter().filter(|&&other| other == group).count();
                assert!(length == data_count / local_count || length == data_count.div_ceil(local_count));
            }
        }
    }

    #[test]
    fn what_is_written_is_held_by_one_more_than_may_be_lost() {
        for text in ["rs:4+2", "rs:3+0", "lrc:12+2+2", "lrc:5+5+0", "lrc:7+3+2"] {
            let shape = shape(text);
            for data in 0..shape.data_count() {
                assert_eq!(shape.participants(data).count(), shape.tolerance() + 1);
            }
        }
        assert_eq!(shape("lrc:6+2+2").participants(4).collect::<Vec<_>>(), [4, 7, 8, 9]);
        assert_eq!(shape("rs:2+2").participants(1).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
