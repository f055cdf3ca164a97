//! All protocols as bytes, of clients and between roles: parsers and encoders without any IO.
mod checksum;
pub mod control;
pub mod gateway;
mod length_check;
pub mod memcached;
pub mod node;
pub mod resp;

pub use checksum::{crc32c, crc32c_of};
