//! Every kernel that this processor can run gives the bytes of the plain one, and the plain one those of the field.

use shorttail_codes::{Code, CodeError, Kernel, multiply};

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Encodes with each chunk at its own odd alignment, and with canaries around every parity.
fn encode(code: &Code, noise: &[u8], bytes: usize, skew: usize) -> Vec<Vec<u8>> {
    let offset = |chunk: usize| chunk * 7 + skew;
    let data: Vec<&[u8]> = (0..code.data_count()).map(|chunk| &noise[offset(chunk)..][..bytes]).collect();
    let mut parities = vec![vec![0xc5; bytes + 160]; code.parity_count()];
    let mut outs: Vec<&mut [u8]> =
        parities.iter_mut().enumerate().map(|(parity, all)| &mut all[parity + skew..][..bytes]).collect();
    code.encode(&data, &mut outs);
    parities
}

fn fold(code: &Code, noise: &[u8], bytes: usize, skew: usize) -> Vec<u8> {
    let mut parity = noise[..bytes + 160].to_vec();
    let delta = &noise[100 + skew..][..bytes];
    code.fold(code.parity_count() - 1, code.data_count() - 1, delta, &mut parity[5 + skew..][..bytes]);
    parity
}

fn others() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|&kernel| kernel != Kernel::Plain && kernel.is_supported())
}

#[test]
fn the_plain_kernel_equals_the_field() {
    let code = Code::reed_solomon(5, 3).expect("within limits").with_kernel(Kernel::Plain).expect("runs everywhere");
    let noise = noise(1000, 1);
    for (parity, all) in encode(&code, &noise, 50, 3).iter().enumerate() {
        for (column, &byte) in all[parity + 3..][..50].iter().enumerate() {
            let scaled = |data| multiply(code.coefficient(parity, data), noise[data * 7 + 3 + column]);
            assert_eq!(byte, (0..5).fold(0, |sum, data| sum ^ scaled(data)));
        }
    }
    let folded = fold(&code, &noise, 50, 0);
    for (column, &byte) in folded.iter().enumerate() {
        let added = if (5..55).contains(&column) { multiply(code.coefficient(2, 4), noise[95 + column]) } else { 0 };
        assert_eq!(byte, noise[column] ^ added);
    }
}

#[test]
fn all_kernels_agree_at_all_lengths_and_alignments() {
    let noise = noise(20_000, 7);
    for (data_count, parity_count) in [(1, 1), (2, 2), (4, 3), (8, 4), (10, 5), (3, 7), (5, 16)] {
        let best = Code::reed_solomon(data_count, parity_count).expect("within limits");
        let plain = best.with_kernel(Kernel::Plain).expect("runs everywhere");
        for code in others().map(|kernel| best.with_kernel(kernel).expect("supported")) {
            for bytes in 0..=300 {
                let skew = bytes * 5 % 64;
                assert_eq!(encode(&code, &noise, bytes, skew), encode(&plain, &noise, bytes, skew), "{code:?} {bytes}");
                assert_eq!(fold(&code, &noise, bytes, skew), fold(&plain, &noise, bytes, skew), "{code:?} {bytes}");
            }
        }
    }
}

#[test]
fn all_kernels_agree_at_every_alignment_and_around_large_sizes() {
    let noise = noise(40_000, 9);
    let best = Code::reed_solomon(3, 6).expect("within limits");
    let plain = best.with_kernel(Kernel::Plain).expect("runs everywhere");
    for code in others().map(|kernel| best.with_kernel(kernel).expect("supported")) {
        for skew in 0..64 {
            assert_eq!(encode(&code, &noise, 257, skew), encode(&plain, &noise, 257, skew), "{code:?} {skew}");
        }
        for bytes in [511, 512, 513, 2048, 4095, 4096, 4097, 8191, 8192, 8193, 20_001] {
            assert_eq!(encode(&code, &noise, bytes, 1), encode(&plain, &noise, bytes, 1), "{code:?} {bytes}");
            assert_eq!(fold(&code, &noise, bytes, 1), fold(&plain, &noise, bytes, 1), "{code:?} {bytes}");
        }
    }
}

#[test]
fn decoding_agrees_too() {
    let noise = noise(5000, 3);
    let code = Code::reed_solomon(10, 4).expect("within limits");
    let sources: Vec<&[u8]> = (0..10).map(|chunk| &noise[chunk * 11..][..333]).collect();
    let decoded = |code: &Code| {
        let mut outs = vec![vec![0; 333]; 4];
        let plan = code.repair_plan(&[0, 3, 9, 11], &[0, 3, 9, 11]).expect("decodable");
        plan.decode(&sources, &mut outs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        let mut one = vec![0; 333];
        let plan = code.read_plan(3, &|index| ![0, 3, 9, 11].contains(&index)).expect("decodable");
        plan.decode(&sources, &mut one);
        assert_eq!(one, outs[1]);
        outs
    };
    let expected = decoded(&code.with_kernel(Kernel::Plain).expect("runs everywhere"));
    for kernel in others() {
        assert_eq!(decoded(&code.with_kernel(kernel).expect("supported")), expected, "{kernel}");
    }
}

#[test]
fn kernels_are_chosen_by_name() {
    for kernel in Kernel::ALL {
        assert_eq!(kernel.to_string().parse(), Ok(kernel));
    }
    let error = "sse".parse::<Kernel>().expect_err("no such kernel").to_string();
    assert_eq!(error, "\"sse\" is not a kernel: choose one of avx512-gfni, avx2-gfni, avx2, neon, plain");
    let code = Code::parse("rs:4+2").expect("a code");
    assert_eq!(code.kernel(), Kernel::best());
    for kernel in Kernel::ALL {
        match code.with_kernel(kernel) {
            Ok(forced) => assert_eq!((forced.kernel(), forced.to_string().as_str()), (kernel, "rs:4+2")),
            Err(error) => assert_eq!((error, kernel.is_supported()), (CodeError::KernelUnsupported(kernel), false)),
        }
    }
    assert!(Kernel::Plain.is_supported());
    assert_eq!(Kernel::Neon.is_supported(), cfg!(target_arch = "aarch64"));
}
