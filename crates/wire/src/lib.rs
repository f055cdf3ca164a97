//! Client protocols and the node protocol as bytes: parsers and encoders without any IO.
pub mod control;
pub mod gateway;
mod length_check;
pub mod memcached;
pub mod node;
pub mod resp;
