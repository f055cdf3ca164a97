//! `shorttail drain gateway N`, `shorttail drain node N`: a member gives away all that it has, and may be stopped then.
//!
//! Must not know: how partitions are handed over, or chunks move.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use shorttail_server::admin::DrainRequest;
use shorttail_server::config::parse_seconds;
use shorttail_wire::control::{ClusterStatus, DrainStatus, counted_are};

use crate::admin::{Admin, AdminPort};
use crate::exit::Failure;
use crate::lines;
use crate::output::print;

pub const EXAMPLES: &str = "\
Examples:
  shorttail drain gateway 2            it owns nothing then: it may be stopped
  shorttail drain gateway 2 --cancel   it owns something again
  shorttail drain node 5               it is empty then: stop or remove it
  shorttail drain node 5 --cancel      it is used again

A gateway goes on to answer its clients: what they ask for, it asks of the new owners. It owns something again when its \
process is started again, when the drain is cancelled, or when no other gateway is left.

A node goes on to answer until it is stopped. It stays as it is meant to be, empty, when processes are started again, \
until the drain is cancelled or the node is removed.";

/// Between two looks at the progress of a gateway, and of a node.
const PAUSE: Duration = Duration::from_millis(20);
/// From when it owns nothing until other gateways know, and what they had sent it is answered: two heartbeats.
const SETTLE: Duration = Duration::from_secs(1);
/// Until a gateway has come back to a coordinator that began anew: four times as long as others wait for what it owns.
const RETURN: Duration = Duration::from_secs(4);
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
        /// Let the gateway own something again
        #[arg(long)]
        cancel: bool,
        /// Seconds until it is said that it did not end; it goes on nevertheless
        #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = parse_patience)]
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
        #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = parse_patience)]
        within: u64,
    },
}

pub fn parse_patience(text: &str) -> Result<u64, String> {
    parse_seconds(text).and_then(|seconds| match seconds {
        ..=YEAR_S => Ok(seconds),
        _ => Err(format!("{text} is more than a year")),
    })
}

pub fn run(command: &DrainCommand) -> Result<(), Failure> {
    let admin = Admin::new(&command.admin);
    match command.member {
        DrainedMember::Gateway { id, cancel: true, .. } => order(&admin, DrainRequest::CancelGateway(id)),
        DrainedMember::Gateway { id, within, .. } => drain_gateway(&admin, id, Duration::from_secs(within)),
        DrainedMember::Node { id, cancel: true, .. } => order(&admin, DrainRequest::CancelNode(id)),
        DrainedMember::Node { id, within, .. } => drain_node(&admin, id, Duration::from_secs(within)),
    }
}

fn order(admin: &Admin, request: DrainRequest) -> Result<(), Failure> {
    admin.order_one("/drain", &request)
}

fn drain_gateway(admin: &Admin, id: u16, within: Duration) -> Result<(), Failure> {
    order(admin, DrainRequest::Gateway(id))?;
    let deadline = Instant::now() + within;
    await_handed_over(|| admin.cluster(), id, deadline)?;
    std::thread::sleep(SETTLE);
    // Who cancels in the last moment is heard, too.
    await_handed_over(|| admin.cluster(), id, deadline)?;
    print(&format!("gateway {id} owns nothing\n"))
}

fn await_handed_over(
    ask: impl Fn() -> anyhow::Result<ClusterStatus>,
    id: u16,
    deadline: Instant,
) -> anyhow::Result<()> {
    let mut missed_since = None;
    loop {
        let status = look(&ask, deadline, lines::warn)?;
        match status.gateways.iter().find(|gateway| gateway.id == id) {
            Some(gateway) if !gateway.draining => return Err(anyhow!("gateway {id} is not being drained any more")),
            Some(gateway) if gateway.tenures.is_empty() => return Ok(()),
            Some(_) => missed_since = None,
            None if missed_since.get_or_insert_with(Instant::now).elapsed() >= RETURN => {
                return Err(anyhow!("gateway {id} went away meanwhile"));
            }
            None => {}
        }
        if Instant::now() >= deadline {
            return Err(anyhow!("gateway {id} still owns something: the drain goes on"));
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
        let status = look(|| admin.cluster(), deadline, lines::warn)?;
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

/// The cluster as it is now. While nobody can tell, as when the coordinator begins anew, the drain goes on: so that is
/// said once, and asked again until `deadline`.
///
/// # Errors
/// What was answered last.
fn look(
    ask: impl Fn() -> anyhow::Result<ClusterStatus>,
    deadline: Instant,
    say: impl Fn(&str),
) -> anyhow::Result<ClusterStatus> {
    let mut is_said = false;
    loop {
        match ask() {
            Err(error) if Instant::now() < deadline => {
                if !is_said {
                    say(&format!("shorttail: {error:#}: the drain goes on, and how far it is will be asked again"));
                }
                is_said = true;
                std::thread::sleep(NODE_PAUSE);
            }
            told => return told,
        }
    }
}

/// What is left of a drain, how fast it goes, and what it waits for.
pub fn progress(drain: &DrainStatus, bytes_per_s: u64) -> String {
    let DrainStatus { chunks_left, bytes_left, .. } = drain;
    let mut text = format!("{} left ({})", counted_are(*chunks_left, "chunk"), crate::status::rounded(*bytes_left));
    if let Some(seconds) = drain.seconds_left {
        text += &format!(", {}/s, {seconds} s left", crate::status::rounded(bytes_per_s));
    }
    if let Some(problem) = &drain.problem {
        text += &format!("; it waits: {problem}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use shorttail_wire::control::{GatewayStatusEntry, TenureStatusEntry};

    use super::*;

    /// The coordinator does not answer the first times that it is asked.
    fn looks(failures: u32, within: Duration) -> (bool, Vec<String>) {
        let (asked, said) = (Cell::new(0), RefCell::new(Vec::new()));
        let ask = || {
            asked.set(asked.get() + 1);
            if asked.get() > failures { Ok(ClusterStatus::default()) } else { Err(anyhow!("no answer")) }
        };
        let status = look(ask, Instant::now() + within, |text| said.borrow_mut().push(text.to_owned()));
        (status.is_ok(), said.into_inner())
    }

    #[test]
    fn a_coordinator_that_begins_anew_is_asked_again() {
        assert_eq!(looks(0, Duration::ZERO), (true, vec![]));
        let (is_told, said) = looks(2, Duration::from_secs(60));
        assert!(is_told && said.len() == 1 && said[0].contains("no answer: the drain goes on"), "{said:?}");
        assert_eq!(looks(1, Duration::ZERO), (false, vec![]), "in vain");
    }

    #[test]
    fn a_gateway_that_comes_back_later_than_its_coordinator_did_not_go_away() {
        let gateway = |tenures| GatewayStatusEntry { id: 2, draining: true, tenures, ..GatewayStatusEntry::default() };
        let with = |gateways| Ok(ClusterStatus { gateways, ..ClusterStatus::default() });
        let looks = Cell::new(0);
        let ask = || match looks.replace(looks.get() + 1) {
            0 | 3 => with(vec![gateway(vec![TenureStatusEntry::default()])]),
            1 => Err(anyhow!("no answer")),
            2 => with(vec![]),
            _ => with(vec![gateway(vec![])]),
        };
        await_handed_over(ask, 2, Instant::now() + Duration::from_secs(60)).expect("it owns nothing in the end");
        assert_eq!(looks.get(), 5);
    }

    #[test]
    fn who_waits_for_a_drain_hears_that_it_was_cancelled() {
        let gateway = |tenures| GatewayStatusEntry { id: 2, tenures, ..GatewayStatusEntry::default() };
        for tenures in [vec![], vec![TenureStatusEntry::default()]] {
            let ask = || Ok(ClusterStatus { gateways: vec![gateway(tenures.clone())], ..ClusterStatus::default() });
            let error =
                await_handed_over(ask, 2, Instant::now() + Duration::from_secs(60)).expect_err("it is used again");
            assert_eq!(error.to_string(), "gateway 2 is not being drained any more");
        }
    }
}
