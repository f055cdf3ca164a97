//! The measurements as sub-commands, for the program's command line.

use crate::codes::{self, CodesOptions};
use crate::compare::{self, CompareOptions};
use crate::kill::{self, KillOptions};
use crate::load::{self, LoadOptions};
use crate::memory::{self, MemoryOptions};
use crate::overwrite::{self, OverwriteOptions};
use crate::paper::Paper;
use crate::repair::{self, RepairOptions};
use crate::tail::{self, TailOptions};
use crate::transitions::{self, TransitionsOptions};

/// Measurements of ShortTail and of the stores it is compared with.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    Load(Box<LoadOptions>),
    Codes(Box<CodesOptions>),
    Compare(Box<CompareOptions>),
    Memory(Box<MemoryOptions>),
    Overwrite(Box<OverwriteOptions>),
    Kill(Box<KillOptions>),
    Repair(Box<RepairOptions>),
    Tail(Box<TailOptions>),
    Transitions(Box<TransitionsOptions>),
    /// Redraws the figures of a paper.
    #[command(subcommand)]
    Paper(Paper),
}

impl Command {
    /// Runs the measurement.
    ///
    /// # Errors
    /// As its module says; an error means exit status 1.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Load(options) => load::run(*options),
            Command::Codes(options) => codes::run(*options),
            Command::Compare(options) => compare::run(*options),
            Command::Memory(options) => memory::run(*options),
            Command::Overwrite(options) => overwrite::run(*options),
            Command::Kill(options) => kill::run(*options),
            Command::Repair(options) => repair::run(*options),
            Command::Tail(options) => tail::run(*options),
            Command::Transitions(options) => transitions::run(*options),
            Command::Paper(paper) => paper.run(),
        }
    }
}
