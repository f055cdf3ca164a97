//! A node's memory: arena, chunks, headers, records. Pure: no clock, no thread, no socket.

pub mod record;
