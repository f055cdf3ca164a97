//! The coordinator role as a synchronous state machine.
