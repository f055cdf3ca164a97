//! What a node is told at its start.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use shorttail_units::{ClusterId, NodeId};

use super::address::{Address, Addresses};
use super::error::{ConfigError, within};
use super::gateway::check_advertised;
use super::limits::{NODE_MEMORY_MAX, NODE_MEMORY_MIN, NODE_THREAD_COUNT_MAX};
use super::size::Size;
use super::{by_text, merge, take_live};

/// Configuration of one node, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeConfig {
    /// Where owners connect. TCP port 0: any free port. Of 0.0.0.0 they are told the host that the coordinator sees.
    pub listen: Address,
    /// What owners are told to connect to, when it is not that (NAT).
    pub advertise: Option<Address>,
    pub membership: NodeMembership,
    /// Budget of chunk memory in bytes, reserved at the start.
    pub memory_bytes: u64,
    /// Where the memory is, if it is to outlive the process.
    pub memory_file: Option<PathBuf>,
    pub threads: usize,
    /// What it fails together with; empty: it fails alone.
    pub domain: String,
    /// Whether it obeys orders to be faulty on purpose.
    pub allow_chaos: bool,
    /// What it may fetch from other nodes to rebuild lost chunks, in bytes a second.
    pub repair_bytes_per_s: u64,
    /// What it looks at in the background to find damaged chunks, in bytes a second; 0: nothing.
    pub scrub_bytes_per_s: u64,
}

impl NodeConfig {
    /// Takes over what may change while it runs; names what else differs and has to wait for the next start.
    pub fn take_live(&mut self, wanted: Self) -> Vec<&'static str> {
        take_live!(
            self,
            wanted,
            live { repair_bytes_per_s, scrub_bytes_per_s },
            fixed {
                listen = "--listen",
                advertise = "--advertise",
                membership = "--coordinator, --cluster-id or --id",
                memory_bytes = "--memory",
                memory_file = "--memory-file",
                threads = "--threads",
                domain = "--domain",
                allow_chaos = "--allow-chaos",
            }
        )
    }
}

/// How a node learns which cluster it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeMembership {
    /// Ask the coordinator that leads, one of these, for this number if one is wanted.
    Coordinator { addresses: Addresses, wanted_id: Option<NodeId> },
    /// Without a coordinator.
    Static { cluster_id: ClusterId, node_id: NodeId },
}

/// Memory of a node when nothing is said.
pub const NODE_MEMORY_DEFAULT: Size = Size::mib(256);

/// What a node may fetch for repair in a second when nothing is said: half of a gigabit link.
pub const REPAIR_BANDWIDTH_DEFAULT: Size = Size::mib(64);
/// What a node scrubs in a second when nothing is said: a GiB in four minutes, for a thousandth of a core.
pub const SCRUB_BANDWIDTH_DEFAULT: Size = Size::mib(4);
/// With less, what one owner orders at once would take more than an hour with the widest code.
pub const REPAIR_BANDWIDTH_MIN: Size = Size::mib(1);

/// Identity of a cluster as operators write it: hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterName(pub ClusterId);

impl FromStr for ClusterName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let number = u64::from_str_radix(digits, 16);
        number
            .map(|number| ClusterName(ClusterId(number)))
            .map_err(|_| format!("{text:?} is not a cluster id: up to 16 hexadecimal digits"))
    }
}

by_text!(ClusterName);

/// Settings of a node as flags, environment and file give them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct NodeOptions {
    /// Where gateways connect: host:port or unix:/path [default: 127.0.0.1:7001]
    #[arg(long, env = "SHORTTAIL_NODE_LISTEN", value_name = "ADDR")]
    pub listen: Option<Address>,
    /// What gateways are told to connect to, if not what --listen says
    #[arg(long, env = "SHORTTAIL_NODE_ADVERTISE", value_name = "ADDR")]
    pub advertise: Option<Address>,
    /// The coordinator to register with; of several, the one that leads is found
    #[arg(long, env = "SHORTTAIL_NODE_COORDINATOR", value_name = "ADDR,...")]
    pub coordinator: Option<Addresses>,
    /// Number of this node; with a coordinator, the number wanted [default: any free one]
    #[arg(long, env = "SHORTTAIL_NODE_ID", value_name = "N")]
    pub id: Option<u16>,
    /// Without a coordinator: the cluster this node belongs to, in hexadecimal
    #[arg(long, env = "SHORTTAIL_NODE_CLUSTER_ID", value_name = "HEX")]
    pub cluster_id: Option<ClusterName>,
    /// Memory lent to the cluster [default: 256MiB]
    #[arg(long, env = "SHORTTAIL_NODE_MEMORY", value_name = "SIZE")]
    pub memory: Option<Size>,
    /// A file, best in /dev/shm, that the memory is kept in: a restarted node has its chunks [default: none]
    #[arg(long, env = "SHORTTAIL_NODE_MEMORY_FILE", value_name = "FILE")]
    pub memory_file: Option<PathBuf>,
    /// Threads, each with its share of the memory [default: 1]
    #[arg(long, env = "SHORTTAIL_NODE_THREADS", value_name = "N")]
    pub threads: Option<usize>,
    /// What it may fetch from other nodes in a second to rebuild lost chunks [default: 64MiB]
    #[arg(long, env = "SHORTTAIL_NODE_REPAIR_BANDWIDTH", value_name = "SIZE")]
    pub repair_bandwidth: Option<Size>,
    /// What it looks at in a second, in the background, to find damaged chunks; 0: nothing [default: 4MiB]
    #[arg(long, env = "SHORTTAIL_NODE_SCRUB_BANDWIDTH", value_name = "SIZE")]
    pub scrub_bandwidth: Option<Size>,
    /// What fails together with it, a rack for example: the chunks of a stripe are spread over such
    /// domains [default: none]
    #[arg(long, env = "SHORTTAIL_NODE_DOMAIN", value_name = "NAME")]
    pub domain: Option<String>,
    /// Obey `shorttail chaos`: be slow, lossy or dead on order [default: false]
    #[arg(
        long,
        env = "SHORTTAIL_NODE_ALLOW_CHAOS",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
    )]
    pub allow_chaos: Option<bool>,
}

impl NodeOptions {
    /// These, and where they say nothing, those.
    #[must_use]
    pub fn or(self, those: Self) -> Self {
        merge! { self, those, NodeOptions {
            listen, advertise, coordinator, id, cluster_id, memory, memory_file, threads, repair_bandwidth,
            scrub_bandwidth, domain, allow_chaos
        }}
    }

    /// # Errors
    /// Names the setting that makes no sense.
    pub fn resolve(self) -> Result<NodeConfig, ConfigError> {
        let error = |key, problem: &str| ConfigError::setting("node", key, problem);
        let membership = match (self.coordinator, self.cluster_id, self.id) {
            (Some(addresses), None, id) => NodeMembership::Coordinator { addresses, wanted_id: id.map(NodeId) },
            (None, Some(ClusterName(cluster_id)), Some(id)) => {
                NodeMembership::Static { cluster_id, node_id: NodeId(id) }
            }
            (Some(_), Some(_), _) => {
                return Err(error("cluster_id", "is the coordinator's to say; give one of the two"));
            }
            (None, Some(_), None) => return Err(error("id", "is needed beside --cluster-id")),
            (None, None, _) => {
                return Err(error("coordinator", "is needed (or, without one, --cluster-id and --id)"));
            }
        };
        let memory = self.memory.unwrap_or(NODE_MEMORY_DEFAULT);
        let threads = within("node", "threads", self.threads.unwrap_or(1), 1, NODE_THREAD_COUNT_MAX)?;
        check_memory("node", "memory", memory, threads)?;
        if let Some(Address::Tcp(address)) = self.advertise {
            check_advertised("node", "advertise", address)?;
        }
        let listen = self.listen.unwrap_or_else(|| Address::Tcp(([127, 0, 0, 1], 7001).into()));
        let allow_chaos = self.allow_chaos.unwrap_or(false);
        Ok(NodeConfig {
            listen,
            advertise: self.advertise,
            membership,
            memory_bytes: memory.0,
            memory_file: self.memory_file,
            threads,
            allow_chaos,
            domain: self.domain.unwrap_or_default(),
            scrub_bytes_per_s: self.scrub_bandwidth.unwrap_or(SCRUB_BANDWIDTH_DEFAULT).0,
            repair_bytes_per_s: check_repair_bandwidth("node", self.repair_bandwidth)?.0,
        })
    }
}

/// Is this memory for so many threads?
pub(super) fn check_memory(
    section: &'static str,
    key: &'static str,
    memory: Size,
    threads: usize,
) -> Result<(), ConfigError> {
    let of_all = |one: Size| Size(one.0.saturating_mul(threads as u64));
    let (least, most) = (of_all(NODE_MEMORY_MIN), of_all(NODE_MEMORY_MAX));
    let problem = match memory {
        memory if memory < least => format!("{memory} is less than {least}, the least for {threads} thread(s)"),
        memory if memory > most => format!("{memory} is more than {most}, the most for {threads} thread(s)"),
        _ => return Ok(()),
    };
    Err(ConfigError::setting(section, key, problem))
}

/// The bandwidth of repair that was asked for, or the usual one.
pub(super) fn check_repair_bandwidth(part: &'static str, asked: Option<Size>) -> Result<Size, ConfigError> {
    let bandwidth = asked.unwrap_or(REPAIR_BANDWIDTH_DEFAULT);
    if bandwidth < REPAIR_BANDWIDTH_MIN {
        let problem = format!("{bandwidth} is less than {REPAIR_BANDWIDTH_MIN} a second");
        return Err(ConfigError::setting(part, "repair_bandwidth", problem));
    }
    Ok(bandwidth)
}
