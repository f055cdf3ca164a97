//! Requests: arrays of bulk strings, and inline commands.
//!
//! The caller keeps the bytes of an unfinished request at the front of its buffer and calls again with more; the
//! parser remembers how far it came, so that a request that arrives byte by byte costs no more than one that arrives
//! at once.
//!
//! Must not know: commands, sockets; and it allocates nothing for a length that was only declared.

use super::args::{Args, Slice};
use super::{inline, limits, number};

/// What the caller allows now.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Bytes of one request.
    pub request_bytes_max: usize,
    /// Before authentication only small requests are read, so that strangers cannot fill the memory.
    pub authenticated: bool,
}

/// What a call of [`RequestParser::parse`] found. The caller drops `consumed` bytes from the front of its input.
#[derive(Debug)]
pub enum Parsed<'a> {
    Request {
        args: Args<'a>,
        consumed: usize,
    },
    /// An empty request: there is nothing to answer.
    Empty {
        consumed: usize,
    },
    /// A request beyond the caller's limits ended; its bytes were discarded as they came.
    Oversized {
        consumed: usize,
    },
    /// More input is needed; `consumed` is above 0 only while an oversized request is discarded.
    Incomplete {
        consumed: usize,
    },
}

/// Why the stream cannot be followed any further: the connection is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("too big inline request")]
    InlineTooBig,
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    #[error("too big mbulk count string")]
    CountLineTooBig,
    #[error("too big bulk count string")]
    LengthLineTooBig,
    #[error("invalid multibulk length")]
    InvalidCount,
    #[error("invalid bulk length")]
    InvalidLength,
    #[error("unauthenticated multibulk length")]
    UnauthenticatedCount,
    #[error("unauthenticated bulk length")]
    UnauthenticatedLength,
    #[error("expected '$', got byte {0}")]
    ExpectedBulk(u8),
}

impl ProtocolError {
    /// Appends the error as an error reply, exactly as Redis words it.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"-ERR Protocol error: ");
        match self {
            // Redis prints the byte itself; a line end would break the reply, and a zero ends its format string.
            ProtocolError::ExpectedBulk(0) => out.extend_from_slice(b"expected '$', got '"),
            ProtocolError::ExpectedBulk(byte) => {
                let shown = if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
                out.extend_from_slice(b"expected '$', got '");
                out.extend_from_slice(&[shown, b'\'']);
            }
            other => out.extend_from_slice(other.to_string().as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Parser of one connection's requests.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// Bytes of the request at hand that are parsed.
    position: usize,
    /// Bytes of the request at hand that are known to hold no end of the line at `position`.
    scanned: usize,
    /// Bulk strings still to come; 0: the next line begins a request.
    bulks_left: usize,
    /// Declared bytes of the bulk string at `position`, line end included, if its length line was read.
    bulk_bytes: Option<usize>,
    /// The request at hand is too large and is being thrown away.
    discarding: bool,
    slices: Vec<Slice>,
    /// Unescaped words of an inline command.
    scratch: Vec<u8>,
}

/// A length line: complete, or more input is needed.
enum Line {
    /// The number, if it is one.
    Whole(Option<i64>),
    Partial,
}

impl RequestParser {
    /// Looks for one request at the front of `input`, which begins with the bytes that earlier calls left unconsumed.
    ///
    /// # Errors
    /// See [`ProtocolError`]; the parser must not be used afterwards.
    pub fn parse<'a>(&'a mut self, input: &'a [u8], limits: &RequestLimits) -> Result<Parsed<'a>, ProtocolError> {
        if self.bulks_left == 0 {
            match input.first() {
                None => return Ok(Parsed::Incomplete { consumed: 0 }),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(input),
            }
            self.forget_words();
            let Line::Whole(count) = self.take_line(input, ProtocolError::CountLineTooBig)? else {
                return Ok(Parsed::Incomplete { consumed: 0 });
            };
            match check_count(count, limits)? {
                0 => return Ok(Parsed::Empty { consumed: self.finish() }),
                count => self.bulks_left = count,
            }
        }
        while self.bulks_left > 0 {
            if !self.take_bulk(input, limits)? {
                let consumed = if self.discarding { self.drop_parsed() } else { 0 };
                return Ok(Parsed::Incomplete { consumed });
            }
        }
        let oversized = self.discarding;
        let consumed = self.finish();
        if oversized {
            return Ok(Parsed::Oversized { consumed });
        }
        Ok(Parsed::Request { args: Args::new(&input[..consumed], &self.slices), consumed })
    }

    /// Takes one bulk string with its length line; `false` if more input is needed.
    fn take_bulk(&mut self, input: &[u8], limits: &RequestLimits) -> Result<bool, ProtocolError> {
        let bulk_bytes = match self.bulk_bytes {
            Some(bytes) => bytes,
            None => {
                if let Some(&kind) = input.get(self.position)
                    && kind != b'$'
                {
                    return self.wrong_kind(input, kind);
                }
                let Line::Whole(length) = self.take_line(input, ProtocolError::LengthLineTooBig)? else {
                    return Ok(false);
                };
                let length = check_length(length, limits)?;
                let request_bytes = self.position + length + 2;
                let request_bytes_max = limits.request_bytes_max.min(limits::REQUEST_BYTES_MAX);
                self.discarding |= length > limits.bulk_bytes_max || request_bytes > request_bytes_max;
                length + 2
            }
        };
        let available = input.len() - self.position;
        if available < bulk_bytes {
            if self.discarding {
                self.position += available;
                self.bulk_bytes = Some(bulk_bytes - available);
            } else {
                self.bulk_bytes = Some(bulk_bytes);
            }
            return Ok(false);
        }
        if !self.discarding {
            self.slices.push(Slice::new(self.position, self.position + bulk_bytes - 2));
        }
        self.position += bulk_bytes;
        self.scanned = self.position;
        self.bulk_bytes = None;
        self.bulks_left -= 1;
        Ok(true)
    }

    /// Redis complains about a wrong first byte only once the line is whole.
    fn wrong_kind(&mut self, input: &[u8], kind: u8) -> Result<bool, ProtocolError> {
        match self.take_line(input, ProtocolError::LengthLineTooBig)? {
            Line::Whole(_) => Err(ProtocolError::ExpectedBulk(kind)),
            Line::Partial => Ok(false),
        }
    }

    /// Takes the line at `position`: one byte of kind, a number, and two bytes of line end.
    fn take_line(&mut self, input: &[u8], too_big: ProtocolError) -> Result<Line, ProtocolError> {
        let from = self.scanned.max(self.position);
        let Some(distance) = input[from..].iter().position(|&byte| byte == b'\r') else {
            self.scanned = input.len();
            if input.len() - self.position > limits::LINE_BYTES_MAX {
                return Err(too_big);
            }
            return Ok(Line::Partial);
        };
        let end = from + distance;
        if end + 2 > input.len() {
            self.scanned = end;
            return Ok(Line::Partial);
        }
        // The line may begin with its own end; then there is neither kind nor number.
        let value = input.get(self.position + 1..end).and_then(number::parse_i64);
        self.position = end + 2;
        self.scanned = self.position;
        Ok(Line::Whole(value))
    }

    /// Bytes that it takes for the request at hand, beside those of the input.
    pub fn kept_bytes(&self) -> usize {
        self.slices.len() * size_of::<Slice>() + self.scratch.len()
    }

    /// Gives back what the last request took, once nobody looks at its arguments any more.
    pub fn rest(&mut self) {
        if self.bulks_left == 0 {
            self.forget_words();
        }
    }

    fn parse_inline<'a>(&'a mut self, input: &'a [u8]) -> Result<Parsed<'a>, ProtocolError> {
        let Some(distance) = memchr::memchr(b'\n', &input[self.scanned..]) else {
            self.scanned = input.len();
            if input.len() > limits::LINE_BYTES_MAX {
                return Err(ProtocolError::InlineTooBig);
            }
            return Ok(Parsed::Incomplete { consumed: 0 });
        };
        let end = self.scanned + distance;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        self.forget_words();
        self.scanned = 0;
        if !inline::split_words(line, &mut self.scratch, &mut self.slices) {
            return Err(ProtocolError::UnbalancedQuotes);
        }
        if self.slices.is_empty() {
            return Ok(Parsed::Empty { consumed: end + 1 });
        }
        Ok(Parsed::Request { args: Args::new(&self.scratch, &self.slices), consumed: end + 1 })
    }

    fn forget_words(&mut self) {
        self.slices.clear();
        self.slices.shrink_to(limits::ARGUMENTS_KEPT);
        self.scratch.clear();
        self.scratch.shrink_to(limits::WORDS_BYTES_KEPT);
    }

    /// Makes ready for the next request; returns the bytes of this one that are not yet consumed.
    fn finish(&mut self) -> usize {
        self.discarding = false;
        self.drop_parsed()
    }

    fn drop_parsed(&mut self) -> usize {
        self.scanned = 0;
        std::mem::take(&mut self.position)
    }
}

/// The number of arguments; 0 for an empty request.
fn check_count(count: Option<i64>, limits: &RequestLimits) -> Result<usize, ProtocolError> {
    let count = count.ok_or(ProtocolError::InvalidCount)?;
    let count = usize::try_from(count).unwrap_or(0);
    if count > limits::ARGUMENTS_MAX {
        return Err(ProtocolError::InvalidCount);
    }
    if !limits.authenticated && count > limits::UNAUTHENTICATED_ARGUMENTS_MAX {
        return Err(ProtocolError::UnauthenticatedCount);
    }
    Ok(count)
}

fn check_length(length: Option<i64>, limits: &RequestLimits) -> Result<usize, ProtocolError> {
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(ProtocolError::InvalidLength)?;
    if length > limits::BULK_BYTES_MAX.max(limits.bulk_bytes_max) {
        return Err(ProtocolError::InvalidLength);
    }
    if !limits.authenticated && length > limits::UNAUTHENTICATED_BULK_BYTES_MAX {
        return Err(ProtocolError::UnauthenticatedLength);
    }
    Ok(length)
}
