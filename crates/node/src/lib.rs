//! The node role as a synchronous state machine.
