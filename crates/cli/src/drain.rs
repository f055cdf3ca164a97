//! `shorttail drain gateway N`: a gateway hands over all that it owns, and may be stopped then.
//!
//! Must not know: how partitions are handed over.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use shorttail_server::admin::{DrainRequest, OrderOutcome};
use shorttail_server::config::parse_tcp_address;

use crate::admin::Admin;
use crate::exit::Failure;
use crate::output::print;

pub const EXAMPLES: &str = "\
Examples:
  shorttail drain gateway 2        and when it ends, gateway 2 owns nothing and may be stopped

The gateway goes on to answer its clients: what they ask for, it asks of the new owners. It owns something again when its
process is started again, or when no other gateway is left.";

/// Between two looks at the progress.
const PAUSE: Duration = Duration::from_millis(20);
/// From when it owns nothing until other gateways know, and what they had sent it is answered: two heartbeats.
const SETTLE: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub struct DrainCommand {
    /// The coordinator's admin port
    #[arg(long, global = true, env = "SHORTTAIL_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = parse_tcp_address)]
    pub admin: SocketAddr,
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
        #[arg(long, value_name = "SECONDS", default_value_t = 300)]
        within: u64,
    },
}

pub fn run(command: &DrainCommand) -> Result<(), Failure> {
    let admin = Admin::new(command.admin);
    let DrainedMember::Gateway { id, within } = command.member;
    let request = serde_json::to_string(&DrainRequest { gateway: id }).context("a request is JSON")?;
    let answer = admin.post("/drain", &request)?;
    let outcomes: Vec<OrderOutcome> =
        serde_json::from_str(&answer).with_context(|| format!("{} answers something else", command.admin))?;
    let outcome = outcomes.first().ok_or_else(|| anyhow!("the coordinator does not answer"))?;
    if !outcome.is_done {
        return Err(Failure::Failed(anyhow!("{}", outcome.text)));
    }
    print(&format!("{}\n", outcome.text))?;
    let deadline = Instant::now() + Duration::from_secs(within);
    loop {
        let status = admin.status()?;
        let Some(gateway) = status.gateways.iter().find(|gateway| gateway.id == id) else {
            return Err(Failure::Failed(anyhow!("gateway {id} went away meanwhile")));
        };
        if gateway.tenures.is_empty() {
            std::thread::sleep(SETTLE);
            return print(&format!("gateway {id} owns nothing\n"));
        }
        if Instant::now() >= deadline {
            return Err(Failure::Failed(anyhow!("gateway {id} still owns something after {within} s")));
        }
        std::thread::sleep(PAUSE);
    }
}
