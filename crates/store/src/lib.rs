//! A node's memory: arena, chunks, headers, records.
