//! A check of a frame's length by itself, in its header.
//!
//! The checksum of a frame can be looked at when all of it is there, which a length that was hurt may put off for ever:
//! the receiver would wait for bytes that nobody sends. One or two bits that turned over are always noticed, all else
//! but in one of 65 536.
//!
//! Must not know: which protocol the frame is of.

/// An odd number: the golden ratio as a fraction of 2^32, so that the upper half of a product depends on all bits.
const FACTOR: u32 = 0x9e37_79b1;

/// What a header says beside this length.
pub(crate) fn length_check(body_bytes: u32) -> u16 {
    (body_bytes.wrapping_mul(FACTOR) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::length_check;

    #[test]
    fn one_or_two_bits_of_a_length_never_pass() {
        for body_bytes in (0..1 << 22).step_by(997) {
            for one in 0..32 {
                for other in one..32 {
                    // The same bit: one alone.
                    let hurt = body_bytes ^ (1 << one) ^ if one == other { 0 } else { 1 << other };
                    assert_ne!(length_check(hurt), length_check(body_bytes), "{body_bytes} for {hurt}");
                }
            }
        }
    }
}
