//! `shorttail policy`: what is done about slow nodes and how objects are stored, changed while the cluster serves.
//!
//! Must not know: what a technique does.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use shorttail_policy::{Change, Hedge, PolicyName, SmallWrite, Update};
use shorttail_server::admin::PolicyRequest;
use shorttail_server::config::Switch;
use shorttail_wire::control::{ClusterStatus, PolicySpan};

use crate::admin::{Admin, AdminPort, report};
use crate::exit::Failure;
use crate::output::{columns, print};

pub const EXAMPLES: &str = "\
Examples:
  shorttail policy show                                by partition
  shorttail policy set --policy shorttail              all as that one has it
  shorttail policy set --partition 3 --hedge off       one, of one partition
  shorttail policy set --policy ecwide --read-sidestep on

A change is in force when the command ends, and concerns requests that begin from then on: objects stay as they were \
stored until they are written again. It lasts until the gateway ends or reads a file that says something else of \
policies. How slow nodes are found (detector) is not a policy: change it in the file and send SIGHUP.";

/// Two reports of a gateway, and some.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Args, Debug)]
pub struct PolicyCommand {
    #[command(flatten)]
    pub admin: AdminPort,
    #[command(subcommand)]
    pub verb: PolicyVerb,
}

#[derive(Subcommand, Debug)]
pub enum PolicyVerb {
    /// Change it; what is not named stays
    Set(SetOptions),
    /// The policies in force
    Show,
}

#[derive(Args, Debug)]
#[group(
    id = "change",
    required = true,
    multiple = true,
    args = ["policy", "read_sidestep", "write_sidestep", "hedge", "small_write", "update"],
)]
pub struct SetOptions {
    /// Whose: a number, or all
    #[arg(long, value_name = "N|all", default_value = "all")]
    partition: Partitions,
    /// All techniques as this one has them: ecwide, llf, ec-cache, shorttail or adaptive
    #[arg(long, value_name = "POLICY")]
    policy: Option<PolicyName>,
    /// Whether reads go round fail-slow nodes
    #[arg(long, value_name = "on|off")]
    read_sidestep: Option<Switch>,
    /// Whether writes leave fail-slow nodes
    #[arg(long, value_name = "on|off")]
    write_sidestep: Option<Switch>,
    /// Extra requests: off, adaptive (when one is late) or late-binding:N (always N more; N:4% for a share of reads)
    #[arg(long, value_name = "HEDGE")]
    hedge: Option<Hedge>,
    /// What becomes of small objects: packed (they share chunks), replicate (whole copies) or pad (a stripe each)
    #[arg(long, value_name = "STRATEGY")]
    small_write: Option<SmallWrite>,
    /// Where new values of striped objects go: log (any nodes) or in-place (those of the old one)
    #[arg(long, value_name = "STRATEGY")]
    update: Option<Update>,
}

/// Which partitions are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Partitions {
    All,
    One(u16),
}

impl std::str::FromStr for Partitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Partitions::All),
            _ => text.parse().map(Partitions::One).map_err(|_| format!("{text:?} is neither a number nor all")),
        }
    }
}

pub fn run(command: PolicyCommand) -> Result<(), Failure> {
    let admin = Admin::new(&command.admin);
    let PolicyVerb::Set(options) = command.verb else { return print(&table(&admin.cluster()?)) };
    if options.request().change.is_empty() {
        return Err(Failure::Usage("policy set: say what is to change, --policy or --hedge for example".to_owned()));
    }
    report("gateway", &admin.order("/policy", &options.request())?)?;
    // Gateways tell the coordinator a moment later: who looks after this command ended is to see the change.
    let deadline = Instant::now() + SHOWN_WITHIN;
    while !is_shown(&admin.cluster()?, &options.request()) && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Do all gateways say that they do as was asked?
fn is_shown(status: &ClusterStatus, request: &PolicyRequest) -> bool {
    let alive = status.gateways.iter().filter(|gateway| gateway.state.is_alive());
    let concerned = alive
        .flat_map(|gateway| &gateway.policies)
        .filter(|span| request.partition.is_none_or(|partition| (span.first..=span.last).contains(&partition)));
    concerned.into_iter().all(|span| request.change.apply(span.policy) == span.policy)
}

impl SetOptions {
    fn request(&self) -> PolicyRequest {
        let partition = match self.partition {
            Partitions::All => None,
            Partitions::One(partition) => Some(partition),
        };
        let change = Change {
            policy: self.policy,
            read_sidestep: self.read_sidestep.map(|switch| switch.0),
            write_sidestep: self.write_sidestep.map(|switch| switch.0),
            hedge: self.hedge,
            small_write: self.small_write,
            update: self.update,
        };
        PolicyRequest { partition, change }
    }
}

/// The policies of all gateways as lines and columns.
fn table(status: &ClusterStatus) -> String {
    let spans = status.gateways.iter().flat_map(|gateway| gateway.policies.iter().map(|span| (gateway.id, span)));
    let word = |on: bool| Switch(on).to_string();
    let rows = spans.map(|(gateway, PolicySpan { first, last, policy })| {
        [
            gateway.to_string(),
            if first == last { first.to_string() } else { format!("{first}-{last}") },
            policy.name().map_or_else(|| "-".to_owned(), |name| name.to_string()),
            word(policy.read_sidestep),
            word(policy.write_sidestep),
            policy.hedge.to_string(),
            policy.small_write.to_string(),
            policy.update.to_string(),
            word(policy.reads_least_loaded),
        ]
    });
    let heads = [
        "gateway",
        "partitions",
        "policy",
        "read-sidestep",
        "write-sidestep",
        "hedge",
        "small-write",
        "update",
        "least loaded",
    ];
    columns(&heads, rows)
}

#[cfg(test)]
mod tests {
    use shorttail_policy::Policy;
    use shorttail_wire::control::{GatewayStatusEntry, NodeState};

    use super::*;

    #[test]
    fn every_span_is_a_line() {
        let mixed = Policy { hedge: Hedge::late_binding(2), ..Policy::of(PolicyName::Llf) };
        let usual = PolicySpan { first: 0, last: 2, policy: Policy::default() };
        let policies = vec![usual, PolicySpan { first: 3, last: 3, policy: mixed }];
        let gateways = vec![GatewayStatusEntry { id: 1, policies, ..GatewayStatusEntry::default() }];
        let text = table(&ClusterStatus { gateways, ..ClusterStatus::default() });
        let words = |line: usize| text.lines().nth(line).map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            words(1).as_deref(),
            Some(&["1", "0-2", "adaptive", "on", "on", "adaptive", "packed", "log", "off"][..])
        );
        let line = ["1", "3", "-", "off", "off", "late-binding:2", "pad", "in-place", "on"];
        assert_eq!(words(2).as_deref(), Some(&line[..]));
    }

    #[test]
    fn a_change_is_shown_when_every_partition_concerned_has_it() {
        let change = Change { hedge: Some(Hedge::Off), ..Change::default() };
        let (before, after) = (Policy::default(), change.apply(Policy::default()));
        let span = |first, policy| PolicySpan { first, last: first, policy };
        let policies = vec![span(0, before), span(1, after)];
        let gateways = vec![GatewayStatusEntry { policies, ..GatewayStatusEntry::default() }];
        let mut status = ClusterStatus { gateways, ..ClusterStatus::default() };
        let request = |partition| PolicyRequest { partition, change };
        assert!(is_shown(&status, &request(Some(1))) && !is_shown(&status, &request(Some(0))));
        assert!(!is_shown(&status, &request(None)));
        status.gateways[0].state = NodeState::Suspect;
        assert!(!is_shown(&status, &request(None)), "one that is late is asked too");
        status.gateways[0].state = NodeState::Dead;
        assert!(is_shown(&status, &request(None)), "a dead one tells nothing any more");
    }
}
