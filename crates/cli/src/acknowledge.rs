//! `shorttail acknowledge`: the operator knows of the losses that `shorttail status` tells.
//!
//! Must not know: what was lost.

use clap::Args;
use shorttail_server::admin::AcknowledgeRequest;

use crate::admin::{Admin, AdminPort};
use crate::exit::Failure;

pub const EXAMPLES: &str = "\
Example:
  shorttail acknowledge

Acknowledged writes may be gone, and what depends on them was seen to: the problem is told no more.

Nothing of what is stored is changed by it. Keys that cannot be read go on to be answered with an error.";

#[derive(Args, Debug)]
pub struct AcknowledgeCommand {
    #[command(flatten)]
    pub admin: AdminPort,
}

pub fn run(command: &AcknowledgeCommand) -> Result<(), Failure> {
    Admin::new(&command.admin).order_one("/acknowledge", &AcknowledgeRequest::Losses)
}
