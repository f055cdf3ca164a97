//! Codes as text: that of their shape.

use std::fmt;
use std::str::FromStr;

use shorttail_units::CodeShape;

use crate::{Code, CodeError};

impl Code {
    /// The code that a text names: `rs:4+2`, `lrc:12+2+2`.
    ///
    /// # Errors
    /// [`CodeError::Shape`].
    pub fn parse(text: &str) -> Result<Code, CodeError> {
        Ok(Code::new(text.parse::<CodeShape>()?))
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        Code::parse(text)
    }
}

/// The text that [`Code::parse`] reads back.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape().fmt(f)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({self}, {})", self.kernel())
    }
}
