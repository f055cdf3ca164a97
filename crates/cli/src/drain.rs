//! `shorttail drain gateway N`, `shorttail drain node N`: a member gives away all that it has, and may be stopped then.
//!
//! Must not know: how partitions are handed over, or chunks move.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use shorttail_server::admin::DrainRequest;
use shorttail_wire::control::DrainStatus;

use crate::admin::{Admin, AdminPort};
use crate::exit::Failure;
use crate::output::print;

pub const EXAMPLES: &str = "\
Examples:
  shorttail drain gateway 2         and when it ends, gateway 2 owns nothing and may be stopped
  shorttail drain node 5            and when it ends, node 5 holds nothing: it may be stopped, or removed
  shorttail drain node 5 --cancel   node 5 is used again

A gateway goes on to answer its clients: what they ask for, it asks of the new owners. It owns something again when its
process is started again, or when no other gateway is left. A node goes on to answer until it is stopped. It stays as it
is meant to be, empty, when processes are started again, until the drain is cancelled or the node is removed.";

/// Between two looks at the progress of a gateway, and of a node.
const PAUSE: Duration = Duration::from_millis(20);
/// From when it owns nothing until other gateways know, and what they had sent it is answered: two heartbeats.
const SETTLE: Duration = Duration::from_secs(1);
const NODE_PAUSE: Duration = Duration::from_millis(200);
/// Nobody waits longer.
const YEAR_S: u64 = 365 * 24 * 60 * 60;
/// Between two lines about it.
const TOLD_EVERY: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub struct DrainCommand {
    #[command(flatten)]
    pub admin: AdminPort,
    #[command(subcommand)]
    pub member: DrainedMember,
}

#[derive(Subcommand, Debug)]
pub enum DrainedMember {
    /// Hand over the partitions of a gateway
    Gateway {
        /// Its number, as `shorttail status` tells it
        id: u16,
        /// Seconds until it is said that it did not end; it goes on nevertheless
        #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=YEAR_S))]
        within: u64,
    },
    /// Move what a node holds to other nodes
    Node {
        /// Its number, as `shorttail status` tells it
        id: u16,
        /// Use the node again
        #[arg(long)]
        cancel: bool,
        /// Seconds until it is said that it did not end; it goes on nevertheless. 0: do not wait
        #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(..=YEAR_S))]
        within: u64,
    },
}

pub fn run(command: &DrainCommand) -> Result<(), Failure> {
    let admin = Admin::new(&command.admin);
    match command.member {
        DrainedMember::Gateway { id, within } => drain_gateway(&admin, id, Duration::from_secs(within)),
        DrainedMember::Node { id, cancel: true, .. } => order(&admin, DrainRequest::Cancel(id)),
        DrainedMember::Node { id, within, .. } => drain_node(&admin, id, Duration::from_secs(within)),
    }
}

fn order(admin: &Admin, request: DrainRequest) -> Result<(), Failure> {
    admin.order_one("/drain", &request)
}

fn drain_gateway(admin: &Admin, id: u16, within: Duration) -> Result<(), Failure> {
    order(admin, DrainRequest::Gateway(id))?;
    let deadline = Instant::now() + within;
    loop {
        let status = admin.cluster()?;
        let Some(gateway) = status.gateways.iter().find(|gateway| gateway.id == id) else {
            return Err(Failure::Failed(anyhow!("gateway {id} went away meanwhile")));
        };
        if gateway.tenures.is_empty() {
            std::thread::sleep(SETTLE);
            return print(&format!("gateway {id} owns nothing\n"));
        }
        if Instant::now() >= deadline {
            return Err(Failure::Failed(anyhow!("gateway {id} still owns something after {} s", within.as_secs())));
        }
        std::thread::sleep(PAUSE);
    }
}

fn drain_node(admin: &Admin, id: u16, within: Duration) -> Result<(), Failure> {
    order(admin, DrainRequest::Node(id))?;
    if within.is_zero() {
        return Ok(());
    }
    let deadline = Instant::now() + within;
    let mut told_at = Instant::now() + TOLD_EVERY;
    loop {
        let status = admin.cluster()?;
        let drain = status.nodes.iter().find(|node| node.id == id).and_then(|node| node.drain.clone());
        let Some(drain) = drain else {
            return Err(Failure::Failed(anyhow!("node {id} is not being drained any more")));
        };
        if drain.drained {
            return print(&format!(
                "node {id} holds nothing: it may be stopped, or removed (shorttail remove node {id})\n"
            ));
        }
        if Instant::now() >= deadline {
            let text = progress(&drain, status.moves.bytes_per_s);
            return Err(Failure::Failed(anyhow!("after {} s {text}", within.as_secs())));
        }
        if Instant::now() >= told_at {
            told_at += TOLD_EVERY;
            print(&format!("{}\n", progress(&drain, status.moves.bytes_per_s)))?;
        }
        std::thread::sleep(NODE_PAUSE);
    }
}

/// What is left of a drain, how fast it goes, and what it waits for.
pub fn progress(drain: &DrainStatus, bytes_per_s: u64) -> String {
    let DrainStatus { chunks_left, bytes_left, .. } = drain;
    let are_left =
        if *chunks_left == 1 { "1 chunk is left".to_owned() } else { format!("{chunks_left} chunks are left") };
    let mut text = format!("{are_left} ({})", crate::status::rounded(*bytes_left));
    if let Some(seconds) = drain.seconds_left {
        text += &format!(", {}/s, {seconds} s left", crate::status::rounded(bytes_per_s));
    }
    if let Some(problem) = &drain.problem {
        text += &format!("; it waits: {problem}");
    }
    text
}
