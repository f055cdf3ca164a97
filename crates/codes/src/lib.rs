//! Erasure codes over GF(2^8): generator matrices, encoding, folding, decoding, kernels.
//!
//! A [`Code`], Reed-Solomon or with local groups, turns the data chunks of a stripe into parity chunks, folds a
//! change of one data chunk into one parity chunk, and answers which chunks, combined how, give a lost one
//! ([`Plan`], [`RepairPlan`]).
//!
//! ```
//! use shorttail_codes::Code;
//!
//! let code = Code::parse("rs:4+2")?;
//! let data: [&[u8]; 4] = [b"shor", b"ttai", b"l st", b"ore."];
//! let (mut first, mut second) = ([0; 4], [0; 4]);
//! code.encode(&data, &mut [&mut first, &mut second]);
//!
//! // Chunk 1 is lost and chunk 4, the first parity, may not be read either.
//! let plan = code.read_plan(1, &|chunk| chunk != 1 && chunk != 4)?;
//! assert_eq!(plan.sources, [0, 2, 3, 5]);
//! let mut lost = [0; 4];
//! plan.decode(&[data[0], data[2], data[3], &second], &mut lost);
//! assert_eq!(lost, *data[1]);
//! # Ok::<(), shorttail_codes::CodeError>(())
//! ```
//!
//! Pure: no clocks, threads, sockets, environment or randomness; nothing here knows of nodes, stripes on nodes, or
//! operations. `unsafe` is found in `kernel` only.

mod cache;
mod chunk_set;
mod code;
mod code_cache;
mod error;
mod field;
mod kernel;
pub mod limits;
mod lrc;
mod matrix;
mod name;
mod plan;
mod planner;

pub use chunk_set::ChunkSet;
pub use code::Code;
pub use code_cache::CodeCache;
pub use error::CodeError;
pub use field::{invert, multiply};
pub use kernel::Kernel;
pub use plan::{Cost, Plan, RepairPlan};
pub use shorttail_units::{CodeShape, CodeShapeError};
