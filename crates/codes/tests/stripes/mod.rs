//! Stripes of bytes, and what decoding them must give.

use shorttail_codes::Code;

/// Bytes that differ from chunk to chunk and repeat nowhere soon.
pub fn chunk(seed: usize, bytes: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 56) as u8
        })
        .collect()
}

pub fn slices(chunks: &[Vec<u8>]) -> Vec<&[u8]> {
    chunks.iter().map(Vec::as_slice).collect()
}

pub fn slices_mut(chunks: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    chunks.iter_mut().map(Vec::as_mut_slice).collect()
}

/// All chunks of a stripe.
pub fn stripe(code: &Code, bytes: usize) -> Vec<Vec<u8>> {
    let mut chunks: Vec<Vec<u8>> = (0..code.data_count()).map(|index| chunk(index, bytes)).collect();
    let mut parities = vec![vec![0xee; bytes]; code.parity_count()];
    code.encode(&slices(&chunks), &mut slices_mut(&mut parities));
    chunks.append(&mut parities);
    chunks
}

pub fn pick<'a>(stripe: &'a [Vec<u8>], indexes: &[usize]) -> Vec<&'a [u8]> {
    indexes.iter().map(|&index| stripe[index].as_slice()).collect()
}

/// Decodes every lost chunk alone, and all of them together.
pub fn assert_decodes(code: &Code, stripe: &[Vec<u8>], lost: &[usize]) {
    let bytes = stripe[0].len();
    for &wanted in lost {
        let plan = code.read_plan(wanted, &|index| !lost.contains(&index)).expect("decodable");
        assert!(plan.sources.iter().all(|source| !lost.contains(source)), "{lost:?}: reads {:?}", plan.sources);
        assert!(plan.sources.len() <= code.data_count());
        let mut out = vec![0xee; bytes];
        plan.decode(&pick(stripe, &plan.sources), &mut out);
        assert_eq!(out, stripe[wanted], "{code}: chunk {wanted} of lost {lost:?}");
    }
    let plan = code.repair_plan(lost, lost).expect("decodable");
    assert_eq!(plan.wanted, lost);
    assert!(plan.sources.len() <= code.data_count());
    let mut outs = vec![vec![0xee; bytes]; lost.len()];
    plan.decode(&pick(stripe, &plan.sources), &mut slices_mut(&mut outs));
    for (&wanted, out) in lost.iter().zip(&outs) {
        assert_eq!(*out, stripe[wanted], "{code}: chunk {wanted} of lost {lost:?}, all at once");
    }
}
