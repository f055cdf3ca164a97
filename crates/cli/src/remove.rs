//! `shorttail remove node N`: a node is taken out of the cluster for good.
//!
//! Must not know: what keeps data safe; the coordinator refuses what would not.

use clap::{Args, Subcommand};
use shorttail_server::admin::RemoveRequest;

use crate::admin::{Admin, AdminPort};
use crate::exit::Failure;

pub const EXAMPLES: &str = "\
Examples:
  shorttail drain node 5 && shorttail remove node 5
  shorttail remove node 5 --lost

The first one has nothing repaired. The second one is for a node that is gone for good: what it held is rebuilt \
elsewhere at once.

A removed node is not let in again, and ends. Its number is never given to another; the machine may come back as a new \
node with another number.";

#[derive(Args, Debug)]
pub struct RemoveCommand {
    #[command(flatten)]
    pub admin: AdminPort,
    #[command(subcommand)]
    pub member: RemovedMember,
}

#[derive(Subcommand, Debug)]
pub enum RemovedMember {
    /// Take out a node that is drained, or gone
    Node {
        /// Its number, as `shorttail status` tells it
        id: u16,
        /// Give up what it holds at once; refused where that could lose data
        #[arg(long)]
        lost: bool,
    },
}

pub fn run(command: &RemoveCommand) -> Result<(), Failure> {
    let RemovedMember::Node { id, lost } = command.member;
    Admin::new(&command.admin).order_one("/remove", &RemoveRequest { node: id, lost })
}
