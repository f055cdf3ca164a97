//! Base64 as memcached's meta commands use it for binary keys.
//!
//! Decoding is as lax as the server's: characters outside the alphabet are skipped, what follows the padding is
//! ignored. Encoding is canonical, so a key echoed is the canonical form of the key received.

use super::limits::DECODED_KEY_BYTES_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Marks bytes outside the alphabet.
const SKIP: u8 = 0xff;

static VALUES: [u8; 256] = {
    let mut values = [SKIP; 256];
    let mut index = 0u8;
    while index < 64 {
        values[ALPHABET[index as usize] as usize] = index;
        index += 1;
    }
    values[b'=' as usize] = 0;
    values
};

/// Decodes a key into `out` and returns its length; `None` if `text` is not base64 or is too long.
pub fn decode(text: &[u8], out: &mut [u8; DECODED_KEY_BYTES_MAX]) -> Option<usize> {
    let symbols = text.iter().filter(|&&byte| VALUES[usize::from(byte)] != SKIP).count();
    if symbols == 0 || symbols % 4 != 0 || symbols / 4 * 3 > DECODED_KEY_BYTES_MAX {
        return None;
    }
    let (mut length, mut filled, mut padding, mut block) = (0, 0u8, 0, 0u32);
    for &byte in text {
        let value = VALUES[usize::from(byte)];
        if value == SKIP {
            continue;
        }
        padding += usize::from(byte == b'=');
        block = block << 6 | u32::from(value);
        filled += 1;
        if filled == 4 {
            out[length..length + 3].copy_from_slice(&block.to_be_bytes()[1..]);
            if padding > 2 {
                return None;
            }
            length += 3 - padding;
            if padding > 0 {
                break;
            }
            (filled, block) = (0, 0);
        }
    }
    Some(length)
}

/// Appends `bytes` to `out` as base64 with padding.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..=group.len()].copy_from_slice(group);
        let block = u32::from_be_bytes(block);
        for position in 0..4 {
            let index = block >> (18 - 6 * position) & 63;
            let known = position <= group.len();
            out.push(if known { ALPHABET[index as usize] } else { b'=' });
        }
    }
}
