//! The flags of the meta commands: single characters, some with an argument, each at most once.

use super::base64;
use super::limits::{DECODED_KEY_BYTES_MAX, KEY_BYTES_MAX, META_TOKEN_COUNT_MAX, OPAQUE_BYTES_MAX};
use super::number::{exact_i32, exact_u32, exact_u64};
use serde::{Deserialize, Serialize};

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// Key of a meta command: as written, or decoded from base64.
#[derive(Clone, Copy, Debug)]
pub enum MetaKey<'a> {
    Plain(&'a [u8]),
    Decoded { bytes: [u8; DECODED_KEY_BYTES_MAX], length: u8 },
}

impl<'a> MetaKey<'a> {
    pub(super) fn decode(text: &'a [u8]) -> Option<Self> {
        let mut bytes = [0; DECODED_KEY_BYTES_MAX];
        let length = u8::try_from(base64::decode(text, &mut bytes)?).ok()?;
        Some(MetaKey::Decoded { bytes, length })
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            MetaKey::Plain(bytes) => bytes,
            MetaKey::Decoded { bytes, length } => &bytes[..usize::from(*length)],
        }
    }
}

/// The flags of one meta command.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaFlags {
    /// Bit `c` is set if the flag with character `c` is there.
    present: u128,
    /// The characters in the order in which they were written.
    order: [u8; META_TOKEN_COUNT_MAX],
    order_count: u8,
    opaque: [u8; OPAQUE_BYTES_MAX],
    opaque_bytes: u8,
    /// The opaque was longer than allowed; complained about when nothing else is wrong.
    opaque_too_long: bool,
    /// Argument of `M`; 0 if there is none.
    mode: u8,
    vivify_exptime: i32,
    ttl_exptime: i32,
    recache_exptime: i32,
    client_flags: u32,
    compare: u64,
    new_cas: u64,
    initial: u64,
    delta: u64,
}

impl MetaFlags {
    /// Could a parser have made them? Asked of what comes from outside.
    pub fn is_well_formed(&self) -> bool {
        usize::from(self.order_count) <= META_TOKEN_COUNT_MAX
            && usize::from(self.opaque_bytes) <= OPAQUE_BYTES_MAX
            && self.order[..usize::from(self.order_count)].iter().all(u8::is_ascii)
    }
}

impl Default for MetaFlags {
    fn default() -> Self {
        MetaFlags {
            present: 0,
            order: [0; META_TOKEN_COUNT_MAX],
            order_count: 0,
            opaque: [0; OPAQUE_BYTES_MAX],
            opaque_bytes: 0,
            opaque_too_long: false,
            mode: 0,
            vivify_exptime: 0,
            ttl_exptime: 0,
            recache_exptime: 0,
            client_flags: 0,
            compare: 0,
            new_cas: 0,
            initial: 0,
            delta: 1,
        }
    }
}

impl std::fmt::Debug for MetaFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        write!(f, "MetaFlags({})", text.escape_ascii())
    }
}

impl MetaFlags {
    /// Reads the flags that follow key (and value length), and the key with them because `b` decides how it is read.
    ///
    /// # Errors
    /// The line that the server answers.
    pub(super) fn parse<'a>(
        key: &'a [u8],
        tokens: impl Iterator<Item = &'a [u8]> + Clone,
        count_max: usize,
    ) -> Result<(MetaKey<'a>, Self), &'static str> {
        if key.len() > KEY_BYTES_MAX {
            return Err(super::Refusal::BAD_FORMAT);
        }
        let mut flags = MetaFlags::default();
        let mut error = None;
        let mut meta_key = MetaKey::Plain(key);
        if tokens.clone().count() > count_max {
            return Err("CLIENT_ERROR options flags are too long");
        }
        for token in tokens {
            let (&flag, argument) = token.split_first().expect("tokens are not empty");
            if flag >= 127 || flags.has(flag) {
                return Err("CLIENT_ERROR duplicate flag");
            }
            flags.note(flag);
            match flag {
                b'b' => match MetaKey::decode(key) {
                    Some(decoded) => meta_key = decoded,
                    None => error = Some("CLIENT_ERROR error decoding key"),
                },
                b'O' if token.len() > OPAQUE_BYTES_MAX => flags.opaque_too_long = true,
                // A bad `F` has no line of its own, so that it shows only if nothing else is wrong.
                b'F' => error = error.or(flags.argument(flag, argument)?),
                _ => error = flags.argument(flag, argument)?.or(error),
            }
        }
        match error {
            Some(line) => Err(line),
            None => Ok((meta_key, flags)),
        }
    }

    fn note(&mut self, flag: u8) {
        self.present |= 1 << flag;
        self.order[usize::from(self.order_count)] = flag;
        self.order_count += 1;
    }

    /// Takes a flag's argument. `Ok(Some(line))`: the argument is wrong, but later flags are looked at first.
    fn argument(&mut self, flag: u8, argument: &[u8]) -> Result<Option<&'static str>, &'static str> {
        let filled = Some(argument).filter(|argument| !argument.is_empty());
        let (good, line) = match flag {
            b'N' => (set(&mut self.vivify_exptime, filled.and_then(exact_i32)), BAD_TOKEN),
            b'T' => (set(&mut self.ttl_exptime, filled.and_then(exact_i32)), BAD_TOKEN),
            b'R' => (set(&mut self.recache_exptime, filled.and_then(exact_i32)), BAD_TOKEN),
            b'C' => (set(&mut self.compare, filled.and_then(exact_u64)), BAD_TOKEN),
            b'E' => (set(&mut self.new_cas, filled.and_then(exact_u64)), BAD_TOKEN),
            b'F' => (set(&mut self.client_flags, filled.and_then(exact_u32)), super::Refusal::BAD_FORMAT),
            b'J' => (set(&mut self.initial, filled.and_then(exact_u64)), "CLIENT_ERROR invalid numeric initial value"),
            b'D' => (set(&mut self.delta, filled.and_then(exact_u64)), "CLIENT_ERROR invalid numeric delta value"),
            b'M' => {
                // Only the first character counts; none at all is an invalid mode.
                self.mode = argument.first().copied().unwrap_or(b' ');
                (true, "")
            }
            b'O' => {
                self.opaque[..argument.len()].copy_from_slice(argument);
                self.opaque_bytes = u8::try_from(argument.len()).expect("bounded by the caller");
                (true, "")
            }
            b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'v' | b'h' | b'l' | b'u' | b'q' | b'x' | b'I' => {
                (true, "")
            }
            _ => return Err("CLIENT_ERROR invalid flag"),
        };
        Ok((!good).then_some(line))
    }

    pub fn has(&self, flag: u8) -> bool {
        flag < 128 && self.present >> flag & 1 == 1
    }

    /// The flags' characters, in the order in which the client wrote them: the answer keeps it.
    pub fn in_order(&self) -> &[u8] {
        &self.order[..usize::from(self.order_count)]
    }

    /// `O`, without its letter.
    pub fn opaque(&self) -> &[u8] {
        &self.opaque[..usize::from(self.opaque_bytes)]
    }

    /// Is the opaque within its limit? If not, it is not kept.
    pub fn opaque_fits(&self) -> bool {
        !self.opaque_too_long
    }

    /// `M`: how to store or count; 0 if not said.
    pub fn mode(&self) -> u8 {
        self.mode
    }

    /// `N`: on a miss create the object, with this expiration time.
    pub fn vivify_exptime(&self) -> Option<i32> {
        self.has(b'N').then_some(self.vivify_exptime)
    }

    /// `T`: the expiration time to set.
    pub fn ttl_exptime(&self) -> Option<i32> {
        self.has(b'T').then_some(self.ttl_exptime)
    }

    /// `R`: win the right to recache if the object lives shorter than this.
    pub fn recache_exptime(&self) -> Option<i32> {
        self.has(b'R').then_some(self.recache_exptime)
    }

    /// `F`.
    pub fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// `C`: the CAS token that the object must have.
    pub fn compare(&self) -> Option<u64> {
        self.has(b'C').then_some(self.compare)
    }

    /// `E`: the CAS token that the object is to get. 0 is no token, as in memcached.
    pub fn new_cas(&self) -> Option<u64> {
        Some(self.new_cas).filter(|&token| token != 0)
    }

    /// `J`: the number that a created counter starts with.
    pub fn initial(&self) -> u64 {
        self.initial
    }

    /// `D`: how much to count by; 1 if not said.
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// Appends the flags as a client would write them, each behind a space.
    pub fn write(&self, out: &mut Vec<u8>) {
        for &flag in self.in_order() {
            out.extend_from_slice(&[b' ', flag]);
            match flag {
                b'N' => out.extend_from_slice(self.vivify_exptime.to_string().as_bytes()),
                b'T' => out.extend_from_slice(self.ttl_exptime.to_string().as_bytes()),
                b'R' => out.extend_from_slice(self.recache_exptime.to_string().as_bytes()),
                b'C' => out.extend_from_slice(self.compare.to_string().as_bytes()),
                b'E' => out.extend_from_slice(self.new_cas.to_string().as_bytes()),
                b'F' => out.extend_from_slice(self.client_flags.to_string().as_bytes()),
                b'J' => out.extend_from_slice(self.initial.to_string().as_bytes()),
                b'D' => out.extend_from_slice(self.delta.to_string().as_bytes()),
                b'M' if self.mode != b' ' => out.push(self.mode),
                b'O' => out.extend_from_slice(self.opaque()),
                _ => {}
            }
        }
    }
}

/// Stores a number if there is one; says whether there was.
fn set<T>(place: &mut T, number: Option<T>) -> bool {
    number.map(|number| *place = number).is_some()
}
