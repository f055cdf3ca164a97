//! The erasure code of a cluster as options and files name it.

use std::str::FromStr;

use serde::{Serialize, Serializer};
use shorttail_units::{CodeShape, CodeShapeError};

use super::by_text;

/// A shape, for parsers of options and files; what is settled holds the shape itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodeSpec(pub CodeShape);

impl FromStr for CodeSpec {
    type Err = CodeShapeError;

    fn from_str(text: &str) -> Result<Self, CodeShapeError> {
        text.parse().map(CodeSpec)
    }
}

by_text!(CodeSpec);

impl Serialize for CodeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
