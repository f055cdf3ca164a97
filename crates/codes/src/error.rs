//! What can be wrong with a code or with a wish to decode.

use shorttail_units::CodeShapeError;

use crate::Kernel;

/// Why a code could not be made, or a chunk not be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodeError {
    #[error(transparent)]
    Shape(#[from] CodeShapeError),
    #[error("this processor cannot run the {0} kernel")]
    KernelUnsupported(Kernel),
    #[error("{0:?} is not a kernel: choose one of avx512-gfni, avx2-gfni, avx2, neon, plain")]
    KernelUnknown(String),
    #[error("chunk {index} is not one of the {chunk_count} chunks of a stripe")]
    NoSuchChunk { index: usize, chunk_count: usize },
    /// Too many chunks are unreadable, or (codes that are not MDS) just the wrong ones.
    #[error("chunk {wanted} cannot be decoded from the {available_count} chunks that may be read")]
    NotDecodable { wanted: usize, available_count: usize },
}
