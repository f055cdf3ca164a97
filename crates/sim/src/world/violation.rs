//! What a run can show to be wrong.

use std::fmt;

use crate::history::Failure;

/// What a run shows to be wrong.
#[derive(Debug)]
pub enum Violation {
    History(Box<Failure>),
    /// An operation, or reclaiming, is not done long after healing.
    NoProgress(String),
    /// An operation took too long, or was refused, although few enough nodes failed.
    NotPrompt(String),
    /// What nodes and owner hold together breaks a rule.
    Audit(String),
    /// An owner took a step with a node that is not one of MemEC's, or not yet.
    Transition(String),
    /// A machine broke its own invariant.
    Panic(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::History(failure) => failure.fmt(f),
            Violation::NoProgress(text) => write!(f, "no progress: {text}"),
            Violation::NotPrompt(text) => write!(f, "not prompt: {text}"),
            Violation::Audit(text) => write!(f, "audit: {text}"),
            Violation::Transition(text) => write!(f, "transition: {text}"),
            Violation::Panic(text) => write!(f, "panic: {text}"),
        }
    }
}
