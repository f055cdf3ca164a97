//! Codes, from outside. One program, as each one more takes seconds to link.

mod erasures;
mod isal;
mod kernels;
mod lrc;
mod stripes;
