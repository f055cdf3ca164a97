//! Numbers from the system's generator.

use std::fs::File;
use std::io::{self, Read};

/// Any of all, each as likely.
///
/// # Errors
/// When there is no such generator, as in a directory tree without devices.
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
