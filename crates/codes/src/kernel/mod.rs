//! The kernels: one job, done with whatever vector instructions the processor has.
//!
//! The plain kernel is the specification; tests compare all others with it. The only `unsafe` code of the crate is
//! here: [`Engine`] proves the processor's features, [`Engine::combine`] the lengths.

#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, reason = "no vectors here"))]
mod lanes;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod partial;
mod plain;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_gfni;
#[cfg(target_arch = "x86_64")]
mod avx512_gfni;
#[cfg(target_arch = "x86_64")]
mod bytes256;
#[cfg(target_arch = "aarch64")]
mod neon;

use std::fmt;
use std::str::FromStr;

use lanes::Job;

use crate::CodeError;

/// A way to do the arithmetic. All give the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// AVX-512 with Galois field instructions.
    Avx512Gfni,
    /// AVX2 with Galois field instructions.
    Avx2Gfni,
    /// AVX2 byte shuffles.
    Avx2,
    /// NEON table look-ups.
    Neon,
    /// No vector instructions.
    Plain,
}

impl Kernel {
    /// All kernels, fastest first.
    pub const ALL: [Kernel; 5] = [Kernel::Avx512Gfni, Kernel::Avx2Gfni, Kernel::Avx2, Kernel::Neon, Kernel::Plain];

    /// The fastest kernel that this processor can run.
    pub fn best() -> Kernel {
        Kernel::ALL.into_iter().find(|kernel| kernel.is_supported()).expect("the plain kernel runs everywhere")
    }

    /// Whether this processor can run it.
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512Gfni => avx512_gfni::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2Gfni => avx2_gfni::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::is_supported(),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => neon::is_supported(),
            Kernel::Plain => true,
            #[allow(unreachable_patterns, reason = "reached for the kernels of other architectures")]
            _ => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kernel::Avx512Gfni => "avx512-gfni",
            Kernel::Avx2Gfni => "avx2-gfni",
            Kernel::Avx2 => "avx2",
            Kernel::Neon => "neon",
            Kernel::Plain => "plain",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let found = Kernel::ALL.into_iter().find(|kernel| kernel.name() == text);
        found.ok_or_else(|| CodeError::KernelUnknown(text.to_owned()))
    }
}

/// A kernel that this processor can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Engine(Kernel);

impl Engine {
    pub fn best() -> Engine {
        Engine(Kernel::best())
    }

    /// # Errors
    /// [`CodeError::KernelUnsupported`].
    pub fn new(kernel: Kernel) -> Result<Engine, CodeError> {
        if kernel.is_supported() { Ok(Engine(kernel)) } else { Err(CodeError::KernelUnsupported(kernel)) }
    }

    pub fn kernel(self) -> Kernel {
        self.0
    }

    /// `outputs[o] = sum over s of coefficients[o][s] * sources[s]`.
    ///
    /// # Panics
    /// If the coefficients are not `outputs.len() x sources.len()` or the chunks differ in length.
    #[inline]
    pub fn combine(self, coefficients: &[u8], sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        self.run(coefficients, sources, outputs, false);
    }

    /// `output ^= coefficient * source`.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn fold(self, coefficient: u8, source: &[u8], output: &mut [u8]) {
        self.run(&[coefficient], &[source], &mut [output], true);
    }

    fn run(self, coefficients: &[u8], sources: &[&[u8]], outputs: &mut [&mut [u8]], accumulate: bool) {
        let Some(bytes) = outputs.first().map(|output| output.len()) else { return };
        assert_eq!(coefficients.len(), outputs.len() * sources.len(), "one coefficient for each source and output");
        // Written without early exits, so that it costs next to nothing beside the smallest chunks.
        let unequal = sources.iter().fold(0, |unequal, source| unequal | (source.len() ^ bytes))
            | outputs.iter().fold(0, |unequal, output| unequal | (output.len() ^ bytes));
        assert_eq!(unequal, 0, "all chunks have the same length");
        let mut job = Job { coefficients, sources, outputs, bytes, accumulate };
        match self.0 {
            // SAFETY: an engine exists only for a supported kernel, and the lengths were checked above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512Gfni => unsafe { avx512_gfni::run(&mut job) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2Gfni => unsafe { avx2_gfni::run(&mut job) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::run(&mut job) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => unsafe { neon::run(&mut job) },
            _ => plain::run(&mut job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiply;

    #[test]
    fn all_kernels_know_all_coefficients() {
        let bytes: Vec<u8> = (0..=255).collect();
        for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported()) {
            let engine = Engine::new(kernel).expect("supported");
            for coefficient in 0..=255 {
                let mut output = vec![0x5a; 256];
                engine.combine(&[coefficient], &[&bytes], &mut [&mut output]);
                let expected: Vec<u8> = bytes.iter().map(|&byte| multiply(coefficient, byte)).collect();
                assert_eq!(output, expected, "{kernel} times {coefficient}");
            }
        }
    }
}
