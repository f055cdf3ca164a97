//! Client protocols and the node protocol as bytes: parsers and encoders without any IO.
pub mod node;
