//! Arithmetic in GF(2^8) and the tables of the kernels.
//!
//! The field polynomial is x^8 + x^4 + x^3 + x^2 + 1 (0x11d), the one of ISA-L, Linux' RAID-6 and most storage codes,
//! so that results can be compared with theirs. All tables are made from [`multiply`] when the crate is compiled.

const POLYNOMIAL: u8 = 0x1d;

/// Product of two field elements: the specification of everything else in this crate.
pub const fn multiply(left: u8, right: u8) -> u8 {
    let mut product = 0;
    let mut shifted = left;
    let mut bit = 0;
    while bit < 8 {
        if right >> bit & 1 == 1 {
            product ^= shifted;
        }
        shifted = shifted << 1 ^ if shifted & 0x80 == 0 { 0 } else { POLYNOMIAL };
        bit += 1;
    }
    product
}

/// The element whose product with `element` is one; `None` for zero.
pub fn invert(element: u8) -> Option<u8> {
    (element != 0).then(|| INVERSES[usize::from(element)])
}

/// The inverse of each element: decoding asks for many. That of zero is none.
static INVERSES: [u8; 256] = {
    let mut inverses = [0; 256];
    let mut element = 0;
    while element < 256 {
        inverses[element] = power_254(element as u8);
        element += 1;
    }
    inverses
};

/// The multiplicative group has 255 elements, so this is the inverse: the powers 2 + 4 + ... + 128.
const fn power_254(element: u8) -> u8 {
    let mut power = 1;
    let mut square = element;
    let mut step = 0;
    while step < 7 {
        square = multiply(square, square);
        power = multiply(power, square);
        step += 1;
    }
    power
}

/// Products of one coefficient with all low and with all high nibbles: two tables for a byte shuffle.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct NibbleProducts {
    pub low: [u8; 16],
    pub high: [u8; 16],
}

/// By coefficient. 8 KiB, so the rows in use stay in the first-level cache.
pub(crate) static NIBBLE_PRODUCTS: [NibbleProducts; 256] = {
    let mut tables = [NibbleProducts { low: [0; 16], high: [0; 16] }; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[coefficient].low[nibble] = multiply(coefficient as u8, nibble as u8);
            tables[coefficient].high[nibble] = multiply(coefficient as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        coefficient += 1;
    }
    tables
};

/// By coefficient: the multiplication as an 8x8 bit matrix in the layout of the instruction `gf2p8affineqb`, which
/// works in any field: byte `7 - i` selects the bits of the input whose sum is bit `i` of the output.
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) static BIT_MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut input_bit = 0;
        while input_bit < 8 {
            let column = multiply(coefficient as u8, 1 << input_bit);
            let mut output_bit = 0;
            while output_bit < 8 {
                if column >> output_bit & 1 == 1 {
                    matrices[coefficient] |= 1 << (8 * (7 - output_bit) + input_bit);
                }
                output_bit += 1;
            }
            input_bit += 1;
        }
        coefficient += 1;
    }
    matrices
};

#[cfg(test)]
mod tests {
    use super::*;

    /// What the instruction `gf2p8affineqb` does, from Intel's manual.
    fn affine(matrix: u64, input: u8) -> u8 {
        (0..8).fold(0, |output, bit| {
            let row = (matrix >> (8 * (7 - bit))) as u8;
            output | ((row & input).count_ones() as u8 & 1) << bit
        })
    }

    #[test]
    fn tables_hold_all_products() {
        for left in 0..=255 {
            for right in 0..=255 {
                let product = multiply(left, right);
                let nibbles = &NIBBLE_PRODUCTS[usize::from(left)];
                assert_eq!(nibbles.low[usize::from(right & 15)] ^ nibbles.high[usize::from(right >> 4)], product);
                assert_eq!(affine(BIT_MATRICES[usize::from(left)], right), product);
            }
        }
    }

    #[test]
    fn the_field_laws_hold() {
        assert_eq!(invert(0), None);
        assert_eq!(multiply(0x80, 2), POLYNOMIAL);
        for a in 1..=255u8 {
            let inverse = invert(a).expect("not zero");
            assert_eq!(multiply(a, inverse), 1);
            for b in 0..=255u8 {
                assert_eq!(multiply(a, b), multiply(b, a));
                assert_eq!(multiply(inverse, multiply(a, b)), b);
                assert_eq!(multiply(a, b ^ 0x5a), multiply(a, b) ^ multiply(a, 0x5a));
            }
        }
    }
}
